import { cpus, release, totalmem, type as osType } from 'node:os';
import { supportsAffinity } from './load.js';
import type { Measurement, StartupMeasurement } from './measure.js';
import { TARGETS, type TargetName } from './targets.js';
import { SCENARIOS, type Scenario, type ScenarioName } from './scenarios.js';

/** The results of a run: medians over its rounds. */
export interface Results {
  readonly scenarios: ReadonlyMap<ScenarioName, ReadonlyMap<TargetName, Measurement>>;
  readonly startups: ReadonlyMap<TargetName, StartupMeasurement>;
  readonly dependencies: { packages: number; bytes: number } | undefined;
}

/** A pass or fail criterion for one value of the results. */
interface Threshold {
  readonly text: string;
  readonly unit: string;
  readonly min?: number;
  readonly max?: number;
  /** A stricter bound, reported if it is reached but not required. */
  readonly target?: number;
  readonly getValue: (results: Results) => number | undefined;
}

type Measured = readonly [scenario: ScenarioName, target: TargetName];

/** Returns a function that computes the ratio of two numbers of requests per second. */
const throughputRatio =
  (numerator: Measured, denominator: Measured) =>
  ({ scenarios }: Results): number | undefined => {
    const [first, second] = [numerator, denominator].map(
      ([scenario, target]) => scenarios.get(scenario)?.get(target)?.requestsPerSecond,
    );
    return divide(first, second);
  };

/** Returns a function that computes the ratio of the service's requests per second to the baseline's. */
const speedup = (scenario: ScenarioName, baseline: TargetName): Threshold['getValue'] =>
  throughputRatio([scenario, 'service'], [scenario, baseline]);

const THRESHOLDS: readonly Threshold[] = [
  {
    text: 'list of 100, against Fastify',
    unit: 'x',
    min: 3,
    target: 4,
    getValue: speedup('list-100', 'fastify'),
  },
  {
    text: 'list of 100, CPU per request, against raw node:http',
    unit: 'x',
    max: 2.5,
    target: 1.7,
    getValue: ({ scenarios }) =>
      divide(
        scenarios.get('list-100')?.get('service')?.cpu,
        scenarios.get('list-100')?.get('raw')?.cpu,
      ),
  },
  {
    text: 'list of 10, against Fastify',
    unit: 'x',
    min: 1.1,
    target: 1.5,
    getValue: speedup('list-10', 'fastify'),
  },
  {
    text: 'list of 1,000, against Fastify',
    unit: 'x',
    min: 10,
    getValue: speedup('list-1000', 'fastify'),
  },
  {
    text: 'list of 10,000, against Fastify',
    unit: 'x',
    min: 20,
    getValue: speedup('list-10000', 'fastify'),
  },
  {
    text: 'create, 64 connections, against Fastify',
    unit: 'x',
    min: 12,
    getValue: speedup('create-64', 'fastify'),
  },
  {
    text: 'create, 16 connections, against Fastify',
    unit: 'x',
    min: 4,
    getValue: speedup('create-16', 'fastify'),
  },
  {
    text: 'create, 1 connection, against Fastify',
    unit: 'x',
    min: 0.7,
    getValue: speedup('create-1', 'fastify'),
  },
  {
    text: 'create without an Idempotency-Key, 64 connections, against one with it',
    unit: 'x',
    max: 1.4,
    getValue: throughputRatio(['create-64', 'service'], ['create-64-key', 'service']),
  },
  {
    text: 'create without an Idempotency-Key, 1 connection, against one with it',
    unit: 'x',
    max: 1.4,
    getValue: throughputRatio(['create-1', 'service'], ['create-1-key', 'service']),
  },
  {
    text: 'PostgreSQL, create without an Idempotency-Key, 64 connections, against one with it',
    unit: 'x',
    max: 1.4,
    getValue: throughputRatio(['pg-create-64', 'service'], ['pg-create-64-key', 'service']),
  },
  {
    text: 'list of 20, against the first page of 20 out of 100,000',
    unit: 'x',
    max: 1.5,
    getValue: throughputRatio(['list-20', 'service'], ['page-20', 'service-page']),
  },
  {
    text: '95% list of 1,000, 5% create, against Fastify',
    unit: 'x',
    min: 5,
    getValue: speedup('mix', 'fastify'),
  },
  {
    text: 'PostgreSQL, list of 100, against Fastify and pg',
    unit: 'x',
    min: 3,
    getValue: speedup('pg-list-100', 'fastify-pg'),
  },
  {
    text: 'list of 100, against the stock NestJS starter',
    unit: 'x',
    min: 10,
    getValue: speedup('list-100', 'nest'),
  },
  {
    text: 'create, 64 connections, against the stock NestJS starter',
    unit: 'x',
    min: 20,
    getValue: speedup('create-64', 'nest'),
  },
  {
    text: 'startup to first 200, without an existing database',
    unit: ' s',
    max: 1.5,
    getValue: ({ startups }) => divide(startups.get('service')?.firstStartup, 1000),
  },
  {
    text: 'idle memory',
    unit: ' MB',
    max: 120,
    getValue: ({ startups }) => divide(startups.get('service')?.idleMemory, 1e6),
  },
];

