import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { pinned } from './load.js';

/** The API key of every server that is measured. */
export const API_KEY = 'bench_0123456789abcdefghijklmnopqrstuvwxyz';

/** A program that is measured. */
export interface Target {
  readonly title: string;
  /** The compiled program. */
  readonly script: string;
  /** Its environment besides `PORT`, given the URL of its database: `sqlite:<file>` or `postgres://…`. */
  readonly env: (database: string) => Record<string, string>;
  /** It is no more than the limit of the list: no durable creates, no validation. */
  readonly listOnly?: boolean;
}

const compiled = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** A peer that keeps its data in a SQLite file. */
const baseline = (title: string, file: string, env: Record<string, string> = {}): Target => ({
  title,
  script: compiled(`./baselines/${file}.js`),
  env: (database) => ({ API_KEY, DATABASE_FILE: database.replace(/^sqlite:/, ''), ...env }),
});

/** The service and its peers, by the names that `--server` takes. */
export const TARGETS = {
  service: {
    title: 'this service',
    script: compiled('../src/main.js'),
    env: (database) => ({
      HOST: '127.0.0.1',
      DATABASE_URL: database,
      BOOTSTRAP_API_KEY: API_KEY,
      LOG_LEVEL: 'error',
    }),
  },
  raw: { ...baseline('raw node:http', 'raw'), listOnly: true },
  fastify: baseline('Fastify', 'fastify'),
  'fastify-no-etag': baseline('Fastify, no ETag', 'fastify', { ETAG: 'off' }),
  'fastify-normal': baseline('Fastify, NORMAL', 'fastify', { SYNCHRONOUS: 'NORMAL' }),
  'fastify-pg': {
    title: 'Fastify and pg',
    script: compiled('./baselines/fastify-pg.js'),
    env: (database) => ({ API_KEY, DATABASE_URL: database }),
  },
  express: baseline('Express', 'express'),
  nest: baseline('stock NestJS', 'nest'),
} satisfies Record<string, Target>;

export type TargetName = keyof typeof TARGETS;

/** A server that runs. */
export interface RunningServer {
  readonly server: Target;
  readonly url: string;
  readonly pid: number;
  /** Milliseconds from its start to the first list that was answered with 200. */
  readonly startMilliseconds: number;
  /** Ends it with SIGTERM and waits until it is gone. */
  stop(): Promise<void>;
}

const START_LIMIT = 30_000;
const STOP_LIMIT = 15_000;
const children = new Set<ChildProcess>();
// Whatever ends the run, no server outlives it.
process.on('exit', () => children.forEach((child) => child.kill('SIGKILL')));

/**
 * Starts a server, pinned to core 0, on a free port of 127.0.0.1 and waits until it lists.
 * @param database the URL of its database; one that was used before is taken over
 */
export async function startServer(server: Target, database: string): Promise<RunningServer> {
  const port = await findFreePort();
  const url = `http://127.0.0.1:${port}/v1/categories`;
  const [command, args] = pinned(0, process.execPath, [server.script]);
  const startedAt = performance.now();
  const child = spawn(command, args, {
    env: {
      PATH: process.env.PATH,
      NODE_ENV: 'production',
      PORT: String(port),
      ...server.env(database),
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  children.add(child);
  const exited = once(child, 'exit').finally(() => children.delete(child));
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => (errors = (errors + chunk.toString()).slice(-4000)));

  const stop = async (): Promise<void> => {
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT);
    await exited;
    clearTimeout(timer);
  };

  while (!(await answers(url))) {
    if (!children.has(child)) throw new Error(`${server.title} ended at its start: ${errors}`);
    if (performance.now() - startedAt > START_LIMIT) {
      await stop();
      throw new Error(`${server.title} did not list within ${START_LIMIT} ms: ${errors}`);
    }
    await sleep(5);
  }
  const startMilliseconds = performance.now() - startedAt;
  return { server, url, pid: child.pid ?? 0, startMilliseconds, stop };
}

/**
 * Starts instances of a server one after the other on the same database.
 * @param count how many; all on core 0
 */
export async function startServers(
  server: Target,
  database: string,
  count: number,
): Promise<RunningServer[]> {
  const instances: RunningServer[] = [];
  try {
    while (instances.length < count) instances.push(await startServer(server, database));
  } catch (error) {
    await stopServers(instances);
    throw error;
  }
  return instances;
}

/** Stops them all at once, and waits until they are gone. */
export async function stopServers(instances: readonly RunningServer[]): Promise<void> {
  await Promise.all(instances.map((instance) => instance.stop()));
}

async function answers(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { headers: { Authorization: `Bearer ${API_KEY}` } });
    await response.arrayBuffer();
    return response.status === 200;
  } catch {
    return false;
  }
}

/** A TCP port of 127.0.0.1 that nobody listens on. */
export async function findFreePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}

/**
 * The CPU time, user and system, of all threads of a process and of its children that have ended, in
 * microseconds; Linux only (proc(5)).
 */
export function readCpu(pid: number): number | undefined {
  const file = `/proc/${pid}/stat`;
  if (!existsSync(file)) return undefined;
  // The name of the program stands in parentheses and may hold blanks; utime, stime, cutime and
  // cstime are fields 14 to 17.
  const fields = readFileSync(file, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  // In clock ticks, which Linux shows programs as hundredths of a second.
  return fields.slice(11, 15).reduce((ticks, field) => ticks + Number(field), 0) * 10_000;
}

/** A process's memory in bytes, now (`VmRSS`) or at its peak (`VmHWM`); Linux only (proc(5)). */
export function readMemory(pid: number, field: 'VmRSS' | 'VmHWM'): number | undefined {
  const file = `/proc/${pid}/status`;
  if (!existsSync(file)) return undefined;
  const kibibytes = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(
    readFileSync(file, 'utf8'),
  )?.[1];
  return kibibytes === undefined ? undefined : Number(kibibytes) * 1024;
}
