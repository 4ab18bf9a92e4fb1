import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findFreePort } from '../../test/platform/support/postgres.js';
import type { Target } from './rows.js';

export const ROOT = join(import.meta.dirname, '../../..');
const API_KEY = 'bench_0123456789abcdefghijklmnopqrstuvwxyz';
export const AUTHORIZATION = { Authorization: `Bearer ${API_KEY}` };

const LOAD_CORE = availableParallelism() - 1;
const TIMEOUT_MS = 30_000;

/** Returns a command that runs on one core: servers from core 0 on, and the load on the last. */
export function onCore(core: number | 'load', ...command: string[]): [string, string[]] {
  return ['taskset', ['-c', String(core === 'load' ? LOAD_CORE : core % LOAD_CORE), ...command]];
}

/** Moves a running process, and those that it starts from then on, to the core of the load. */
export function moveToLoadCore(pid: number): void {
  spawnSync('taskset', ['-cp', String(LOAD_CORE), String(pid)]);
}

/** Returns the CPU time of processes in microseconds, user and system (proc(5), fields 14 and 15). */
export function readCpu(pids: readonly number[]): number {
  // A worker of PostgreSQL may have exited.
  const files = pids.map((pid) => `/proc/${pid}/stat`).filter((file) => existsSync(file));
  const fields = files.map((file) => readFileSync(file, 'utf8').split(' '));
  return fields.reduce((sum, own) => sum + Number(own[13]) + Number(own[14]), 0) * 10_000;
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
  { script, mode = '', nodeArgs = [] }: Target,
  databaseEnv: Record<string, string>,
  core = 0,
) {
  const port = await findFreePort();
  const url = `http://127.0.0.1:${port}/v1/categories`;
  const ownEnv = { PORT: String(port), MODE: mode, API_KEY, BOOTSTRAP_API_KEY: API_KEY };
  const env = { PATH: process.env['PATH'], NODE_ENV: 'production', LOG_LEVEL: 'error', ...ownEnv };
  const startedAt = performance.now();
  const child = spawn(...onCore(core, process.execPath, ...nodeArgs, join(ROOT, script)), {
    env: { ...env, ...databaseEnv },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  children.add(child);
  const exited = once(child, 'exit').finally(() => children.delete(child));
  const list = (): Promise<Response> => fetch(url, { headers: AUTHORIZATION });
  while ((await list().catch(() => undefined))?.status !== 200) {
    if (!children.has(child)) throw new Error('exited during startup');
    if (performance.now() - startedAt > TIMEOUT_MS) throw new Error('did not start');
    await sleep(2);
  }
  const startup = performance.now() - startedAt;
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), TIMEOUT_MS);
    await exited;
    clearTimeout(timer);
  };
  return { url, port, child, startup, stop };
}
