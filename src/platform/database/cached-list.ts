import type { ObjectLiteral, Repository } from 'typeorm';
import { CachedQuery } from './cached-query.js';
import type { DatabaseMetrics } from './database-metrics.js';
import { selectColumns, toEntities } from './row-mapping.js';
import type { TableRevisionTracker } from './table-revision-tracker.js';

/**
 * A value computed from all rows of a table in id order, and cached until the table changes (see
 * {@link CachedQuery}). After a change, SQLite and `build` block the event loop for 3 to 4 ms per 1,000
 * rows (measured with names and descriptions of 50 bytes: 16 ms for 5,000, 34 ms for 10,000). Use
 * `CachedPages` for a table that may have more than 5,000 rows.
 */
export class CachedList<Entity extends ObjectLiteral, Value> {
  private readonly query: CachedQuery<Entity, Value>;

  /** @param build computes the value from the rows */
  constructor(
    private readonly repository: Repository<Entity>,
    build: (rows: Entity[]) => Value,
    revisions: TableRevisionTracker,
    metrics: DatabaseMetrics,
  ) {
    const load = async (): Promise<Value> => build(await this.readRows());
    this.query = new CachedQuery(repository, load, revisions, metrics);
  }

  /** @throws {DatabaseUnavailableError} */
  get(): Value | Promise<Value> {
    return this.query.get();
  }

  private async readRows(): Promise<Entity[]> {
    const { metadata } = this.repository;
    const rows: Record<string, unknown>[] = await this.repository.query(
      `SELECT ${selectColumns(metadata)} FROM "${metadata.tableName}" ORDER BY "id"`,
    );
    return toEntities(this.repository, rows);
  }
}
