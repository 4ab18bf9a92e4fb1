import type { Slices } from './measure.js';
import {
  type Metric,
  METRICS,
  type Row,
  type TargetName,
  TARGETS,
  type Threshold,
} from './rows.js';
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
) {
  const runs: number[][] = [];
  for (const { run, slices } of starts)
    if (slices[title]) (runs[run] ??= []).push(map(slices[title]));
  return runs;
}

/** Evaluates the ratios of a target to another one: a start has one, the median of its pairs of slices. */
function compare(starts: readonly Start[], row: Row, threshold: Threshold): Evaluation {
  const { of = 'service', against, metric, ...bounds } = threshold;
  const ratios = mapRuns(starts, row, (slices) =>
    getMedian(slices[of]!.map((slice, pair) => slice[metric]! / slices[against]![pair]![metric]!)),
  );
  return evaluate(ratios, bounds);
}

/** Returns the title of a target, and its median. */
function renderTarget(
  starts: readonly Start[],
  row: Row,
  target: TargetName,
  metric: Metric,
): string {
  const runs = mapRuns(starts, row, (slices) =>
    getMedian(slices[target]!.map((slice) => slice[metric]!)),
  );
  return `${TARGETS[target].title}: ${format(getMedian(runs.flat()))}`;
}

/** Formats a number with three significant digits, and those above 1,000 with all of their integer. */
function format(value: number): string {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return value.toLocaleString('en-US', options);
}

/** Renders how many requests the service completes while Fastify completes one. */
const formatSpeed = (ratio: number): string =>
  ratio < 1 ? `${(100 * ratio).toFixed(0)} % as many` : `${format(ratio)} times as many`;

/** Renders a ratio with the interval of each run. */
function renderRatio({ median, intervals, result, isPublished }: Evaluation): string {
  const ranges = intervals.map(({ low, high }) => `${format(low)} to ${format(high)}`).join('; ');
  if (result === 'not measured on this machine') return `${result} (${ranges})`;
  return isPublished ? `${format(median)} (${ranges})` : `the runs disagree (${ranges})`;
}

const isSame = (a: Threshold, b: Threshold): boolean =>
  a.against === b.against && a.metric === b.metric;

/** Returns all metrics of all rivals, and what else has a threshold. */
function getComparisons({ targets, metrics, thresholds }: Row): Threshold[] {
  const rivals = targets.filter((name) => !/^(service|other)/.test(name));
  const all = rivals.flatMap((against) => metrics.map((metric) => ({ against, metric })));
  return [
    ...all.map((each) => thresholds.find((threshold) => isSame(threshold, each)) ?? each),
    ...thresholds.filter((threshold) => !all.some((each) => isSame(threshold, each))),
  ];
}

/** Renders what the command prints: a line for each comparison. */
export function renderTable(rows: readonly Row[], starts: readonly Start[]): string {
  const lines = rows.flatMap((row) =>
    getComparisons(row).map((comparison) => {
      const { of = 'service', metric, against, atLeast, atMost } = comparison;
      const evaluation = compare(starts, row, comparison);
      const bound = atLeast === undefined ? `at most ${atMost}` : `at least ${atLeast}`;
      const hasBound = (atLeast ?? atMost) !== undefined;
      return [
        row.title,
        METRICS[metric],
        renderTarget(starts, row, of, metric),
        renderTarget(starts, row, against, metric),
        renderRatio(evaluation),
        hasBound ? `${bound}: ${evaluation.result}` : '',
      ];
    }),
  );
  const headings = ['work', 'metric', 'target', 'against', 'ratio', 'threshold'];
  return [headings, headings.map(() => '---'), ...lines]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n');
}

/** Returns the rows that were measured in both runs. */
const getRepeated = (rows: readonly Row[], starts: readonly Start[]): Row[] =>
  rows.filter(({ title }) => starts.some(({ run, slices }) => run === 1 && title in slices));

