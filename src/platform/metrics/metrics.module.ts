import { Global, Module } from '@nestjs/common';
import { MetricsController } from './metrics.controller.js';
import { HttpMetrics } from '../http/server/http-metrics.js';
import { MetricsRegistry } from './metrics-registry.js';

@Global()
@Module({
  controllers: [MetricsController],
  providers: [MetricsRegistry, HttpMetrics],
  exports: [MetricsRegistry],
})
export class MetricsModule {}
