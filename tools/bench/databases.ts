import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import { queryPostgres } from '../../test/platform/support/postgres-client.js';
import { type PostgresServer, startPostgres } from '../../test/platform/support/postgres.js';
import { createList } from './categories.js';
import { ROOT, type Row, type Target, TARGETS } from './rows.js';

/** A new database of one server. */
export interface Database {
  readonly env: Record<string, string>;
  readonly query: (sql: string) => Promise<Record<string, unknown>[]>;
  /** The statement that empties a table, without its name. */
  readonly truncate: string;
  /** The statement that moves committed rows from the log to the tables, so that a slice does not pay for an earlier one. */
  readonly checkpoint: string;
  readonly drop: () => Promise<unknown>;
}

const root = fs.mkdtempSync(join(ROOT, 'build/bench-'));
const [SLOW_SYNC, REAL_SYNC] = [join(root, 'slow-sync'), join(root, 'real-sync')];
process.on('exit', () => fs.rmSync(root, { recursive: true, force: true }));

const SHIM = join(root, 'slow-sync.so');
execFileSync('cc', ['-O2', '-shared', '-fPIC', '-o', SHIM, join(ROOT, 'tools/bench/slow-sync.c')]);

/** Sets how long a sync of a server with SQLite takes from now on. */
export function setSync(sync: Row['sync']): void {
  for (const path of [SLOW_SYNC, REAL_SYNC]) fs.rmSync(path, { force: true });
  if (sync !== undefined) fs.writeFileSync(sync === 'disk' ? REAL_SYNC : SLOW_SYNC, '');
}

/** Empties the tables, and inserts as many categories as a row has. */
export async function reset({ query, truncate }: Database, { of, categories }: Row): Promise<void> {
  const { hasKey }: Target = TARGETS[of];
  await query(`${truncate} categories`);
  if (hasKey) await query(`${truncate} idempotency_records`);
  const rows = createList(categories).map(
    ({ name, description }) => `('${name}', ${description ? `'${description}'` : 'NULL'})`,
  );
  if (categories > 0)
    await query(`INSERT INTO categories (name, description) VALUES ${rows.join()}`);
}

function createSqliteDatabase(): Database {
  const folder = fs.mkdtempSync(join(root, 'sqlite-'));
  const file = join(folder, 'categories.sqlite');
  const database = new Sqlite(file);
  return {
    env: { DATABASE_URL: `sqlite:${file}`, LD_PRELOAD: SHIM, SLOW_SYNC, REAL_SYNC },
    query: async (sql) => {
      const statement = database.prepare<[], Record<string, unknown>>(sql);
      return statement.reader ? statement.all() : [{ ...statement.run() }];
    },
    truncate: 'DELETE FROM',
    checkpoint: 'PRAGMA wal_checkpoint(TRUNCATE)',
    drop: async () => {
      database.close();
      fs.rmSync(folder, { recursive: true });
    },
  };
}

/** PostgreSQL, which the first use starts: with durable commits, as by default, and without autovacuum. */
let postgres: Promise<PostgresServer> | undefined;
let databases = 0;

async function createPostgresDatabase(): Promise<Database> {
  const { url } = await (postgres ??= startPostgres(['-c', 'autovacuum=off']));
  const name = `bench_${++databases}`;
  const databaseUrl = url.replace(/postgres$/, name);
  await queryPostgres(url, `CREATE DATABASE ${name}`);
  return {
    env: { DATABASE_URL: databaseUrl },
    query: (sql) => queryPostgres(databaseUrl, sql),
    truncate: 'TRUNCATE',
    checkpoint: 'CHECKPOINT',
    drop: () => queryPostgres(url, `DROP DATABASE ${name} WITH (FORCE)`),
  };
}

/** Creates an empty database for the servers of a group. */
export const createDatabase = async (group: Row['group']): Promise<Database> =>
  group === 'postgres' ? createPostgresDatabase() : createSqliteDatabase();

/** Returns the process id of PostgreSQL, if it runs. */
export const getPostgresPid = async (): Promise<number | undefined> => (await postgres)?.pid();

export const stopPostgres = async (): Promise<void> => (await postgres)?.stop();
