import type { Slices } from './measure.js';
import { type Metric, METRICS, type Row, ROWS, TARGETS } from './rows.js';
import { type Bounds, evaluate, type Evaluation, getMedian } from './statistics.js';

/** The slices of one start of the servers of a group. */
export interface Start {
  readonly run: number;
  readonly number: number;
  readonly date: string;
  readonly seconds: number;
  readonly slices: Slices;
}

/** Returns what the starts of each run have, of those with a row. */
function mapRuns(
  starts: readonly Start[],
  { title }: Row,
  map: (slices: Slices[string]) => number,
): number[][] {
  const runs: number[][] = [];
  for (const { run, slices } of starts)
    if (slices[title]) (runs[run] ??= []).push(map(slices[title]));
  return runs;
}

/** Evaluates the ratios of a row to a rival: a start has one, the median of its pairs of slices. */
function compare(
  starts: readonly Start[],
  row: Row,
  metric: Metric,
  rival = row.rivals[0]!,
): Evaluation {
  const ratios = mapRuns(starts, row, (slices) =>
    getMedian(
      slices[row.of]!.map((slice, pair) => slice[metric]! / slices[rival]![pair]![metric]!),
    ),
  );
  return evaluate(ratios, row.metrics[metric]!);
}

/** Formats a number with three significant digits, and those above 1,000 with all of their integer. */
function format(value: number): string {
  const digits = { minimumSignificantDigits: 3, maximumSignificantDigits: 3 };
  return value.toLocaleString('en-US', value < 1000 ? digits : { maximumFractionDigits: 0 });
}

/** Renders a ratio with the interval of each run. */
function renderRatio({ median, intervals, result, isPublished }: Evaluation): string {
  const ranges = intervals.map(([low, high]) => `${format(low)} to ${format(high)}`).join('; ');
  if (result === 'not measured on this machine') return `${result} (${ranges})`;
  return isPublished ? `${format(median)} (${ranges})` : `the runs disagree (${ranges})`;
}

const getMetrics = ({ metrics }: Row): Metric[] => Object.keys(metrics) as Metric[];

/** Renders a line for each comparison. */
export function renderTable(rows: readonly Row[], starts: readonly Start[]): string {
  const headings = ['work', 'metric', 'target', 'against', 'ratio', 'threshold'];
  const lines = [headings, headings.map(() => '---')];
  for (const row of rows)
    for (const rival of row.rivals)
      for (const metric of getMetrics(row)) {
        const evaluation = compare(starts, row, metric, rival);
        const values = [row.of, rival].map((target) => {
          const medians = mapRuns(starts, row, (slices) =>
            getMedian(slices[target]!.map((slice) => slice[metric]!)),
          );
          return `${TARGETS[target].title}: ${format(getMedian(medians.flat()))}`;
        });
        const threshold = renderThreshold(row.metrics[metric]!, evaluation);
        lines.push([row.title, METRICS[metric], ...values, renderRatio(evaluation), threshold]);
      }
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function renderThreshold({ atLeast, atMost }: Bounds, { result }: Evaluation): string {
  if (atLeast !== undefined) return `at least ${atLeast}: ${result}`;
  return atMost === undefined ? '' : `at most ${atMost}: ${result}`;
}

/** Returns the rows that were measured in both runs. */
const getRepeated = (starts: readonly Start[]): Row[] =>
  ROWS.filter(({ title }) => starts.some(({ run, slices }) => run === 1 && title in slices));

/** Joins parts of a sentence. */
const join = (parts: readonly string[]): string =>
  parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`;

/** Returns the speed for a ratio of times. */
const invert = ({ median, intervals, ...rest }: Evaluation): Evaluation => ({
  ...rest,
  median: 1 / median,
  intervals: intervals.map(([low, high]) => [1 / high, 1 / low]),
});

const isFaster = ({ intervals }: Evaluation): boolean => intervals.every(([low]) => low > 1);
const isSlower = ({ intervals }: Evaluation): boolean => intervals.every(([, high]) => high < 1);

/** Why rows, by their titles, are faster or slower than with Fastify; the ratios follow. */
// prettier-ignore
const REASONS: [RegExp, (evaluation: Evaluation) => boolean, string][] = [
  [/^list/, isFaster, 'The service keeps a list as bytes until its table changes, whereas Fastify reads and serializes the rows for each request: lists are served'],
  [/^list/, isSlower, 'The bytes of a short list save less than NestJS and Express cost: lists are served'],
  [/^create, 64/, isFaster, 'Create requests that arrive together share a commit, whereas Fastify commits each of them: those of 64 clients are completed'],
  [/^create, 64/, isSlower, 'If a commit is cheap, sharing it saves less than NestJS and TypeORM cost: create requests of 64 clients are completed'],
  [/^create, 1 /, isSlower, 'A client that waits for each response shares no commit, and pays for all layers of NestJS, Express and TypeORM: its create requests are completed'],
];

/** Renders a chart of the ratios to Fastify, where the service is faster, where it is slower, and why. */
export function renderSummary(starts: readonly Start[]): string {
  const speeds = getRepeated(starts)
    .filter(({ work, rivals }) => work !== 'startup' && /^fastify(, pg)?$/.test(rivals[0]!))
    .map((row) => {
      const hasThroughput = 'throughput' in row.metrics;
      const speed = hasThroughput
        ? compare(starts, row, 'throughput')
        : invert(compare(starts, row, 'cpu'));
      return { name: hasThroughput ? row.title : `${row.title} (by CPU time)`, speed };
    })
    .filter(({ speed }) => speed.isPublished);
  const sentences = REASONS.flatMap(([title, isOnSide, reason]) => {
    const own = speeds.filter(({ name, speed }) => title.test(name) && isOnSide(speed));
    const parts = own.map(({ name, speed }, index) => {
      const rows = index === 0 ? 'with $1 rows' : 'with $1';
      const place = name.replace(/^create, .*?, /, '').replace(/^list of (\S+)/, rows);
      return `${format(speed.median)} ${index === 0 ? 'times as fast ' : ''}${place}`;
    });
    return parts.length > 0 ? [`${reason} ${join(parts)}.`] : [];
  });
  const labels = speeds.map(({ name, speed }) => `"${name}: ${format(speed.median)}"`);
  const highest = Math.ceil(Math.max(2, ...speeds.map(({ speed }) => speed.median)));
  return `\`\`\`mermaid
%%{init: {"xyChart": {"width": 900, "height": ${120 + 32 * speeds.length}}, "themeVariables": {"xyChart": {"plotColorPalette": "#4477aa, #cc3311"}}}}%%
xychart-beta horizontal
  title "Speed, as a multiple of Fastify's (the line)"
  x-axis [${labels.join(', ')}]
  y-axis "times" 0 --> ${highest}
  bar [${speeds.map(({ speed }) => speed.median.toFixed(3)).join(', ')}]
  line [${speeds.map(() => 1).join(', ')}]
\`\`\`

${[...sentences, ...renderCosts(starts), renderResults(starts)].join('\n')}`;
}

