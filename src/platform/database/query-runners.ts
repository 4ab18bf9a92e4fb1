/**
 * TypeORM's query runners, which every statement goes through, with the errors of the driver translated
 * at this boundary. TypeORM has no hook for it: its subscribers and loggers cannot replace an error.
 */
import type { BetterSqlite3Driver } from 'typeorm/driver/better-sqlite3/BetterSqlite3Driver.js';
import { BetterSqlite3QueryRunner } from 'typeorm/driver/better-sqlite3/BetterSqlite3QueryRunner.js';
import type { PostgresDriver } from 'typeorm/driver/postgres/PostgresDriver.js';
import { PostgresQueryRunner } from 'typeorm/driver/postgres/PostgresQueryRunner.js';
import { retryOnBusy } from './retry-on-busy.js';

/** Returns the error to throw for one that the driver threw, possibly before it had a connection. */
export type ErrorTranslator = (error: unknown, isConnecting?: boolean) => unknown;

/** Runs the statements of a SQLite database, on its only connection. */
export class SqliteQueryRunner extends BetterSqlite3QueryRunner {
  /** How long a statement waits for the write lock of another process, in milliseconds. */
  lockTimeout = 0;

  constructor(
    driver: BetterSqlite3Driver,
    private readonly translate: ErrorTranslator,
  ) {
    super(driver);
  }

  // TypeORM declares the result as `any`, too.
  override async query(
    query: string,
    parameters?: any[],
    useStructuredResult?: boolean,
  ): Promise<any> {
    const run = (): Promise<any> => super.query(query, parameters, useStructuredResult);
    try {
      // The statements of a transaction are not retried: others could come between them.
      return this.lockTimeout === 0 || this.isTransactionActive
        ? await run()
        : await retryOnBusy(run, this.lockTimeout);
    } catch (error) {
      throw this.translate(error);
    }
  }
}

/** Runs statements on one connection of the PostgreSQL pool. */
export class PgQueryRunner extends PostgresQueryRunner {
  constructor(
    driver: PostgresDriver,
    mode: 'master' | 'slave',
    private readonly translate: ErrorTranslator,
  ) {
    super(driver, mode);
  }

  override connect(): Promise<any> {
    return super.connect().catch((error: unknown) => {
      throw this.translate(error, true);
    });
  }

  override async query(
    query: string,
    parameters?: any[],
    useStructuredResult?: boolean,
  ): Promise<any> {
    try {
      return await super.query(query, parameters, useStructuredResult);
    } catch (error) {
      throw this.translate(error);
    }
  }
}
