import { cpus, release, totalmem, type as osType } from 'node:os';
import { CAN_PIN } from './load.js';
import type { Measurement, StartMeasurement } from './measure.js';
import { TARGETS, type TargetName } from './targets.js';
import { SCENARIOS, type Scenario, type ScenarioName } from './scenarios.js';

/** All that a run has found: medians over its rounds. */
export interface Results {
  readonly works: ReadonlyMap<ScenarioName, ReadonlyMap<TargetName, Measurement>>;
  readonly starts: ReadonlyMap<TargetName, StartMeasurement>;
  readonly dependencies: { packages: number; bytes: number } | undefined;
}

/** What is to be reached, and where the figure comes from. */
interface Goal {
  readonly text: string;
  readonly unit: string;
  readonly atLeast?: number;
  readonly atMost?: number;
  readonly aim?: number;
  readonly figure: (results: Results) => number | undefined;
}

/** How many times the peer's requests a second the service reaches. */
const times =
  (work: ScenarioName, peer: TargetName) =>
  (results: Results): number | undefined =>
    divide(
      results.works.get(work)?.get('service')?.requestsPerSecond,
      results.works.get(work)?.get(peer)?.requestsPerSecond,
    );

const GOALS: readonly Goal[] = [
  {
    text: 'list of 100, against Fastify',
    unit: 'x',
    atLeast: 3,
    aim: 4,
    figure: times('list-100', 'fastify'),
  },
  {
    text: 'list of 100, CPU a request against raw node:http',
    unit: 'x',
    atMost: 2.5,
    aim: 1.7,
    figure: ({ works }) =>
      divide(works.get('list-100')?.get('service')?.cpu, works.get('list-100')?.get('raw')?.cpu),
  },
  {
    text: 'list of 10, against Fastify',
    unit: 'x',
    atLeast: 1.1,
    aim: 1.5,
    figure: times('list-10', 'fastify'),
  },
  {
    text: 'list of 1,000, against Fastify',
    unit: 'x',
    atLeast: 10,
    figure: times('list-1000', 'fastify'),
  },
  {
    text: 'list of 10,000, against Fastify',
    unit: 'x',
    atLeast: 20,
    figure: times('list-10000', 'fastify'),
  },
  {
    text: 'create, 64 connections, against Fastify',
    unit: 'x',
    atLeast: 12,
    figure: times('create-64', 'fastify'),
  },
  {
    text: 'create, 16 connections, against Fastify',
    unit: 'x',
    atLeast: 4,
    figure: times('create-16', 'fastify'),
  },
  {
    text: 'create, 1 connection, against Fastify',
    unit: 'x',
    atLeast: 0.7,
    figure: times('create-1', 'fastify'),
  },
  {
    text: 'create, 64 connections, against Fastify with synchronous = NORMAL',
    unit: 'x',
    atLeast: 0.8,
    figure: times('create-64', 'fastify-normal'),
  },
  {
    text: '95/5 mix on 1,000, against Fastify',
    unit: 'x',
    atLeast: 5,
    figure: times('mix', 'fastify'),
  },
  {
    text: 'PostgreSQL, list of 100, against Fastify and pg',
    unit: 'x',
    atLeast: 3,
    figure: times('pg-list-100', 'fastify-pg'),
  },
  {
    text: 'list of 100, against the stock NestJS starter',
    unit: 'x',
    atLeast: 10,
    figure: times('list-100', 'nest'),
  },
  {
    text: 'create, 64 connections, against the stock NestJS starter',
    unit: 'x',
    atLeast: 20,
    figure: times('create-64', 'nest'),
  },
  {
    text: 'start to first 200, without a database yet',
    unit: ' s',
    atMost: 1.5,
    figure: ({ starts }) => divide(starts.get('service')?.firstStart, 1000),
  },
  {
    text: 'idle memory',
    unit: ' MB',
    atMost: 120,
    figure: ({ starts }) => divide(starts.get('service')?.idleMemory, 1e6),
  },
];

/** What a reader must know of the works on PostgreSQL, which stand together. */
const POSTGRES_NOTE = [
  'On PostgreSQL, each instance has a pool of 10 connections.',
  ...(CAN_PIN
    ? [
        "PostgreSQL runs on the load generator's core: a server has the other one to itself, as on SQLite,",
        'and what the database spends is not taken from the server that asks it.',
        "Two instances share the server's core:",
      ]
    : []),
  'the figures of two instances tell what a request costs with two, not how instances scale.',
  'Their CPU time and memory are sums over both.',
].join('\n');

const isOnPostgres = (work: ScenarioName): boolean => {
  const { database }: Scenario = SCENARIOS[work];
  return database === 'postgres';
};

/** All tables of a run as Markdown that is also aligned in a terminal. */
export function renderTables(results: Results): string {
  const sections = [...results.works].map(
    ([work, measurements]) => `### ${SCENARIOS[work].title}\n\n${renderWork(work, measurements)}`,
  );
  const firstOnPostgres = [...results.works.keys()].findIndex(isOnPostgres);
  if (firstOnPostgres >= 0) sections.splice(firstOnPostgres, 0, POSTGRES_NOTE);
  if (results.starts.size > 0) {
    sections.push(`### start and idle memory\n\n${renderStarts(results.starts)}`);
  }
  if (results.dependencies) {
    const { packages, bytes } = results.dependencies;
    sections.push(
      `Production dependencies of this service: ${packages} packages, ${megabytes(bytes)} installed.`,
    );
  }
  return sections.join('\n\n');
}

