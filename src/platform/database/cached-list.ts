import type { Type } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import { CachedJsonResponse } from '../http/responses/cached-json-response.js';
import type { Counter, MetricsRegistry } from '../metrics/metrics-registry.js';
import { withDeadline } from './driver-errors.js';
import type { TableRevisionTracker } from './table-revision-tracker.js';
import { getTableName } from './columns.js';
import { coalesce } from './coalesce.js';

/**
 * The list of all rows of an entity, in id order, made once and sent until it changes. It is current at
 * the time of asking: it shows every create, update and delete that was answered before, by this
 * process or by another one. On PostgreSQL the migration of the table must call `trackRevision`.
 */
export class CachedList<Row> {
  private cached: { readonly revision: number; readonly list: CachedJsonResponse } | undefined;
  private pendingRevision: number | undefined;
  private readonly refresh = coalesce(() => this.rebuild());
  private readonly table: string;
  private readonly hits: Counter;
  private readonly misses: Counter;

  /** @param toResponse what the list says of a row of a query; its properties are those of the entity */
  constructor(
    private readonly entity: Type,
    private readonly toResponse: (row: Row) => unknown,
    private readonly dataSource: DataSource,
    private readonly revision: TableRevisionTracker,
    metrics: MetricsRegistry,
  ) {
    this.table = getTableName(entity);
    const labels = { snapshot: this.table };
    this.hits = metrics.counter(
      'petstore_snapshot_hits_total',
      'Reads that a snapshot served as it was.',
      labels,
    );
    this.misses = metrics.counter(
      'petstore_snapshot_rebuilds_total',
      'Times that a snapshot was made anew, because its table may have changed.',
      labels,
    );
  }

  /** @throws {ApiError} SERVICE_UNAVAILABLE where the database does not answer */
  get(): CachedJsonResponse | Promise<CachedJsonResponse> {
    const revision = this.revision.read(this.table);
    if (typeof revision !== 'number')
      return withDeadline(revision.then((read) => this.getForRevision(read)));
    const list = this.getForRevision(revision);
    return list instanceof Promise ? withDeadline(list) : list;
  }

  private getForRevision(revision: number): CachedJsonResponse | Promise<CachedJsonResponse> {
    if (this.cached?.revision === revision) {
      this.hits.value++;
      return this.cached.list;
    }
    this.pendingRevision = revision;
    return this.refresh();
  }

  private async rebuild(): Promise<CachedJsonResponse> {
    // The newest revision that was read before the rows: a change between the two reads is then in the
    // list under the older revision, and costs one needless read. The other way round it would be missed.
    const revision = this.pendingRevision!;
    if (this.cached?.revision === revision) return this.cached.list;
    const { columns } = this.dataSource.getMetadata(this.entity);
    const names = columns.map(
      ({ databaseName, propertyName }) => `"${databaseName}" AS "${propertyName}"`,
    );
    // Plain rows: a large list takes twice the time as entities.
    const rows: Row[] = await this.dataSource.query(
      `SELECT ${names.join(', ')} FROM "${this.table}" ORDER BY "id"`,
    );
    this.misses.value++;
    const list = new CachedJsonResponse(rows.map(this.toResponse));
    this.cached = { revision, list };
    return list;
  }
}
