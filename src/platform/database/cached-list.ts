import type { ObjectLiteral, Repository } from 'typeorm';
import { coalesce } from './coalesce.js';
import type { DatabaseMetrics } from './database-metrics.js';
import { withDeadline } from './deadline.js';
import { selectColumns, toEntities } from './row-mapping.js';
import type { TableRevisionTracker } from './table-revision-tracker.js';

/**
 * A value computed from all rows of a table in id order, and cached until the table changes. It includes
 * every change that was acknowledged before `get` was called, by this process or another. On PostgreSQL
 * the migration of the table must call `addRevisionTrigger`.
 */
export class CachedList<Entity extends ObjectLiteral, Value> {
  private cached: { readonly revision: number; readonly value: Value } | undefined;
  private pendingRevision: number | undefined;
  private readonly refresh = coalesce(() => this.rebuild());

  /** @param build computes the value from the rows */
  constructor(
    private readonly repository: Repository<Entity>,
    private readonly build: (rows: Entity[]) => Value,
    private readonly revisions: TableRevisionTracker,
    private readonly metrics: DatabaseMetrics,
  ) {}

  /** @throws {DatabaseUnavailableError} */
  get(): Value | Promise<Value> {
    const revision = this.revisions.read(this.table);
    if (typeof revision !== 'number')
      return withDeadline(revision.then((read) => this.getForRevision(read)));
    const value = this.getForRevision(revision);
    return value instanceof Promise ? withDeadline(value) : value;
  }

  /** The metadata exists once the DataSource is initialized. */
  private get table(): string {
    return this.repository.metadata.tableName;
  }

  private getForRevision(revision: number): Value | Promise<Value> {
    if (this.cached?.revision === revision) {
      this.metrics.listCacheHits.inc({ table: this.table });
      return this.cached.value;
    }
    this.pendingRevision = revision;
    return this.refresh();
  }

  private async rebuild(): Promise<Value> {
    // The newest revision that was read before the rows. If the table changes between the two reads, the
    // value is stored under the older revision, which costs one needless rebuild. In the other order
    // the change would be missed.
    const revision = this.pendingRevision!;
    if (this.cached?.revision === revision) return this.cached.value;
    this.metrics.listCacheMisses.inc({ table: this.table });
    const value = this.build(await this.readRows());
    this.cached = { revision, value };
    return value;
  }

  private async readRows(): Promise<Entity[]> {
    const { metadata } = this.repository;
    return toEntities(
      this.repository,
      await this.repository.query(
        `SELECT ${selectColumns(metadata)} FROM "${this.table}" ORDER BY "id"`,
      ),
    );
  }
}
