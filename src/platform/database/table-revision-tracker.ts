import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import Database from 'better-sqlite3';
import { DataSource } from 'typeorm';
import { coalesce } from './coalesce.js';
import { isPostgres } from './columns.js';

/**
 * Detects changes of a table. While its revision stays the same, what was read from it after that
 * revision was first seen is current. Every commit counts, of this process and of any other.
 */
@Injectable()
export class TableRevisionTracker implements OnApplicationShutdown {
  private watcher: Database.Database | undefined;
  private dataVersionStatement: Database.Statement<[], number> | undefined;
  private readonly readRevisions = coalesce(async () => {
    const rows: { name: string; value: string }[] = await this.dataSource.query(
      'SELECT "name", "value" FROM "revisions"',
    );
    return new Map(rows.map(({ name, value }) => [name, Number(value)]));
  });

  constructor(@InjectDataSource() private readonly dataSource: DataSource) {}

  /**
   * Returns the revision of a table at a moment after the call.
   *
   * @throws {DatabaseUnavailableError}
   */
  read(table: string): number | Promise<number> {
    if (isPostgres(this.dataSource)) {
      return this.readRevisions().then((revisions) => revisions.get(table)!);
    }
    this.dataVersionStatement ??= this.openWatcher();
    return this.dataVersionStatement.get()!;
  }

  onApplicationShutdown(): void {
    this.watcher?.close();
  }

  /**
   * SQLite's `data_version` changes with every commit of *another* connection, to any table. A
   * connection that writes nothing therefore sees the commits of this process, of other processes and
   * of the `sqlite3` shell alike (https://sqlite.org/pragma.html#pragma_data_version; measured: 2 us).
   */
  private openWatcher(): Database.Statement<[], number> {
    this.watcher = new Database(this.dataSource.options.database as string, { readonly: true });
    return this.watcher.prepare<[], number>('PRAGMA data_version').pluck();
  }
}
