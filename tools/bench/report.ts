import type { Slices } from './measure.js';
import {
  type Metric,
  METRICS,
  type Row,
  type TargetName,
  TARGETS,
  type Threshold,
} from './rows.js';
import { evaluate, type Evaluation, getMedian, type Interval } from './statistics.js';

/** The slices of one start of the servers of a storage, and what share of the cores was in use before it, in percent. */
export interface Start {
  readonly run: number;
  readonly number: number;
  readonly storage: string;
  readonly date: string;
  readonly seconds: number;
  readonly otherWork: number;
  readonly slices: Slices;
}

/** Returns what a start has of each run. */
function mapRuns<Value>(
  starts: readonly Start[],
  row: Row,
  map: (slices: Slices[string]) => Value,
): Value[][] {
  const runs: Value[][] = [];
  for (const { run, storage, slices } of starts)
    if (storage === row.storage) (runs[run] ??= []).push(map(slices[row.title]!));
  return runs;
}

/** Evaluates the ratios of a target to another one: a start has one, the median of its pairs of slices. */
function compare(
  starts: readonly Start[],
  row: Row,
  { of = 'service', against, metric, ...bounds }: Threshold,
): Evaluation {
  const ratios = mapRuns(starts, row, (slices) =>
    getMedian(slices[of]!.map((slice, pair) => slice[metric]! / slices[against]![pair]![metric]!)),
  );
  return evaluate(ratios, bounds);
}

/** Returns the median of a value of a target: of its slices, and then of all starts. */
function getValue(starts: readonly Start[], row: Row, target: TargetName, metric: Metric): number {
  const toMedian = (slices: Slices[string]): number =>
    getMedian(slices[target]!.map((slice) => slice[metric]!));
  return getMedian(mapRuns(starts, row, toMedian).flat());
}

/** Formats a number with three significant digits. */
export function format(value: number): string {
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.max(value, 0.001)))) || 0;
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return value.toLocaleString('en-US', options);
}

