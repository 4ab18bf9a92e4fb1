import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import { queryPostgres } from '../../test/platform/support/postgres-client.js';
import { startPostgres } from '../../test/platform/support/postgres.js';
import { createList } from './categories.js';
import { moveToLoadCore, readCpu, ROOT } from './servers.js';

/** Where the data is: SQLite in memory or on the disk of the project, or PostgreSQL. */
export type Storage = 'tmpfs' | 'disk' | 'postgres';

/** A new database of one server. */
export interface Database {
  readonly env: Record<string, string>;
  /** Leaves so many categories, whose ids are from 1 on, and no record of an Idempotency-Key. */
  readonly reset: (categories: number) => Promise<void>;
  readonly countCategories: () => Promise<number>;
  /** Writes what is committed to its tables, so that a slice does not pay for the one before. */
  readonly checkpoint: () => Promise<void>;
  readonly drop: () => Promise<unknown>;
}

const SHIM = join(ROOT, 'build/slow-sync.so');
const COUNT = 'SELECT count(*) AS count FROM categories';
const disk = fs.mkdtempSync(join(ROOT, 'build/bench-'));
const memory = fs.mkdtempSync('/dev/shm/bench-');
const SLOW_SYNC = join(memory, 'slow-sync');
process.on('exit', () => {
  for (const path of [disk, memory]) fs.rmSync(path, { recursive: true, force: true });
});

/** Compiles what makes syncs slow. @throws {Error} if there is no C compiler */
export function compileShim(): void {
  const source = join(ROOT, 'tools/bench/slow-sync.c');
  const { status } = spawnSync('cc', ['-O2', '-shared', '-fPIC', '-o', SHIM, source]);
  if (status !== 0) throw new Error('there is no C compiler (cc)');
}

/** Makes each sync of the servers on tmpfs take 1 ms, or nothing. */
export function setSlowSync(isSlow: boolean): void {
  if (isSlow) fs.writeFileSync(SLOW_SYNC, '');
  else fs.rmSync(SLOW_SYNC, { force: true });
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

export async function createDatabase(storage: Storage): Promise<Database> {
  const name = `bench_${++names}`;
  if (storage === 'postgres') return createPostgresDatabase(name);
  const folder = join(storage === 'disk' ? disk : memory, name);
  fs.mkdirSync(folder);
  const file = join(folder, 'categories.sqlite');
  const use = <Result>(work: (database: Sqlite.Database) => Result): Result => {
    const database = new Sqlite(file);
    const result = work(database);
    database.close();
    return result;
  };
  const shim: Record<string, string> = storage === 'tmpfs' ? { LD_PRELOAD: SHIM, SLOW_SYNC } : {};
  return {
    env: { DATABASE_URL: `sqlite:${file}`, ...shim },
    reset: async (categories) =>
      use((database) => {
        // Baselines have no records.
        const records = database.prepare(
          "SELECT 1 FROM sqlite_master WHERE name = 'idempotency_records'",
        );
        if (records.get() !== undefined) database.exec('DELETE FROM idempotency_records');
        database.exec(
          "DELETE FROM categories; UPDATE sqlite_sequence SET seq = 0 WHERE name = 'categories'",
        );
        for (const insert of createInserts(categories)) database.exec(insert);
      }),
    countCategories: async () => use((database) => database.prepare(COUNT).pluck().get() as number),
    checkpoint: async () => void use((database) => database.pragma('wal_checkpoint(TRUNCATE)')),
    drop: async () => fs.rmSync(folder, { recursive: true }),
  };
}

/** Returns statements that insert so many categories, 1,000 each. */
function createInserts(categories: number): string[] {
  const rows = createList(categories).map(
    ({ name, description }) => `('${name}', ${description ? `'${description}'` : 'NULL'})`,
  );
  return Array.from({ length: Math.ceil(rows.length / 1000) }, (_, index) => {
    const values = rows.slice(index * 1000, (index + 1) * 1000).join();
    return `INSERT INTO categories (name, description) VALUES ${values}`;
  });
}

let postgres: ReturnType<typeof startDurablePostgres> | undefined;

async function createPostgresDatabase(name: string): Promise<Database> {
  const { url } = await (postgres ??= startDurablePostgres());
  const own = url.replace(/postgres$/, name);
  await queryPostgres(url, `CREATE DATABASE ${name}`);
  return {
    env: { DATABASE_URL: own },
    reset: async (categories) => {
      const [found] = await queryPostgres(own, "SELECT to_regclass('idempotency_records') AS name");
      const records = found!['name'] === null ? '' : ', idempotency_records';
      // Requests of the slice before, which were in flight, may have reserved ids.
      const identity = categories > 0 ? 'RESTART' : 'CONTINUE';
      await queryPostgres(own, `TRUNCATE categories${records} ${identity} IDENTITY`);
      for (const insert of createInserts(categories)) await queryPostgres(own, insert);
    },
    countCategories: async () => Number((await queryPostgres(own, COUNT))[0]!['count']),
    checkpoint: async () => void (await queryPostgres(own, 'CHECKPOINT')),
    drop: () => queryPostgres(url, `DROP DATABASE ${name} WITH (FORCE)`),
  };
}

/** Starts PostgreSQL on the core of the load, with durable commits, as by default, and without autovacuum. */
async function startDurablePostgres() {
  const { url, pid: readPid, stop } = await startPostgres(['-c', 'autovacuum=off']);
  const pid = await readPid();
  // The server must not outlive the run, however the run ends.
  process.on('exit', () => spawnSync('kill', ['-QUIT', String(pid)]));
  const readChildren = (): string => fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  const listPids = (): number[] => `${pid} ${readChildren()}`.trim().split(' ').map(Number);
  listPids().forEach(moveToLoadCore);
  return { url, stop, readCpu: () => readCpu(listPids()) };
}

/** Returns the CPU time of PostgreSQL in microseconds; 0 if it does not run. */
export const readPostgresCpu = async (): Promise<number> => (await postgres)?.readCpu() ?? 0;

export const stopPostgres = async (): Promise<void> => (await postgres)?.stop();
