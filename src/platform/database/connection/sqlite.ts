/** What is special about SQLite: the options, the only connection, its transactions, the revision of the file. */
import { statSync } from 'node:fs';
import { setImmediate as turn } from 'node:timers/promises';
import Database from 'better-sqlite3';
import type { EntityManager, Migration, Table } from 'typeorm';
import type { BetterSqlite3DataSourceOptions } from 'typeorm/driver/better-sqlite3/BetterSqlite3DataSourceOptions.js';
import type { BetterSqlite3Driver } from 'typeorm/driver/better-sqlite3/BetterSqlite3Driver.js';
import { BetterSqlite3QueryRunner } from 'typeorm/driver/better-sqlite3/BetterSqlite3QueryRunner.js';
import type { IsolationLevel } from 'typeorm/driver/types/IsolationLevel.js';
import type { ReplicationMode } from 'typeorm/driver/types/ReplicationMode.js';
import type { DatabaseMetrics } from '../../metrics/database-metrics.js';
import type { Dialect } from './dialect.js';
import { DatabaseUnavailableError } from './driver-errors.js';
import {
  type ReadRows,
  ServiceDataSource,
  type ServiceQueryRunner,
} from './service-data-source.js';
import {
  CONNECT_TIMEOUT_MS,
  createTransactionTimeoutError,
  repeatOnConflict,
  TRANSACTION_TIMEOUT_MS,
} from './deadline.js';

const DIALECT: Dialect = {
  generatedIdType: 'integer',
  binaryCollation: undefined,
  bigintCast: '',
  isPrimary: 'TRUE',
  awaitsStandbys: 'NULL',
  rowLock: '',
  clock: undefined,
  toCompleteInsert: undefined,
  inTransaction: 'TRUE',
  checkImmediately: undefined,
  hasRevisionTable: false,
};

/** Returns TypeORM's options for a file. */
export const sqliteOptions = (file: string): BetterSqlite3DataSourceOptions => ({
  type: 'better-sqlite3',
  database: file,
  // SQLite blocks the event loop while it waits; `repeatOnConflict` does not.
  timeout: 0,
  enableWAL: true,
  prepareDatabase: (connection: { pragma(source: string): void }) => {
    // A 201 survives a power failure. With NORMAL, a common choice in WAL mode, the newest
    // commits may be lost (https://sqlite.org/pragma.html#pragma_synchronous).
    connection.pragma('synchronous = FULL');
  },
});

/** A SQLite file, with one connection that statements and transactions use in turns. */
export class SqliteDataSource extends ServiceDataSource {
  declare readonly options: BetterSqlite3DataSourceOptions;
  declare driver: BetterSqlite3Driver;
  readonly dialect = DIALECT;
  /** The prepared statements of the connection, by their SQL. */
  readonly statements = new Map<string, unknown>();
  private lastUse: Promise<unknown> = Promise.resolve();
  private dataVersion: Database.Statement<[], number> | undefined;
  private nextRevision: Promise<number> | undefined;
  private inodes: string | undefined;

  /** Closes the connection. SQLite removes the WAL with the last one, unless that is read-only. */
  override async destroy(): Promise<void> {
    this.dataVersion?.database.close();
    // SQLite itself does so only when the last connection closes, and another process may have one.
    await this.query('PRAGMA wal_checkpoint').catch(() => undefined);
    await super.destroy();
  }

  /**
   * Waits until the connection is free, as long as for one of the pool of PostgreSQL.
   *
   * @returns a function that frees it again
   * @throws {DatabaseUnavailableError}
   */
  async acquire(): Promise<() => void> {
    const requestedAt = performance.now();
    const previous = this.lastUse;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.lastUse = promise;
    await previous;
    if (!this.servesRequests || performance.now() - requestedAt <= CONNECT_TIMEOUT_MS)
      return resolve;
    resolve();
    const cause = new Error(`Other transactions took longer than ${CONNECT_TIMEOUT_MS} ms`);
    throw new DatabaseUnavailableError(cause);
  }