/**
 * The goals with what was reached, as a Markdown table.
 * @param goals which of them: all, or those that the run has a figure for
 */
export function renderGoals(results: Results, goals: 'all' | 'measured'): string {
  const chosen = GOALS.filter((goal) => goals === 'all' || goal.figure(results) !== undefined);
  const rows = chosen.map((goal) => {
    const { text, unit, atLeast, atMost, aim, figure } = goal;
    const reached = figure(results);
    const bound = atLeast === undefined ? `at most ${atMost}${unit}` : `at least ${atLeast}${unit}`;
    return [
      text,
      aim === undefined ? bound : `${bound}, aim ${aim}${unit}`,
      reached === undefined ? '-' : `${significant(reached)}${unit}`,
      judge(goal, reached),
    ];
  });
  return renderTable(['work', 'goal', 'reached', 'result'], rows);
}

function judge(
  { atLeast = -Infinity, atMost = Infinity, aim }: Goal,
  reached: number | undefined,
): string {
  if (reached === undefined) return 'not measured';
  if (reached < atLeast || reached > atMost) return 'missed';
  const aimed = aim !== undefined && (atMost === Infinity ? reached >= aim : reached <= aim);
  return aimed ? 'pass, aim reached' : 'pass';
}

type Column = readonly [
  heading: string,
  figure: (of: Measurement) => number | undefined,
  format: (value: number) => string,
];

const COLUMNS: readonly Column[] = [
  ['requests/s', (of) => of.requestsPerSecond, significant],
  ['p50 ms', (of) => of.p50, significant],
  ['p99 ms', (of) => of.p99, significant],
  ['CPU µs/request', (of) => of.cpu, significant],
  ['peak memory', (of) => of.peakMemory, megabytes],
];
const DATABASE_CPU: Column = ['PostgreSQL CPU µs/request', (of) => of.databaseCpu, significant];

function renderWork(
  work: ScenarioName,
  measurements: ReadonlyMap<TargetName, Measurement>,
): string {
  const service = measurements.get('service');
  const columns = isOnPostgres(work) ? [...COLUMNS, DATABASE_CPU] : COLUMNS;
  const rows = [...measurements].map(([name, measurement]) => {
    const cells = columns.map(([, figure, format]) => {
      const value = figure(measurement);
      if (value === undefined) return 'n/a';
      const ratio = divide(value, service && figure(service));
      return ratio === undefined ? format(value) : `${format(value)} (${significant(ratio)}x)`;
    });
    return [TARGETS[name].title].concat(cells);
  });
  return renderTable(['server', ...columns.map(([heading]) => heading)], rows);
}

function renderStarts(starts: ReadonlyMap<TargetName, StartMeasurement>): string {
  const rows = [...starts].map(([name, { firstStart, nextStart, idleMemory }]) => [
    TARGETS[name].title,
    `${firstStart.toFixed(0)} ms`,
    `${nextStart.toFixed(0)} ms`,
    idleMemory === undefined ? 'n/a' : megabytes(idleMemory),
  ]);
  const headings = ['server', 'first start to first 200', 'next start to first 200', 'idle memory'];
  return renderTable(headings, rows);
}

/** Says which header fields of the service's list a peer's list lacks, and the other way round. */
export function renderHeaders(headers: ReadonlyMap<string, readonly string[]>): string {
  // How the connection and the framing are spoken of is each server's own matter.
  const own = new Set(['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'date']);
  const service = headers.get(TARGETS.service.title);
  if (service === undefined) return '';
  const beyond = (names: readonly string[], others: readonly string[]): string[] =>
    names.filter((name) => !own.has(name) && !others.includes(name));
  const differences = [...headers].flatMap(([title, names]) =>
    beyond(service, names)
      .map((name) => `${title} lacks ${name}`)
      .concat(beyond(names, service).map((name) => `${title} adds ${name}`)),
  );
  const common = beyond(service, []).toSorted();
  return `Header fields of the service's list: ${common.join(', ')}. Of the others: ${
    differences.join('; ') || 'no difference'
  }.`;
}

/** RESULTS.md: when, where and how it was measured, and all tables. */
export function renderReport(
  results: Results,
  settings: readonly [string, string][],
  headers: ReadonlyMap<string, readonly string[]>,
): string {
  const machine: [string, string][] = [
    ['Date', `${new Date().toISOString().slice(0, 16).replace('T', ' ')} UTC`],
    ['Processor', `${cpus()[0]?.model.trim() ?? 'unknown'}, ${cpus().length} cores`],
    ['Memory', `${(totalmem() / 2 ** 30).toFixed(1)} GiB`],
    ['System', `${osType()} ${release()}, Node ${process.version}`],
  ];
  return `# Benchmark results

Written by \`npm run bench\`. Each figure is the median of the rounds; in parentheses its ratio to
this service's figure. Every answer's status and body length was checked.

${renderTable(['', ''], [...machine, ...settings])}

![Requests a second](results.svg)

## Goals

${renderGoals(results, 'all')}

## Measurements

${[renderHeaders(headers), renderTables(results)].filter(Boolean).join('\n\n')}
`;
}

/** A number with three significant digits and thousands separators. */
export function significant(value: number): string {
  const options: Intl.NumberFormatOptions = {
    minimumSignificantDigits: 3,
    maximumSignificantDigits: 3,
  };
  return Math.abs(value) >= 1000
    ? Math.round(value).toLocaleString('en-US')
    : value.toLocaleString('en-US', options);
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(0)} MB`;
}

/** a / b, where both are known. */
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
