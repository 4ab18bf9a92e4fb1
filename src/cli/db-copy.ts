/** `npm run db:copy -- --from sqlite:<file> --to postgres://…`: copies a database to an empty one. */
import '../check-node-version.js';
import { existsSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { SingleBar } from 'cli-progress';
import { Command } from 'commander';
import type { DataSource, EntityManager, EntityMetadata } from 'typeorm';
import type { ColumnMetadata } from 'typeorm/metadata/ColumnMetadata.js';
import { createDataSource } from '../data-source.js';
import { loadConfig } from '../platform/config/config.js';
import type { PetstoreDataSource } from '../platform/database/connection/petstore-data-source.js';
import { isMain, runCommand } from './command.js';

const MAX_BATCH_SIZE = 1_000;
/** Of a statement of PostgreSQL. */
const MAX_PARAMETERS = 65_535;

/** Runs the command. */
export async function main(args: readonly string[]): Promise<void> {
  const program = new Command('db:copy')
    .description(
      'Copy all data (including ids and API keys) in one transaction and verify the copy',
    )
    .requiredOption('--from <url>', 'sqlite:<file>; stop the service that uses it first')
    .requiredOption(
      '--to <url>',
      'postgres://<user>:<password>@<host>:<port>/<database>, which must be empty',
    )
    .action(copy);
  await runCommand(program, args, 'Copy failed.');
}

async function copy({ from, to }: { from: string; to: string }): Promise<void> {
  if (!from.startsWith('sqlite:') || !/^postgres(ql)?:/.test(to)) {
    throw new Error('Only sqlite → postgres is supported.');
  }
  const { database } = loadConfig({ DATABASE_URL: from });
  // TypeORM would create the file and its folder.
  if (database.type === 'sqlite' && !existsSync(database.file))
    throw new Error(`The source ${database.file} does not exist.`);
  const source = createDataSource(database);
  const target = createDataSource(loadConfig({ DATABASE_URL: to }).database);
  try {
    await copyDatabase(source, target);
  } finally {
    for (const opened of [source, target]) if (opened.isInitialized) await opened.destroy();
  }
}

/**
 * Migrates the target, and copies all rows of the source to it in one transaction.
 *
 * @throws {Error} if the target is not empty, or if a copied row differs from its source
 */
export async function copyDatabase(
  source: PetstoreDataSource,
  target: PetstoreDataSource,
): Promise<void> {
  await source.initialize();
  await source.requireCurrentSchema();
  await target.initialize();
  await target.migrate();
  // One view of the source, even if another process writes to it.
  await source.query('BEGIN');
  await target.transaction((manager) => copyAll(source, manager));
}

async function copyAll(source: DataSource, target: EntityManager): Promise<void> {
  // The tables of single-table inheritance have several entities, of which only the first has all columns.
  const tables = source.entityMetadatas
    .filter(({ tableType }) => tableType !== 'view' && tableType !== 'entity-child')
    .map((metadata) => new TableCopy(source, target, metadata));
  for (const table of tables) await table.requireEmpty();
  const checkForeignKeys = await deferForeignKeys(target);
  for (const table of tables) await table.run();
  await checkForeignKeys();
}

/**
 * Defers the check of all foreign keys, so that tables and rows can be copied in any order: a row may
 * reference a later one of the same table, and two tables may reference each other.
 *
 * @returns a function that checks the foreign keys, and restores them
 */
async function deferForeignKeys(target: EntityManager): Promise<() => Promise<void>> {
  const keys: { table: string; name: string }[] = await target.query(
    `SELECT "conrelid"::regclass::text AS "table", quote_ident("conname") AS "name" FROM "pg_constraint"
     WHERE "contype" = 'f' AND NOT "condeferrable" AND "connamespace" = current_schema()::regnamespace`,
  );
  const alterAll = async (change: string): Promise<void> => {
    for (const { table, name } of keys)
      await target.query(`ALTER TABLE ${table} ALTER CONSTRAINT ${name} ${change}`);
  };
  await alterAll('DEFERRABLE');
  await target.query('SET CONSTRAINTS ALL DEFERRED');
  return async () => {
    await target.query('SET CONSTRAINTS ALL IMMEDIATE');
    await alterAll('NOT DEFERRABLE');
  };
}

/** A row, by the names of its columns, in the form in which a driver returns it. */
type Row = Readonly<Record<string, unknown>>;

/** A column, as the drivers of the source and of the target know it. */
interface ColumnPair {
  readonly from: ColumnMetadata;
  readonly to: ColumnMetadata;
}

/** Copies a table. */
class TableCopy {
  private readonly table: string;
  /** The columns whose values the database does not compute. */
  private readonly columns: readonly ColumnPair[];
  private readonly primaryKey: readonly string[];

  constructor(
    private readonly source: DataSource,
    private readonly target: EntityManager,
    private readonly metadata: EntityMetadata,
  ) {
    const { tableName } = metadata;
    const targetMetadata = target.connection.entityMetadatas.find(
      (candidate) => candidate.tableName === tableName,
    )!;
    this.table = quote(tableName);
    this.columns = metadata.columns
      .filter(({ isVirtualProperty, generatedType }) => !isVirtualProperty && !generatedType)
      .map((column) => ({
        from: withoutTransformer(column),
        to: withoutTransformer(targetMetadata.findColumnWithDatabaseName(column.databaseName)!),
      }));
    this.primaryKey = metadata.primaryColumns.map(({ databaseName }) => databaseName);
  }

  /** @throws {Error} if the target has rows */
  async requireEmpty(): Promise<void> {
    const { length } = await this.target.query<Row[]>(`SELECT 1 FROM ${this.table} LIMIT 1`);
    if (length > 0)
      throw new Error(`The target is not empty: it has rows in ${this.metadata.tableName}.`);
  }

  /** Copies and verifies all rows. */
  async run(): Promise<void> {
    const { tableName } = this.metadata;
    const [{ count }] = await this.source.query<[{ count: number }]>(
      `SELECT count(*) AS "count" FROM ${this.table}`,
    );
    const bar = new SingleBar({
      format: `${tableName.padEnd(12)} {bar} {value}/{total}`,
      noTTYOutput: true,
      notTTYSchedule: 1_000,
    });
    bar.start(count, 0);
    try {
      for await (const rows of this.batches()) {
        const values = rows.map((row) => this.toTargetValues(row));
        await this.insert(values);
        await this.compare(rows, values);
        bar.increment(rows.length);
      }
    } finally {
      // Its timer would keep the process alive.
      bar.stop();
    }
    const [{ copied }] = await this.target.query<[{ copied: number }]>(
      `SELECT count(*)::float AS "copied" FROM ${this.table}`,
    );
    if (copied !== count) throw new Error(`The copy of ${tableName} has more rows.`);
    await this.continueIds();
    process.stdout.write(`${tableName}: ${count} rows copied and verified\n`);
  }

  /** Yields all rows of the source, in the order of the primary key. */
  private async *batches(): AsyncGenerator<readonly Row[]> {
    const size = Math.min(MAX_BATCH_SIZE, Math.floor(MAX_PARAMETERS / this.columns.length));
    const key = this.primaryKey.map(quote).join(', ');
    const placeholders = this.primaryKey.map(() => '?').join(', ');
    for (let last: unknown[] = []; ;) {
      const rows = await this.source.query<Row[]>(
        `SELECT ${this.columnList} FROM ${this.table}
         ${last.length === 0 ? '' : `WHERE (${key}) > (${placeholders})`} ORDER BY ${key} LIMIT ${size}`,
        last,
      );
      if (rows.length === 0) return;
      yield rows;
      last = this.primaryKey.map((name) => rows.at(-1)![name]);
    }
  }

  private get columnList(): string {
    return this.columns.map(({ from }) => quote(from.databaseName)).join(', ');
  }

  /** Converts a row of the source to parameters for the target. */
  private toTargetValues(row: Row): unknown[] {
    return this.columns.map(({ from, to }) =>
      this.target.connection.driver.preparePersistentValue(this.readSource(row, from), to),
    );
  }

  private readSource(row: Row, column: ColumnMetadata): unknown {
    return this.source.driver.prepareHydratedValue(row[column.databaseName], column);
  }

  private async insert(values: readonly unknown[][]): Promise<void> {
    await this.target.query(
      // The clause allows the ids of an identity column, and is ignored without one.
      `INSERT INTO ${this.table} (${this.columnList}) OVERRIDING SYSTEM VALUE VALUES ${toTuples(values)}`,
      values.flat(),
    );
  }

  /** Reads the copies of rows, and compares them. */
  private async compare(rows: readonly Row[], values: readonly unknown[][]): Promise<void> {
    const names = this.columns.map(({ from }) => from.databaseName);
    const keys = values.map((row) => this.primaryKey.map((name) => row[names.indexOf(name)]));
    const found = await this.target.query<Row[]>(
      `SELECT ${this.columnList} FROM ${this.table}
       WHERE (${this.primaryKey.map(quote).join(', ')}) IN (${toTuples(keys)})`,
      keys.flat(),
    );
    const { driver } = this.target.connection;
    const read = (row: Row | undefined, column: ColumnMetadata): unknown =>
      driver.prepareHydratedValue(row?.[column.databaseName], column);
    const byKey = new Map(found.map((row) => [this.getKey(({ to }) => read(row, to)), row]));
    for (const row of rows) {
      const inserted = byKey.get(this.getKey(({ from }) => this.readSource(row, from)));
      const isEqual = this.columns.every(({ from, to }) =>
        isSameValue(this.readSource(row, from), read(inserted, to)),
      );
      if (!isEqual)
        throw new Error(`The copy of ${this.metadata.tableName} differs from its source.`);
    }
  }

  /** Returns the primary key of a row as a string, which is the same for both drivers. */
  private getKey(read: (column: ColumnPair) => unknown): string {
    const columns = this.columns.filter(({ from }) => from.isPrimary);
    return JSON.stringify(columns.map((column) => String(read(column))));
  }

  /** Continues the ids where the source left off, so that the ids of deleted rows are not reused. */
  private async continueIds(): Promise<void> {
    const { tableName, generatedColumns } = this.metadata;
    for (const { databaseName: column } of generatedColumns) {
      const [{ sequence }] = await this.target.query<[{ sequence: string | null }]>(
        'SELECT pg_get_serial_sequence($1, $2) AS "sequence"',
        [this.table, column],
      );
      // The database generates a uuid without a sequence.
      if (sequence === null) continue;
      const [{ last }] = await this.source.query<[{ last: number | null }]>(
        `SELECT max("last") AS "last" FROM (SELECT max(${quote(column)}) AS "last" FROM ${this.table}
         UNION ALL SELECT "seq" FROM "sqlite_sequence" WHERE "name" = ?)`,
        [tableName],
      );
      // Not setval, which a rollback does not undo.
      if (last !== null && last > 0)
        await this.target.query(`ALTER SEQUENCE ${sequence} RESTART WITH ${last + 1}`);
    }
  }
}

const quote = (name: string): string => `"${name.replaceAll('"', '""')}"`;

/** Returns the placeholders of PostgreSQL for rows, as in `($1, $2), ($3, $4)`. */
function toTuples(rows: readonly (readonly unknown[])[]): string {
  let count = 0;
  return rows.map((row) => `(${row.map(() => `$${++count}`).join(', ')})`).join(', ');
}

/** Returns a column whose values are copied as they are stored: a transformer may lose information. */
function withoutTransformer(column: ColumnMetadata): ColumnMetadata {
  return Object.create(column, { transformer: { value: undefined } }) as ColumnMetadata;
}

/** Compares a value of the source with its copy. PostgreSQL's driver returns a bigint as a string. */
function isSameValue(value: unknown, copied: unknown): boolean {
  return typeof value === 'number' && typeof copied === 'string'
    ? value === Number(copied)
    : isDeepStrictEqual(value, copied);
}

if (isMain(import.meta)) await main(process.argv.slice(2));
