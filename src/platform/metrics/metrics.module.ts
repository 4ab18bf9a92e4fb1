import { Global, Module } from '@nestjs/common';
import { MetricsController } from './metrics.controller.js';
import { RequestMetrics } from '../http/server/http-metrics.js';
import { Metrics } from './metrics-registry.js';

@Global()
@Module({
  controllers: [MetricsController],
  providers: [Metrics, RequestMetrics],
  exports: [Metrics],
})
export class MetricsModule {}
