import { setTimeout as delay } from 'node:timers/promises';
import { DataSource, type Migration, type QueryRunner } from 'typeorm';
import { isBusyError } from './driver-errors.js';
import { SQLITE_BUSY_TIMEOUT } from './data-source-options.js';
import { idType, isPostgres, bigintTransformer } from './columns.js';

/** Milliseconds between two tries to get SQLite's write lock, at most. */
const MAX_RETRY_DELAY_MS = 50;

/** Names the advisory lock of the migrations, among the locks of all that share a PostgreSQL database. */
const MIGRATION_LOCK = 7_738_378_831;

/** The DataSource of the service, of its commands and of TypeORM's CLI. */
export class PetstoreDataSource extends DataSource {
  private patientRunner: QueryRunner | undefined;

  /**
   * Connects and brings the schema up to date. Of several processes that do so at the same moment one
   * migrates, and the others wait for it.
   *
   * @returns the migrations that it took
   */
  async open(): Promise<Migration[]> {
    await this.initialize();
    return isPostgres(this) ? this.migratePostgres() : this.migrateSqlite();
  }

  /**
   * From now on a statement that meets another process's write lock waits for it between tries, and
   * the event loop goes on. SQLite's own wait, which holds everything up, is for what serves nobody.
   */
  async waitWithoutBlocking(): Promise<void> {
    if (isPostgres(this)) return;
    await this.query('PRAGMA busy_timeout = 0');
    // TypeORM has one query runner for SQLite, through which every statement goes.
    const runner = this.createQueryRunner();
    if (runner === this.patientRunner) return;
    this.patientRunner = runner;
    const query = runner.query.bind(runner) as (...all: unknown[]) => Promise<any>;
    runner.query = async (...all: unknown[]): Promise<any> => {
      const deadline = performance.now() + SQLITE_BUSY_TIMEOUT;
      for (let retryDelay = 1; ; retryDelay = Math.min(retryDelay * 2, MAX_RETRY_DELAY_MS)) {
        try {
          return await query(...all);
        } catch (error) {
          // Others must not come between the statements of a transaction.
          const mayWait = isBusyError(error) && !runner.isTransactionActive;
          if (!mayWait || performance.now() > deadline) throw error;
        }
        await delay(retryDelay);
      }
    };
  }

  /** In one transaction that takes the write lock before it looks at what is left to do. */
  private async migrateSqlite(): Promise<Migration[]> {
    // As TypeORM does around a migration; within a transaction it would have no effect.
    await this.query('PRAGMA foreign_keys = OFF');
    await this.query('BEGIN IMMEDIATE');
    try {
      const migrations = await this.runMigrations({ transaction: 'none' });
      await this.query('COMMIT');
      return migrations;
    } catch (error) {
      await this.query('ROLLBACK');
      throw error;
    } finally {
      await this.query('PRAGMA foreign_keys = ON');
    }
  }

  private async migratePostgres(): Promise<Migration[]> {
    const lockRunner = this.createQueryRunner();
    try {
      await lockRunner.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK]);
      return await this.runMigrations();
    } finally {
      // Before the connection goes back to the pool: the lock belongs to the connection.
      await lockRunner.query('SELECT pg_advisory_unlock($1)', [MIGRATION_LOCK]);
      await lockRunner.release();
    }
  }

  /**
   * Entities declare their id as `bigint`, which it is. SQLite knows the same 64 bits by another
   * name, and PostgreSQL's driver gives them as text.
   */
  protected override async buildMetadatas(): Promise<void> {
    await super.buildMetadatas();
    for (const column of this.entityMetadatas.flatMap((entity) => entity.columns)) {
      if (column.generationStrategy !== 'increment') continue;
      column.type = idType(this);
      column.transformer = bigintTransformer;
    }
  }
}
