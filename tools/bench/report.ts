import type { Slices } from './measure.js';
import { type Metric, METRICS, type Row, ROWS, type TargetName, TARGETS } from './rows.js';
import { evaluate, type Evaluation, getMedian } from './statistics.js';

/** The slices of one start of the servers of a group. */
export interface Start {
  readonly run: number;
  readonly number: number;
  readonly date: string;
  readonly seconds: number;
  readonly slices: Slices;
}

/** The ratios of the target of a row to a rival. */
interface Comparison extends Evaluation {
  readonly row: Row;
  readonly rival: TargetName;
  readonly metric: Metric;
  /** The titles of both, with the median of their starts. */
  readonly values: readonly string[];
}

/** Compares the target of each row with each of its rivals, by each of its metrics. */
function compareAll(rows: readonly Row[], starts: readonly Start[]): Comparison[] {
  return rows.flatMap((row) => {
    const metrics = Object.keys(row.metrics) as Metric[];
    const own = starts.filter(({ slices }) => row.title in slices);
    return row.rivals.flatMap((rival) => metrics.map((metric) => compare(own, row, rival, metric)));
  });
}

/** Compares a target with a rival: a start has one ratio, the median of its pairs of slices. */
function compare(starts: readonly Start[], row: Row, rival: TargetName, metric: Metric) {
  const getValues = ({ slices }: Start, target: TargetName): number[] =>
    slices[row.title]![target]!.map((slice) => slice[metric]!);
  const getRatio = (start: Start): number => {
    const values = getValues(start, rival);
    return getMedian(getValues(start, row.of).map((value, pair) => value / values[pair]!));
  };
  const runs = Map.groupBy(starts, ({ run }) => run);
  const ratios = [...runs.values()].map((run) => run.map(getRatio));
  const values = [row.of, rival].map((target) => {
    const medians = starts.map((start) => getMedian(getValues(start, target)));
    return `${TARGETS[target].title}: ${format(getMedian(medians))}`;
  });
  return { row, rival, metric, values, ...evaluate(ratios, row.metrics[metric]!) };
}

/** Formats a number with three significant digits, and those above 1,000 with all of their integer. */
function format(value: number): string {
  const digits = { minimumSignificantDigits: 3, maximumSignificantDigits: 3 };
  return value.toLocaleString('en-US', value < 1000 ? digits : { maximumFractionDigits: 0 });
}

/** Renders a ratio with the interval of its starts, however wide. */
function renderRatio({ median, interval: [low, high], isRepeated }: Evaluation): string {
  const range = `${format(low)} to ${format(high)}`;
  return isRepeated ? `${format(median)} (${range})` : `not repeated (${range})`;
}

/** Renders the threshold of a ratio, and whether it is met; a ratio without a threshold has an empty cell. */
function renderThreshold({ row, metric, result }: Comparison): string {
  const { atLeast, atMost } = row.metrics[metric]!;
  if (atLeast !== undefined) return `at least ${atLeast}: ${result}`;
  return atMost === undefined ? '' : `at most ${atMost}: ${result}`;
}