/** Introduces the PostgreSQL scenarios in the report. */
const POSTGRES_NOTE = [
  'On PostgreSQL, each instance has a pool of 10 connections.',
  ...(supportsAffinity
    ? [
        'PostgreSQL shares a core with the load generator, so the target has a core to itself, as on SQLite,',
        "and database CPU does not reduce the target's CPU.",
        'Two instances share the core of the target.',
      ]
    : []),
  'Results with two instances show the cost per request, not how throughput scales.',
  'Their CPU time and memory are sums over both instances.',
].join('\n');

const usesPostgres = (scenario: ScenarioName): boolean => {
  const { database }: Scenario = SCENARIOS[scenario];
  return database === 'postgres';
};

/** Renders all tables as Markdown, padded so that they are readable in a terminal. */
export function renderTables(results: Results): string {
  const sections = [...results.scenarios].map(
    ([scenario, measurements]) =>
      `### ${SCENARIOS[scenario].title}\n\n${renderScenario(scenario, measurements)}`,
  );
  const firstOnPostgres = [...results.scenarios.keys()].findIndex(usesPostgres);
  if (firstOnPostgres >= 0) sections.splice(firstOnPostgres, 0, POSTGRES_NOTE);
  if (results.startups.size > 0) {
    sections.push(`### startup and idle memory\n\n${renderStartups(results.startups)}`);
  }
  if (results.dependencies) {
    const { packages, bytes } = results.dependencies;
    sections.push(
      `Production dependencies of this service: ${packages} packages, ${toMegabytes(bytes)} installed.`,
    );
  }
  return sections.join('\n\n');
}

/**
 * Renders the thresholds and their results as a Markdown table.
 * @param filter all thresholds, or only those with a measured value
 */
export function renderThresholds(results: Results, filter: 'all' | 'measured'): string {
  const thresholds = THRESHOLDS.filter(
    (threshold) => filter === 'all' || threshold.getValue(results) !== undefined,
  );
  const rows = thresholds.map((threshold) => {
    const { text, unit, min, max, target, getValue } = threshold;
    const value = getValue(results);
    const bound = min === undefined ? `at most ${max}${unit}` : `at least ${min}${unit}`;
    return [
      text,
      target === undefined ? bound : `${bound}, target ${target}${unit}`,
      value === undefined ? '-' : `${toSignificantDigits(value)}${unit}`,
      evaluate(threshold, value),
    ];
  });
  return renderTable(['scenario', 'threshold', 'measured', 'result'], rows);
}

function evaluate(
  { min = -Infinity, max = Infinity, target }: Threshold,
  value: number | undefined,
): string {
  if (value === undefined) return 'not measured';
  if (value < min || value > max) return 'fail';
  const reachesTarget =
    target !== undefined && (max === Infinity ? value >= target : value <= target);
  return reachesTarget ? 'pass, target reached' : 'pass';
}

type Column = readonly [
  heading: string,
  getValue: (measurement: Measurement) => number | undefined,
  format: (value: number) => string,
];

const COLUMNS: readonly Column[] = [
  ['requests/s', ({ requestsPerSecond }) => requestsPerSecond, toSignificantDigits],
  ['p50 ms', ({ p50 }) => p50, toSignificantDigits],
  ['p99 ms', ({ p99 }) => p99, toSignificantDigits],
  ['CPU µs/request', ({ cpu }) => cpu, toSignificantDigits],
  ['peak memory', ({ peakMemory }) => peakMemory, toMegabytes],
];
const DATABASE_CPU: Column = [
  'database CPU µs/request',
  ({ databaseCpu }) => databaseCpu,
  toSignificantDigits,
];

