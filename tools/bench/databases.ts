import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import { queryPostgres } from '../../test/platform/support/postgres-client.js';
import { startPostgres } from '../../test/platform/support/postgres.js';
import { createList } from './categories.js';
import type { Row } from './rows.js';
import { readCpu, ROOT } from './servers.js';

/** A new database of one server. */
export interface Database {
  readonly env: Record<string, string>;
  readonly query: (sql: string) => Promise<Record<string, unknown>[]>;
  /** The statement that empties a table, without its name. */
  readonly truncate: string;
  /** The statement that writes what is committed to the tables, so that a slice does not pay for the one before. */
  readonly checkpoint: string;
  readonly drop: () => Promise<unknown>;
}

const SHIM = join(ROOT, 'build/slow-sync.so');
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

/** Empties tables, and inserts so many categories. */
export async function reset(
  { query, truncate }: Database,
  tables: readonly string[],
  categories: number,
): Promise<void> {
  for (const table of tables) await query(`${truncate} ${table}`);
  const rows = createList(categories).map(
    ({ name, description }) => `('${name}', ${description ? `'${description}'` : 'NULL'})`,
  );
  if (categories > 0)
    await query(`INSERT INTO categories (name, description) VALUES ${rows.join()}`);
}

export async function countCategories({ query }: Database): Promise<number> {
  const [row] = await query('SELECT count(*) AS count FROM categories');
  return Number(row!['count']);
}

let names = 0;

export async function createDatabase(group: Row['group']): Promise<Database> {
  const name = `bench_${++names}`;
  return group === 'postgres' ? createPostgresDatabase(name) : createSqliteDatabase(name);
}

function createSqliteDatabase(name: string): Database {
  const folder = join(root, name);
  fs.mkdirSync(folder);
  const file = join(folder, 'categories.sqlite');
  return {
    env: { DATABASE_URL: `sqlite:${file}`, LD_PRELOAD: SHIM, SLOW_SYNC, REAL_SYNC },
    query: async (sql) => {
      const database = new Sqlite(file);
      const statement = database.prepare<[], Record<string, unknown>>(sql);
      const result = statement.reader ? statement.all() : statement.run();
      database.close();
      return Array.isArray(result) ? result : [];
    },
    truncate: 'DELETE FROM',
    checkpoint: 'PRAGMA wal_checkpoint(TRUNCATE)',
    drop: async () => fs.rmSync(folder, { recursive: true }),
  };
}

let postgres: ReturnType<typeof startDurablePostgres> | undefined;

async function createPostgresDatabase(name: string): Promise<Database> {
  const { url } = await (postgres ??= startDurablePostgres());
  const own = url.replace(/postgres$/, name);
  await queryPostgres(url, `CREATE DATABASE ${name}`);
  return {
    env: { DATABASE_URL: own },
    query: (sql) => queryPostgres(own, sql),
    truncate: 'TRUNCATE',
    checkpoint: 'CHECKPOINT',
    drop: () => queryPostgres(url, `DROP DATABASE ${name} WITH (FORCE)`),
  };
}

/** Starts PostgreSQL with durable commits, as by default, and without autovacuum. */
async function startDurablePostgres() {
  const { url, pid: readPid, stop } = await startPostgres(['-c', 'autovacuum=off']);
  const pid = await readPid();
  // The server must not outlive the run, however the run ends.
  process.on('exit', () => spawnSync('kill', ['-QUIT', String(pid)]));
  const readChildren = (): string => fs.readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  const listPids = (): number[] => `${pid} ${readChildren()}`.trim().split(' ').map(Number);
  return { url, stop, readCpu: () => readCpu(listPids()) };
}

/** Returns the CPU time of PostgreSQL in microseconds; 0 if it does not run. */
export const readPostgresCpu = async (): Promise<number> => (await postgres)?.readCpu() ?? 0;

export const stopPostgres = async (): Promise<void> => (await postgres)?.stop();
