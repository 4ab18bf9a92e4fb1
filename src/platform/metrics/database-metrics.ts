import { Injectable } from '@nestjs/common';
import type { Pool } from 'pg';
import { Counter, Gauge, Histogram } from 'prom-client';
import { MetricsRegistry } from './metrics-registry.js';

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
    this.errors = new Counter({
      name: 'petstore_database_errors_total',
      help: 'Failed database operations, by the code of the driver.',
      labelNames: ['code'],
      registers,
    });
    this.listCacheHits = new Counter({
      name: 'petstore_list_cache_hits_total',
      help: 'List requests served from the cache.',
      labelNames: ['table'],
      registers,
    });
    this.listCacheMisses = new Counter({
      name: 'petstore_list_cache_misses_total',
      help: 'Rebuilds of a cached list because its table may have changed.',
      labelNames: ['table'],
      registers,
    });
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
    const registers = [this.registry];
    new Gauge({
      name: 'db_client_connection_count',
      help: 'Connections to PostgreSQL, by state.',
      labelNames: ['state'],
      registers,
      collect() {
        const { totalCount = 0, idleCount = 0 } = getPool();
        this.set({ state: 'idle' }, idleCount);
        this.set({ state: 'used' }, totalCount - idleCount);
      },
    });
    new Gauge({
      name: 'db_client_connection_pending_requests',
      help: 'Requests waiting for a connection to PostgreSQL.',
      registers,
      collect() {
        this.set(getPool().waitingCount ?? 0);
      },
    });
  }
}