/** Joins parts of a sentence. */
const join = (parts: readonly string[]): string =>
  parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`;

/** Where the service is faster or slower than Fastify, and why; the ratios follow. */
const KINDS = [
  {
    isOne: ({ work }: Row) => work === 'list',
    noun: 'lists ',
    faster: `The service keeps a list as bytes until its table changes, whereas Fastify reads and serializes the rows for each
request. In the same time, it serves`,
    slower:
      'The bytes of a short list save less than NestJS and Express cost. In the same time, the service serves',
  },
  {
    isOne: ({ work, connections }: Row) => work === 'create' && connections > 1,
    noun: 'categories ',
    faster: `Create requests that arrive together share a commit, whereas Fastify commits each of them: 64 clients create`,
    slower: `If commits are cheap, sharing them saves less than NestJS and TypeORM cost: 64 clients create`,
  },
  {
    isOne: ({ work, connections }: Row) => work === 'create' && connections === 1,
    noun: 'categories ',
    faster: 'One client, which waits for each response, creates',
    slower: `One client, which waits for each response, has no other request to share a commit with, and every request pays for
all layers of NestJS, Express and TypeORM: it creates`,
  },
];

const isFaster = ({ intervals }: Evaluation): boolean => intervals.every(({ low }) => low > 1);
const isSlower = ({ intervals }: Evaluation): boolean => intervals.every(({ high }) => high < 1);

/** Renders a chart of the ratios to Fastify, and where the service is faster, where it is slower, and why. */
export function renderSummary(rows: readonly Row[], starts: readonly Start[]): string {
  const repeated = getRepeated(rows, starts);
  const all = repeated.flatMap((row) => {
    const against = row.targets[0]!;
    if (row.work === 'startup' || !['fastify', 'fastify, pg'].includes(against)) return [];
    const isLimited = !row.metrics.includes('throughput');
    const cpu = { of: against, metric: 'cpu', against: 'service' } as const;
    const speed = compare(starts, row, isLimited ? cpu : { metric: 'throughput', against });
    return { row, name: isLimited ? `${row.title} (by CPU time)` : row.title, ...speed };
  });
  const shown = all.filter(({ isPublished }) => isPublished);
  const sentences: string[] = [];
  for (const { isOne, noun, ...reasons } of KINDS)
    for (const [reason, isOnSide] of [
      [reasons.faster, isFaster],
      [reasons.slower, isSlower],
    ] as const) {
      const own = shown.filter((speed) => isOne(speed.row) && isOnSide(speed));
      const parts = own.map(({ name, median }, index) => {
        const place = name.replace(/^list |^create, .*?, /, '');
        return `${formatSpeed(median)} ${index === 0 ? noun : ''}${place}`;
      });
      if (parts.length > 0) sentences.push(`${reason} ${join(parts)}.`);
    }
  const say = (text: string, own: readonly Row[]): void => {
    if (own.length > 0) sentences.push(`${text} ${join(own.map(({ title }) => `“${title}”`))}.`);
  };
  const even = shown.filter((speed) => !isFaster(speed) && !isSlower(speed));
  say(
    'Neither is faster in',
    even.map(({ row }) => row),
  );
  sentences.push(...renderCosts(repeated, starts));
  const unknown = all.filter(({ isPublished }) => !isPublished);
  say(
    'Two runs disagreed or were imprecise about',
    unknown.map(({ row }) => row),
  );
  say(
    'Not measured yet:',
    rows.filter((row) => !repeated.includes(row)),
  );
  const labels = shown.map(({ name, median }) => `"${name}: ${format(median)}"`);
  const values = shown.map(({ median }) => median.toFixed(3));
  return `\`\`\`mermaid
%%{init: {"xyChart": {"width": 900, "height": ${120 + 32 * shown.length}}, "themeVariables": {"xyChart": {"plotColorPalette": "#4477aa, #cc3311"}}}}%%
xychart-beta horizontal
  title "Speed, as a multiple of Fastify's (the line)"
  x-axis [${labels.join(', ')}]
  y-axis "times" 0 --> ${Math.ceil(Math.max(2, ...shown.map(({ median }) => median)))}
  bar [${values.join(', ')}]
  line [${values.map(() => 1).join(', ')}]
\`\`\`

${sentences.join('\n')}`;
}