/** What startup and a framework cost: the title of a row, a metric, and a sentence for the ratios. */
// prettier-ignore
const COSTS: [string, Metric, string, string][] = [
  ['startup and idle memory', 'startup', 'NestJS, TypeORM and Swagger have to be loaded: the service needs', 'the startup time'],
  ['startup and idle memory', 'memory', 'An idle process has', 'the memory'],
  ['list of 100 by other rivals', 'cpu', 'A framework has its price: for a list of 100, the service needs', 'the CPU time'],
  ['create, 64 connections, by other rivals', 'cpu', 'For a create request of 64 clients, it needs', 'the CPU time'],
];

function renderCosts(starts: readonly Start[]): string[] {
  return COSTS.flatMap(([title, metric, start, value]) => {
    const row = getRepeated(starts).find((each) => each.title === title);
    const published = (row?.rivals ?? [])
      .map((rival) => ({ rival, ratio: compare(starts, row!, metric, rival) }))
      .filter(({ ratio }) => ratio.isPublished);
    const parts = published.map(
      ({ rival, ratio }, index) =>
        `${format(ratio.median)} times ${index === 0 ? value : 'that'} of ${TARGETS[rival].title}`,
    );
    return parts.length > 0 ? [`${start} ${join(parts)}.`] : [];
  });
}

function renderResults(starts: readonly Start[]): string {
  const results = getRepeated(starts).flatMap((row) =>
    getMetrics(row)
      .filter((metric) => Object.keys(row.metrics[metric]!).length > 0)
      .map((metric) => compare(starts, row, metric).result),
  );
  const counts = [...new Set(results)].map(
    (result) => `${results.filter((each) => each === result).length} are ${result}`,
  );
  return `Of ${results.length} thresholds, ${join(counts)}.`;
}

export function renderReport(starts: readonly Start[], environment: string): string {
  const dates = starts.map(({ date }) => date.slice(0, 16).replace('T', ' ')).toSorted();
  const minutes = starts.reduce((sum, { seconds }) => sum + seconds, 0) / 60;
  return `# Benchmark results

${renderSummary(starts)}

Generated by \`npm run bench\`. In a start, the service and its rivals are new processes with new databases, side by side on
one core; the load generator and PostgreSQL are on the other. After a warm-up, slices of one second alternate in the order
ABBAAB. A start has one ratio, the median of its three pairs; a row is the median of the starts, with the interval between
two of them that contains the true one with 95 %. Everything was run twice. A threshold is met if both intervals are on its
side, missed if both are on the other, and not decided otherwise; intervals wider than 15 % are not results.
[tried.md](tried.md) has what was tried where a threshold is missed.

${dates[0]} to ${dates.at(-1)} UTC, ${minutes.toFixed(0)} minutes. ${environment}.

${renderTable(getRepeated(starts), starts)}
`;
}
