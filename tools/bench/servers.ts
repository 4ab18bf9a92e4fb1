import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findFreePort } from '../../test/platform/support/postgres.js';
import type { Target } from './rows.js';

export const ROOT = join(import.meta.dirname, '../../..');
const API_KEY = 'bench_0123456789abcdefghijklmnopqrstuvwxyz';
export const AUTHORIZATION = { Authorization: `Bearer ${API_KEY}` };

/** Moves this process, and those that it starts, to the last core: the servers have the first one. */
export function leaveFirstCore(): void {
  spawnSync('taskset', ['-cp', String(availableParallelism() - 1), String(process.pid)]);
}

/** Returns the CPU time of all threads of processes in microseconds (the first field of schedstat, in nanoseconds). */
export function readCpu(pids: readonly number[]): number {
  let sum = 0;
  for (const pid of pids)
    try {
      for (const thread of readdirSync(`/proc/${pid}/task`))
        sum += parseInt(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8'), 10) / 1000;
    } catch (error) {
      // A worker of PostgreSQL may have exited.
      if (!['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code!)) throw error;
    }
  return sum;
}

/** Returns the resident memory of a process in megabytes. */
export function readMemory(pid: number): number {
  const [, kibibytes] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!;
  return (Number(kibibytes) * 1024) / 1e6;
}

const children = new Set<ChildProcess>();
process.on('exit', () => children.forEach((child) => child.kill('SIGKILL')));

/** A running server; `startup` is the time until the first 200, in milliseconds. */
export type Server = Awaited<ReturnType<typeof startServer>>;

/** Starts a server and waits until it responds to list requests with 200. */
export async function startServer(
  { script, mode = '' }: Target,
  databaseEnv: Record<string, string>,
) {
  const port = await findFreePort();
  const url = `http://127.0.0.1:${port}/v1/categories`;
  const ownEnv = { PORT: String(port), MODE: mode, API_KEY };
  const serviceEnv = { NODE_ENV: 'production', LOG_LEVEL: 'error', BOOTSTRAP_API_KEY: API_KEY };
  const startedAt = performance.now();
  const child = spawn('taskset', ['-c', '0', process.execPath, resolve(ROOT, script!)], {
    env: { PATH: process.env['PATH'], ...serviceEnv, ...ownEnv, ...databaseEnv },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  children.add(child);
  const exited = once(child, 'exit').finally(() => children.delete(child));
  const requestList = (): Promise<Response> => fetch(url, { headers: AUTHORIZATION });
  while ((await requestList().catch(() => undefined))?.status !== 200) {
    if (!children.has(child)) throw new Error(`${script} exited during startup`);
    if (performance.now() - startedAt > 30_000) throw new Error(`${script} did not start`);
    await sleep(2);
  }
  const startup = performance.now() - startedAt;
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL');
    await exited;
  };
  return { url, pid: child.pid!, startup, stop };
}