/** Renders a line for each comparison. */
export function renderTable(rows: readonly Row[], starts: readonly Start[]): string {
  const headings = ['work', 'metric', 'target', 'against', 'ratio', 'threshold'];
  const lines = [headings, headings.map(() => '---')];
  for (const comparison of compareAll(rows, starts)) {
    const { row, metric, values } = comparison;
    const [ratio, threshold] = [renderRatio(comparison), renderThreshold(comparison)];
    lines.push([row.title, METRICS[metric], ...values, ratio, threshold]);
  }
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** Returns the rows that were measured in both runs. */
const getRepeated = (starts: readonly Start[]): Row[] =>
  ROWS.filter(({ title }) => starts.some(({ run, slices }) => run === 1 && title in slices));

/** Returns the ratio of the rival to the target. */
const invert = (comparison: Comparison): Comparison => ({
  ...comparison,
  median: 1 / comparison.median,
  interval: [1 / comparison.interval[1], 1 / comparison.interval[0]],
});

/** Returns how many times as fast as the rival the target is: by throughput, or by CPU time if the client is the limit. */
function toSpeed(comparison: Comparison): Comparison[] {
  const { row, metric } = comparison;
  if (row.metrics.throughput !== undefined) return metric === 'throughput' ? [comparison] : [];
  return metric === 'cpu' ? [invert(comparison)] : [];
}

/** Renders a chart with a bar for each work that a user feels, and what it costs in startup, memory and CPU time. */
export function renderSummary(starts: readonly Start[]): string {
  const comparisons = compareAll(getRepeated(starts), starts);
  const bars = comparisons.filter(({ row }) => row.isCharted).flatMap(toSpeed);
  const labels = bars.map((bar) => `"${bar.row.title}: ${format(bar.median)}"`);
  const highest = Math.ceil(Math.max(2, ...bars.map(({ median }) => median)));
  const render = (title: string, metric: Metric, rival: TargetName, isInverted = false): string => {
    const ratio = comparisons.find(
      (each) => each.row.title === title && each.metric === metric && each.rival === rival,
    );
    if (ratio === undefined) return '(not measured)';
    return renderRatio(isInverted ? invert(ratio) : ratio);
  };
  const framework = render(
    'create, 64 connections, by other rivals',
    'throughput',
    'fastify, cached',
    true,
  );
  const startup = render('startup and idle memory', 'startup', 'fastify');
  const memory = render('startup and idle memory', 'memory', 'fastify');
  return `\`\`\`mermaid
%%{init: {"xyChart": {"width": 900, "height": ${120 + 32 * bars.length}}, "themeVariables": {"xyChart": {"plotColorPalette": "#4477aa, #cc3311"}}}}%%
xychart-beta horizontal
  title "Speed, as a multiple of Fastify's (the line)"
  x-axis [${labels.join(', ')}]
  y-axis "times" 0 --> ${highest}
  bar [${bars.map(({ median }) => median.toFixed(3)).join(', ')}]
  line [${bars.map(() => 1).join(', ')}]
\`\`\`

The service keeps a list as bytes until its table changes; Fastify reads and serializes the rows for each request. Create
requests that arrive together share a commit; Fastify commits each of them. A client that waits for each response shares no
commit, and pays for the layers of NestJS, Express and TypeORM. With the same cache and batching, Fastify completes create
requests of 64 clients ${framework} times as fast: this is what the layers cost.

Startup takes ${startup} times as long as with Fastify, and the idle process has ${memory} times the memory. Intervals are
from the lowest to the highest start.`;
}

/** Renders how many thresholds are met, missed and open. */
function renderCounts(rows: readonly Row[], starts: readonly Start[]): string {
  const thresholds = compareAll(rows, starts).filter(renderThreshold);
  const groups = Map.groupBy(thresholds, ({ result }) => result);
  const counts = [...groups].map(([result, own]) => `${own.length} ${result}`);
  return `of ${thresholds.length} thresholds, ${new Intl.ListFormat('en-GB').format(counts)}`;
}

export function renderReport(starts: readonly Start[], environment: string): string {
  const dates = starts.map(({ date }) => date.slice(0, 16).replace('T', ' ')).toSorted();
  const minutes = starts.reduce((sum, { seconds }) => sum + seconds, 0) / 60;
  return `# Benchmark results

${renderSummary(starts)}

Generated by \`npm run bench\`. In a start, the service and its rivals are new processes with new databases, side by side on
one core; the load generator and PostgreSQL are on the other. After a warm-up, slices of one second alternate in the order
ABBAAB. A start has one ratio, the median of its three pairs; a row is the median of the starts, with the interval from
the lowest to the highest of them; that of one run contains the true ratio with 99 %. Everything was run twice: a row is *not
repeated* if the intervals of its two runs do not overlap. A threshold is met if both are on its side, missed if both are on
the other, and open otherwise: ${renderCounts(getRepeated(starts), starts)}. [tried.md](tried.md) has what was tried for missed thresholds.

${dates[0]} to ${dates.at(-1)} UTC, ${minutes.toFixed(0)} minutes. ${environment}.

${renderTable(getRepeated(starts), starts)}
`;
}
