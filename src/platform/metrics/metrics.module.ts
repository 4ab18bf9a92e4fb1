import { Global, Module } from '@nestjs/common';
import { DatabaseMetrics } from './database-metrics.js';
import { HttpMetrics } from './http-metrics.js';
import { KeyMetrics } from './key-metrics.js';
import { MetricsRegistry } from './metrics-registry.js';
import { MetricsServer } from './metrics-server.js';

@Global()
@Module({
  providers: [DatabaseMetrics, HttpMetrics, KeyMetrics, MetricsRegistry, MetricsServer],
  exports: [DatabaseMetrics, KeyMetrics, MetricsRegistry],
})
export class MetricsModule {}