const LIST = 'list of 100 by other rivals';
const CREATE = 'create, 64 connections, by other rivals';

/** What startup and a framework cost: a row, what is compared, and a sentence for the ratio. */
// prettier-ignore
const COSTS: [string, Threshold, string][] = [
  ['startup and idle memory', { metric: 'startup', against: 'fastify' },
    'NestJS, TypeORM and Swagger have to be loaded, so the service needs {} the startup time of Fastify.'],
  ['startup and idle memory', { metric: 'memory', against: 'fastify' }, 'An idle process needs {} its memory.'],
  [LIST, { of: 'raw', metric: 'cpu', against: 'service' },
    'A framework has its price: for a list of 100 that is ready in memory, plain `node:http` needs {} the CPU time of the service.'],
  [LIST, { of: 'fastify, cached', metric: 'cpu', against: 'service' }, 'Fastify with the same cache needs {} that CPU time.'],
  [CREATE, { of: 'fastify, cached', metric: 'cpu', against: 'service' },
    'For a create request of 64 clients, Fastify with the same batching needs {} the CPU time of the service.'],
  [LIST, { of: 'nest', metric: 'cpu', against: 'service' },
    'Stock NestJS with TypeORM and Swagger needs {} the CPU time of the service for a list of 100.'],
  [CREATE, { of: 'nest', metric: 'cpu', against: 'service' }, 'For a create request of 64 clients, it needs {} that of the service.'],
];

/** Renders a ratio as a part, or a multiple, of what follows. */
const formatShare = (ratio: number): string =>
  ratio < 1 ? `${(100 * ratio).toFixed(0)} % of` : `${format(ratio)} times`;

function renderCosts(rows: readonly Row[], starts: readonly Start[]): string[] {
  const sentences = COSTS.flatMap(([title, comparison, sentence]) => {
    const row = rows.find((each) => each.title === title);
    const evaluation = row && compare(starts, row, comparison);
    return evaluation?.isPublished ? [sentence.replace('{}', formatShare(evaluation.median))] : [];
  });
  const results = rows.flatMap((row) =>
    row.thresholds.map((each) => compare(starts, row, each).result),
  );
  const counts = [...new Set(results)].map(
    (result) => `${results.filter((each) => each === result).length} ${result}`,
  );
  return [...sentences, `Results of the ${results.length} thresholds: ${join(counts)}.`];
}

export function renderReport(
  rows: readonly Row[],
  starts: readonly Start[],
  environment: string,
): string {
  const dates = starts.map(({ date }) => date.slice(0, 16).replace('T', ' ')).toSorted();
  const minutes = starts.reduce((sum, { seconds }) => sum + seconds, 0) / 60;
  return `# Benchmark results

${renderSummary(rows, starts)}

Generated by \`npm run bench\`. In a start, the service and its rivals are new processes with new databases, side by side on
one core; the load generator and PostgreSQL are on the other. After a warm-up, slices of one second alternate in the order
ABBAAB. A start has one ratio, the median of its three pairs; a row is the median of the starts, with the interval between
two of them that contains the true one with 95 %. Everything was run twice. A threshold is met if both intervals are on its
side, missed if both are on the other, and not decided otherwise; intervals wider than 15 % are not results.
[tried.md](tried.md) has what was tried where a threshold is missed.

${dates[0]} to ${dates.at(-1)} UTC, ${minutes.toFixed(0)} minutes. ${environment}.

${renderTable(getRepeated(rows, starts), starts)}
`;
}
