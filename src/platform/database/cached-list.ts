import type { Type } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import { JsonSnapshot } from '../http/responses/cached-json-response.js';
import type { Counter, Metrics } from '../metrics/metrics-registry.js';
import { patiently } from './driver-errors.js';
import type { Revision } from './table-revision-tracker.js';
import { tableOf } from './columns.js';
import { shareNext } from './coalesce.js';

/**
 * The list of all rows of an entity, in id order, made once and sent until it changes. It is current at
 * the time of asking: it shows every create, update and delete that was answered before, by this
 * process or by another one. On PostgreSQL the migration of the table must call `trackRevision`.
 */
export class ListSnapshot<Row> {
  private latest: { readonly revision: number; readonly list: JsonSnapshot } | undefined;
  private seen: number | undefined;
  private readonly refresh = shareNext(() => this.make());
  private readonly table: string;
  private readonly hits: Counter;
  private readonly rebuilds: Counter;

  /** @param toItem what the list says of a row of a query; its properties are those of the entity */
  constructor(
    private readonly entity: Type,
    private readonly toItem: (row: Row) => unknown,
    private readonly dataSource: DataSource,
    private readonly revision: Revision,
    metrics: Metrics,
  ) {
    this.table = tableOf(entity);
    const labels = { snapshot: this.table };
    this.hits = metrics.counter(
      'petstore_snapshot_hits_total',
      'Reads that a snapshot served as it was.',
      labels,
    );
    this.rebuilds = metrics.counter(
      'petstore_snapshot_rebuilds_total',
      'Times that a snapshot was made anew, because its table may have changed.',
      labels,
    );
  }

  /** @throws {ApiError} SERVICE_UNAVAILABLE where the database does not answer */
  current(): JsonSnapshot | Promise<JsonSnapshot> {
    const revision = this.revision.read(this.table);
    if (typeof revision !== 'number') return patiently(revision.then((read) => this.at(read)));
    const list = this.at(revision);
    return list instanceof Promise ? patiently(list) : list;
  }

  private at(revision: number): JsonSnapshot | Promise<JsonSnapshot> {
    if (this.latest?.revision === revision) {
      this.hits.value++;
      return this.latest.list;
    }
    this.seen = revision;
    return this.refresh();
  }

  private async make(): Promise<JsonSnapshot> {
    // The newest revision that was read before the rows: a change between the two reads is then in the
    // list under the older revision, and costs one needless read. The other way round it would be missed.
    const revision = this.seen!;
    if (this.latest?.revision === revision) return this.latest.list;
    const { columns } = this.dataSource.getMetadata(this.entity);
    const names = columns.map(
      ({ databaseName, propertyName }) => `"${databaseName}" AS "${propertyName}"`,
    );
    // Plain rows: a large list takes twice the time as entities.
    const rows: Row[] = await this.dataSource.query(
      `SELECT ${names.join(', ')} FROM "${this.table}" ORDER BY "id"`,
    );
    this.rebuilds.value++;
    const list = new JsonSnapshot(rows.map(this.toItem));
    this.latest = { revision, list };
    return list;
  }
}
