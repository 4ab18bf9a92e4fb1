import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { findFreePort } from '../../test/support/postgres.js';
import { withAffinity } from './load.js';

/** The API key that every target accepts. */
export const API_KEY = 'bench_0123456789abcdefghijklmnopqrstuvwxyz';

/** A server program to benchmark. */
export interface Target {
  readonly title: string;
  /** Path of the compiled entry point. */
  readonly script: string;
  /** Returns the environment, except `PORT`, for a database URL (`sqlite:<file>` or `postgres://…`). */
  readonly env: (database: string) => Record<string, string>;
  /** The path of the list requests; defaults to that of the categories. */
  readonly path?: string;
  /** Responds to list requests with a page of this length; its database is seeded through the service. */
  readonly pageSize?: number;
  /** Serves only as the upper bound for list requests: it neither validates nor stores what is created. */
  readonly listOnly?: boolean;
}

const compiled = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** Defines a baseline that stores its data in a SQLite file. */
const baseline = (title: string, file: string, env: Record<string, string> = {}): Target => ({
  title,
  script: compiled(`./baselines/${file}.js`),
  env: (database) => ({ API_KEY, DATABASE_FILE: database.replace(/^sqlite:/, ''), ...env }),
});

/** Returns the environment of the service. */
const serviceEnv = (database: string): Record<string, string> => ({
  HOST: '127.0.0.1',
  DATABASE_URL: database,
  BOOTSTRAP_API_KEY: API_KEY,
  LOG_LEVEL: 'error',
});

/** Defines the service with a list in pages. */
const page = (title: string, query: string): Target => ({
  title,
  script: compiled('./pages.js'),
  env: serviceEnv,
  path: `/v1/category-pages?limit=20${query}`,
  pageSize: 20,
});

/** The service and the baselines, keyed by the name passed to `--target`. */
export const TARGETS = {
  service: {
    title: 'this service',
    script: compiled('../../../dist/main.js'),
    env: serviceEnv,
  },
  'service-page': page('first page', ''),
  'service-later-page': page('later page', '&after=50000'),
  raw: { ...baseline('raw node:http', 'raw'), listOnly: true },
  fastify: baseline('Fastify', 'fastify'),
  'fastify-no-etag': baseline('Fastify, no ETag', 'fastify', { ETAG: 'off' }),
  'fastify-pg': {
    title: 'Fastify and pg',
    script: compiled('./baselines/fastify-pg.js'),
    env: (database) => ({ API_KEY, DATABASE_URL: database }),
  },
  nest: baseline('stock NestJS', 'nest'),
} satisfies Record<string, Target>;

export type TargetName = keyof typeof TARGETS;

/** A running instance of a target. */
export interface RunningServer {
  readonly target: Target;
  readonly url: string;
  readonly pid: number;
  /** Milliseconds from spawning the process to its first 200 response to a list request. */
  readonly startupMs: number;
  /** Sends SIGTERM and waits for the process to exit. */
  stop(): Promise<void>;
}

const STARTUP_TIMEOUT_MS = 30_000;
const SHUTDOWN_TIMEOUT_MS = 15_000;
const children = new Set<ChildProcess>();
// No server may outlive the run, however the run ends.
process.on('exit', () => children.forEach((child) => child.kill('SIGKILL')));

/**
 * Starts a target with affinity to core 0 on a free port of 127.0.0.1 and waits until it responds to
 * list requests.
 * @param database URL of the database; an existing database is reused with its content
 * @throws {Error} if the process exits or does not respond within 30 seconds
 */
export async function startServer(target: Target, database: string): Promise<RunningServer> {
  const port = await findFreePort();
  const url = `http://127.0.0.1:${port}${target.path ?? '/v1/categories'}`;
  const [command, args] = withAffinity(0, process.execPath, [target.script]);
  const startedAt = performance.now();
  const child = spawn(command, args, {
    env: {
      PATH: process.env.PATH,
      NODE_ENV: 'production',
      PORT: String(port),
      ...target.env(database),
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  children.add(child);
  const exited = once(child, 'exit').finally(() => children.delete(child));
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => (errors = (errors + chunk.toString()).slice(-4000)));

  const stop = async (): Promise<void> => {
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), SHUTDOWN_TIMEOUT_MS);
    await exited;
    clearTimeout(timer);
  };

  while (!(await isListening(url))) {
    if (!children.has(child)) throw new Error(`${target.title} exited during startup: ${errors}`);
    if (performance.now() - startedAt > STARTUP_TIMEOUT_MS) {
      await stop();
      throw new Error(
        `${target.title} did not respond within ${STARTUP_TIMEOUT_MS} ms of startup: ${errors}`,
      );
    }
    await sleep(5);
  }
  const startupMs = performance.now() - startedAt;
  return { target, url, pid: child.pid ?? 0, startupMs, stop };
}

/**
 * Starts instances of a target on the same database, one after the other, all on core 0.
 * @param count number of instances
 */
export async function startServers(
  target: Target,
  database: string,
  count: number,
): Promise<RunningServer[]> {
  const instances: RunningServer[] = [];
  try {
    while (instances.length < count) instances.push(await startServer(target, database));
  } catch (error) {
    await stopServers(instances);
    throw error;
  }
  return instances;
}

/** Stops all instances in parallel and waits for them to exit. */
export async function stopServers(instances: readonly RunningServer[]): Promise<void> {
  await Promise.all(instances.map((instance) => instance.stop()));
}

async function isListening(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { headers: { Authorization: `Bearer ${API_KEY}` } });
    await response.arrayBuffer();
    return response.status === 200;
  } catch {
    return false;
  }
}

/**
 * Reads the CPU time in microseconds (user and system) that a process has used, including its threads
 * and its children that have exited. Linux only (proc(5)); returns undefined on other systems.
 */
export function readCpu(pid: number): number | undefined {
  const file = `/proc/${pid}/stat`;
  if (!existsSync(file)) return undefined;
  // The program name is in parentheses and may contain spaces; utime, stime, cutime and cstime are
  // fields 14 to 17.
  const fields = readFileSync(file, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  // In clock ticks, which Linux reports as hundredths of a second.
  return fields.slice(11, 15).reduce((ticks, field) => ticks + Number(field), 0) * 10_000;
}

/**
 * Reads the memory of a process in bytes, current (`VmRSS`) or peak (`VmHWM`). Linux only (proc(5));
 * returns undefined on other systems.
 */
export function readMemory(pid: number, field: 'VmRSS' | 'VmHWM'): number | undefined {
  const file = `/proc/${pid}/status`;
  if (!existsSync(file)) return undefined;
  const kibibytes = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(
    readFileSync(file, 'utf8'),
  )?.[1];
  return kibibytes === undefined ? undefined : Number(kibibytes) * 1024;
}
