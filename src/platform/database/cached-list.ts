import { setImmediate as turn } from 'node:timers/promises';
import Database from 'better-sqlite3';
import type { ObjectLiteral, Repository } from 'typeorm';
import { CachedQuery } from './cached-query.js';
import { isPostgres } from './columns.js';
import type { DatabaseMetrics } from './database-metrics.js';
import type { PetstoreDataSource } from './petstore-data-source.js';
import { selectColumns, toEntities } from './row-mapping.js';
import type { TableRevisionTracker } from './table-revision-tracker.js';

/** How many rows are read and converted in one turn of the event loop, in 3 to 4 ms. */
const CHUNK_SIZE = 1_000;

/**
 * A value computed from all rows of a table in id order, and cached until the table changes (see
 * {@link CachedQuery}). The rows are those of one moment, and are read in chunks, so that a long list does not
 * block the event loop; but each change costs 3 to 4 ms of CPU time per 1,000 rows. Use `CachedPages` for a
 * table that may have more than 10,000.
 */
export class CachedList<Entity extends ObjectLiteral, Value> {
  private readonly query: CachedQuery<Entity, Value>;
  /** Whether SQLite has returned more rows than one turn of the event loop can read. */
  private isLong = false;

  /** @param build computes the value from the rows, in chunks */
  constructor(
    private readonly repository: Repository<Entity>,
    build: (chunks: AsyncIterable<Entity[]>) => Promise<Value>,
    revisions: TableRevisionTracker,
    metrics: DatabaseMetrics,
  ) {
    this.query = new CachedQuery(repository, () => build(this.readChunks()), revisions, metrics);
  }

  /** @throws {DatabaseUnavailableError} */
  get(): Value | Promise<Value> {
    return this.query.get();
  }

  private readChunks(): AsyncGenerator<Entity[]> {
    return isPostgres(this.repository.manager.dataSource) ? this.readPostgres() : this.readSqlite();
  }

  private async *readPostgres(): AsyncGenerator<Entity[]> {
    const rows: Record<string, unknown>[] = await this.repository.query(this.select());
    for (let start = 0; start < rows.length; start += CHUNK_SIZE) {
      if (start > 0) await turn();
      yield toEntities(this.repository, rows.slice(start, start + CHUNK_SIZE));
    }
  }

  private async *readSqlite(): AsyncGenerator<Entity[]> {
    if (!this.isLong) {
      const rows: Record<string, unknown>[] = await this.repository.query(
        `${this.select()} LIMIT ${CHUNK_SIZE + 1}`,
      );
      this.isLong = rows.length > CHUNK_SIZE;
      if (!this.isLong) {
        yield toEntities(this.repository, rows);
        return;
      }
    }
    // A transaction on a connection of its own sees one state of the database, and blocks no other statement.
    const { options, translateError } = this.repository.manager.dataSource as PetstoreDataSource;
    try {
      const connection = new Database(options.database as string, { readonly: true });
      try {
        connection.exec('BEGIN');
        const statement = connection.prepare<[id: number], Record<string, unknown>>(
          `${this.select('WHERE "id" > ?')} LIMIT ${CHUNK_SIZE}`,
        );
        for (let rows = statement.all(0); rows.length > 0;) {
          const lastId = rows.at(-1)!['id'] as number;
          yield toEntities(this.repository, rows);
          await turn();
          rows = statement.all(lastId);
        }
      } finally {
        connection.close();
      }
    } catch (error) {
      throw translateError(error);
    }
  }

  private select(condition = ''): string {
    const { metadata } = this.repository;
    return `SELECT ${selectColumns(metadata)} FROM "${metadata.tableName}" ${condition} ORDER BY "id"`;
  }
}
