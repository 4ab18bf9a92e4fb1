import type { TargetName } from './targets.js';

/** What is asked of a server, and which servers are asked. */
export interface Scenario {
  readonly title: string;
  /** SQLite where it is not given. */
  readonly database?: 'postgres';
  /** How many instances of the server share the database and the connections; 1 where it is not given. */
  readonly instances?: number;
  /** Categories that are there before. */
  readonly categories: number;
  readonly connections: number;
  /** 0: lists alone; 1: creates alone; n: every nth request is a create. */
  readonly writeInterval: number;
  /** Lists are asked for with the ETag of the list, and answered with 304. */
  readonly conditional?: boolean;
  /**
   * Ends after that many answers instead of a time: where lists and creates mix, a server that
   * creates faster would otherwise have to send longer lists than the others.
   */
  readonly requests?: number;
  readonly servers: readonly TargetName[];
  /** The servers of a quick run. */
  readonly quick: readonly TargetName[];
  /** Shown in the chart. */
  readonly inChart?: boolean;
}

const LIST = { connections: 64, writeInterval: 0 } as const;
const CREATE = { categories: 0, writeInterval: 1 } as const;
const POSTGRES = { database: 'postgres', servers: ['service', 'fastify-pg'], quick: [] } as const;

/** The work, by the names that `--only` takes. */
export const SCENARIOS = {
  'list-10': {
    ...LIST,
    title: 'list of 10',
    categories: 10,
    servers: ['service', 'raw', 'fastify', 'express', 'nest'],
    quick: ['service', 'fastify'],
    inChart: true,
  },
  'list-100': {
    ...LIST,
    title: 'list of 100',
    categories: 100,
    servers: ['service', 'raw', 'fastify', 'fastify-no-etag', 'express', 'nest'],
    quick: ['service', 'raw', 'fastify', 'express', 'nest'],
    inChart: true,
  },
  'list-1000': {
    ...LIST,
    title: 'list of 1,000',
    categories: 1_000,
    servers: ['service', 'raw', 'fastify', 'express', 'nest'],
    quick: ['service', 'fastify'],
    inChart: true,
  },
  'list-10000': {
    ...LIST,
    title: 'list of 10,000',
    categories: 10_000,
    // The starter needs many seconds for one round of 64 answers.
    servers: ['service', 'raw', 'fastify', 'express'],
    quick: [],
  },
  'list-304': {
    ...LIST,
    title: 'list of 100, not modified (304)',
    categories: 100,
    conditional: true,
    inChart: true,
    servers: ['service', 'raw', 'fastify', 'express', 'nest'],
    quick: ['service', 'fastify'],
  },
  'create-1': {
    ...CREATE,
    title: 'create, 1 connection',
    connections: 1,
    servers: ['service', 'fastify', 'express', 'nest'],
    quick: ['service', 'fastify'],
  },
  'create-16': {
    ...CREATE,
    title: 'create, 16 connections',
    connections: 16,
    servers: ['service', 'fastify', 'express', 'nest'],
    quick: [],
  },
  'create-64': {
    ...CREATE,
    title: 'create, 64 connections',
    connections: 64,
    servers: ['service', 'fastify', 'fastify-normal', 'express', 'nest'],
    quick: ['service', 'fastify', 'fastify-normal', 'nest'],
    inChart: true,
  },
  mix: {
    title: '95 % list of 1,000, 5 % create',
    categories: 1_000,
    connections: 64,
    writeInterval: 20,
    requests: 6_000,
    servers: ['service', 'fastify', 'express'],
    quick: ['service', 'fastify'],
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
  'pg-create-64-two': {
    ...CREATE,
    ...POSTGRES,
    title: 'PostgreSQL, create, 64 connections, two instances',
    instances: 2,
    connections: 64,
  },
} satisfies Record<string, Scenario>;

export type ScenarioName = keyof typeof SCENARIOS;
