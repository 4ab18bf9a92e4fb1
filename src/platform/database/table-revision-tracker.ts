import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import Database from 'better-sqlite3';
import { DataSource } from 'typeorm';
import { isPostgres } from './columns.js';
import { coalesce } from './coalesce.js';

/**
 * Tells whether a table has changed: while its revision stays the same, what was read from it after
 * that revision was first seen is still true. Every commit counts, of this process and of any other.
 */
@Injectable()
export class TableRevisionTracker implements OnApplicationShutdown {
  private watcher: Database.Database | undefined;
  private dataVersionStatement: Database.Statement<[], number> | undefined;
  /** Requests that wait at the same moment share one query. */
  private readonly revisions = coalesce(async () => {
    const rows: { name: string; value: string }[] = await this.dataSource.query(
      'SELECT "name", "value" FROM "revisions"',
    );
    return new Map(rows.map(({ name, value }) => [name, Number(value)]));
  });

  constructor(@InjectDataSource() private readonly dataSource: DataSource) {}

  /**
   * The revision of a table at a moment after the call.
   *
   * @throws {QueryFailedError} where the database does not answer
   */
  read(table: string): number | Promise<number> {
    if (isPostgres(this.dataSource)) {
      return this.revisions().then((revisions) => revisions.get(table)!);
    }
    this.dataVersionStatement ??= this.openWatcher();
    return this.dataVersionStatement.get()!;
  }

  onApplicationShutdown(): void {
    this.watcher?.close();
  }

  /**
   * SQLite's `data_version` changes with every commit of *another* connection, to any table. So it is
   * asked on one that writes nothing, and sees the commits of this process, of other processes and of
   * somebody with the `sqlite3` shell alike (https://sqlite.org/pragma.html#pragma_data_version;
   * measured: 2 us).
   */
  private openWatcher(): Database.Statement<[], number> {
    this.watcher = new Database(this.dataSource.options.database as string, { readonly: true });
    return this.watcher.prepare<[], number>('PRAGMA data_version').pluck();
  }
}
