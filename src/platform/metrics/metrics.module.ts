import { Global, Module } from '@nestjs/common';
import { DatabaseMetrics } from './database-metrics.js';
import { MetricsRegistry } from './prometheus-registry.js';
import { MetricsServer } from './metrics-server.js';

@Global()
@Module({
  providers: [DatabaseMetrics, MetricsRegistry, MetricsServer],
  exports: [DatabaseMetrics, MetricsRegistry],
})
export class MetricsModule {}
