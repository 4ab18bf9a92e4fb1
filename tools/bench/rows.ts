import { join } from 'node:path';
import type { Bounds } from './statistics.js';

export const ROOT = join(import.meta.dirname, '../../..');

/** What is compared: a program, by default that of the name before the comma, and the requests that it gets. */
export interface Target {
  readonly title: string;
  /** The path of the built program, by default from `ROOT`. */
  script?: string;
  /** The variant of a baseline. */
  readonly mode?: string;
  /** Whether create requests have an Idempotency-Key each. */
  readonly hasKey?: boolean;
  /** Whether 300 other connections repeat create requests meanwhile. */
  readonly isRetried?: boolean;
}

const FASTIFY = 'build/tools/bench/baselines/fastify.js';

// prettier-ignore
export const TARGETS = {
  service: { title: 'this service', script: 'dist/main.js' },
  'service, key': { title: 'this service with an Idempotency-Key', hasKey: true },
  'service, retries': { title: 'this service with a key, while 300 clients retry', hasKey: true, isRetried: true },
  other: { title: 'the other checkout', script: '' },
  'other, key': { title: 'the other checkout with an Idempotency-Key', hasKey: true },
  'other, retries': { title: 'the other checkout with a key, while 300 clients retry', hasKey: true, isRetried: true },
  raw: { title: 'plain `node:http`', script: 'build/tools/bench/baselines/raw.js' },
  fastify: { title: 'Fastify + better-sqlite3', script: FASTIFY, mode: 'sqlite' },
  'fastify, cached': { title: 'Fastify with the same cache and batching', script: FASTIFY, mode: 'cached' },
  'fastify, pg': { title: 'Fastify + pg', script: FASTIFY, mode: 'pg' },
  nest: { title: 'stock NestJS with TypeORM and Swagger', script: 'build/tools/bench/baselines/nest.js' },
} satisfies Record<string, Target>;

export type TargetName = keyof typeof TARGETS;

/** What is measured, with its unit. */
// prettier-ignore
export const METRICS = {
  cpu: 'CPU µs/request', databaseCpu: 'PostgreSQL CPU µs/request', throughput: 'requests/s', p99: 'p99 ms',
  startup: 'first 200, ms', memory: 'idle memory, MB',
};

export type Metric = keyof typeof METRICS;

/** One work of several targets. */
export interface Row {
  readonly title: string;
  readonly work: 'list' | 'create' | 'startup';
  /** Rows of the same group share the starts of their servers. `--only` selects it. */
  readonly group: 'sqlite' | 'postgres' | 'others';
  /** What a sync of SQLite takes; by default, no time. */
  readonly sync?: '1 ms' | 'disk';
  /** The target whose values are divided by those of each rival. */
  readonly of: TargetName;
  readonly rivals: readonly TargetName[];
  /** What is compared, with the threshold of the ratio, if it has one. */
  readonly metrics: Partial<Record<Metric, Bounds>>;
  readonly categories: number;
  readonly connections: number;
  /** Whether the chart has a bar for it: a user feels it. */
  readonly isCharted?: true;
  /** Part of `--quick`. */
  readonly quick?: true;
}

const LIST = { work: 'list', connections: 64 } as const;
const CREATE = { work: 'create', connections: 64, categories: 0 } as const;
const SQLITE = { group: 'sqlite', of: 'service', rivals: ['fastify'] } as const;
const POSTGRES = { group: 'postgres', of: 'service', rivals: ['fastify, pg'] } as const;
const STARTUP = { work: 'startup', connections: 0, categories: 0 } as const;
/** A create request without an Idempotency-Key is at most 1.4 times as fast as one with it. */
// prettier-ignore
const KEYS = { of: 'service, key', rivals: ['service'], metrics: { throughput: { atLeast: 0.714 } } } as const;
/** The create requests of 20 clients keep at least a sixth of their throughput. */
// prettier-ignore
const RETRIES = { of: 'service, retries', rivals: ['service, key'], metrics: { throughput: { atLeast: 0.167 } }, connections: 20 } as const;

