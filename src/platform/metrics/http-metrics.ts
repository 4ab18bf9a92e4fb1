import type { Express } from 'express';
import { Counter, Histogram } from 'prom-client';
import { DURATION_BUCKETS, type MetricsRegistry } from './prometheus-registry.js';
import { isIdle } from '../http/server/connections.js';
import type { HttpAdapter } from '../http/server/http.adapter.js';
import { getRouteLabel } from '../http/server/request-info.js';
import { getRoutes } from '../http/server/unmatched-routes.js';

/** The methods of RFC 9110 and RFC 5789; OpenTelemetry reports any other as `_OTHER`. */
const KNOWN_METHODS = new Set('CONNECT DELETE GET HEAD OPTIONS PATCH POST PUT TRACE'.split(' '));

/** The statuses of failures. Their counters start at 0, so that an alert sees the first failure. */
const FAILURES = [500, 503];

const toLabels = (method: string, route: string, status: number) => ({
  http_request_method: KNOWN_METHODS.has(method) ? method : '_OTHER',
  http_route: route,
  http_response_status_code: status,
});

/** Measures every response, under the names of OpenTelemetry's semantic conventions. */
export function addHttpMetrics(registry: MetricsRegistry, adapter: HttpAdapter): void {
  const { http } = adapter;
  const duration = new Histogram({
    name: 'http_server_request_duration_seconds',
    help: 'Duration of HTTP requests, from their headers to the end of the response.',
    labelNames: ['http_request_method', 'http_route', 'http_response_status_code'],
    buckets: DURATION_BUCKETS,
    registers: [registry],
  });
  for (const { method, path } of getOperations(adapter.getInstance()))
    for (const status of FAILURES) duration.zero(toLabels(method, path, status));
  http.onResponse((request, status, milliseconds) => {
    const labels = toLabels(request.method ?? '', getRouteLabel(request, status), status);
    duration.observe(labels, milliseconds / 1000);
  });
  new Counter({
    name: 'service_slow_readers_closed_total',
    help: 'Connections closed because they read a superseded list too slowly.',
    registers: [registry],
    collect() {
      this.reset();
      this.inc(http.sharedBodies.closed);
    },
  });
  registry.addGauge(
    'http_server_active_requests',
    'Requests in flight.',
    () => [...http.connections].filter((connection) => !isIdle(connection)).length,
  );
  registry.addGauge(
    'service_http_connections',
    'Open connections, idle ones included.',
    () => http.connections.size,
  );
}

/** Returns the operations of the API, whose paths are below a prefix, without HEAD, which is too rare for an alert. */
function getOperations(express: Express): { method: string; path: string }[] {
  return [...getRoutes(express)]
    .filter(([path]) => /^\/(?!(docs|examples)\/)[^/]+\/./.test(path))
    .flatMap(([path, methods]) => [...methods].map((method) => ({ method, path })))
    .filter(({ method }) => method !== 'HEAD');
}
