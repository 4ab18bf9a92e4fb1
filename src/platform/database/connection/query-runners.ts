/**
 * TypeORM's query runners, which every statement goes through, with translated errors and limits of time. TypeORM has
 * no hook for either.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type Database from 'better-sqlite3';
import type { Table } from 'typeorm';
import type { IsolationLevel } from 'typeorm/driver/types/IsolationLevel.js';
import type { BetterSqlite3Driver } from 'typeorm/driver/better-sqlite3/BetterSqlite3Driver.js';
import { BetterSqlite3QueryRunner } from 'typeorm/driver/better-sqlite3/BetterSqlite3QueryRunner.js';
import type { PostgresDriver } from 'typeorm/driver/postgres/PostgresDriver.js';
import { PostgresQueryRunner } from 'typeorm/driver/postgres/PostgresQueryRunner.js';
import { cancelQuery, type PgClient } from './cancel-query.js';
import {
  DatabaseUnavailableError,
  getDriverErrorCode,
  isBusyError,
  READ_ONLY_TRANSACTION,
  TransactionConflictError,
} from './driver-errors.js';
import type { ServiceDataSource } from './service-data-source.js';
import { CONNECT_TIMEOUT_MS, TRANSACTION_TIMEOUT_MS } from './timeouts.js';

/** The longest delays before a statement or a transaction is repeated, in milliseconds. */
const MAX_BUSY_DELAY_MS = 50;
const MAX_CONFLICT_DELAY_MS = 20;

/** The only connection to a SQLite database, used by a statement, or a transaction, at a time. */
export class SqliteSession {
  /** The prepared statements, by their SQL. */
  readonly statements = new Map<string, unknown>();
  private last: Promise<unknown> = Promise.resolve();

  /** Waits until the connection is free, and returns a function that frees it again. */
  acquire(): Promise<() => void> {
    return new Promise((resolve) => {
      const previous = this.last;
      this.last = new Promise<void>((release) => void previous.then(() => resolve(release)));
    });
  }
}

function createTimeoutError(): DatabaseUnavailableError {
  const message = `The transaction took longer than ${TRANSACTION_TIMEOUT_MS} ms. Within it, use only its manager, and wait for nothing but the database`;
  return new DatabaseUnavailableError(new Error(message));
}

/** What a runner does on SQLite. */
type SqliteState =
  | { readonly name: 'idle' }
  /** It has the connection to itself, until `free` is called. */
  | { readonly name: 'transaction'; readonly free: () => void; timer?: NodeJS.Timeout }
  /** The transaction was rolled back before its end. */
  | { readonly name: 'aborted'; readonly error: unknown };

/** Runs statements on the only connection to a SQLite database, those outside of a transaction after it has ended. */
export class SqliteQueryRunner extends BetterSqlite3QueryRunner {
  private state: SqliteState = { name: 'idle' };
  private isCommitting = false;

  /** @param reads whether the statements outside of transactions change nothing */
  constructor(
    driver: BetterSqlite3Driver,
    private readonly context: ServiceDataSource,
    private readonly session: SqliteSession,
    private readonly reads: boolean,
  ) {
    super(driver);
    // TypeORM caches prepared statements in the runner, of which it has only one.
    Object.assign(this, { stmtCache: session.statements });
  }

  // TypeORM declares the result as `any`, too.
  override async query(
    query: string,
    parameters?: any[],
    useStructuredResult?: boolean,
  ): Promise<any> {
    if (this.state.name === 'aborted') throw this.state.error;
    const run = (): Promise<any> => super.query(query, parameters, useStructuredResult);
    try {
      if (this.state.name === 'transaction') return await run();
      return await retryOnBusy(async () => {
        const release = await this.acquire();
        return run().finally(release);
      });
    } catch (error) {
      const isCommit = this.isTransactionActive ? this.isCommitting : !this.reads;
      const translated = this.context.translateError(error, { isCommit });
      // SQLite rolls back by itself after some errors. The next statement would be outside of the transaction.
      const { inTransaction } = this.driver.databaseConnection as Database.Database;
      if (this.isTransactionActive && !inTransaction)
        this.end({ name: 'aborted', error: translated });
      throw translated;
    }
  }

  /** Takes the write lock at once: a transaction that reads first could not always get it later. */
  override async startTransaction(isolationLevel?: IsolationLevel): Promise<void> {
    if (this.isTransactionActive) return super.startTransaction(isolationLevel);
    try {
      await retryOnBusy(async () => {
        this.state = { name: 'transaction', free: await this.acquire() };
        await super.query('BEGIN IMMEDIATE').catch((error: unknown) => {
          this.end();
          throw error;
        });
        if (this.context.servesRequests)
          this.state.timer = setTimeout(() => void this.timeOut(), TRANSACTION_TIMEOUT_MS);
      });
    } catch (error) {
      throw this.context.translateError(error);
    }
    this.isTransactionActive = true;
    this.transactionDepth = 1;
  }

  override commitTransaction(): Promise<void> {
    this.isCommitting = this.transactionDepth === 1;
    return super.commitTransaction();
  }

  override release(): Promise<void> {
    this.end();
    return super.release();
  }

  /** TypeORM recreates a table to change it. The ids of its deleted rows must not be assigned again. */
  protected override async recreateTable(newTable: Table, oldTable: Table): Promise<void> {
    const { name } = oldTable;
    const selected = 'FROM "sqlite_sequence" WHERE "name" = ?';
    const sequences: { seq: number }[] = await this.query(`SELECT "seq" ${selected}`, [name]);
    await super.recreateTable(newTable, oldTable);
    // An empty table has none, and a table with ids of another type, too.
    await this.query(`DELETE ${selected}`, [name]);
    for (const { seq } of sequences)
      await this.query('INSERT INTO "sqlite_sequence" VALUES (?, ?)', [name, seq]);
  }

