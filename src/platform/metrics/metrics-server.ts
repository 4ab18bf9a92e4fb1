import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  Inject,
  Injectable,
  Logger,
  type OnApplicationShutdown,
  type OnModuleInit,
} from '@nestjs/common';
import { collectDefaultMetrics } from 'prom-client';
import { CONFIG, type Config } from '../config/config.js';
import { ApiError } from '../errors/api-error.js';
import { MetricsRegistry } from './metrics-registry.js';
import { sendError, toErrorResponse } from '../http/responses/error-response.js';
import { handleClientError } from '../http/server/client-errors.js';
import type { Connection } from '../http/server/connections.js';
import { ResponseDefaults } from '../http/responses/response-defaults.js';
import { toListenError } from '../http/server/listen-error.js';
import { SERVER_OPTIONS } from '../http/server/server-options.js';

/**
 * Serves `GET /metrics` for Prometheus on `METRICS_PORT`: a port of its own, so that it needs no key
 * and works while the database is unavailable.
 */
@Injectable()
export class MetricsServer implements OnModuleInit, OnApplicationShutdown {
  private readonly logger = new Logger(MetricsServer.name);
  private readonly defaults: ResponseDefaults;
  private server: Server | undefined;

  constructor(
    @Inject(CONFIG) private readonly config: Config,
    private readonly registry: MetricsRegistry,
  ) {
    this.defaults = new ResponseDefaults(config);
  }

  /** The address of the listener; undefined if there is none. */
  get url(): string | undefined {
    const address = this.server?.address() as AddressInfo | null | undefined;
    if (!address) return undefined;
    const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
    return `http://${host}:${address.port}/metrics`;
  }

  /**
   * Starts the listener, before the database is migrated.
   *
   * @throws {StartupError} if the port cannot be used
   */
  async onModuleInit(): Promise<void> {
    const { host, metricsPort } = this.config;
    if (metricsPort === undefined) return;
    collectDefaultMetrics({ register: this.registry });
    this.server = createServer(SERVER_OPTIONS, (request, response) => {
      this.handleRequest(request, response).catch((error: unknown) => {
        this.logger.error('Failed to collect metrics', error);
        sendError(response, toErrorResponse(error));
      });
    }).on('clientError', (error: NodeJS.ErrnoException, connection: Connection) =>
      handleClientError(error, connection, (response) =>
        this.defaults.writeRawResponse(connection, toErrorResponse(response)),
      ),
    );
    this.server.listen(metricsPort, host);
    await once(this.server, 'listening').catch((error: unknown) => {
      throw toListenError(error, `${host}:${metricsPort}`, 'METRICS_PORT');
    });
    this.logger.log(`Serving metrics on ${this.url}`);
  }

  onApplicationShutdown(): void {
    this.server?.close();
    this.server?.closeAllConnections();
  }

  private async handleRequest(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.defaults.apply(request, response);
    const path = request.url?.split('?')[0];
    if (path !== '/metrics') {
      const error = new ApiError('NOT_FOUND', 'Route not found: only /metrics is served here.');
      return sendError(response, toErrorResponse(error));
    }
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      const error = new ApiError('METHOD_NOT_ALLOWED', 'The method is not allowed for /metrics.', {
        headers: { Allow: 'GET, HEAD' },
      });
      return sendError(response, toErrorResponse(error));
    }
    const metrics = await this.registry.metrics();
    response.setHeader('Content-Type', this.registry.contentType);
    response.end(metrics);
  }
}
