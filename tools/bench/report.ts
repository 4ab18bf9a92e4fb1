import type { Metric, Row, TargetName, Threshold } from './rows.js';
import { METRICS, TARGETS } from './rows.js';

export type Measurement = Partial<Record<Metric, number>>;

/** The rounds of a row, by target, and why a target has none, or failed. */
export interface Result {
  readonly row: Row;
  readonly rounds: Map<TargetName, Measurement[]>;
  readonly failures: Map<TargetName, string>;
}

/** Returns the values of all rounds in ascending order. */
function getValues({ rounds }: Result, target: TargetName, metric: Metric): number[] {
  const values = (rounds.get(target) ?? []).flatMap((round) => round[metric] ?? []);
  return values.toSorted((a, b) => a - b);
}

const getMedian = (values: readonly number[]): number => values[values.length >> 1] ?? NaN;

/** Returns the ratio of two medians; NaN if a target was not measured, or failed. */
function getRatio(result: Result, { of = 'service', metric, against }: Threshold): number {
  if (result.failures.has(of) || result.failures.has(against)) return NaN;
  const [value, other] = [of, against].map((name) => getMedian(getValues(result, name, metric)));
  return value! / other!;
}

/** Whether a ratio is within a tenth of its threshold. */
export function isNear(result: Result, threshold: Threshold): boolean {
  return Math.abs(getRatio(result, threshold) / (threshold.atLeast ?? threshold.atMost!) - 1) < 0.1;
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

/** Returns the text, the bound, the ratio and the verdict of each threshold. */
function evaluate(results: readonly Result[]): string[][] {
  return results.flatMap((result) =>
    result.row.thresholds.map((threshold) => {
      const { of = 'service', metric, against, atLeast = 0, atMost = Infinity } = threshold;
      const ratio = getRatio(result, threshold);
      return [
        `${result.row.title}: ${METRICS[metric]} of ${TARGETS[of].title}, against ${TARGETS[against].title}`,
        atMost === Infinity ? `at least ${format(atLeast)}x` : `at most ${format(atMost)}x`,
        Number.isNaN(ratio) ? 'not measured' : `${format(ratio)}x`,
        ratio >= atLeast && ratio <= atMost ? 'pass' : '**fail**',
      ];
    }),
  );
}

export function renderThresholds(results: readonly Result[]): string {
  return renderTable(['work', 'threshold', 'measured', 'result'], evaluate(results));
}

/** Renders the median of each value, and the lowest and the highest one. */
export function renderRow(result: Result): string {
  const { title, targets } = result.row;
  const metrics = (Object.keys(METRICS) as Metric[]).filter((metric) =>
    targets.some((target) => getValues(result, target, metric).some((value) => value > 0)),
  );
  const renderCell = (target: TargetName, metric: Metric): string => {
    const values = getValues(result, target, metric);
    if (values.length === 0) return '-';
    const range = values.length > 1 ? ` (${format(values[0]!)} to ${format(values.at(-1)!)})` : '';
    return format(getMedian(values)) + range;
  };
  const measured = targets.filter((name) => result.rounds.has(name) || result.failures.has(name));
  const rows = measured.map((target) => {
    const failure = result.failures.get(target);
    const name = TARGETS[target].title + (failure === undefined ? '' : `: **${failure}**`);
    return [name].concat(metrics.map((metric) => renderCell(target, metric)));
  });
  return `### ${title}\n\n${renderTable(['', ...metrics.map((m) => METRICS[m])], rows)}`;
}

/** A row, and how many times as fast as Fastify the service is; NaN if that was not measured. */
interface Speed {
  readonly title: string;
  readonly speed: number;
}

/** Returns three sentences: how much faster than Fastify the service is and why, where it is slower, and its thresholds. */
export function summarize(results: readonly Result[]): string {
  const speeds = results.map((result): Speed => {
    const { title, work, targets, rate } = result.row;
    const against = targets.find((name) => name === 'fastify' || name === 'fastify, pg')!;
    const metric = work === 'startup' ? 'startup' : 'throughput';
    const ratio = rate === undefined ? getRatio(result, { metric, against }) : NaN;
    return { title, speed: work === 'startup' ? 1 / ratio : ratio };
  });
  const listOf10 = results.find(({ row }) => row.targets.includes('nest, list'))!;
  const nest = getRatio(listOf10, { of: 'nest, list', metric: 'cpu', against: 'raw' });
  return renderSummary(
    speeds,
    nest,
    evaluate(results).map((cells) => cells[3]!),
  );
}

export function renderSummary(
  speeds: readonly Speed[],
  nest: number,
  verdicts: readonly string[],
): string {
  const faster = speeds.filter(({ speed }) => speed > 1);
  const slower = speeds.filter(({ speed }) => speed <= 1);
  const met = verdicts.filter((verdict) => verdict === 'pass').length;
  return `Lists are serialized once and sent as bytes until their table changes, and concurrent create requests share a commit,
which makes the service faster than Fastify in ${faster.length} of ${faster.length + slower.length} measurements: ${renderRange(faster)} times as fast.
In the others, it is ${renderRange(slower)} times as fast (${slower.map(({ title }) => `“${title}”`).join(', ') || 'none'});
even a minimal NestJS application on Express needs ${format(nest)} times the CPU time of \`node:http\`.
It meets ${met} of ${verdicts.length} thresholds.`;
}

/** Renders the lowest and the highest speed. */
function renderRange(speeds: readonly Speed[]): string {
  const values = speeds.map(({ speed }) => speed).toSorted((a, b) => a - b);
  return values.length === 0 ? '-' : `${format(values[0]!)} to ${format(values.at(-1)!)}`;
}

export function renderReport(results: readonly Result[], environment: string[][]): string {
  return `# Benchmark results

${summarize(results)}

Generated by \`npm run bench\`. Values are medians, with the lowest and the highest round in parentheses. Every round has
new processes and databases.

${renderTable(['', ''], environment)}

## Thresholds

${renderThresholds(results)}

## Measurements

${results.map(renderRow).join('\n\n')}
`;
}

/** Rows that say nothing about the capacity of an installation. */
const NO_CAPACITY = /tmpfs|requests a second|retry|startup/;

/** Returns the table of the runbook: the medians of this service in the text of a report. */
export function renderCapacity(text: string): string {
  const rows = text.split('\n### ').flatMap((section) => {
    const [title = ''] = section.split('\n');
    if (NO_CAPACITY.test(title)) return [];
    const lines = [
      ...section.matchAll(/^\| this service(?<variant>, two processes)? \| (?<cells>.*) \|$/gm),
    ];
    return lines.map(({ groups }) => {
      const { variant = '', cells } = groups!;
      const [throughput, , p99] = cells!.split(' | ').map((cell) => cell.replace(/ .*/, ''));
      return [title + variant, throughput!, p99!];
    });
  });
  return renderTable(['work', 'requests/s', 'p99 ms'], rows);
}
