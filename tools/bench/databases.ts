import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import { queryPostgres } from '../../test/platform/support/postgres-client.js';
import { startPostgres } from '../../test/platform/support/postgres.js';
import { createList } from './categories.js';
import type { Row } from './rows.js';
import { moveToLoadCore, readCpu, ROOT } from './servers.js';

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
const root = fs.mkdtempSync(join(ROOT, 'build/bench-'));
const [SLOW_SYNC, REAL_SYNC] = [join(root, 'slow-sync'), join(root, 'real-sync')];
process.on('exit', () => fs.rmSync(root, { recursive: true, force: true }));

/** Compiles what replaces syncs. @throws {Error} if there is no C compiler */
export function compileShim(): void {
  const source = join(ROOT, 'tools/bench/slow-sync.c');
  const { status } = spawnSync('cc', ['-O2', '-shared', '-fPIC', '-o', SHIM, source]);
  if (status !== 0) throw new Error('there is no C compiler (cc)');
}

/** Sets what each sync of the servers with SQLite takes from now on. */
export function setSync(sync: Row['sync']): void {
  for (const path of [SLOW_SYNC, REAL_SYNC]) fs.rmSync(path, { force: true });
  if (sync !== undefined) fs.writeFileSync(sync === 'disk' ? REAL_SYNC : SLOW_SYNC, '');
}

let names = 0;

export async function createDatabase(group: Row['group']): Promise<Database> {
  const name = `bench_${++names}`;
  if (group.startsWith('postgres')) return createPostgresDatabase(name);
  const folder = join(root, name);
  fs.mkdirSync(folder);
  const file = join(folder, 'categories.sqlite');
  const use = <Result>(work: (database: Sqlite.Database) => Result): Result => {
    const database = new Sqlite(file);
    const result = work(database);
    database.close();
    return result;
  };
  return {
    env: { DATABASE_URL: `sqlite:${file}`, LD_PRELOAD: SHIM, SLOW_SYNC, REAL_SYNC },
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
        database.exec(createInsert(categories));
      }),
    countCategories: async () => use((database) => database.prepare(COUNT).pluck().get() as number),
    checkpoint: async () => void use((database) => database.pragma('wal_checkpoint(TRUNCATE)')),
    drop: async () => fs.rmSync(folder, { recursive: true }),
  };
}

/** Returns a statement that inserts so many categories; none for 0. */
function createInsert(categories: number): string {
  const values = createList(categories).map(
    ({ name, description }) => `('${name}', ${description ? `'${description}'` : 'NULL'})`,
  );
  return categories === 0
    ? ''
    : `INSERT INTO categories (name, description) VALUES ${values.join()}`;
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
      await queryPostgres(own, createInsert(categories));
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
