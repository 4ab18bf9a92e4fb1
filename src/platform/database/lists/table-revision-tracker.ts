import { setImmediate as turn } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import { singleFlight } from './single-flight.js';
import { type Deadline, withDeadline } from '../connection/deadline.js';
import { isPostgres } from '../connection/is-postgres.js';
import { PetstoreDataSource } from '../connection/petstore-data-source.js';

/** Detects changes of a table, by this process or any other: while its revision stays the same, so do its rows. */
@Injectable()
export class TableRevisionTracker {
  private nextDataVersion: Promise<number> | undefined;
  private readonly readRevisions = singleFlight(async () => {
    const rows: { name: string; value: string }[] = await this.dataSource.query(
      'SELECT "name", "value" FROM "revisions"',
    );
    return new Map(rows.map(({ name, value }) => [name, Number(value)]));
  });

  constructor(@InjectDataSource() private readonly dataSource: PetstoreDataSource) {}

  /**
   * Returns the revision of a table at a moment after the call. Concurrent calls share one check.
   *
   * @throws {DatabaseUnavailableError}
   */
  read(table: string, deadline?: Deadline): Promise<number> {
    return isPostgres(this.dataSource)
      ? withDeadline(this.readRevision(table), deadline)
      : this.readDataVersion();
  }

  private async readRevision(table: string): Promise<number> {
    const revision = (await this.readRevisions()).get(table);
    if (revision !== undefined) return revision;
    // A missing table is reported as such.
    await this.dataSource.query(`SELECT FROM "${table}" LIMIT 0`);
    throw new Error(`The table ${table} has no revision: call addRevisionTrigger in its migration`);
  }

  /** The calls of one turn of the event loop share the check at its end. */
  private readDataVersion(): Promise<number> {
    return (this.nextDataVersion ??= turn().then(() => {
      this.nextDataVersion = undefined;
      return this.dataSource.readDataVersion();
    }));
  }
}
