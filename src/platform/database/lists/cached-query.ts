import type { ObjectLiteral, Repository } from 'typeorm';
import { singleFlight } from './single-flight.js';
import type { DatabaseMetrics } from '../../metrics/database-metrics.js';
import { withDeadline } from '../connection/deadline.js';
import type { TableRevisionTracker } from './table-revision-tracker.js';

/** How often rows are read that change meanwhile. */
const MAX_READS = 3;

/** A value computed from rows. */
export interface Loaded<Value> {
  readonly value: Value;
  /** Whether one statement read all rows. */
  readonly isOfOneMoment: boolean;
}

/**
 * A value computed from the rows of a table, and cached until the table changes. It includes every
 * change that was acknowledged before `get` was called, by this process or another. If several statements read the
 * rows, and the table changed meanwhile, they are read again, at most twice; then the value is not cached. On
 * PostgreSQL the migration of the table must call `addRevisionTrigger`.
 */
export class CachedQuery<Entity extends ObjectLiteral, Value> {
  private cached: { readonly revision: number; readonly value: Value } | undefined;
  private pendingRevision: number | undefined;
  private readonly refresh = singleFlight(() => this.rebuild());

  /** @param load reads the rows and computes the value */
  constructor(
    private readonly repository: Repository<Entity>,
    private readonly load: () => Promise<Loaded<Value>>,
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
    let revision = this.pendingRevision!;
    if (this.cached?.revision === revision) return this.cached.value;
    this.metrics.listCacheMisses.inc({ table: this.table });
    for (let reads = 1; ; reads++) {
      const { value, isOfOneMoment } = await this.load();
      const current = isOfOneMoment ? revision : await this.revisions.read(this.table);
      if (current === revision) this.cached = { revision, value };
      else if (reads < MAX_READS) {
        revision = current;
        continue;
      }
      return value;
    }
  }
}
