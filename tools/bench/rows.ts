import type { Storage } from './databases.js';

/** What is compared: a program, with its path once built, and the requests that it gets. */
export interface Target {
  readonly title: string;
  script: string;
  /** The variant of a baseline; `list` stores nothing, and responds with so many categories as `list`. */
  readonly mode?: string;
  readonly list?: number;
  /** The target whose process it shares. */
  readonly process?: string;
  /** Whether create requests have an Idempotency-Key each. */
  readonly hasKey?: boolean;
  /** Whether 300 connections repeat create requests meanwhile. */
  readonly isRetried?: boolean;
}

const FASTIFY = { script: 'build/tools/bench/baselines/fastify.js' };
const NEST = { script: 'build/tools/bench/baselines/nest.js' };

/** The targets of a checkout: alone, with a key each, and while others retry. */
const keyed = (process: string) => ({ script: '', process, hasKey: true });
const retried = (process: string) => ({ script: '', process, isRetried: true });

// prettier-ignore
export const TARGETS = {
  service: { title: 'this service', script: 'dist/main.js' },
  'service, key': { title: 'this service, with an Idempotency-Key', ...keyed('service') },
  'service, retries': { title: 'this service, while 300 clients retry', ...retried('service') },
  other: { title: 'the other checkout', script: '' },
  'other, key': { title: 'the other checkout, with an Idempotency-Key', ...keyed('other') },
  'other, retries': { title: 'the other checkout, while 300 clients retry', ...retried('other') },
  raw: { title: 'raw `node:http`', script: 'build/tools/bench/baselines/raw.js', mode: 'list', list: 100 },
  fastify: { ...FASTIFY, title: 'Fastify + better-sqlite3', mode: 'sqlite' },
  'fastify, cached': { ...FASTIFY, title: 'Fastify, same cache and batching', mode: 'cached' },
  'fastify, pg': { ...FASTIFY, title: 'Fastify + pg', mode: 'pg' },
  'nest, list of 10': { ...NEST, title: 'minimal Nest', mode: 'list', list: 10 },
  'nest, list of 100': { ...NEST, title: 'minimal Nest', mode: 'list', list: 100 },
  'nest, batching': { ...NEST, title: 'minimal Nest, batching', mode: 'batch' },
  'stock Nest': { ...NEST, title: 'stock Nest with TypeORM and Swagger', mode: 'stock' },
} satisfies Record<string, Target>;

export type TargetName = keyof typeof TARGETS;

/** What is measured, with its unit. */
// prettier-ignore
export const METRICS = {
  cpu: 'CPU µs/request', databaseCpu: 'PostgreSQL CPU µs/request', throughput: 'requests/s', p99: 'p99 ms',
  startup: 'first 200, ms', memory: 'idle memory, MB',
};

export type Metric = keyof typeof METRICS;