// prettier-ignore
export const ROWS: readonly Row[] = [
  { ...SQLITE, ...STARTUP, title: 'startup and idle memory', metrics: { startup: {}, memory: {} } },
  { ...SQLITE, ...LIST, title: 'list of 10', isCharted: true, categories: 10, metrics: { cpu: {}, throughput: { atLeast: 1.05 } }, quick: true },
  { ...SQLITE, ...LIST, title: 'list of 100', isCharted: true, categories: 100, metrics: { cpu: {}, throughput: { atLeast: 3 } } },
  { ...SQLITE, ...LIST, title: 'list of 1,000', isCharted: true, categories: 1000, metrics: { cpu: {}, throughput: { atLeast: 12 } }, quick: true },
  // The client is the limit, so that only the CPU time says something. More connections would leave more unread responses.
  { ...SQLITE, ...LIST, title: 'list of 10,000', isCharted: true, categories: 10_000, connections: 8, metrics: { cpu: { atMost: 0.05 } } },
  { ...SQLITE, ...CREATE, title: 'create, 64 connections, without syncs', metrics: { cpu: { atMost: 1.3 }, throughput: {} }, quick: true },
  { ...SQLITE, ...CREATE, title: 'create, 1 connection, without syncs', connections: 1, metrics: { cpu: {}, throughput: {} } },
  { ...SQLITE, ...CREATE, title: 'create, 64 connections, with a sync of 1 ms', sync: '1 ms', metrics: { cpu: {}, throughput: { atLeast: 10 } } },
  { ...SQLITE, ...CREATE, title: 'create, 1 connection, with a sync of 1 ms', sync: '1 ms', connections: 1, metrics: { cpu: {}, throughput: {} } },
  { ...SQLITE, ...CREATE, title: 'create, 64 connections, on the disk', isCharted: true, sync: 'disk', metrics: { cpu: {}, throughput: { atLeast: 1.5 } } },
  { ...SQLITE, ...CREATE, title: 'create, 1 connection, on the disk', isCharted: true, sync: 'disk', connections: 1, metrics: { cpu: {}, throughput: {} } },
  { ...POSTGRES, ...LIST, title: 'list of 100 on PostgreSQL', isCharted: true, categories: 100, metrics: { cpu: {}, databaseCpu: {}, throughput: { atLeast: 3 } } },
  { ...POSTGRES, ...CREATE, title: 'create, 64 connections, on PostgreSQL', isCharted: true, metrics: { cpu: {}, databaseCpu: {}, throughput: { atLeast: 1 }, p99: { atMost: 1 } }, quick: true },
  { ...POSTGRES, ...CREATE, title: 'create, 1 connection, on PostgreSQL', isCharted: true, connections: 1, metrics: { cpu: {}, databaseCpu: {}, throughput: {} } },
  { ...POSTGRES, ...CREATE, ...KEYS, title: 'create, 1 connection, with keys on PostgreSQL', connections: 1, metrics: { throughput: {} } },
  { ...POSTGRES, ...CREATE, ...RETRIES, title: 'create while 300 clients retry, on PostgreSQL' },
  { ...SQLITE, ...STARTUP, title: 'startup and idle memory of stock Nest', group: 'others', rivals: ['nest'], metrics: { startup: { atMost: 1.3 }, memory: { atMost: 1.15 } } },
  { ...SQLITE, ...LIST, title: 'list of 100 by other rivals', group: 'others', categories: 100, rivals: ['raw', 'fastify, cached', 'nest'], metrics: { cpu: {}, throughput: {} } },
  { ...SQLITE, ...CREATE, title: 'create, 64 connections, by other rivals', group: 'others', rivals: ['fastify, cached', 'nest'], metrics: { cpu: {}, throughput: {} } },
  { ...SQLITE, ...CREATE, ...KEYS, title: 'create, 64 connections, with keys', group: 'others' },
  { ...SQLITE, ...CREATE, ...KEYS, title: 'create, 1 connection, with keys', group: 'others', connections: 1 },
  { ...SQLITE, ...CREATE, ...RETRIES, title: 'create while 300 clients retry, on the disk', group: 'others', sync: 'disk' },
];

/** Returns the rows of the service with another checkout, which is built, and which may be slower by 5 %. */
export function compareWith(folder: string, rows: readonly Row[]): Row[] {
  TARGETS.other.script = `${folder}/dist/main.js`;
  return rows.map((row) => {
    const rivals = [row.of.replace('service', 'other') as TargetName];
    const metrics: Row['metrics'] = { ...row.metrics };
    for (const metric of Object.keys(metrics) as Metric[])
      metrics[metric] = metric === 'throughput' ? { atLeast: 0.95 } : { atMost: 1.05 };
    return { ...row, rivals, metrics };
  });
}
