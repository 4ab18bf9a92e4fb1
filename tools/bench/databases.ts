import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import { queryPostgres } from '../../test/platform/support/postgres-client.js';
import { startPostgres } from '../../test/platform/support/postgres.js';
import { moveToLoadCore, readCpu, ROOT } from './servers.js';

/** Where the data is: SQLite on the disk of the project, in memory, or with a sync of 1 ms; or PostgreSQL. */
export type Storage = 'disk' | 'tmpfs' | 'slow sync' | 'postgres';

/** A new database of one measurement: statements return rows, and only PostgreSQL has CPU time of its own. */
export interface Database {
  readonly env: Record<string, string>;
  readonly query: (sql: string) => Promise<unknown[]>;
  readonly readCpu: () => number;
  readonly drop: () => Promise<unknown>;
}

const TMPFS = '/dev/shm';
const SHIM = join(ROOT, 'build/slow-sync.so');
const disk = fs.mkdtempSync(join(ROOT, 'build/bench-'));
const memory = fs.existsSync(TMPFS) ? fs.mkdtempSync(join(TMPFS, 'bench-')) : undefined;
process.on('exit', () => {
  for (const path of [disk, memory ?? disk]) fs.rmSync(path, { recursive: true, force: true });
});

function compileShim(): void {
  const source = join(ROOT, 'tools/bench/slow-sync.c');
  const { status } = spawnSync('cc', ['-O2', '-shared', '-fPIC', '-o', SHIM, source]);
  if (status !== 0) throw new Error('Skipped: there is no C compiler (cc).');
}

/** Returns the milliseconds of a synced write of 4 KiB on the disk of the project: the median of 200. */
export function measureSync(): number {
  const file = fs.openSync(join(disk, 'sync'), 'w');
  const times = Array.from({ length: 200 }, () => {
    fs.writeSync(file, Buffer.alloc(4096));
    const startedAt = performance.now();
    fs.fdatasyncSync(file);
    return performance.now() - startedAt;
  });
  fs.closeSync(file);
  return times.toSorted((a, b) => a - b)[100]!;
}

let names = 0;
let postgres: ReturnType<typeof startDurablePostgres> | undefined;

export async function createDatabase(storage: Storage): Promise<Database> {
  const name = `bench_${++names}`;
  if (storage === 'postgres') {
    const { url, readCpu: readOwnCpu } = await (postgres ??= startDurablePostgres());
    const own = url.replace(/postgres$/, name);
    await queryPostgres(url, `CREATE DATABASE ${name}`);
    // It forces a checkpoint, so that writes do not overlap with the next measurement.
    const drop = (): Promise<unknown> => queryPostgres(url, `DROP DATABASE ${name} WITH (FORCE)`);
    const query = (sql: string): Promise<unknown[]> => queryPostgres(own, sql);
    return { env: { DATABASE_URL: own }, query, readCpu: readOwnCpu, drop };
  }
  if (storage !== 'disk' && memory === undefined) throw new Error(`Skipped: there is no ${TMPFS}.`);
  if (storage === 'slow sync') compileShim();
  const folder = join(storage === 'disk' ? disk : memory!, name);
  fs.mkdirSync(folder);
  const file = join(folder, 'categories.sqlite');
  return {
    env: { DATABASE_URL: `sqlite:${file}`, ...(storage === 'slow sync' && { LD_PRELOAD: SHIM }) },
    query: async (sql) => {
      const database = new Sqlite(file);
      const rows = database.prepare(sql).all();
      database.close();
      return rows;
    },
    readCpu: () => 0,
    drop: async () => fs.rmSync(folder, { recursive: true }),
  };
}

/** Starts PostgreSQL with its default settings, under which a commit is durable, on the core of the load. */
async function startDurablePostgres() {
  const { url, pid: readPid, stop } = await startPostgres([]);
  const pid = await readPid();
  // It must not outlive the run, however the run ends.
  process.on('exit', () => spawnSync('kill', ['-QUIT', String(pid)]));
  const readChildren = (): string => fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  const listPids = (): number[] => `${pid} ${readChildren()}`.trim().split(' ').map(Number);
  listPids().forEach(moveToLoadCore);
  return { url, stop, readCpu: () => readCpu(listPids()) };
}

export const stopPostgres = async (): Promise<void> => (await postgres)?.stop();
