/** What is compared: a program, with its path once built, and the requests that it gets. */
export interface Target {
  readonly title: string;
  script: string;
  /** The variant of a baseline. */
  readonly mode?: string;
  /** The target whose process it shares. */
  readonly process?: string;
  /** Whether create requests have an Idempotency-Key each. */
  readonly hasKey?: boolean;
  /** Whether 300 other connections repeat create requests meanwhile. */
  readonly isRetried?: boolean;
}

const FASTIFY = 'build/tools/bench/baselines/fastify.js';
const NEST = 'build/tools/bench/baselines/nest.js';

// prettier-ignore
export const TARGETS = {
  service: { title: 'this service', script: 'dist/main.js' },
  'service, key': { title: 'this service with an Idempotency-Key', script: '', process: 'service', hasKey: true },
  'service, retries': { title: 'the same while 300 clients retry', script: '', process: 'service', hasKey: true, isRetried: true },
  other: { title: 'the other checkout', script: '' },
  'other, key': { title: 'the other checkout with an Idempotency-Key', script: '', process: 'other', hasKey: true },
  'other, retries': { title: 'the same while 300 clients retry', script: '', process: 'other', hasKey: true, isRetried: true },
  raw: { title: 'plain `node:http`', script: 'build/tools/bench/baselines/raw.js' },
  fastify: { title: 'Fastify + better-sqlite3', script: FASTIFY, mode: 'sqlite' },
  'fastify, cached': { title: 'Fastify with the same cache and batching', script: FASTIFY, mode: 'cached' },
  'fastify, pg': { title: 'Fastify + pg', script: FASTIFY, mode: 'pg' },
  nest: { title: 'stock NestJS with TypeORM and Swagger', script: NEST },
} satisfies Record<string, Target>;

export type TargetName = keyof typeof TARGETS;

/** Checks whether a target is this service, or another checkout of it. */
export const isService = (name: TargetName): boolean => /^(service|other)/.test(name);

/** What is measured, with its unit. */
// prettier-ignore
export const METRICS = {
  cpu: 'CPU µs/request', databaseCpu: 'PostgreSQL CPU µs/request', throughput: 'requests/s', p99: 'p99 ms',
  startup: 'first 200, ms', memory: 'idle memory, MB',
};

export type Metric = keyof typeof METRICS;

