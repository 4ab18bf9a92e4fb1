import type { TargetName } from './targets.js';

/** A benchmark scenario: the data, the requests and the targets they are sent to. */
export interface Scenario {
  readonly title: string;
  /** Defaults to SQLite. */
  readonly database?: 'postgres';
  /** Number of instances of the target that share the database and the connections; defaults to 1. */
  readonly instances?: number;
  /** Number of categories in the database before the load starts. */
  readonly categories: number;
  readonly connections: number;
  /** 0: only list requests; 1: only create requests; n: every nth request is a create request. */
  readonly writeInterval: number;
  /** Sends each create request with an Idempotency-Key of its own. */
  readonly idempotent?: boolean;
  /** Sends list requests with the current ETag, so that the expected response is 304. */
  readonly conditional?: boolean;
  /**
   * Ends the load after this number of responses instead of after a duration. In a mixed load the list
   * grows with every create request, so a fixed duration would penalise targets that create faster.
   */
  readonly requests?: number;
  readonly targets: readonly TargetName[];
  /** The targets measured with `--quick`. */
  readonly quickTargets: readonly TargetName[];
  /** Included in the chart. */
  readonly inChart?: boolean;
}

const LIST = { connections: 64, writeInterval: 0 } as const;
const CREATE = { categories: 0, writeInterval: 1 } as const;
const POSTGRES = {
  database: 'postgres',
  targets: ['service', 'fastify-pg'],
  quickTargets: [],
} as const;

/** All scenarios, keyed by the name passed to `--only`. */
export const SCENARIOS = {
  'list-10': {
    ...LIST,
    title: 'list of 10',
    categories: 10,
    targets: ['service', 'raw', 'fastify', 'nest'],
    quickTargets: ['service', 'fastify'],
    inChart: true,
  },
  'list-100': {
    ...LIST,
    title: 'list of 100',
    categories: 100,
    targets: ['service', 'raw', 'fastify', 'fastify-no-etag', 'nest'],
    quickTargets: ['service', 'raw', 'fastify', 'nest'],
    inChart: true,
  },
  'list-1000': {
    ...LIST,
    title: 'list of 1,000',
    categories: 1_000,
    targets: ['service', 'raw', 'fastify', 'nest'],
    quickTargets: ['service', 'fastify'],
    inChart: true,
  },
  'list-10000': {
    ...LIST,
    title: 'list of 10,000',
    categories: 10_000,
    // Without stock NestJS, which needs many seconds for 64 responses of this size.
    targets: ['service', 'raw', 'fastify'],
    quickTargets: [],
  },
  'list-20': {
    ...LIST,
    title: 'list of 20',
    categories: 20,
    targets: ['service'],
    quickTargets: [],
  },
  'page-20': {
    ...LIST,
    title: 'page of 20 out of 100,000',
    categories: 100_000,
    targets: ['service-page', 'service-later-page'],
    quickTargets: [],
  },
  'list-304': {
    ...LIST,
    title: 'list of 100, not modified (304)',
    categories: 100,
    conditional: true,
    inChart: true,
    targets: ['service', 'raw', 'fastify', 'nest'],
    quickTargets: ['service', 'fastify'],
  },
  'create-1': {
    ...CREATE,
    title: 'create, 1 connection',
    connections: 1,
    targets: ['service', 'fastify', 'nest'],
    quickTargets: ['service', 'fastify'],
  },
  'create-1-key': {
    ...CREATE,
    title: 'create with an Idempotency-Key, 1 connection',
    connections: 1,
    idempotent: true,
    targets: ['service'],
    quickTargets: [],
  },
  'create-16': {
    ...CREATE,
    title: 'create, 16 connections',
    connections: 16,
    targets: ['service', 'fastify', 'nest'],
    quickTargets: [],
  },
  'create-64': {
    ...CREATE,
    title: 'create, 64 connections',
    connections: 64,
    targets: ['service', 'fastify', 'nest'],
    quickTargets: ['service', 'fastify', 'nest'],
    inChart: true,
  },
  'create-64-key': {
    ...CREATE,
    title: 'create with an Idempotency-Key, 64 connections',
    connections: 64,
    idempotent: true,
    targets: ['service'],
    quickTargets: [],
  },
  mix: {
    title: '95% list of 1,000, 5% create',
    categories: 1_000,
    connections: 64,
    writeInterval: 20,
    requests: 6_000,
    targets: ['service', 'fastify'],
    quickTargets: ['service', 'fastify'],
    inChart: true,
  },
  'pg-list-100': {
    ...LIST,
    ...POSTGRES,
    title: 'PostgreSQL, list of 100',
    categories: 100,
    inChart: true,
  },
  'pg-list-100-two': {
    ...LIST,
    ...POSTGRES,
    title: 'PostgreSQL, list of 100, two instances',
    instances: 2,
    categories: 100,
  },
  'pg-create-64': {
    ...CREATE,
    ...POSTGRES,
    title: 'PostgreSQL, create, 64 connections',
    connections: 64,
    inChart: true,
  },
  'pg-create-64-key': {
    ...CREATE,
    ...POSTGRES,
    title: 'PostgreSQL, create with an Idempotency-Key, 64 connections',
    connections: 64,
    idempotent: true,
    targets: ['service'],
  },
  'pg-create-64-two': {
    ...CREATE,
    ...POSTGRES,
    title: 'PostgreSQL, create, 64 connections, two instances',
    instances: 2,
    connections: 64,
  },
} satisfies Record<string, Scenario>;

export type ScenarioName = keyof typeof SCENARIOS;
