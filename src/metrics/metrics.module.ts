import { Global, Module } from '@nestjs/common';
import { MetricsController } from './metrics.controller.js';
import { RequestMetrics } from './metrics.requests.js';
import { Metrics } from './metrics.service.js';

@Global()
@Module({
  controllers: [MetricsController],
  providers: [Metrics, RequestMetrics],
  exports: [Metrics],
})
export class MetricsModule {}
