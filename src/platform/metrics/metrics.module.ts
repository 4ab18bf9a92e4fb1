import { Global, Module } from '@nestjs/common';
import { HttpMetrics } from './http-metrics.js';
import { KeyMetrics } from './key-metrics.js';
import { MetricsRegistry } from './metrics-registry.js';
import { MetricsServer } from './metrics-server.js';

@Global()
@Module({
  providers: [HttpMetrics, KeyMetrics, MetricsRegistry, MetricsServer],
  exports: [KeyMetrics, MetricsRegistry],
})
export class MetricsModule {}
