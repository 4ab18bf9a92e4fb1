/** `npm run db:copy -- --from sqlite:<file> --to-file <file>`: copies a database to an empty one. */
import '../platform/application/check-node-version.js';
import { existsSync } from 'node:fs';
import Database from 'better-sqlite3';
import { Command } from 'commander';
import type { EntityManager, EntityMetadata } from 'typeorm';
import { createDataSource } from '../platform/application/data-source.js';
import { loadConfig } from '../platform/config/config.js';
import type { ServiceDataSource } from '../platform/database/connection/service-data-source.js';
import { FEATURES } from '../features.js';
import { PRODUCT } from '../product.js';
import { isMain, runCommand } from './command.js';

/** The largest number of parameters of an INSERT; PostgreSQL accepts 65,535. */
const MAX_PARAMETERS = 10_000;

export async function main(args: readonly string[]): Promise<void> {
  const program = new Command('db:copy')
    .description('Copy all data, including ids and API keys, in one transaction')
    .requiredOption('--from <url>', 'sqlite:<file>; stop the service that uses it first')
    .requiredOption('--to-file <file>', 'Contains postgres://…, as the file of DATABASE_URL_FILE')
    .action(copy);
  await runCommand(program, args);
}

async function copy({ from, toFile }: { from: string; toFile: string }): Promise<void> {
  const sourceConfig = loadConfig(PRODUCT, { DATABASE_URL: from });
  const targetConfig = loadConfig(PRODUCT, { DATABASE_URL_FILE: toFile });
  const { database: source } = sourceConfig;
  const { database: target } = targetConfig;
  if (source.type !== 'sqlite' || target.type !== 'postgres')
    throw new Error('Only a copy from sqlite: to postgres: is supported.');
  // TypeORM would create the file and its folder.
  if (!existsSync(source.file)) throw new Error(`The source ${source.file} does not exist.`);
  await createDataSource(sourceConfig, FEATURES).whileConnected((dataSource) =>
    dataSource.requireCurrentSchema(),
  );
  await createDataSource(targetConfig, FEATURES).whileConnected((dataSource) =>
    copyDatabase(source.file, dataSource),
  );
}

/** Migrates the target, and copies all rows of a SQLite file of the same schema in one transaction. */
export async function copyDatabase(file: string, target: ServiceDataSource): Promise<void> {
  await target.migrate();
  const source = new Database(file, { readonly: true }).defaultSafeIntegers();
  // In one transaction, all tables are read as of one moment, even if another process writes to them.
  source.exec('BEGIN');
  const tables = sortByReferences(target.entityMetadatas);
  await target.transaction(async (manager) => {
    // The role may have a timeout that is meant for requests.
    await manager.query('SET LOCAL statement_timeout = 0');
    for (const { tableName } of tables) {
      if ((await countRows(manager, tableName)) > 0)
        throw new Error(`The target is not empty: it has rows in ${tableName}.`);
    }
    for (const table of tables) await copyTable(source, manager, table);
  });
  source.close();
}

/** Sorts the tables, each after those that it references. A table may reference itself. */
function sortByReferences(tables: readonly EntityMetadata[]): EntityMetadata[] {
  const sorted: EntityMetadata[] = [];
  const visited = new Set<EntityMetadata>();
  const visit = (table: EntityMetadata): void => {
    if (visited.has(table)) return;
    visited.add(table);
    for (const { referencedEntityMetadata } of table.foreignKeys) visit(referencedEntityMetadata);
    sorted.push(table);
  };
  // Single-table inheritance maps several entities to a table; the first has all columns.
  tables.filter(({ tableType }) => !['view', 'entity-child'].includes(tableType)).forEach(visit);
  return sorted;
}

async function copyTable(
  source: Database.Database,
  target: EntityManager,
  { tableName, columns }: EntityMetadata,
): Promise<void> {
  const names = columns
    .filter(({ generatedType }) => !generatedType)
    .map(({ databaseName }) => `"${databaseName}"`)
    .join(', ');
  const rows = source.prepare<[], unknown[]>(`SELECT ${names} FROM "${tableName}"`).raw().iterate();
  let count = 0;
  for (const batch of toBatches(rows, Math.floor(MAX_PARAMETERS / columns.length))) {
    let parameter = 0;
    const tuples = batch.map((row) => `(${row.map(() => `$${++parameter}`).join(', ')})`);
    // OVERRIDING allows the ids of an identity column. PostgreSQL converts texts, such as 1 to a boolean.
    await target.query(
      `INSERT INTO "${tableName}" (${names}) OVERRIDING SYSTEM VALUE VALUES ${tuples.join(', ')}`,
      batch.flat(),
    );
    count += batch.length;
  }
  if ((await countRows(target, tableName)) !== count)
    throw new Error(`The copy of ${tableName} has another number of rows than its source.`);
  const id = columns.find(({ generationStrategy }) => generationStrategy === 'increment');
  if (id !== undefined) await continueIds(source, target, tableName, id.databaseName);
  process.stdout.write(`Copied ${count} rows of ${tableName}\n`);
}

function* toBatches<Row>(rows: Iterable<Row>, size: number): Generator<Row[]> {
  let batch: Row[] = [];
  for (const row of rows) {
    if (batch.push(row) < size) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

/** Continues the ids where the source left off, so that the ids of deleted rows are not reused. */
async function continueIds(
  source: Database.Database,
  target: EntityManager,
  table: string,
  column: string,
): Promise<void> {
  const select = `SELECT max("last") FROM (SELECT max("${column}") AS "last" FROM "${table}"
    UNION ALL SELECT "seq" FROM "sqlite_sequence" WHERE "name" = '${table}')`;
  const last = source.prepare<[], bigint | null>(select).pluck().get();
  const [{ sequence }] = await target.query<[{ sequence: string }]>(
    `SELECT pg_get_serial_sequence('"${table}"', '${column}') AS "sequence"`,
  );
  // A rollback undoes RESTART, but not setval.
  if (last) await target.query(`ALTER SEQUENCE ${sequence} RESTART WITH ${last + 1n}`);
}

async function countRows(target: EntityManager, tableName: string): Promise<number> {
  const sql = `SELECT count(*)::float AS "count" FROM "${tableName}"`;
  return (await target.query<[{ count: number }]>(sql))[0].count;
}

if (isMain(import.meta)) await main(process.argv.slice(2));
