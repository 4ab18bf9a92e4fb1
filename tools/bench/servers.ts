import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findFreePort } from '../../test/platform/support/postgres.js';
import { createDatabase } from './databases.js';
import { ROOT, type Row, type Target } from './rows.js';

const API_KEY = 'bench_0123456789abcdefghijklmnopqrstuvwxyz';
export const AUTHORIZATION = { Authorization: `Bearer ${API_KEY}` };

// The servers run on the first core, this process and the load generators on the last one.
spawnSync('taskset', ['-cp', String(availableParallelism() - 1), String(process.pid)]);

/** Returns the CPU time of a process and its children in microseconds, from the nanoseconds of schedstat. */
export function readCpu(pid: number | undefined): number {
  const folder = `/proc/${pid}/task`;
  let sum = 0;
  try {
    for (const thread of readdirSync(folder)) {
      sum += parseInt(readFileSync(`${folder}/${thread}/schedstat`, 'utf8'), 10) / 1000;
      const pids = readFileSync(`${folder}/${thread}/children`, 'utf8').match(/\d+/g) ?? [];
      for (const child of pids) sum += readCpu(Number(child));
    }
  } catch (error) {
    // A worker of PostgreSQL may have exited.
    if (existsSync(folder)) throw error;
  }
  return sum;
}

/** Returns the resident memory of a process in megabytes. */
export function readMemory(pid: number): number {
  const [, kibibytes] = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))!;
  return (Number(kibibytes) * 1024) / 1e6;
}

const children: ChildProcess[] = [];
process.on('exit', () => children.forEach((child) => child.kill('SIGKILL')));

/** A running server: `startup` is the milliseconds until its first 200, `warm` the kinds of work it was warmed up for. */
export type Server = Awaited<ReturnType<typeof startServer>>;

/** Starts a server with a new database, and waits until it responds to list requests with 200. */
export async function startServer({ script, mode = '' }: Target, group: Row['group']) {
  const database = await createDatabase(group);
  const port = await findFreePort();
  const url = `http://127.0.0.1:${port}/v1/categories`;
  const baselineEnv = { PORT: String(port), MODE: mode, API_KEY };
  const serviceEnv = { NODE_ENV: 'production', LOG_LEVEL: 'error', BOOTSTRAP_API_KEY: API_KEY };
  const startedAt = performance.now();
  const child = spawn('taskset', ['-c', '0', process.execPath, resolve(ROOT, script!)], {
    env: { PATH: process.env['PATH'], ...serviceEnv, ...baselineEnv, ...database.env },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  children.push(child);
  const exited = once(child, 'exit');
  const requestList = (): Promise<Response> => fetch(url, { headers: AUTHORIZATION });
  while ((await requestList().catch(() => undefined))?.status !== 200) {
    if (child.exitCode !== null || performance.now() - startedAt > 30_000)
      throw new Error(`${script} did not start`);
    await sleep(2);
  }
  const startup = performance.now() - startedAt;
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL');
    await exited;
    await database.drop();
  };
  return { url, pid: child.pid!, startup, database, warm: new Set<string>(), stop };
}