  /**
   * Returns the number that changes with every commit of *another* connection, to any table. It is read on one that writes
   * nothing (https://sqlite.org/pragma.html#pragma_data_version; measured: 4 µs), at the end of a turn of the event loop.
   */
  readRevision(): Promise<number> {
    return (this.nextRevision ??= turn().then(() => {
      this.nextRevision = undefined;
      try {
        this.dataVersion ??= new Database(this.options.database, { readonly: true })
          .prepare<[], number>('PRAGMA data_version')
          .pluck();
        return this.dataVersion.get()!;
      } catch (error) {
        throw this.translateError(error);
      }
    }));
  }

  /** Reads on a connection of its own: the WAL keeps what others change meanwhile. */
  async readSnapshot<Result>(work: (read: ReadRows) => Promise<Result>): Promise<Result> {
    const connection = new Database(this.options.database, { readonly: true });
    try {
      connection.exec('BEGIN');
      return await work(async <Row>(query: string, parameters: unknown[]) =>
        connection.prepare<unknown[], Row>(query).all(...parameters),
      );
    } catch (error) {
      throw this.translateError(error);
    } finally {
      connection.close();
    }
  }

  /**
   * Checks also that the files were not moved: SQLite continues to write to deleted ones without an error.
   *
   * @param isThorough whether the file is read and written, which shows that it is intact and the disk not full. It also
   *   makes every list cache read its table again.
   */
  async checkWritable(isThorough = false): Promise<void> {
    const { inodes = this.readInodes() } = this;
    if (inodes !== this.readInodes())
      throw new DatabaseUnavailableError(
        new Error(
          'A file of the open database was moved or deleted: stop the service with SIGTERM, which saves the rows of a deleted WAL',
        ),
      );
    await this.requirePlatformTables();
    const rows = isThorough ? '"id" = 1' : 'FALSE';
    await this.query(`UPDATE "migrations" SET "name" = "name" WHERE ${rows}`);
    // The UPDATE changes no value, so SQLite would write nothing; user_version is a number that applications may set.
    if (isThorough) await this.query(`PRAGMA user_version = ${Math.floor(performance.now())}`);
    this.inodes ??= this.readInodes();
  }

  addMetrics(metrics: DatabaseMetrics): void {
    metrics.observeFiles(this.options.database);
  }

  createQueryRunner(mode: ReplicationMode = 'master'): ServiceQueryRunner {
    return new SqliteQueryRunner(this, mode === 'slave');
  }

  protected async changeSchema(
    run: (manager: EntityManager) => Promise<Migration[]>,
  ): Promise<Migration[]> {
    // TypeORM does the same around a migration; within a transaction, the pragma has no effect.
    await this.query('PRAGMA foreign_keys = OFF');
    try {
      return await this.transaction(async (manager) => {
        const changed = await run(manager);
        if (changed.length > 0) await this.requireReferences(manager);
        return changed;
      });
    } finally {
      await this.query('PRAGMA foreign_keys = ON');
    }
  }

  /** @throws {Error} if a migration leaves more references to missing rows than there were */
  private async requireReferences(manager: EntityManager): Promise<void> {
    const select = `SELECT "table" || ' that refer to missing rows of ' || "parent" AS "rows", count(*) AS "count"
      FROM pragma_foreign_key_check GROUP BY 1`;
    const wrong = await manager.query<{ rows: string; count: number }[]>(select);
    if (wrong.length === 0) return;
    // Another connection sees the rows as they were before the transaction.
    const committed = new Database(this.options.database, { readonly: true });
    const former = new Map(committed.prepare<[], [string, number]>(select).raw().all());
    committed.close();
    for (const { rows, count } of wrong)
      if (count > (former.get(rows) ?? 0)) throw new Error(`The migration leaves rows of ${rows}`);
  }

  private readInodes(): string {
    const files = ['', '-wal', '-shm'].map((suffix) => this.options.database + suffix);
    return files.map((file) => statSync(file, { throwIfNoEntry: false })?.ino).join(' ');
  }
}

