/**
 * TypeORM's query runners, which every statement goes through, with the errors of the driver translated
 * at this boundary, and transactions that are limited in time. TypeORM has no hook for either: its
 * subscribers and loggers cannot replace an error.
 */
import type { Mutex } from 'async-mutex';
import type { Client } from 'pg';
import type { BetterSqlite3Driver } from 'typeorm/driver/better-sqlite3/BetterSqlite3Driver.js';
import { BetterSqlite3QueryRunner } from 'typeorm/driver/better-sqlite3/BetterSqlite3QueryRunner.js';
import type { PostgresDriver } from 'typeorm/driver/postgres/PostgresDriver.js';
import { PostgresQueryRunner } from 'typeorm/driver/postgres/PostgresQueryRunner.js';
import { DatabaseUnavailableError } from './driver-errors.js';
import { retryOnBusy } from './retry-on-busy.js';

/** What the query runners of a DataSource share. */
export interface RunnerContext {
  /** Reports an error of the driver, possibly before there is a connection, and returns the error to throw. */
  readonly translateError: (error: unknown, isConnecting?: boolean) => unknown;
  /** How long a transaction may take, in milliseconds; 0 does not limit it. */
  readonly transactionTimeout: number;
}

/** The only connection to a SQLite database. */
export interface SqliteSession {
  /** Held by a statement, or by a transaction from its beginning to its end. */
  readonly mutex: Mutex;
  /** The prepared statements, by their SQL. */
  readonly statements: Map<string, unknown>;
  /** How long a statement waits for the write lock of another process, in milliseconds. */
  lockTimeout: number;
}

/** A transaction was rolled back because it took too long. */
function transactionTimeout(milliseconds: number): DatabaseUnavailableError {
  return new DatabaseUnavailableError(
    new Error(
      `The transaction took longer than ${milliseconds} ms. Within it, use only its manager, and wait for nothing but the database`,
    ),
  );
}

/**
 * Runs statements on the only connection to a SQLite database. A statement outside of a transaction waits
 * until the transactions that began before it have ended.
 */
export class SqliteQueryRunner extends BetterSqlite3QueryRunner {
  /** Ends the exclusive use of the connection; set while a transaction is active. */
  private releaseMutex: (() => void) | undefined;
  private timer: NodeJS.Timeout | undefined;
  private timeoutError: DatabaseUnavailableError | undefined;

  constructor(
    driver: BetterSqlite3Driver,
    private readonly context: RunnerContext,
    private readonly session: SqliteSession,
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
    if (this.timeoutError !== undefined) throw this.context.translateError(this.timeoutError);
    const run = (): Promise<any> => super.query(query, parameters, useStructuredResult);
    try {
      if (query === 'BEGIN TRANSACTION') return await this.begin();
      if (this.releaseMutex === undefined) return await this.runOutsideTransaction(run);
      const result: unknown = await run();
      if (query === 'COMMIT') this.end();
      return result;
    } catch (error) {
      throw this.context.translateError(error);
    } finally {
      if (query === 'ROLLBACK') this.end();
    }
  }

  private runOutsideTransaction(run: () => Promise<unknown>): Promise<unknown> {
    const { mutex, lockTimeout } = this.session;
    return retryOnBusy(() => mutex.runExclusive(run), lockTimeout);
  }

  /** Takes the write lock at once: a transaction that reads first could not always get it later. */
  private async begin(): Promise<void> {
    const { mutex, lockTimeout } = this.session;
    await retryOnBusy(async () => {
      const release = await mutex.acquire();
      try {
        await super.query('BEGIN IMMEDIATE');
        this.releaseMutex = release;
      } catch (error) {
        release();
        throw error;
      }
    }, lockTimeout);
    const { transactionTimeout: timeout } = this.context;
    if (timeout > 0) this.timer = setTimeout(() => void this.abort(timeout), timeout);
  }

  private async abort(timeout: number): Promise<void> {
    this.timeoutError = transactionTimeout(timeout);
    await super.query('ROLLBACK').catch(() => undefined);
    this.end();
  }

  private end(): void {
    clearTimeout(this.timer);
    this.releaseMutex?.();
    this.releaseMutex = undefined;
  }
}

/** Runs statements on one connection of the PostgreSQL pool. */
export class PgQueryRunner extends PostgresQueryRunner {
  /** Whether the runner was released by its user. */
  private hasEnded = false;
  private timer: NodeJS.Timeout | undefined;
  private timeoutError: DatabaseUnavailableError | undefined;

  constructor(
    driver: PostgresDriver,
    mode: 'master' | 'slave',
    private readonly context: RunnerContext,
  ) {
    super(driver, mode);
  }

  override connect(): Promise<any> {
    return super.connect().catch((error: unknown) => {
      throw this.context.translateError(error, true);
    });
  }

  override async query(
    query: string,
    parameters?: any[],
    useStructuredResult?: boolean,
  ): Promise<any> {
    try {
      if (this.timeoutError !== undefined) throw this.timeoutError;
      const result: unknown = await super.query(query, parameters, useStructuredResult);
      if (query === 'START TRANSACTION') this.limitTransaction();
      return result;
    } catch (error) {
      // TypeORM releases a runner whose connection is lost between two statements.
      const isConnectionLost = this.isReleased && !this.hasEnded;
      throw this.context.translateError(this.timeoutError ?? error, isConnectionLost);
    } finally {
      if (query === 'COMMIT' || query === 'ROLLBACK') clearTimeout(this.timer);
    }
  }

  override release(): Promise<void> {
    this.hasEnded = true;
    return super.release();
  }

  /** Closes the connection of a transaction that takes too long, which rolls it back. */
  private limitTransaction(): void {
    const { transactionTimeout: timeout } = this.context;
    if (timeout === 0) return;
    this.timer = setTimeout(() => {
      this.timeoutError = transactionTimeout(timeout);
      (this.databaseConnection as Client).connection.stream.destroy();
    }, timeout);
  }
}
