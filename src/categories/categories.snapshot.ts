import { Injectable } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { Revision } from '../database/revision.js';
import { shareNext } from '../database/share-next.js';
import { JsonSnapshot } from '../http/json-snapshot.js';
import { type Counter, Metrics } from '../metrics/metrics.service.js';
import { type CategoryRow, toCategory } from './categories.entity.js';

/**
 * The list of all categories, made once and sent until it changes. It is current at the time of
 * asking: it shows every create that was answered before, by this process or by another one.
 */
@Injectable()
export class CategoriesSnapshot {
  private latest: { readonly revision: number; readonly list: JsonSnapshot } | undefined;
  private readonly refresh = shareNext(() => this.make());
  private readonly hits: Counter;
  private readonly rebuilds: Counter;

  constructor(
    private readonly revision: Revision,
    @InjectDataSource() private readonly dataSource: DataSource,
    metrics: Metrics,
  ) {
    const labels = { snapshot: 'categories' };
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

  /** @throws {QueryFailedError} where the database does not answer */
  current(): JsonSnapshot | Promise<JsonSnapshot> {
    const revision = this.revision.read('categories');
    return typeof revision === 'number'
      ? this.at(revision)
      : revision.then((read) => this.at(read));
  }

  private at(revision: number): JsonSnapshot | Promise<JsonSnapshot> {
    if (this.latest?.revision !== revision) return this.refresh();
    this.hits.value++;
    return this.latest.list;
  }

  private async make(): Promise<JsonSnapshot> {
    // The revision first: a create between the two reads is then in the list under the older
    // revision, and costs one needless read. The other way round it would be missed.
    const revision = await this.revision.read('categories');
    let { latest } = this;
    if (latest?.revision !== revision) {
      // Plain rows: a large list takes twice the time as entities.
      const rows: CategoryRow[] = await this.dataSource.query(
        'SELECT "id", "name", "description" FROM "categories" ORDER BY "id"',
      );
      this.rebuilds.value++;
      latest = { revision, list: new JsonSnapshot(rows.map(toCategory)) };
      this.latest = latest;
    }
    return latest.list;
  }
}