export function renderTable(headings: readonly string[], rows: readonly string[][]): string {
  const lines = [headings, headings.map(() => '---'), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

const renderInterval = ({ low, high }: Interval): string => `${format(low)} to ${format(high)}`;

/** Renders a ratio with the interval of each run. */
function renderRatio({ median, intervals, result, isPublished }: Evaluation): string {
  const ranges = intervals.map(renderInterval).join('; ');
  if (result === 'not measured on this machine') return `${result} (${ranges})`;
  return isPublished ? `${format(median)} (${ranges})` : `the runs disagree (${ranges})`;
}

function renderThresholds(rows: readonly Row[], starts: readonly Start[]): string {
  const lines = rows.flatMap((row) =>
    row.thresholds.map((threshold) => {
      const { of = 'service', metric, against, atLeast, atMost } = threshold;
      const evaluation = compare(starts, row, threshold);
      const bound =
        atLeast === undefined ? `at most ${format(atMost!)}` : `at least ${format(atLeast)}`;
      const work = `${row.title}: ${METRICS[metric]} of ${TARGETS[of].title} / ${TARGETS[against].title}`;
      const isMet = evaluation.result === 'met';
      return [work, bound, renderRatio(evaluation), isMet ? 'met' : `**${evaluation.result}**`];
    }),
  );
  return renderTable(['work', 'threshold', 'measured', 'result'], lines);
}

function renderRatios(rows: readonly Row[], starts: readonly Start[]): string {
  const lines = rows.flatMap((row) =>
    row.targets
      .filter((against) => against !== 'service' && row.metrics.includes('cpu'))
      .map((against) => {
        const cells = (['cpu', 'throughput'] as const).map((metric) =>
          row.metrics.includes(metric)
            ? renderRatio(compare(starts, row, { against, metric }))
            : '-',
        );
        return [row.title, TARGETS[against].title].concat(cells);
      }),
  );
  return renderTable(['work', 'against', METRICS.cpu, METRICS.throughput], lines);
}

/** Renders the values of this service: an operator plans with them. */
function renderValues(rows: readonly Row[], starts: readonly Start[]): string {
  const lines = rows.map((row) => {
    const target = row.work === 'retries' ? 'service, retries' : 'service';
    return [row.title].concat(
      METRIC_NAMES.map((metric) => renderValue(starts, row, target, metric)),
    );
  });
  return renderTable(['work', ...METRIC_NAMES.map((metric) => METRICS[metric])], lines);
}

const METRIC_NAMES = Object.keys(METRICS) as Metric[];

function renderValue(
  starts: readonly Start[],
  row: Row,
  target: TargetName,
  metric: Metric,
): string {
  const hasLatency = row.metrics.includes('cpu') && row.metrics.includes('throughput');
  const isMeasured = row.metrics.includes(metric) || (metric === 'p99' && hasLatency);
  return isMeasured ? format(getValue(starts, row, target, metric)) : '-';
}

/** Why a kind of work is faster, or slower, than that of Fastify, which a list of ratios follows. */
const KINDS = [
  {
    isOne: ({ work }: Row): boolean => work === 'list',
    faster: `Lists are serialized once and sent as bytes until their table changes, whereas Fastify reads and serializes the
rows for each request. So many times as fast is a list`,
    slower:
      'The layers of NestJS and Express cost more than the bytes save, so that only so many times as fast is a list',
  },
  {
    isOne: ({ work, connections }: Row): boolean => work === 'create' && connections > 1,
    faster: `Create requests that arrive together share a commit, whereas Fastify commits each by itself. So many times as
many categories do 64 clients create`,
    slower:
      'Shared commits save less than NestJS and TypeORM cost when 64 clients create categories',
  },
  {
    isOne: ({ work, connections }: Row): boolean => work === 'create' && connections === 1,
    faster: 'A single client that waits for each response creates so many times as many categories',
    slower: `A client that waits for each response before the next create request has nothing to share, and its requests pass
the layers of NestJS, Express and TypeORM. So many times as many categories as with Fastify does it create`,
  },
];

/** Returns how many times as fast as Fastify the service is; undefined for a row without Fastify. */
function getSpeed(row: Row, starts: readonly Start[]): Evaluation | undefined {
  const rival = row.targets.find((name) => name === 'fastify' || name === 'fastify, pg');
  if (rival === undefined || row.work === 'startup') return undefined;
  if (row.metrics.includes('throughput'))
    return compare(starts, row, { metric: 'throughput', against: rival });
  return compare(starts, row, { of: rival, metric: 'cpu', against: 'service' });
}

/** Joins parts of a sentence. */
const join = (parts: readonly string[]): string =>
  parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`;

/** Renders a chart of the ratios to Fastify, and where the service is faster, where it is slower, and why. */
export function renderSummary(rows: readonly Row[], starts: readonly Start[]): string {
  const all = rows.flatMap((row) => {
    const speed = getSpeed(row, starts);
    return speed === undefined ? [] : [{ row, ...speed }];
  });
  const speeds = all.filter(({ isPublished }) => isPublished);
  const labels = speeds.map(({ row, median }) => `"${row.title}: ${format(median)}"`);
  const values = speeds.map(({ median }) => median.toFixed(3));
  const sentences = KINDS.flatMap(({ isOne, faster, slower }) =>
    [true, false].flatMap((isFaster) => {
      const own = speeds.filter(({ row, median }) => isOne(row) && median > 1 === isFaster);
      const parts = own.map(({ row, median }) => {
        const [, place] = /^(?:list|create, \d+ connections?,) (.*)$/.exec(row.title)!;
        return `${place!.replace(',', '')} (${format(median)})`;
      });
      return own.length === 0 ? [] : [`${isFaster ? faster : slower} ${join(parts)}.`];
    }),
  );
  const others = all.filter(({ isPublished }) => !isPublished).map(({ row }) => `“${row.title}”`);
  if (others.length > 0)
    sentences.push(
      `Two runs on this machine did not agree, or were not precise enough, about ${join(others)}.`,
    );
  return `\`\`\`mermaid
%%{init: {"xyChart": {"width": 900, "height": ${120 + 32 * speeds.length}}, "themeVariables": {"xyChart": {"plotColorPalette": "#4477aa, #cc3311"}}}}%%
xychart-beta horizontal
  title "Requests per second, as a multiple of Fastify's (the line)"
  x-axis [${labels.join(', ')}]
  y-axis "times" 0 --> ${Math.ceil(Math.max(2, ...speeds.map(({ median }) => median)))}
  bar [${values.join(', ')}]
  line [${values.map(() => 1).join(', ')}]
\`\`\`

${sentences.join('\n')}
${renderCosts(rows, starts)}`;
}

/** Renders what startup and a framework cost, and how many thresholds are met. */
function renderCosts(rows: readonly Row[], starts: readonly Start[]): string {
  const say = (
    title: string,
    metric: Metric,
    of: TargetName,
    against: TargetName,
    text: string,
  ): string[] => {
    const row = rows.find((each) => each.title === title)!;
    const { isPublished, median } = compare(starts, row, { of, metric, against });
    return isPublished ? [`${format(median)} times ${text}`] : [];
  };
  const startup = (metric: Metric, against: TargetName, text: string): string[] =>
    say('startup and idle memory', metric, 'service', against, text);
  const list = (of: TargetName, against: TargetName, text: string): string[] =>
    say('list of 100', 'cpu', of, against, text);
  const create = (of: TargetName, text: string): string[] =>
    say('create, 64 connections, on tmpfs', 'cpu', of, 'service', text);
  const costs: [string, string[]][] = [
    [
      'NestJS, TypeORM and Swagger have to be loaded, so the service needs',
      [
        ...startup('startup', 'fastify', 'the time of Fastify to start'),
        ...startup('memory', 'fastify', 'its memory'),
        ...startup(
          'startup',
          'stock Nest',
          'the startup time of a stock NestJS application with the same libraries',
        ),
      ],
    ],
    [
      'A framework has its price: for a list of 100 that is ready in memory, a minimal NestJS application needs',
      list('nest, list of 100', 'raw', 'the CPU time of plain `node:http`'),
    ],
    [
      'Compared with the CPU time of the service, Fastify with the same cache and batching needs',
      [
        ...list('fastify, cached', 'service', 'as much for a list of 100'),
        ...create('fastify, cached', 'as much for a create request'),
      ],
    ],
    [
      'Stock NestJS with TypeORM and Swagger needs',
      [
        ...list('stock Nest', 'service', 'as much for a list of 100'),
        ...create('stock Nest', 'as much for a create request'),
      ],
    ],
  ];
  const results = rows.flatMap((row) =>
    row.thresholds.map((each) => compare(starts, row, each).result),
  );
  const counts = (['missed', 'not decided', 'not measured on this machine'] as const).flatMap(
    (result) => {
      const count = results.filter((each) => each === result).length;
      return count === 0 ? [] : [`${count} ${count === 1 ? 'is' : 'are'} ${result}`];
    },
  );
  const met = results.filter((result) => result === 'met').length;
  return costs
    .filter(([, parts]) => parts.length > 0)
    .map(([sentence, parts]) => `${sentence} ${join(parts)}.`)
    .concat(`Of ${results.length} thresholds, ${join([`${met} are met`, ...counts])}.`)
    .join('\n');
}

/** Renders what the command prints: the thresholds, and the values of this service. */
export function renderTables(rows: readonly Row[], starts: readonly Start[]): string {
  return `## Thresholds

Medians of the ratios of all starts; in parentheses the interval of each run.

${renderThresholds(rows, starts)}

## Values of this service

${renderValues(rows, starts)}`;
}

export function renderReport(
  rows: readonly Row[],
  starts: readonly Start[],
  environment: string,
): string {
  const dates = starts.map(({ date }) => date.slice(0, 16).replace('T', ' ')).toSorted();
  const minutes = starts.reduce((sum, { seconds }) => sum + seconds, 0) / 60;
  const otherWork = starts.map((start) => start.otherWork);
  return `# Benchmark results

${renderSummary(rows, starts)}

Generated by \`npm run bench\`. In a start, the service and its rivals are new processes with new databases, side by side on
one core; the load generator and PostgreSQL are on the other. After a warm-up, slices of one second alternate in the order
ABBAAB. A start has one ratio, the median of its three pairs; a row is the median of the starts, with the interval between
two of them that contains the true one with 95 %. Everything was run twice. A threshold is met if both intervals are on its
side, missed if both are on the other, and not decided otherwise; intervals wider than 15 % are not results. Numbers below
1 are less than those of the rival. [tried.md](tried.md) has what was tried where a threshold is missed.

${dates[0]} to ${dates.at(-1)} UTC, ${minutes.toFixed(0)} minutes. ${environment}. Other work took ${format(getMedian(otherWork))} % of the cores
before a start, at most ${format(Math.max(...otherWork))} %.

${renderTables(rows, starts)}

## Ratios to the rivals

${renderRatios(rows, starts)}
`;
}
