import { Injectable } from '@nestjs/common';
import type { Pool } from 'pg';
import { Counter, Gauge, Histogram } from 'prom-client';
import { MetricsRegistry } from './prometheus-registry.js';

/** The metrics of the database: errors, the list cache, batches, and the connections to PostgreSQL. */
@Injectable()
export class DatabaseMetrics {
  /** The sizes of the batches of inserted rows, by table. */
  readonly batchSizes: Histogram<'table'>;
  readonly listCacheHits: Counter<'table'>;
  readonly listCacheMisses: Counter<'table'>;
  /** Failed operations, by the code of the driver. */
  readonly errors: Counter<'code'>;

  constructor(private readonly registry: MetricsRegistry) {
    const registers = [registry];
    const createCounter = <Label extends string>(name: string, help: string, label: Label) =>
      new Counter({ name, help, labelNames: [label], registers });
    this.errors = createCounter(
      'petstore_database_errors_total',
      'Failed database operations, by the code of the driver.',
      'code',
    );
    this.listCacheHits = createCounter(
      'petstore_list_cache_hits_total',
      'List requests served from the cache.',
      'table',
    );
    this.listCacheMisses = createCounter(
      'petstore_list_cache_misses_total',
      'Rebuilds of a cached list because its table may have changed.',
      'table',
    );
    this.batchSizes = new Histogram({
      name: 'petstore_insert_batch_size',
      help: 'Rows per INSERT statement.',
      labelNames: ['table'],
      buckets: [1, 2, 5, 10, 20, 50, 100, 200, 500],
      registers,
    });
  }

  /**
   * Reports the connections to PostgreSQL.
   *
   * @param findPool returns the pool, which exists once the database has been reached
   */
  observePool(findPool: () => Pool | undefined): void {
    const getPool = (): Partial<Pool> => findPool() ?? {};
    new Gauge({
      name: 'db_client_connection_count',
      help: 'Connections to PostgreSQL, by state.',
      labelNames: ['state'],
      registers: [this.registry],
      collect() {
        const { totalCount = 0, idleCount = 0 } = getPool();
        this.set({ state: 'idle' }, idleCount);
        this.set({ state: 'used' }, totalCount - idleCount);
      },
    });
    this.registry.addGauge(
      'db_client_connection_pending_requests',
      'Requests waiting for a connection to PostgreSQL.',
      () => getPool().waitingCount ?? 0,
    );
  }
}
