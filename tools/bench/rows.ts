import type { Storage } from './databases.js';

/** A program: its path once built, the variant of a baseline (`list` stores nothing), and how many processes run. */
export interface Target {
  readonly title: string;
  readonly script: string;
  readonly nodeArgs?: readonly string[];
  readonly mode?: string;
  readonly instances?: number;
  /** Whether create requests have an Idempotency-Key each. */
  readonly hasKey?: boolean;
  /** Whether 300 connections repeat create requests meanwhile. */
  readonly isRetried?: boolean;
}

const SERVICE = { title: 'this service', script: 'dist/main.js' };
const FASTIFY = { script: 'build/tools/bench/baselines/fastify.js' };
const NEST = { script: 'build/tools/bench/baselines/nest.js' };

// prettier-ignore
export const TARGETS = {
  service: SERVICE,
  'service, key': { ...SERVICE, title: 'this service, with an Idempotency-Key', hasKey: true },
  'service, retries': { ...SERVICE, title: 'this service, while 300 clients retry', isRetried: true },
  'service, two': { ...SERVICE, title: 'this service, two processes', instances: 2 },
  raw: { title: 'raw `node:http`', script: 'build/tools/bench/baselines/raw.js', mode: 'list' },
  fastify: { ...FASTIFY, title: 'Fastify + better-sqlite3', mode: 'sqlite' },
  'fastify, cached': { ...FASTIFY, title: 'Fastify, same cache and batching', mode: 'cached' },
  'fastify, pg': { ...FASTIFY, title: 'Fastify + pg', mode: 'pg' },
  'nest, list': { ...NEST, title: 'minimal Nest', mode: 'list' },
  'nest, at once': { ...NEST, title: 'minimal Nest, inserting at once', mode: 'insert' },
  'nest, batching': { ...NEST, title: 'minimal Nest, batching', mode: 'batch' },
  'stock Nest': { ...NEST, title: 'stock Nest with TypeORM and Swagger', mode: 'stock' },
} satisfies Record<string, Target>;

export type TargetName = keyof typeof TARGETS;

