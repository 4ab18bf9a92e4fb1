import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { pinned } from './load.js';

/** The API key of every server that is measured. */
export const API_KEY = 'bench_0123456789abcdefghijklmnopqrstuvwxyz';

/** A program that is measured. */
export interface Server {
  readonly title: string;
  /** The compiled program. */
  readonly script: string;
  /** Its environment besides `PORT`, given the SQLite file to use. */
  readonly env: (databaseFile: string) => Record<string, string>;
  /** It is no more than the limit of the list: no durable creates, no validation. */
  readonly listOnly?: boolean;
}

const compiled = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

const peer = (title: string, file: string, env: Record<string, string> = {}): Server => ({
  title,
  script: compiled(`./peers/${file}.js`),
  env: (databaseFile) => ({ API_KEY, DATABASE_FILE: databaseFile, ...env }),
});

/** The service and its peers, by the names that `--server` takes. */
export const SERVERS = {
  service: {
    title: 'this service',
    script: compiled('../src/main.js'),
    env: (databaseFile) => ({
      HOST: '127.0.0.1',
      DATABASE_URL: `sqlite:${databaseFile}`,
      BOOTSTRAP_API_KEY: API_KEY,
      LOG_LEVEL: 'error',
    }),
  },
  raw: { ...peer('raw node:http', 'raw'), listOnly: true },
  fastify: peer('Fastify', 'fastify'),
  'fastify-no-etag': peer('Fastify, no ETag', 'fastify', { ETAG: 'off' }),
  'fastify-normal': peer('Fastify, NORMAL', 'fastify', { SYNCHRONOUS: 'NORMAL' }),
  express: peer('Express', 'express'),
  nest: peer('stock NestJS', 'nest'),
} satisfies Record<string, Server>;

export type ServerName = keyof typeof SERVERS;

/** A server that runs. */
export interface RunningServer {
  readonly server: Server;
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
 * @param directory where it keeps its database; one that was used before is taken over
 */
export async function startServer(server: Server, directory: string): Promise<RunningServer> {
  mkdirSync(directory, { recursive: true });
  const port = await findFreePort();
  const url = `http://127.0.0.1:${port}/v1/categories`;
  const [command, args] = pinned(0, process.execPath, [server.script]);
  const startedAt = performance.now();
  const child = spawn(command, args, {
    env: {
      PATH: process.env.PATH,
      NODE_ENV: 'production',
      PORT: String(port),
      ...server.env(join(directory, 'categories.sqlite')),
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

async function answers(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { headers: { Authorization: `Bearer ${API_KEY}` } });
    await response.arrayBuffer();
    return response.status === 200;
  } catch {
    return false;
  }
}

async function findFreePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}

/** The CPU time of all threads of a process, user and system, in microseconds; Linux only (proc(5)). */
export function readCpu(pid: number): number | undefined {
  const file = `/proc/${pid}/stat`;
  if (!existsSync(file)) return undefined;
  // The name of the program stands in parentheses and may hold blanks; utime and stime are fields 14 and 15.
  const fields = readFileSync(file, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  // In clock ticks, which Linux shows programs as hundredths of a second.
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
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
