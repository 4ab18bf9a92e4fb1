import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  Inject,
  Injectable,
  Logger,
  type OnApplicationShutdown,
  type OnModuleInit,
} from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { CONFIG, type Config } from '../config/config.js';
import { ApiError } from '../errors/api-error.js';
import { toListenError } from '../errors/startup-error.js';
import { respondWithError } from '../http/responses/error.filter.js';
import type { HttpAdapter } from '../http/server/http.adapter.js';
import { HttpServer } from '../http/server/http-server.js';
import { addHttpMetrics } from './http-metrics.js';
import { addProcessMetrics } from './process-metrics.js';
import { MetricsRegistry } from './prometheus-registry.js';

/** Serves `GET /metrics` on a port of its own: it needs no key, and works while the database is unavailable. */
@Injectable()
export class MetricsServer implements OnModuleInit, OnApplicationShutdown {
  private readonly logger = new Logger(MetricsServer.name);
  private readonly server;

  constructor(
    @Inject(CONFIG) private readonly config: Config,
    private readonly registry: MetricsRegistry,
    private readonly host: HttpAdapterHost<HttpAdapter>,
  ) {
    this.server = new HttpServer(config, (request, response) => {
      this.sendMetrics(request, response).catch((error: unknown) =>
        respondWithError(error, response),
      );
    }).server;
  }

  /** The address of the metrics; undefined if they are not served. */
  get url(): string | undefined {
    const address = this.server.address() as AddressInfo | null;
    if (!address) return undefined;
    const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
    return `http://${host}:${address.port}/metrics`;
  }

  /** @throws {StartupError} if the port cannot be used, before the database is migrated */
  async onModuleInit(): Promise<void> {
    const { host, metricsPort, product } = this.config;
    if (metricsPort === undefined) return;
    addProcessMetrics(this.registry, product);
    addHttpMetrics(this.registry, this.host.httpAdapter);
    this.server.listen(metricsPort, host);
    await once(this.server, 'listening').catch((error: unknown) => {
      throw toListenError(error, `${host}:${metricsPort}`, 'METRICS_PORT');
    });
    this.logger.log(`Serving metrics on ${this.url}`);
  }

  onApplicationShutdown(): void {
    this.server.close();
    this.server.closeAllConnections();
  }

  private async sendMetrics(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url?.split('?')[0] !== '/metrics')
      throw new ApiError('NOT_FOUND', 'Route not found: only /metrics is served here.');
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      throw new ApiError('METHOD_NOT_ALLOWED', 'The method is not allowed for /metrics.', {
        headers: { Allow: 'GET, HEAD' },
      });
    }
    const metrics = await this.registry.metrics();
    response.writeHead(200, { 'Content-Type': this.registry.contentType }).end(metrics);
  }
}
