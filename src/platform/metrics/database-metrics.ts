import { stat, statfs } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Inject, Injectable } from '@nestjs/common';
import type { Pool } from 'pg';
import { Counter, Gauge, Histogram } from 'prom-client';
import { CONFIG, type Config } from '../config/config.js';
import { DURATION_BUCKETS, MetricsRegistry } from './prometheus-registry.js';

/** The codes of a full disk. Their counters start at 0, so that an alert sees the first error. */
const DISK_FULL = ['SQLITE_FULL', '53100'];

/**
 * The metrics of the database: whether it works, errors, lists, batches, and the connections to PostgreSQL. Counters and
 * histograms are undefined, so that nothing is observed, unless the metrics are served.
 */
@Injectable()
export class DatabaseMetrics {
  readonly errors?: Counter<'db_response_status_code'>;
  readonly batchSizes?: Histogram<'db_collection_name'>;
  readonly batchDurations?: Histogram<'db_collection_name'>;
  readonly rejectedRows?: Counter<'db_collection_name' | 'db_response_status_code'>;
  readonly listRebuildDurations?: Histogram<'db_collection_name'>;
  readonly tooLargeLists?: Counter<'db_collection_name'>;

  constructor(
    @Inject(CONFIG) private readonly config: Config,
    private readonly registry: MetricsRegistry,
  ) {
    if (config.metricsPort === undefined) return;
    this.errors = new Counter({
      name: 'service_database_errors_total',
      help: 'Failed database operations, by the code of the driver.',
      labelNames: ['db_response_status_code'],
      registers: [registry],
    });
    for (const code of DISK_FULL) this.errors.inc({ db_response_status_code: code }, 0);
    this.rejectedRows = new Counter({
      name: 'service_rejected_rows_total',
      help: 'Rows of create requests that the database rejected, by table and the code of the driver.',
      labelNames: ['db_collection_name', 'db_response_status_code'],
      registers: [registry],
    });
    const common = { labelNames: ['db_collection_name'] as const, registers: [registry] };
    const createHistogram = (name: string, help: string, buckets = DURATION_BUCKETS) =>
      new Histogram({ name, help, buckets, ...common });
    this.listRebuildDurations = createHistogram(
      'service_list_rebuild_duration_seconds',
      'Duration of the rebuilds of a cached list, because its table may have changed.',
    );
    this.tooLargeLists = new Counter({
      name: 'service_too_large_lists_total',
      help: 'Lists that were not built because they are too large, by table.',
      ...common,
    });
    this.batchSizes = createHistogram(
      'service_insert_batch_size',
      'Rows per transaction of concurrent create requests.',
      [1, 2, 5, 10, 20, 50, 100, 200],
    );
    this.batchDurations = createHistogram(
      'service_insert_batch_duration_seconds',
      'Duration of the transactions of create requests, their commit included.',
    );
  }

  /** Reports whether the database can be written. @param checkWritable rejects if it cannot */
  observeAvailability(checkWritable: () => Promise<void>): void {
    const help = 'Whether the instance can write to its database.';
    this.registry.addGauge('service_database_up', help, () =>
      checkWritable().then(
        () => 1,
        () => 0,
      ),
    );
  }

  /** Reports the sizes of the files of a SQLite database and of their disk. For PostgreSQL, there are exporters. */
  observeFiles(file: string): void {
    const addGauge = (name: string, help: string, read: () => Promise<number>) =>
      // NaN, after a file was moved, fires no alert: `service_database_up` does.
      this.registry.addGauge(`service_database_${name}_bytes`, help, () => read().catch(() => NaN));
    const readDisk = async (blocks: 'bavail' | 'blocks'): Promise<number> => {
      const disk = await statfs(dirname(file));
      return disk[blocks] * disk.bsize;
    };
    const wal = `${file}-wal`;
    addGauge('size', 'Size of the SQLite file.', async () => (await stat(file)).size);
    addGauge('wal_size', 'Size of the WAL of SQLite.', async () => (await stat(wal)).size);
    const free = 'Space on the disk of the SQLite file that the service may use.';
    addGauge('disk_free', free, () => readDisk('bavail'));
    addGauge('disk_size', 'Size of the disk of the SQLite file.', () => readDisk('blocks'));
  }

  /** Reports how many rows PostgreSQL cannot remove from the table of the revisions. @param count reads their number */
  observeDeadRevisions(count: () => Promise<number>): void {
    const help = 'Dead rows of the table revisions, which an open transaction keeps: commits wait.';
    let latest = 0;
    this.registry.addGauge('service_database_dead_revisions', help, () => {
      // The number is that of the scrape before: this one does not wait for a connection of the pool.
      void count().then(
        (rows) => (latest = rows),
        () => undefined,
      );
      return latest;
    });
  }

  /** Reports the connections to PostgreSQL. @param findPools returns the pools; none before the database has been reached */
  observePools(findPools: () => readonly Pool[]): void {
    const sum = (count: 'totalCount' | 'idleCount' | 'waitingCount'): number =>
      findPools().reduce((total, pool) => total + pool[count], 0);
    new Gauge({
      // OpenTelemetry's db.client.connection.count: promtool reserves `_count` for histograms.
      name: 'db_client_connections',
      help: 'Connections to PostgreSQL, by state.',
      labelNames: ['db_client_connection_state'],
      registers: [this.registry],
      collect() {
        this.set({ db_client_connection_state: 'idle' }, sum('idleCount'));
        this.set({ db_client_connection_state: 'used' }, sum('totalCount') - sum('idleCount'));
      },
    });
    this.registry.addGauge(
      'db_client_connection_max',
      'The largest number of connections to PostgreSQL.',
      () => this.config.databasePoolSize,
    );
    this.registry.addGauge(
      'db_client_connection_pending_requests',
      'Requests waiting for a connection to PostgreSQL.',
      () => sum('waitingCount'),
    );
  }
}
