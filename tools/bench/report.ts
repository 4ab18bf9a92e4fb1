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

/** Returns what the starts with a row have, by run. */
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

/** Formats a number with three significant digits. */
function format(value: number): string {
  const digits = value < 100 ? Math.max(0, 2 - Math.floor(Math.log10(Math.max(value, 0.001)))) : 0;
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return value.toLocaleString('en-US', options);
}

function renderTable(headings: readonly string[], rows: readonly string[][]): string {
  const lines = [headings, headings.map(() => '---'), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

/** Renders a ratio with the interval of each run. */
function renderRatio({ median, intervals, result, isPublished }: Evaluation): string {
  const ranges = intervals.map(({ low, high }) => `${format(low)} to ${format(high)}`).join('; ');
  if (result === 'not measured on this machine') return `${result} (${ranges})`;
  return isPublished ? `${format(median)} (${ranges})` : `the runs disagree (${ranges})`;
}

/** Returns what is compared in a row: what has a threshold, and all metrics of all rivals. */
function getComparisons({ targets, metrics, thresholds }: Row): readonly Threshold[] {
  if (thresholds.some(({ of }) => of !== undefined)) return thresholds;
  const all = targets.flatMap((against) => metrics.map((metric) => ({ against, metric })));
  const others = all.filter(
    ({ against, metric }) =>
      against !== 'service' &&
      !thresholds.some((each) => each.against === against && each.metric === metric),
  );
  return [...thresholds, ...others];
}

function renderRatios(rows: readonly Row[], starts: readonly Start[]): string {
  const lines = rows.flatMap((row) =>
    getComparisons(row).map((comparison) => {
      const { of, metric, against, atLeast, atMost } = comparison;
      const evaluation = compare(starts, row, comparison);
      const rival = TARGETS[against].title;
      const targets = of === undefined ? rival : `${TARGETS[of].title} / ${rival}`;
      const bound = atLeast === undefined ? `at most ${atMost}` : `at least ${atLeast}`;
      const verdict = (atLeast ?? atMost) ? `${bound}: ${evaluation.result}` : '';
      return [row.title, targets, METRICS[metric], renderRatio(evaluation), verdict];
    }),
  );
  return renderTable(['work', 'against', 'metric', 'ratio', 'threshold'], lines);
}

/** Renders the values of this service: an operator plans with them. */
function renderValues(rows: readonly Row[], starts: readonly Start[]): string {
  const all = Object.keys(METRICS) as Metric[];
  const lines = rows.map((row) => {
    const target = row.work === 'retries' ? 'service, retries' : 'service';
    const cells = all.map((metric) => {
      if (!row.metrics.includes(metric) && (metric !== 'p99' || row.work !== 'create')) return '-';
      const runs = mapRuns(starts, row, (slices) =>
        getMedian(slices[target]!.map((slice) => slice[metric]!)),
      );
      return format(getMedian(runs.flat()));
    });
    return [row.title, ...cells];
  });
  return renderTable(['work', ...Object.values(METRICS)], lines);
}

/** Renders what the command prints: all ratios, and the values of this service. */
export function renderTables(rows: readonly Row[], starts: readonly Start[]): string {
  return `## Ratios

The value of this service divided by that of the rival: the median of all starts, and in parentheses the interval of each run.

${renderRatios(rows, starts)}

## Values of this service

${renderValues(rows, starts)}`;
}

/** Returns the rows that were measured in both runs. */
const getRepeated = (rows: readonly Row[], starts: readonly Start[]): Row[] =>
  rows.filter(({ title }) => starts.some(({ run, slices }) => run === 1 && title in slices));

/** Joins parts of a sentence. */
const join = (parts: readonly string[]): string =>
  parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts.at(-1)}`;

const count = (items: readonly unknown[]): string =>
  items.length === 1 ? '1 is' : `${items.length} are`;

/** Where the service is faster or slower than Fastify, and why; a list of ratios follows. */
const KINDS = [
  {
    isOne: ({ work }: Row): boolean => work === 'list',
    noun: 'lists ',
    faster: `The service keeps a list as bytes until its table changes, whereas Fastify reads and serializes the rows for each
request. Per second, it serves`,
    slower: 'Short lists save less than NestJS and Express cost. Per second, the service serves',
  },
  {
    isOne: ({ work, connections }: Row): boolean => work === 'create' && connections > 1,
    noun: 'categories ',
    faster: `Create requests that arrive together share a commit, whereas Fastify commits each of them. Therefore, 64 clients
create`,
    slower: `A shared commit saves less than NestJS and TypeORM cost if commits are cheap. Per second, 64 clients create`,
  },
  {
    isOne: ({ work, connections }: Row): boolean => work === 'create' && connections === 1,
    noun: 'categories ',
    faster: 'A single client, which waits for each response, creates',
    slower: `A single client, which waits for each response, has no commit to share, and its requests pay for all layers of
NestJS, Express and TypeORM. It creates`,
  },
];

/** Renders a chart of the ratios to Fastify, and where the service is faster, where it is slower, and why. */
export function renderSummary(rows: readonly Row[], starts: readonly Start[]): string {
  const repeated = getRepeated(rows, starts);
  const all = repeated
    .filter(({ targets, work }) => work !== 'startup' && /^fastify(, pg)?$/.test(targets[0]!))
    .map((row) => {
      const against = row.targets[0]!;
      const hasSpeed = row.metrics.includes('throughput');
      const cpu = { of: against, metric: 'cpu', against: 'service' } as const;
      return { row, ...compare(starts, row, hasSpeed ? { metric: 'throughput', against } : cpu) };
    });
  const shown = all.filter(({ isPublished }) => isPublished);
  const isFaster = ({ intervals }: Evaluation): boolean => intervals.every(({ low }) => low > 1);
  const isSlower = ({ intervals }: Evaluation): boolean => intervals.every(({ high }) => high < 1);
  const sentences = KINDS.flatMap(({ isOne, noun, ...reasons }) =>
    (['faster', 'slower'] as const).flatMap((side) => {
      const isOnSide = side === 'faster' ? isFaster : isSlower;
      const own = shown.filter((speed) => isOne(speed.row) && isOnSide(speed));
      const parts = own.map(({ row, median }, index) => {
        const place = row.title.replace(/^list |^create, .*?, /, '');
        return `${format(median)} times as many ${index === 0 ? noun : ''}${place}`;
      });
      return parts.length === 0 ? [] : [`${reasons[side]} ${join(parts)}.`];
    }),
  );
  const titles = (own: readonly { row: Row }[]): string =>
    join(own.map(({ row }) => `“${row.title}”`));
  const even = shown.filter((speed) => !isFaster(speed) && !isSlower(speed));
  if (even.length > 0) sentences.push(`Neither is faster in ${titles(even)}.`);
  const unknown = all.filter(({ isPublished }) => !isPublished);
  if (unknown.length > 0)
    sentences.push(
      `Two runs on this machine did not agree, or were too imprecise, about ${titles(unknown)}.`,
    );
  sentences.push(...renderCosts(repeated, starts));
  const labels = shown.map(({ row, median }) => `"${row.title}: ${format(median)}"`);
  const values = shown.map(({ median }) => median.toFixed(3));
  return `\`\`\`mermaid
%%{init: {"xyChart": {"width": 900, "height": ${120 + 32 * shown.length}}, "themeVariables": {"xyChart": {"plotColorPalette": "#4477aa, #cc3311"}}}}%%
xychart-beta horizontal
  title "Requests per second, as a multiple of Fastify's (the line)"
  x-axis [${labels.join(', ')}]
  y-axis "times" 0 --> ${Math.ceil(Math.max(2, ...shown.map(({ median }) => median)))}
  bar [${values.join(', ')}]
  line [${values.map(() => 1).join(', ')}]
\`\`\`

${sentences.join('\n')}`;
}