/** A comparison of a target's value, by default the service's, with that of another one, and the bounds of the ratio. */
export interface Comparison {
  readonly of?: TargetName;
  readonly metric: Metric;
  readonly against: TargetName;
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** One work of several targets. */
export interface Row {
  readonly title: string;
  readonly work: 'list' | 'create' | 'startup';
  /** Rows of the same group share the starts of their servers. `--only` selects it. */
  readonly group: 'sqlite' | 'sqlite others' | 'postgres' | 'postgres others';
  /** What a sync of SQLite takes; by default, no time. */
  readonly sync?: '1 ms' | 'disk';
  readonly targets: readonly TargetName[];
  readonly metrics: readonly Metric[];
  readonly thresholds: readonly Comparison[];
  readonly categories: number;
  readonly connections: number;
  /** Part of `--quick`. */
  readonly quick?: true;
}

const LIST = { work: 'list', connections: 64 } as const;
const CREATE = { work: 'create', connections: 64, categories: 0 } as const;
// prettier-ignore
const SQLITE = { group: 'sqlite', targets: ['fastify', 'service'], metrics: ['cpu', 'throughput'], thresholds: [] } as const;
// prettier-ignore
const POSTGRES = { group: 'postgres', targets: ['fastify, pg', 'service'], metrics: ['cpu', 'databaseCpu', 'throughput'] } as const;
// prettier-ignore
const STARTUP = { work: 'startup', metrics: ['startup', 'memory'], connections: 0, categories: 0 } as const;
/** A create request without an Idempotency-Key is at most 1.4 times as fast as one with it. */
// prettier-ignore
const KEYS = { targets: ['service', 'service, key'], thresholds: [{ metric: 'throughput', against: 'service, key', atMost: 1.4 }] } as const;
/** The create requests of 20 clients keep at least a sixth of their throughput. */
// prettier-ignore
const RETRIES = {
  metrics: ['throughput'], connections: 20, targets: ['service, key', 'service, retries'],
  thresholds: [{ of: 'service, retries', metric: 'throughput', against: 'service, key', atLeast: 0.167 }],
} as const;

// prettier-ignore
export const ROWS: readonly Row[] = [
  { ...SQLITE, ...STARTUP, title: 'startup and idle memory' },
  { ...SQLITE, ...LIST, title: 'list of 10', categories: 10, quick: true, thresholds: [{ metric: 'throughput', against: 'fastify', atLeast: 1.05 }] },
  { ...SQLITE, ...LIST, title: 'list of 100', categories: 100, thresholds: [{ metric: 'throughput', against: 'fastify', atLeast: 3 }] },
  { ...SQLITE, ...LIST, title: 'list of 1,000', categories: 1000, quick: true, thresholds: [{ metric: 'throughput', against: 'fastify', atLeast: 12 }] },
  // The client is the limit, so that only the CPU time says something. More connections would leave more unread responses.
  { ...SQLITE, ...LIST, title: 'list of 10,000', categories: 10_000, connections: 8, metrics: ['cpu'], thresholds: [{ metric: 'cpu', against: 'fastify', atMost: 0.05 }] },
  { ...SQLITE, ...CREATE, title: 'create, 64 connections, without syncs', quick: true, thresholds: [{ metric: 'cpu', against: 'fastify', atMost: 1.3 }] },
  { ...SQLITE, ...CREATE, title: 'create, 1 connection, without syncs', connections: 1 },
  { ...SQLITE, ...CREATE, title: 'create, 64 connections, with a sync of 1 ms', sync: '1 ms', thresholds: [{ metric: 'throughput', against: 'fastify', atLeast: 10 }] },
  { ...SQLITE, ...CREATE, title: 'create, 1 connection, with a sync of 1 ms', sync: '1 ms', connections: 1 },
  { ...SQLITE, ...CREATE, title: 'create, 64 connections, on the disk', sync: 'disk', thresholds: [{ metric: 'throughput', against: 'fastify', atLeast: 1.5 }] },
  { ...SQLITE, ...CREATE, title: 'create, 1 connection, on the disk', sync: 'disk', connections: 1 },
  { ...POSTGRES, ...LIST, title: 'list of 100 on PostgreSQL', categories: 100, thresholds: [{ metric: 'throughput', against: 'fastify, pg', atLeast: 3 }] },
  { ...POSTGRES, ...CREATE, title: 'create, 64 connections, on PostgreSQL', quick: true,
    thresholds: [{ metric: 'throughput', against: 'fastify, pg', atLeast: 1 }, { metric: 'p99', against: 'fastify, pg', atMost: 1 }] },
  { ...POSTGRES, ...CREATE, title: 'create, 1 connection, on PostgreSQL', connections: 1, thresholds: [{ metric: 'databaseCpu', against: 'fastify, pg', atMost: 1.45 }] },
  { ...SQLITE, ...STARTUP, title: 'startup and idle memory of stock Nest', group: 'sqlite others', targets: ['nest', 'service'],
    thresholds: [{ metric: 'startup', against: 'nest', atMost: 1.3 }, { metric: 'memory', against: 'nest', atMost: 1.15 }] },
  { ...SQLITE, ...LIST, title: 'list of 100 by other rivals', group: 'sqlite others', categories: 100, targets: ['fastify, cached', 'service', 'nest', 'raw'] },
  { ...SQLITE, ...CREATE, title: 'create, 64 connections, by other rivals', group: 'sqlite others', targets: ['fastify, cached', 'service', 'nest'] },
  { ...SQLITE, ...CREATE, ...KEYS, title: 'create, 64 connections, with keys', group: 'sqlite others' },
  { ...SQLITE, ...CREATE, ...KEYS, title: 'create, 1 connection, with keys', group: 'sqlite others', connections: 1 },
  { ...SQLITE, ...CREATE, ...RETRIES, title: 'create while 300 clients retry, on the disk', group: 'sqlite others', sync: 'disk' },
  { ...POSTGRES, ...CREATE, ...KEYS, title: 'create, 1 connection, with keys on PostgreSQL', group: 'postgres others', connections: 1 },
  { ...POSTGRES, ...CREATE, ...RETRIES, title: 'create while 300 clients retry, on PostgreSQL', group: 'postgres others' },
];

/** Returns the rows with the service and another checkout, which may be slower by 5 %. @param script its entry point */
export function compareWith(script: string, rows: readonly Row[]): Row[] {
  TARGETS.other.script = script;
  return rows.map((row) => {
    const own = row.targets.filter((name) => name.startsWith('service'));
    const pairs = own.map((of) => ({ of, against: of.replace('service', 'other') as TargetName }));
    const thresholds = pairs.flatMap((pair) =>
      row.metrics.map((metric) => {
        const bound = metric === 'throughput' ? { atLeast: 0.95 } : { atMost: 1.05 };
        return { ...pair, metric, ...bound };
      }),
    );
    return { ...row, targets: pairs.flatMap(({ of, against }) => [of, against]), thresholds };
  });
}
