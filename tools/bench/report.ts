import type { Slices } from './measure.js';
import { type Comparison, isService, METRICS, type Row, ROWS, TARGETS } from './rows.js';
import { evaluate, type Evaluation, getMedian } from './statistics.js';

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

/** Evaluates the ratios of a target to another one: a start has one, the median of its pairs of slices. */
function compare(starts: readonly Start[], row: Row, comparison: Comparison): Evaluation {
  const { of = 'service', against, metric } = comparison;
  const ratios = mapRuns(starts, row, (slices) =>
    getMedian(slices[of]!.map((slice, pair) => slice[metric]! / slices[against]![pair]![metric]!)),
  );
  return evaluate(ratios, comparison);
}

/** Formats a number with three significant digits, and those above 1,000 with all of their integer. */
function format(value: number): string {
  const digits = { minimumSignificantDigits: 3, maximumSignificantDigits: 3 };
  return value.toLocaleString('en-US', value < 1000 ? digits : { maximumFractionDigits: 0 });
}

/** Renders a ratio with the interval of each run. */
function renderRatio({ median, intervals, result, isPublished }: Evaluation): string {
  const ranges = intervals.map(({ low, high }) => `${format(low)} to ${format(high)}`).join('; ');
  if (result === 'not measured on this machine') return `${result} (${ranges})`;
  return isPublished ? `${format(median)} (${ranges})` : `the runs disagree (${ranges})`;
}

/** Returns all metrics of all rivals, and what else has a threshold. */
function getComparisons({ targets, metrics, thresholds }: Row): Comparison[] {
  const rivals = targets.filter((name) => !isService(name));
  const all = rivals.flatMap((against) => metrics.map((metric) => ({ against, metric })));
  const withoutThreshold = all.filter(
    ({ against, metric }) =>
      !thresholds.some((each) => each.against === against && each.metric === metric),
  );
  return [...thresholds, ...withoutThreshold];
}

/** Renders a line for each comparison. */
export function renderTable(rows: readonly Row[], starts: readonly Start[]): string {
  const lines = rows.flatMap((row) =>
    getComparisons(row).map((comparison) => {
      const { of = 'service', metric, against, atLeast, atMost } = comparison;
      const evaluation = compare(starts, row, comparison);
      const values = [of, against].map((target) => {
        const medians = mapRuns(starts, row, (slices) =>
          getMedian(slices[target]!.map((slice) => slice[metric]!)),
        );
        return `${TARGETS[target].title}: ${format(getMedian(medians.flat()))}`;
      });
      const bound = atLeast === undefined ? `at most ${atMost}` : `at least ${atLeast}`;
      const hasBound = (atLeast ?? atMost) !== undefined;
      const threshold = hasBound ? `${bound}: ${evaluation.result}` : '';
      return [row.title, METRICS[metric], ...values, renderRatio(evaluation), threshold];
    }),
  );
  const headings = ['work', 'metric', 'target', 'against', 'ratio', 'threshold'];
  return [headings, headings.map(() => '---'), ...lines]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n');
}

/** Returns the rows that were measured in both runs. */
const getRepeated = (starts: readonly Start[]): Row[] =>
  ROWS.filter(({ title }) => starts.some(({ run, slices }) => run === 1 && title in slices));