/** A bound for the ratio of a target's value, by default the service's, to that of another one. */
export interface Threshold {
  readonly of?: TargetName;
  readonly metric: Metric;
  readonly against: TargetName;
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** One work of several targets. Rows with the same storage share the starts of their servers. */
export interface Row {
  readonly title: string;
  readonly work: 'list' | 'create' | 'retries' | 'startup';
  readonly storage: Storage;
  /** Whether a sync takes 1 ms. */
  readonly isSlow?: true;
  /** Neighbours are measured one after the other: the service is beside its main rival. */
  readonly targets: readonly TargetName[];
  readonly metrics: readonly Metric[];
  readonly thresholds: readonly Threshold[];
  readonly categories: number;
  readonly connections: number;
  /** Part of `--quick`. */
  readonly quick?: true;
}

const SPEED = ['cpu', 'throughput'] as const;
const LIST = { work: 'list', storage: 'tmpfs', metrics: SPEED, connections: 64 } as const;
const CREATE = { work: 'create', metrics: SPEED, categories: 0 } as const;
const POSTGRES = { storage: 'postgres', metrics: ['cpu', 'databaseCpu', 'throughput'] } as const;
/** 20 clients create, of which half have keys. The slower half keeps at least a sixth of its throughput. */
const RETRIES = {
  work: 'retries',
  metrics: ['throughput'],
  categories: 0,
  connections: 20,
  targets: ['service', 'service, retries'],
  thresholds: [
    { of: 'service, retries', metric: 'throughput', against: 'service', atLeast: 0.167 },
  ],
} as const;
/** A create request without an Idempotency-Key is at most 1.4 times as fast as one with it. */
const WITHOUT_KEY = { metric: 'throughput', against: 'service, key', atMost: 1.4 } as const;

// prettier-ignore
export const ROWS: readonly Row[] = [
  { title: 'startup and idle memory', work: 'startup', storage: 'tmpfs', connections: 0, categories: 0, metrics: ['startup', 'memory'],
    targets: ['fastify', 'service', 'stock Nest'],
    thresholds: [{ metric: 'startup', against: 'stock Nest', atMost: 1.3 }, { metric: 'memory', against: 'stock Nest', atMost: 1.15 }] },
  { ...LIST, title: 'list of 10', categories: 10, quick: true, targets: ['fastify', 'service', 'nest, list of 10'],
    thresholds: [{ metric: 'throughput', against: 'fastify', atLeast: 1.05 }, { metric: 'cpu', against: 'nest, list of 10', atMost: 1.2 }] },
  { ...LIST, title: 'list of 100', categories: 100,
    targets: ['fastify', 'service', 'fastify, cached', 'nest, list of 100', 'raw', 'stock Nest'],
    thresholds: [{ metric: 'throughput', against: 'fastify', atLeast: 3 }, { metric: 'cpu', against: 'nest, list of 100', atMost: 1.2 }] },
  { ...LIST, title: 'list of 1,000', categories: 1000, quick: true, targets: ['fastify', 'service'],
    thresholds: [{ metric: 'throughput', against: 'fastify', atLeast: 12 }] },
  // The client is the limit, so that only the CPU time says something. More connections would leave more unread responses.
  { ...LIST, title: 'list of 10,000', categories: 10_000, connections: 8, metrics: ['cpu'], targets: ['fastify', 'service'],
    thresholds: [{ metric: 'cpu', against: 'fastify', atMost: 0.05 }] },
  { ...CREATE, title: 'create, 64 connections, on tmpfs', connections: 64, storage: 'tmpfs', quick: true,
    targets: ['fastify', 'service', 'service, key', 'fastify, cached', 'nest, batching', 'stock Nest'],
    thresholds: [{ metric: 'cpu', against: 'fastify', atMost: 1.3 }, { metric: 'cpu', against: 'nest, batching', atMost: 1.3 }, WITHOUT_KEY] },
  { ...CREATE, title: 'create, 1 connection, on tmpfs', connections: 1, storage: 'tmpfs', targets: ['fastify', 'service', 'service, key'],
    thresholds: [WITHOUT_KEY] },
  { ...CREATE, title: 'create, 64 connections, with a sync of 1 ms', connections: 64, storage: 'tmpfs', isSlow: true, targets: ['fastify', 'service'],
    thresholds: [{ metric: 'throughput', against: 'fastify', atLeast: 10 }] },
  { ...CREATE, title: 'create, 1 connection, with a sync of 1 ms', connections: 1, storage: 'tmpfs', isSlow: true, targets: ['fastify', 'service'],
    thresholds: [] },
  { ...CREATE, title: 'create, 64 connections, on the disk', connections: 64, storage: 'disk', targets: ['fastify', 'service'],
    thresholds: [{ metric: 'throughput', against: 'fastify', atLeast: 1.5 }] },
  { ...CREATE, title: 'create, 1 connection, on the disk', connections: 1, storage: 'disk', targets: ['fastify', 'service'], thresholds: [] },
  { ...RETRIES, title: 'create while 300 clients retry, on the disk', storage: 'disk' },
  { ...LIST, ...POSTGRES, title: 'list of 100, on PostgreSQL', categories: 100, targets: ['fastify, pg', 'service'],
    thresholds: [{ metric: 'throughput', against: 'fastify, pg', atLeast: 3 }] },
  { ...CREATE, ...POSTGRES, title: 'create, 64 connections, on PostgreSQL', connections: 64, quick: true,
    targets: ['fastify, pg', 'service', 'service, key'],
    thresholds: [{ metric: 'throughput', against: 'fastify, pg', atLeast: 1 }, { metric: 'p99', against: 'fastify, pg', atMost: 1 }] },
  { ...CREATE, ...POSTGRES, title: 'create, 1 connection, on PostgreSQL', connections: 1,
    targets: ['fastify, pg', 'service', 'service, key'],
    thresholds: [{ metric: 'databaseCpu', against: 'fastify, pg', atMost: 1.45 }, WITHOUT_KEY] },
  { ...RETRIES, title: 'create while 300 clients retry, on PostgreSQL', storage: 'postgres' },
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
