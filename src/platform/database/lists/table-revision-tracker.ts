import { Injectable, Logger } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import { RANDOM_REVISION, toTriggerSql } from './revision-trigger.js';
import { DatabaseConnection } from '../connection/database-connection.js';
import { type Deadline, withDeadline } from '../connection/deadline.js';
import { ServiceDataSource } from '../connection/service-data-source.js';

/** Detects changes of a table, by this process or any other: while its revision stays the same, so do its rows. */
@Injectable()
export class TableRevisionTracker {
  private readonly logger = new Logger(TableRevisionTracker.name);

  constructor(
    @InjectDataSource() private readonly dataSource: ServiceDataSource,
    database: DatabaseConnection,
  ) {
    if (this.hasRevisionTable) database.onReady(() => this.checkTriggers());
  }

  /** Whether a statement can read a revision together with the rows. */
  get hasRevisionTable(): boolean {
    return this.dataSource.dialect.hasRevisionTable;
  }

  /**
   * Returns the revision of a table at a moment after the call. Concurrent calls share one check.
   *
   * @throws {DatabaseUnavailableError}
   */
  read(table: string, deadline?: Deadline): Promise<number> {
    const revision = this.dataSource.readRevision(table);
    return this.hasRevisionTable ? withDeadline(revision, deadline) : revision;
  }

  /**
   * Warns of tables whose trigger is not that of their migration: pg_restore --disable-triggers enables it for some
   * sessions only, and a table that replaces another has none.
   */
  private async checkTriggers(): Promise<void> {
    // 60: after each INSERT, UPDATE, DELETE and TRUNCATE statement. A: in all sessions.
    const rows: { name: string }[] = await this.dataSource.query(
      `SELECT "name" FROM "revisions" WHERE to_regclass(quote_ident("name")) IS NOT NULL AND NOT EXISTS (
         SELECT FROM pg_trigger WHERE "tgrelid" = to_regclass(quote_ident("name")) AND "tgtype" = 60
           AND "tgenabled" = 'A' AND "tgfoid" = to_regproc('raise_revision'))`,
    );
    for (const { name } of rows)
      this.logger.warn(
        `Lists may lack changes of the table ${name}: its trigger is missing or not always enabled. Repair it with: ${toTriggerSql(name)}; UPDATE "revisions" SET "value" = ${RANDOM_REVISION}`,
      );
  }
}
