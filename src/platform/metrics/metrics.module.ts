import { Global, Module } from '@nestjs/common';
import { HttpMetrics } from './http-metrics.js';
import { MetricsRegistry } from './metrics-registry.js';
import { MetricsServer } from './metrics-server.js';

@Global()
@Module({ providers: [HttpMetrics, MetricsRegistry, MetricsServer], exports: [MetricsRegistry] })
export class MetricsModule {}
