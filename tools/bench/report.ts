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

/** Renders a ratio with the interval of each run. */
function renderRatio({ median, intervals, isPrecise, isPublished }: Evaluation): string {
  const ranges = intervals.map(([low, high]) => `${format(low)} to ${format(high)}`).join('; ');
  if (!isPrecise) return `not measured on this machine (${ranges})`;
  return isPublished ? `${format(median)} (${ranges})` : `the runs disagree (${ranges})`;
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

/** Whether a ratio is the speed as a multiple of Fastify's: by throughput, or by CPU time if the client is the limit. */
const isSpeed = ({ row, rival, metric }: Comparison): boolean =>
  /^fastify(, pg)?$/.test(rival) && metric === (row.metrics.throughput ? 'throughput' : 'cpu');

/** Returns the speed for a ratio of times. */
const invert = (comparison: Comparison): Comparison => ({
  ...comparison,
  median: 1 / comparison.median,
  intervals: comparison.intervals.map(([low, high]) => [1 / high, 1 / low]),
});

/** Returns what a sentence says of a ratio: its metric, or whether a speed is higher or lower than Fastify's. */
function getSubject(ratio: Comparison): string | undefined {
  if (!isSpeed(ratio)) return ratio.metric;
  if (ratio.intervals.every(([low]) => low > 1)) return 'faster';
  return ratio.intervals.every(([, high]) => high < 1) ? 'slower' : undefined;
}

const LISTS = new Intl.ListFormat('en-GB');

/** What is faster and slower than with Fastify, and what a framework costs: titles, subjects, and why. */
// prettier-ignore
const SENTENCES: [RegExp, Metric | 'faster' | 'slower', string][] = [
  [/^list/, 'faster', 'The service keeps a list as bytes until its table changes, whereas Fastify reads and serializes the rows for each request: lists are served'],
  [/^list/, 'slower', 'The bytes of a short list save less than NestJS and Express cost: lists are served'],
  [/^create, 64/, 'faster', 'Create requests that arrive together share a commit, whereas Fastify commits each of them: those of 64 clients are completed'],
  [/^create, 64/, 'slower', 'If a commit is cheap, sharing it saves less than NestJS and TypeORM cost: create requests of 64 clients are completed'],
  [/^create, 1 /, 'slower', 'A client that waits for each response shares no commit, and pays for all layers of NestJS, Express and TypeORM: its create requests are completed'],
  [/^startup.*memory$/, 'startup', 'NestJS, TypeORM and Swagger have to be loaded: the startup time of the service is'],
  [/^startup.*memory$/, 'memory', 'The memory of the idle service is'],
  [/^list of 100 by/, 'cpu', 'A framework has its price: for a list of 100, the CPU time of the service is'],
  [/^create, 64 connections, by/, 'cpu', 'For a create request of 64 clients, the CPU time of the service is'],
];

/** Returns the title of a speed. */
const getName = ({ row, metric }: Comparison): string =>
  metric === 'cpu' ? `${row.title} (by CPU time)` : row.title;

/** Renders a ratio of a sentence. */
function renderPart(ratio: Comparison, index: number): string {
  const times = `${format(ratio.median)} times`;
  if (!isSpeed(ratio)) return `${times} that of ${TARGETS[ratio.rival].title}`;
  const work = getName(ratio).replace(/^create, .*?, /, '');
  return `${times} ${index === 0 ? 'as fast ' : ''}${work.replace(/^list of (\S+)/, 'with $1 rows')}`;
}

/** Renders a chart of the ratios to Fastify, where the service is faster, where it is slower, and why. */
export function renderSummary(starts: readonly Start[]): string {
  const comparisons = compareAll(getRepeated(starts), starts);
  const ratios = comparisons
    .filter(({ isPublished }) => isPublished)
    .map((ratio) => (isSpeed(ratio) && ratio.metric === 'cpu' ? invert(ratio) : ratio));
  const sentences = SENTENCES.flatMap(([title, subject, start]) => {
    const own = ratios.filter((each) => title.test(each.row.title) && getSubject(each) === subject);
    return own.length > 0 ? [`${start} ${LISTS.format(own.map(renderPart))}.`] : [];
  });
  const thresholds = comparisons.filter(renderThreshold);
  const groups = Map.groupBy(thresholds, ({ result }) => result);
  const counts = [...groups].map(([result, own]) => `${own.length} are ${result}`);
  const speeds = ratios.filter(isSpeed);
  const labels = speeds.map((speed) => `"${getName(speed)}: ${format(speed.median)}"`);
  const highest = Math.ceil(Math.max(2, ...speeds.map(({ median }) => median)));
  return `\`\`\`mermaid
%%{init: {"xyChart": {"width": 900, "height": ${120 + 32 * speeds.length}}, "themeVariables": {"xyChart": {"plotColorPalette": "#4477aa, #cc3311"}}}}%%
xychart-beta horizontal
  title "Speed, as a multiple of Fastify's (the line)"
  x-axis [${labels.join(', ')}]
  y-axis "times" 0 --> ${highest}
  bar [${speeds.map(({ median }) => median.toFixed(3)).join(', ')}]
  line [${speeds.map(() => 1).join(', ')}]
\`\`\`

${sentences.join('\n')}
Of ${thresholds.length} thresholds, ${LISTS.format(counts)}.`;
}

export function renderReport(starts: readonly Start[], environment: string): string {
  const dates = starts.map(({ date }) => date.slice(0, 16).replace('T', ' ')).toSorted();
  const minutes = starts.reduce((sum, { seconds }) => sum + seconds, 0) / 60;
  return `# Benchmark results

${renderSummary(starts)}

Generated by \`npm run bench\`. In a start, the service and its rivals are new processes with new databases, side by side on
one core; the load generator and PostgreSQL are on the other. After a warm-up, slices of one second alternate in the order
ABBAAB. A start has one ratio, the median of its three pairs; a row is the median of the starts, with the interval from
the lowest to the highest of them, which contains the true one with 99 %. Everything was run twice. A threshold is met if
both intervals are on its side, missed if both are on the other, and not decided otherwise. A ratio is published if no
interval is wider than 15 % of its median, and the runs agree. [tried.md](tried.md) has what was tried for missed thresholds.

${dates[0]} to ${dates.at(-1)} UTC, ${minutes.toFixed(0)} minutes. ${environment}.

${renderTable(getRepeated(starts), starts)}
`;
}