/** Renders what startup and a framework cost, and how many thresholds are met. */
function renderCosts(rows: readonly Row[], starts: readonly Start[]): string[] {
  /** Returns the value of a target as a multiple of the service's, if it is published. */
  const say = (title: string, against: TargetName, metric: Metric, text: string): string[] => {
    const row = rows.find((each) => each.title === title);
    if (row === undefined) return [];
    const isOfService = row.work === 'startup';
    const targets = isOfService ? { against } : { of: against, against: 'service' as const };
    const { isPublished, median } = compare(starts, row, { metric, ...targets });
    return isPublished ? [`${format(median)} times ${text}`] : [];
  };
  const startup = 'startup and idle memory';
  const [list, create] = ['list of 100 by other rivals', 'create, 64 connections, by other rivals'];
  const sentences: [string, string[]][] = [
    [
      'The service loads NestJS, TypeORM and Swagger when it starts, which takes',
      [
        ...say(startup, 'fastify', 'startup', 'as long as the startup of Fastify'),
        ...say(startup, 'fastify', 'memory', 'its memory'),
      ],
    ],
    [
      'What a framework costs: of the CPU time of the service, plain `node:http` needs',
      say(list, 'raw', 'cpu', 'as much for a list of 100 that it has as bytes'),
    ],
    [
      'Fastify with the same cache and batching needs',
      [
        ...say(list, 'fastify, cached', 'cpu', 'as much for a list of 100'),
        ...say(create, 'fastify, cached', 'cpu', 'as much for a create request of 64 clients'),
      ],
    ],
    [
      'Stock NestJS with TypeORM and Swagger needs',
      [
        ...say(list, 'nest', 'cpu', 'as much for a list of 100'),
        ...say(create, 'nest', 'cpu', 'as much for a create request of 64 clients'),
      ],
    ],
  ];
  return sentences.flatMap(([start, parts]) =>
    parts.length > 0 ? [`${start} ${join(parts)}.`] : [],
  );
}

/** Renders which thresholds are met, and which rows were not measured. */
function renderCounts(rows: readonly Row[], starts: readonly Start[]): string {
  const repeated = getRepeated(rows, starts);
  const results = repeated.flatMap((row) =>
    row.thresholds.map((each) => compare(starts, row, each).result),
  );
  const counts = (['met', 'missed', 'not decided', 'not measured on this machine'] as const).map(
    (result) => `${count(results.filter((each) => each === result))} ${result}`,
  );
  const others = rows.filter((row) => !repeated.includes(row)).map(({ title }) => `“${title}”`);
  const note = others.length === 0 ? '' : ` Not measured in these runs: ${join(others)}.`;
  return `Of ${results.length} thresholds, ${join(counts)}.${note}`;
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

${renderCounts(rows, starts)}

Generated by \`npm run bench\`. In a start, the service and its rivals are new processes with new databases, side by side on
one core; the load generator and PostgreSQL are on the other. After a warm-up, slices of one second alternate in the order
ABBAAB. A start has one ratio, the median of its three pairs; a row is the median of the starts, with the interval between
two of them that contains the true one with 95 %. Everything was run twice. A threshold is met if both intervals are on its
side, missed if both are on the other, and not decided otherwise; intervals wider than 15 % are not results.
[tried.md](tried.md) has what was tried where a threshold is missed.

${dates[0]} to ${dates.at(-1)} UTC, ${minutes.toFixed(0)} minutes. ${environment}.

${renderTables(getRepeated(rows, starts), starts)}
`;
}