/** Runs statements on the only connection, those outside of a transaction after it has ended. */
export class SqliteQueryRunner extends BetterSqlite3QueryRunner {
  declare dataSource: SqliteDataSource;
  /** Frees the connection, which a transaction has to itself. */
  private free: (() => void) | undefined;
  private timer: NodeJS.Timeout | undefined;
  /** Why the transaction was rolled back before its end. */
  private rollbackError: unknown;

  /** @param reads whether the statements outside of transactions change nothing */
  constructor(
    dataSource: SqliteDataSource,
    private readonly reads: boolean,
  ) {
    super(dataSource.driver);
    // TypeORM, which has a single runner, caches prepared statements in it.
    const stmtCache = dataSource.statements;
    Object.assign(this, { stmtCache, manager: dataSource.createEntityManager(this) });
  }

  override async query(
    query: string,
    parameters?: any[],
    useStructuredResult?: boolean,
  ): Promise<any> {
    if (this.rollbackError !== undefined) throw this.rollbackError;
    const run = (): Promise<any> => super.query(query, parameters, useStructuredResult);
    try {
      if (this.free !== undefined) return await run();
      return await repeatOnConflict(async () => {
        const release = await this.dataSource.acquire();
        return run().finally(release);
      });
    } catch (error) {
      const isCommit = this.isTransactionActive ? query === 'COMMIT' : !this.reads;
      const translated = this.dataSource.translateError(error, { isCommit });
      // SQLite rolls back by itself after some errors. The next statement would be outside of the transaction.
      const { inTransaction } = this.driver.databaseConnection as Database.Database;
      if (this.isTransactionActive && !inTransaction) this.end(translated);
      throw translated;
    }
  }

  /** Takes the write lock at once: a transaction that reads first could not always get it later. */
  override async startTransaction(isolationLevel?: IsolationLevel): Promise<void> {
    if (this.isTransactionActive) return super.startTransaction(isolationLevel);
    try {
      await repeatOnConflict(async () => {
        this.free = await this.dataSource.acquire();
        await super.query('BEGIN IMMEDIATE').catch((error: unknown) => {
          this.end();
          throw error;
        });
      });
    } catch (error) {
      throw this.dataSource.translateError(error);
    }
    if (this.dataSource.servesRequests)
      this.timer = setTimeout(() => void this.timeOut(), TRANSACTION_TIMEOUT_MS);
    this.isTransactionActive = true;
    this.transactionDepth = 1;
  }

  /** Runs a statement at once: SQLite has no round trips. */
  async queryWithNext(query: string, parameters?: unknown[]): Promise<void> {
    await this.query(query, parameters);
  }

  override async release(): Promise<void> {
    const { inTransaction } = this.driver.databaseConnection as Database.Database;
    // A transaction that was left open would become that of all later statements.
    if (this.free !== undefined && inTransaction) await super.query('ROLLBACK');
    this.end();
    return super.release();
  }

  /** TypeORM recreates a table to change it. The ids of its deleted rows must not be assigned again. */
  protected override async recreateTable(newTable: Table, oldTable: Table): Promise<void> {
    const { name } = oldTable;
    const selected = 'FROM "sqlite_sequence" WHERE "name" = ?';
    const sequences: { seq: number }[] = await this.query(`SELECT "seq" ${selected}`, [name]);
    await super.recreateTable(newTable, oldTable);
    // Neither an empty table nor one with ids of another type has a sequence.
    await this.query(`DELETE ${selected}`, [name]);
    for (const { seq } of sequences)
      await this.query('INSERT INTO "sqlite_sequence" VALUES (?, ?)', [name, seq]);
  }

  private async timeOut(): Promise<void> {
    const { free } = this;
    // The connection must not be free before the rollback.
    this.free = undefined;
    this.rollbackError = this.dataSource.report(createTransactionTimeoutError());
    await super.query('ROLLBACK').catch(() => undefined);
    free?.();
  }

  /** @param rollbackError what later statements throw */
  private end(rollbackError?: unknown): void {
    clearTimeout(this.timer);
    this.rollbackError ??= rollbackError;
    this.free?.();
    this.free = undefined;
  }
}