  /** Waits for the connection as long as for one of the pool of PostgreSQL. */
  private async acquire(): Promise<() => void> {
    const requestedAt = performance.now();
    const release = await this.session.acquire();
    const waited = performance.now() - requestedAt;
    if (!this.context.servesRequests || waited <= CONNECT_TIMEOUT_MS) return release;
    release();
    const cause = new Error(`Other transactions took longer than ${CONNECT_TIMEOUT_MS} ms`);
    throw new DatabaseUnavailableError(cause);
  }

  private async timeOut(): Promise<void> {
    const { state } = this;
    this.state = { name: 'aborted', error: createTimeoutError() };
    await super.query('ROLLBACK').catch(() => undefined);
    if (state.name === 'transaction') state.free();
  }

  private end(next: SqliteState = { name: 'idle' }): void {
    const { state } = this;
    if (state.name !== 'transaction') return;
    this.state = next;
    clearTimeout(state.timer);
    state.free();
  }
}

/**
 * Runs statements on one connection of the PostgreSQL pool. If it is not released in time, what it runs is cancelled, and
 * the connection closed, which rolls a transaction back.
 */
export class PgQueryRunner extends PostgresQueryRunner {
  private timer: NodeJS.Timeout | undefined;
  /** Set once the time is up; resolves when the connection is closed. */
  private abortion: Promise<void> | undefined;
  private isCommitting = false;

  /** @param reads whether the statements outside of transactions change nothing */
  constructor(
    driver: PostgresDriver,
    private readonly context: ServiceDataSource,
    private readonly reads: boolean,
  ) {
    super(driver, 'master');
    // TypeORM would release the runner when its connection is lost; the next statement reports that.
    const release = this['releasePostgresConnection'].bind(this);
    this['releasePostgresConnection'] = async (lost?: Error) => {
      if (lost === undefined) await release();
    };
  }

  override async connect(): Promise<any> {
    const client: PgClient = await super.connect().catch((error: unknown) => {
      throw this.context.translateError(error, { isConnecting: true });
    });
    if (this.context.servesRequests)
      this.timer ??= setTimeout(() => {
        this.abortion = cancelQuery(client).then(() => client.end());
      }, TRANSACTION_TIMEOUT_MS);
    return client;
  }

  override query(query: string, parameters?: any[], useStructuredResult?: boolean): Promise<any> {
    const run = async (): Promise<any> => {
      try {
        if (this.abortion !== undefined) throw createTimeoutError();
        return await this.send(query, parameters, useStructuredResult);
      } catch (error) {
        // It would stay read-only.
        if (getDriverErrorCode(error) === READ_ONLY_TRANSACTION)
          void (this.databaseConnection as PgClient).end();
        const isCommit = this.isTransactionActive ? this.isCommitting : !this.reads;
        throw this.context.translateError(error, { isCommit });
      }
    };
    // Outside of a transaction, a statement is one.
    return this.isTransactionActive ? run() : repeatOnConflict(run);
  }

  override commitTransaction(): Promise<void> {
    this.isCommitting = this.transactionDepth === 1;
    return super.commitTransaction();
  }

  override async release(): Promise<void> {
    clearTimeout(this.timer);
    // Otherwise it would cancel the next query of the connection.
    await this.abortion;
    await super.release();
  }

  /** Sends a statement, with a name if connections prepare it. */
  private async send(query: string, parameters?: any[], isStructured?: boolean): Promise<any> {
    const run = (sent: unknown): Promise<any> =>
      super.query(sent as string, parameters, isStructured);
    // In a transaction it could not be repeated.
    const name = this.isTransactionActive ? undefined : this.context.preparedNames.get(query);
    if (name === undefined) return run(query);
    try {
      // TypeORM passes what pg accepts, too, but does not declare it.
      return await run({ name, text: query });
    } catch (error) {
      if (!this.context.stopPreparing(error)) throw Object.assign(error as Error, { query });
      return run(query);
    }
  }
}

/**
 * Runs a statement, and retries it while another process holds the write lock of the SQLite file. Unlike SQLite's own
 * `busy_timeout`, it does not block the event loop.
 */
const retryOnBusy = <T>(run: () => Promise<T>): Promise<T> =>
  repeat(run, isBusyError, (repetitions) => Math.min(2 ** repetitions, MAX_BUSY_DELAY_MS));

/**
 * Runs a transaction, and repeats it if it conflicts with another.
 *
 * @throws {TransactionConflictError} if it still conflicts after two repetitions
 */
export const repeatOnConflict = <T>(run: () => Promise<T>): Promise<T> =>
  repeat(
    run,
    (error, repetitions) => error instanceof TransactionConflictError && repetitions < 2,
    // At random, so that transactions that have met do not meet again.
    () => Math.random() * MAX_CONFLICT_DELAY_MS,
  );

/** Repeats work that fails, after a delay, as long as a transaction may take itself. */
async function repeat<T>(
  run: () => Promise<T>,
  isWorthIt: (error: unknown, repetitions: number) => boolean,
  getDelay: (repetitions: number) => number,
): Promise<T> {
  const deadline = performance.now() + TRANSACTION_TIMEOUT_MS;
  for (let repetitions = 0; ; repetitions++) {
    try {
      return await run();
    } catch (error) {
      if (!isWorthIt(error, repetitions) || performance.now() > deadline) throw error;
    }
    await delay(getDelay(repetitions));
  }
}