/** Joins parts of a sentence. */
const join = (parts: readonly string[]): string =>
  parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`;

const isFaster = ({ intervals }: Evaluation): boolean => intervals.every(({ low }) => low > 1);
const isSlower = ({ intervals }: Evaluation): boolean => intervals.every(({ high }) => high < 1);
const isList = ({ work }: Row): boolean => work === 'list';
const isShared = ({ work, connections }: Row): boolean => work === 'create' && connections > 1;
const isAlone = ({ work, connections }: Row): boolean => work === 'create' && connections === 1;

/** Why the throughput is higher or lower than Fastify's; the ratios follow. */
// prettier-ignore
const REASONS: [(row: Row) => boolean, (evaluation: Evaluation) => boolean, string][] = [
  [isList, isFaster, 'The service keeps a list as bytes until its table changes, whereas Fastify reads and serializes the rows for each request: lists are served'],
  [isList, isSlower, 'The bytes of a short list save less than NestJS and Express cost: lists are served'],
  [isShared, isFaster, 'Create requests that arrive together share a commit, whereas Fastify commits each of them: those of 64 clients are completed'],
  [isShared, isSlower, 'Where a commit is cheap, sharing it saves less than NestJS and TypeORM cost: create requests of 64 clients are completed'],
  [isAlone, isSlower, 'A client that waits for each response shares no commit, and pays for all layers of NestJS, Express and TypeORM: its create requests are completed'],
];

/** Renders a chart of the ratios to Fastify, where the service is faster, where it is slower, and why. */
export function renderSummary(starts: readonly Start[]): string {
  const repeated = getRepeated(starts);
  const speeds = repeated
    .filter(({ work, targets }) => work !== 'startup' && /^fastify(, pg)?$/.test(targets[0]!))
    .map((row) => {
      const against = row.targets[0]!;
      const cpu = { of: against, metric: 'cpu', against: 'service' } as const;
      const hasThroughput = row.metrics.includes('throughput');
      const comparison = hasThroughput ? ({ metric: 'throughput', against } as const) : cpu;
      const name = hasThroughput ? row.title : `${row.title} (by CPU time)`;
      return { row, name, ...compare(starts, row, comparison) };
    })
    .filter(({ isPublished }) => isPublished);
  const sentences = REASONS.flatMap(([isWork, isOnSide, reason]) => {
    const own = speeds.filter((speed) => isWork(speed.row) && isOnSide(speed));
    const parts = own.map(({ name, median }, index) => {
      const place = name.replace(/^list |^create, .*?, /, '');
      return `${format(median)} ${index === 0 ? 'times as fast ' : ''}${place}`;
    });
    return parts.length > 0 ? [`${reason} ${join(parts)}.`] : [];
  });
  const labels = speeds.map(({ name, median }) => `"${name}: ${format(median)}"`);
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

${[...sentences, ...renderCosts(repeated, starts)].join('\n')}`;
}

const STARTUP = 'startup and idle memory';
const LIST = 'list of 100 by other rivals';
const CREATE = 'create, 64 connections, by other rivals';

/** What startup and a framework cost: a row, what is compared, and a sentence for the ratio. */
// prettier-ignore
const COSTS: [string, Comparison, string][] = [
  [STARTUP, { metric: 'startup', against: 'fastify' }, 'Startup takes {} times as long as that of Fastify, because NestJS, TypeORM and Swagger have to be loaded.'],
  [STARTUP, { metric: 'memory', against: 'fastify' }, 'An idle process has {} times its memory.'],
  [LIST, { metric: 'cpu', against: 'raw' }, 'A framework has its price: for a list of 100, the service needs {} times the CPU time of plain `node:http` with the bytes in memory.'],
  [LIST, { metric: 'cpu', against: 'fastify, cached' }, 'Compared with Fastify with the same cache, it is {} times.'],
  [CREATE, { metric: 'cpu', against: 'fastify, cached' }, 'Creating categories for 64 clients costs {} times as much as in Fastify with the same batching.'],
  [LIST, { of: 'nest', metric: 'cpu', against: 'service' }, 'Stock NestJS with TypeORM and Swagger needs {} times the CPU time of the service for a list of 100.'],
  [CREATE, { of: 'nest', metric: 'cpu', against: 'service' }, 'For a create request, its share is {} times as large.'],
];

function renderCosts(rows: readonly Row[], starts: readonly Start[]): string[] {
  const sentences = COSTS.flatMap(([title, comparison, sentence]) => {
    const row = rows.find((each) => each.title === title);
    const evaluation = row && compare(starts, row, comparison);
    return evaluation?.isPublished ? [sentence.replace('{}', format(evaluation.median))] : [];
  });
  const results = rows.flatMap((row) =>
    row.thresholds.map((each) => compare(starts, row, each).result),
  );
  const counts = [...new Set(results)].map(
    (result) => `${results.filter((each) => each === result).length} ${result}`,
  );
  return [...sentences, `Of ${results.length} thresholds, the results are: ${join(counts)}.`];
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