function renderScenario(
  scenario: ScenarioName,
  measurements: ReadonlyMap<TargetName, Measurement>,
): string {
  const service = measurements.get('service');
  const columns = usesPostgres(scenario) ? [...COLUMNS, DATABASE_CPU] : COLUMNS;
  const rows = [...measurements].map(([name, measurement]) => {
    const cells = columns.map(([, getValue, format]) => {
      const value = getValue(measurement);
      if (value === undefined) return 'n/a';
      const ratio = divide(value, service && getValue(service));
      return ratio === undefined
        ? format(value)
        : `${format(value)} (${toSignificantDigits(ratio)}x)`;
    });
    return [TARGETS[name].title].concat(cells);
  });
  return renderTable(['target', ...columns.map(([heading]) => heading)], rows);
}

function renderStartups(startups: ReadonlyMap<TargetName, StartupMeasurement>): string {
  const rows = [...startups].map(([name, { firstStartup, nextStartup, idleMemory }]) => [
    TARGETS[name].title,
    `${firstStartup.toFixed(0)} ms`,
    `${nextStartup.toFixed(0)} ms`,
    idleMemory === undefined ? 'n/a' : toMegabytes(idleMemory),
  ]);
  const headings = [
    'target',
    'first startup to first 200',
    'next startup to first 200',
    'idle memory',
  ];
  return renderTable(headings, rows);
}

/** Lists how the header fields of each baseline's list response differ from those of the service. */
export function renderHeaders(headers: ReadonlyMap<string, readonly string[]>): string {
  // Connection and framing fields are specific to each server.
  const ignored = new Set([
    'connection',
    'keep-alive',
    'transfer-encoding',
    'content-length',
    'date',
  ]);
  const service = headers.get(TARGETS.service.title);
  if (service === undefined) return '';
  const difference = (names: readonly string[], others: readonly string[]): string[] =>
    names.filter((name) => !ignored.has(name) && !others.includes(name));
  const differences = [...headers].flatMap(([title, names]) =>
    difference(service, names)
      .map((name) => `${title} lacks ${name}`)
      .concat(difference(names, service).map((name) => `${title} adds ${name}`)),
  );
  const serviceFields = difference(service, []).toSorted();
  return `Header fields of the service's list response: ${serviceFields.join(', ')}. Differences: ${
    differences.join('; ') || 'none'
  }.`;
}

/** Renders RESULTS.md: date, machine, environment, thresholds and all tables. */
export function renderReport(
  results: Results,
  environment: readonly [string, string][],
  headers: ReadonlyMap<string, readonly string[]>,
): string {
  const machine: [string, string][] = [
    ['Date', `${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC`],
    ['Processor', `${cpus()[0]?.model.trim() ?? 'unknown'}, ${cpus().length} cores`],
    ['Memory', `${(totalmem() / 2 ** 30).toFixed(1)} GiB`],
    ['System', `${osType()} ${release()}, Node ${process.version}`],
  ];
  return `# Benchmark results

Generated by \`npm run bench\`. Each value is the median over all rounds; the ratio to this service's
value is in parentheses. The status and body length of every response were checked.

${renderTable(['', ''], [...machine, ...environment])}

![Requests per second](results.svg)

## Thresholds

${renderThresholds(results, 'all')}

## Measurements

${[renderHeaders(headers), renderTables(results)].filter(Boolean).join('\n\n')}
`;
}

/** Formats a number with at least three significant digits and thousands separators. */
export function toSignificantDigits(value: number): string {
  const options: Intl.NumberFormatOptions = {
    minimumSignificantDigits: 3,
    maximumSignificantDigits: 3,
  };
  return Math.abs(value) >= 1000
    ? Math.round(value).toLocaleString('en-US')
    : value.toLocaleString('en-US', options);
}

function toMegabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(0)} MB`;
}

/** Divides a by b; undefined if either is. */
export function divide(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : a / b;
}

function renderTable(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = headings.map((heading, column) =>
    Math.max(3, heading.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  const isNumber = (column: number): boolean =>
    column > 0 && rows.every((row) => /^([\d-]|n\/a)/.test(row[column] ?? '-'));
  const line = (cells: readonly string[]): string =>
    `| ${cells
      .map((cell, column) =>
        isNumber(column) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0),
      )
      .join(' | ')} |`;
  const rule = widths.map((width, column) =>
    isNumber(column) ? `${'-'.repeat(width - 1)}:` : '-'.repeat(width),
  );
  return [line(headings), line(rule), ...rows.map(line)].join('\n');
}