/** What is measured, with its unit. */
// prettier-ignore
export const METRICS = {
  throughput: 'requests/s', p50: 'p50 ms', p99: 'p99 ms', cpu: 'CPU µs/request',
  databaseCpu: 'PostgreSQL CPU µs/request', startup: 'first 200, ms', memory: 'idle memory, MB',
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

/** One comparison: the same work by several targets, with seeded categories, at the highest or at a fixed rate. */
export interface Row {
  readonly title: string;
  readonly work: 'list' | 'create' | 'retries' | 'startup';
  readonly storage: Storage;
  readonly targets: readonly TargetName[];
  readonly thresholds: readonly Threshold[];
  readonly categories: number;
  readonly connections: number;
  /** Requests per second. */
  readonly rate?: number;
  /** Part of `--quick`. */
  readonly quick?: true;
}

const LIST = { work: 'list', storage: 'disk', connections: 64 } as const;
/** 20 clients create, of which half have keys. The slower half keeps at least a sixth of its throughput. */
const RETRIES = {
  work: 'retries',
  categories: 0,
  connections: 20,
  targets: ['service', 'service, retries'],
  thresholds: [
    { of: 'service, retries', metric: 'throughput', against: 'service', atLeast: 0.167 },
  ],
} as const;
const CREATE = { work: 'create', connections: 64, categories: 0 } as const;
/** A create request without an Idempotency-Key is at most 1.4 times as fast as one with it. */
const WITHOUT_KEY = { metric: 'throughput', against: 'service, key', atMost: 1.4 } as const;

// prettier-ignore
export const ROWS: readonly Row[] = [
  { ...LIST, title: 'list of 10', categories: 10, quick: true,
    targets: ['service', 'raw', 'fastify', 'fastify, cached', 'nest, list'],
    thresholds: [{ metric: 'throughput', against: 'fastify', atLeast: 1.05 }, { metric: 'cpu', against: 'nest, list', atMost: 1.2 }] },
  { ...LIST, title: 'list of 100', categories: 100,
    targets: ['service', 'raw', 'fastify', 'fastify, cached', 'nest, list', 'stock Nest'],
    thresholds: [{ metric: 'throughput', against: 'fastify', atLeast: 3 }, { metric: 'cpu', against: 'nest, list', atMost: 1.2 }] },
  { ...LIST, title: 'list of 1,000', categories: 1000, quick: true,
    targets: ['service', 'fastify', 'fastify, cached'], thresholds: [{ metric: 'throughput', against: 'fastify', atLeast: 12 }] },
  { ...LIST, title: 'list of 10,000', categories: 10_000,
    targets: ['service', 'fastify'], thresholds: [{ metric: 'throughput', against: 'fastify', atLeast: 20 }] },
  { ...LIST, title: 'list of 10, 2,000 requests a second', categories: 10, connections: 16, rate: 2000,
    targets: ['service', 'raw', 'fastify', 'nest, list'], thresholds: [] },
  { ...CREATE, title: 'create, 64 connections, tmpfs', storage: 'tmpfs', quick: true,
    targets: ['service', 'service, key', 'fastify', 'fastify, cached', 'nest, batching'],
    thresholds: [{ metric: 'cpu', against: 'fastify', atMost: 1.3 }, { metric: 'cpu', against: 'nest, batching', atMost: 1.3 }, WITHOUT_KEY] },
  { ...CREATE, title: 'create, 1 connection, tmpfs', connections: 1, storage: 'tmpfs', quick: true,
    targets: ['service', 'service, key', 'fastify', 'nest, at once'],
    thresholds: [WITHOUT_KEY] },
  { ...CREATE, title: 'create, 64 connections, the disk as it is', storage: 'disk',
    targets: ['service', 'service, two', 'fastify', 'fastify, cached', 'nest, batching'],
    thresholds: [{ metric: 'throughput', against: 'fastify', atLeast: 1.5 }] },
  { ...CREATE, title: 'create, 64 connections, a sync of 1 ms', storage: 'slow sync',
    targets: ['service', 'fastify', 'fastify, cached'], thresholds: [{ metric: 'throughput', against: 'fastify', atLeast: 10 }] },
  { ...CREATE, title: 'PostgreSQL, create, 64 connections', storage: 'postgres', quick: true,
    targets: ['service', 'service, two', 'service, key', 'fastify, pg'],
    thresholds: [
      { metric: 'throughput', against: 'fastify, pg', atLeast: 1 }, { metric: 'p99', against: 'fastify, pg', atMost: 1 },
      { of: 'service, two', metric: 'throughput', against: 'fastify, pg', atLeast: 1 },
      { of: 'service, two', metric: 'p99', against: 'fastify, pg', atMost: 1 },
    ] },
  { ...CREATE, title: 'PostgreSQL, create, 1 connection', connections: 1, storage: 'postgres',
    targets: ['service', 'service, key', 'fastify, pg'],
    thresholds: [{ metric: 'databaseCpu', against: 'fastify, pg', atMost: 1.45 }, WITHOUT_KEY] },
  { ...LIST, title: 'PostgreSQL, list of 100', storage: 'postgres', categories: 100,
    targets: ['service', 'fastify, pg'], thresholds: [{ metric: 'throughput', against: 'fastify, pg', atLeast: 3 }] },
  { ...RETRIES, title: 'SQLite, create while 300 clients retry', storage: 'disk' },
  { ...RETRIES, title: 'PostgreSQL, create while 300 clients retry', storage: 'postgres' },
  { work: 'startup', title: 'startup and idle memory', storage: 'disk', connections: 0, categories: 0, quick: true,
    targets: ['service', 'raw', 'fastify', 'stock Nest'],
    thresholds: [{ metric: 'startup', against: 'stock Nest', atMost: 1.3 }, { metric: 'memory', against: 'stock Nest', atMost: 1.15 }] },
];
