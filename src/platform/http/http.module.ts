import { Module } from '@nestjs/common';
import { HttpMetrics } from './server/http-metrics.js';
import { MetricsServer } from './server/metrics-server.js';

@Module({ providers: [HttpMetrics, MetricsServer] })
export class HttpModule {}
