import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { Histogram } from 'prom-client';
import { CONFIG, type Config } from '../config/config.js';
import { MetricsRegistry } from './prometheus-registry.js';
import { isIdle } from '../http/server/connections.js';
import type { HttpAdapter } from '../http/server/http.adapter.js';
import { getRouteLabel } from '../http/server/request-info.js';

/** In seconds. A list takes less than a millisecond, a create a few; a request may take 10 seconds. */
const LATENCY_BUCKETS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];

/** The methods of RFC 9110 and RFC 5789; OpenTelemetry reports any other as `_OTHER`. */
const KNOWN_METHODS = new Set('CONNECT DELETE GET HEAD OPTIONS PATCH POST PUT TRACE'.split(' '));

/** Measures every response, under the names of OpenTelemetry's semantic conventions, if the metrics are served. */
@Injectable()
export class HttpMetrics implements OnModuleInit {
  constructor(
    @Inject(CONFIG) private readonly config: Config,
    private readonly registry: MetricsRegistry,
    private readonly host: HttpAdapterHost<HttpAdapter>,
  ) {}

  onModuleInit(): void {
    if (this.config.metricsPort === undefined) return;
    const { http } = this.host.httpAdapter;
    const duration = new Histogram({
      name: 'http_server_request_duration_seconds',
      help: 'Duration of HTTP requests, from their headers to the end of the response.',
      labelNames: ['http_request_method', 'http_route', 'http_response_status_code'],
      buckets: LATENCY_BUCKETS,
      registers: [this.registry],
    });
    http.onResponse((request, status, milliseconds) => {
      const { method = '' } = request;
      duration.observe(
        {
          http_request_method: KNOWN_METHODS.has(method) ? method : '_OTHER',
          http_route: getRouteLabel(request, status),
          http_response_status_code: status,
        },
        milliseconds / 1000,
      );
    });
    this.registry.addGauge(
      'petstore_http_requests_in_flight',
      'Connections with a request in flight.',
      () => [...http.connections].filter((connection) => !isIdle(connection)).length,
    );
    this.registry.addGauge(
      'petstore_http_connections',
      'Open connections, idle ones included.',
      () => http.connections.size,
    );
  }
}
