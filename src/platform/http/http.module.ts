import { Module } from '@nestjs/common';
import { HttpMetrics } from '../metrics/http-metrics.js';
import { MetricsServer } from '../metrics/metrics-server.js';

@Module({ providers: [HttpMetrics, MetricsServer] })
export class HttpModule {}
