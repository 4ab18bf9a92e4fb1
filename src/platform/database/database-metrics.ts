import { Injectable } from '@nestjs/common';
import { InjectDataSource } from '@nestjs/typeorm';
import type { Pool } from 'pg';
import { DataSource, QueryFailedError } from 'typeorm';
import { type Counter, MetricsRegistry } from '../metrics/metrics-registry.js';
import { getDriverErrorCode, isUnavailable } from './driver-errors.js';
import { isPostgres } from './columns.js';

/** The figures of the database: what failed, and the connections to PostgreSQL. */
@Injectable()
export class DatabaseMetrics {
  private readonly errors = new Map<string, Counter>();
  private readonly recorded = new WeakSet<object>();

  constructor(
    private readonly metrics: MetricsRegistry,
    @InjectDataSource() dataSource: DataSource,
  ) {
    if (!isPostgres(dataSource)) return;
    // There is none before the database was reached for the first time.
    const pool = (): Partial<Pool> => (dataSource.driver as { master?: Pool }).master ?? {};
    const connections = {
      idle: () => pool().idleCount ?? 0,
      busy: () => (pool().totalCount ?? 0) - (pool().idleCount ?? 0),
    };
    for (const [state, read] of Object.entries(connections)) {
      const help = 'Connections to PostgreSQL, by what they do.';
      metrics.gauge('petstore_database_connections', help, read, { state });
    }
    metrics.gauge(
      'petstore_database_waiting',
      'Queries that wait for a connection to PostgreSQL.',
      () => pool().waitingCount ?? 0,
    );
  }

  /**
   * Counts an error by the driver's code, if it is one of the database. One that many requests share,
   * as a group of creates does, is one.
   */
  recordError(error: unknown): void {
    if (!(error instanceof QueryFailedError) && !isUnavailable(error)) return;
    const cause: unknown = error instanceof QueryFailedError ? error.driverError : error;
    if (typeof cause === 'object' && cause !== null) {
      if (this.recorded.has(cause)) return;
      this.recorded.add(cause);
    }
    const code = getDriverErrorCode(error) || 'none';
    const counter =
      this.errors.get(code) ??
      this.metrics.counter('petstore_database_errors_total', 'Times that the database failed.', {
        code,
      });
    this.errors.set(code, counter);
    counter.value++;
  }
}
