import { Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { HttpAdapter } from './http.adapter.js';
import { getRouteLabel } from './route-label.js';
import { type Counter, type Histogram, MetricsRegistry } from '../../metrics/metrics-registry.js';

/** Seconds. A list takes less than a millisecond, a create a few; 10 seconds is what a request may take. */
const LATENCY_BUCKETS = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
];

/** Of one operation: its answers by status, and how long they took. */
interface OperationMetrics {
  readonly responses: Map<number, Counter>;
  readonly latency: Histogram;
}

/** Counts and times every answer. */
@Injectable()
export class HttpMetrics implements OnModuleInit {
  private readonly operations = new Map<string, OperationMetrics>();

  constructor(
    private readonly metrics: MetricsRegistry,
    private readonly host: HttpAdapterHost<HttpAdapter>,
  ) {}

  onModuleInit(): void {
    const { httpAdapter } = this.host;
    httpAdapter.onResponse((request, status, milliseconds) => {
      const operation = getRouteLabel(request);
      const { responses, latency } = this.operations.get(operation) ?? this.add(operation);
      (responses.get(status) ?? this.addStatus(responses, operation, status)).value++;
      if (milliseconds !== undefined) latency.observe(milliseconds / 1000);
    });
    this.metrics.gauge(
      'petstore_http_requests_in_flight',
      'Connections with a request that is being answered, the scrape included.',
      () => httpAdapter.requestsInFlight,
    );
    this.metrics.gauge(
      'petstore_http_connections',
      'Open connections, idle ones included.',
      () => httpAdapter.openConnectionCount,
    );
  }

  private add(operation: string): OperationMetrics {
    const latency = this.metrics.histogram(
      'petstore_http_request_duration_seconds',
      'From the headers of a request to the moment when its answer is handed to the network.',
      LATENCY_BUCKETS,
      { operation },
    );
    const added = { responses: new Map<number, Counter>(), latency };
    this.operations.set(operation, added);
    return added;
  }

  private addStatus(responses: Map<number, Counter>, operation: string, status: number): Counter {
    const counter = this.metrics.counter('petstore_http_requests_total', 'Requests answered.', {
      operation,
      status: String(status),
    });
    responses.set(status, counter);
    return counter;
  }
}
