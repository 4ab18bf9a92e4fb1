import {
  createServer,
  type IncomingMessage,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
import type { Socket } from 'node:net';
import { Logger } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express } from 'express';
import type { Config } from '../../config/config.js';
import { ApiError } from '../../errors/api-error.js';
import { requestContext } from '../../logging/request-context.js';
import { sendError, toErrorResponse } from '../responses/error-response.js';
import { handleClientError } from './client-errors.js';
import { type Connection, Connections, isIdle } from './connections.js';
import { expressPrototypes } from './express-prototypes.js';
import { closeGracefully } from './graceful-shutdown.js';
import { validateRequestHead } from './request-head.js';
import { recordWait } from './request-info.js';
import { logFailedRequest } from './request-logger.js';
import { ResponseDefaults } from '../responses/response-defaults.js';
import type { ResponseListener } from './response-listener.js';
import {
  MAX_REQUESTS_PER_CONNECTION,
  SERVER_OPTIONS,
  SERVER_TIMEOUTS,
  type ServerTimeouts,
} from './server-options.js';
import { handleUnmatchedRoutes } from './unmatched-routes.js';

/** The status reported for a client that disconnected before the response, as in nginx. */
const CLIENT_CLOSED_REQUEST = 499;

const logger = new Logger('HttpAdapter');

/** Express as a function, with what runs after its last route. */
type ExpressHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  next: (error?: unknown) => void,
) => void;

/**
 * Nest's Express adapter on an HTTP server that responds with the Error body and a request id to
 * everything Node would otherwise respond to without a body: malformed HTTP, oversized headers, timeouts,
 * an invalid Host, an unsupported Expect, CONNECT. Its shutdown loses no request.
 */
export class HttpAdapter extends ExpressAdapter {
  readonly connections = new Connections();
  private readonly defaults: ResponseDefaults;
  private readonly responseListeners: ResponseListener[] = [];
  private readonly timeouts: ServerTimeouts;

  /** @param timeouts overrides, for tests */
  constructor(
    private readonly config: Pick<
      Config,
      'bootstrapApiKey' | 'keepAliveTimeout' | 'publicBaseUrl' | 'shutdownDelay' | 'trustProxy'
    >,
    timeouts: Partial<ServerTimeouts> = {},
  ) {
    const app = express();
    app.disable('x-powered-by');
    // Express would hash every body; lists have an ETag of their own.
    app.disable('etag');
    // Only the published paths exist: not /v1/Categories, nor /v1/categories/.
    app.enable('case sensitive routing');
    app.enable('strict routing');
    if (config.trustProxy !== undefined) app.set('trust proxy', config.trustProxy);
    super(app);
    this.defaults = new ResponseDefaults(config);
    this.timeouts = { ...SERVER_TIMEOUTS, ...timeouts };
  }

  override initHttpServer(): void {
    const app = this.getInstance<Express>();
    this.httpServer = createServer(this.serverOptions(app), (request, response) =>
      this.handleRequest(request, response),
    )
      .on('connection', (socket: Connection) => this.connections.add(socket))
      // Without this listener Node would send `100 Continue` before the key is checked.
      .on('checkContinue', (request, response) => this.handleRequest(request, response))
      .on('checkExpectation', (request, response) => {
        if (!this.initResponse(request, response)) return;
        const error = new ApiError('EXPECTATION_FAILED', 'Unsupported Expect header.');
        sendError(response, toErrorResponse(error));
      })
      .on('connect', (request, socket: Connection) => this.rejectConnect(request, socket))
      .on('clientError', (error: NodeJS.ErrnoException, connection: Connection) =>
        handleClientError(error, connection, (response, request) =>
          this.writeRawResponse(connection, response, request),
        ),
      );
    this.httpServer.timeout = this.timeouts.socket;
    // A client that half-closes after sending still receives the response. Node has no documented
    // option for it: `allowHalfOpen` of net.Server is always on, and without this field http.Server
    // aborts the request all the same.
    Object.assign(this.httpServer, { httpAllowHalfOpen: true });
  }

  /** Registers a listener for every response, including those of requests that never reach Express. */
  onResponse(listener: ResponseListener): void {
    this.responseListeners.push(listener);
  }

  override setNotFoundHandler(): this {
    handleUnmatchedRoutes(this.getInstance<Express>());
    return this;
  }

  override useStaticAssets(path: string, options: { prefix: string }): this {
    // Unlike other responses, the files of Swagger UI may be cached and revalidated.
    return super.useStaticAssets(path, {
      ...options,
      setHeaders: (response: ServerResponse) => response.setHeader('Cache-Control', 'no-cache'),
    });
  }

  override async close(): Promise<void> {
    const { httpServer, connections, config, timeouts } = this;
    await closeGracefully(httpServer, connections, config.shutdownDelay, timeouts);
  }

  /** The options of Node's HTTP server. */
  protected serverOptions(app: Express): ServerOptions {
    return {
      ...SERVER_OPTIONS,
      keepAliveTimeout: this.config.keepAliveTimeout,
      headersTimeout: this.timeouts.headers,
      requestTimeout: this.timeouts.request,
      connectionsCheckingInterval: this.timeouts.checkInterval,
      ...expressPrototypes(app),
    };
  }

  private handleRequest(request: IncomingMessage, response: ServerResponse): void {
    if (!this.initResponse(request, response)) return;
    const rejection = validateRequestHead(request);
    if (rejection === undefined) {
      const app = this.getInstance<ExpressHandler>();
      requestContext.run(request, () =>
        app(request, response, (error) => this.finalHandler(request, response, error)),
      );
    } else {
      // What follows on the connection cannot be trusted.
      response.shouldKeepAlive = false;
      sendError(response, toErrorResponse(rejection));
    }
  }

  /**
   * Initializes a response.
   *
   * @returns false if an earlier response on the connection closes it, so that the client would never
   *   see this one
   */
  private initResponse(request: IncomingMessage, response: ServerResponse): boolean {
    const connection = request.socket as Connection;
    if (connection.latestResponse?.shouldKeepAlive === false) return false;
    connection.previousResponse = connection.latestResponse;
    connection.latestResponse = response;
    connection.requestCount++;
    // During shutdown only after the server stops listening; otherwise clients would reconnect. Node's
    // `maxRequestsPerSocket` is not used because it responds 503 without a body to pipelined requests.
    if (!this.httpServer.listening || connection.requestCount === MAX_REQUESTS_PER_CONNECTION)
      response.shouldKeepAlive = false;
    this.defaults.apply(request, response);
    if (this.responseListeners.length > 0) this.observeResponse(request, response);
    return true;
  }

  /** Nest's response hook is not used because it does not see requests that never reach Express. */
  private observeResponse(request: IncomingMessage, response: ServerResponse): void {
    const startedAt = performance.now();
    // The whole response has been handed to Node: from now on it waits for the client.
    let handedOverAt: number | undefined;
    response.on('prefinish', () => (handedOverAt = performance.now()));
    response.on('close', () => {
      const closedAt = performance.now();
      if (handedOverAt !== undefined) recordWait(request, 'client', closedAt - handedOverAt);
      const status = response.writableEnded ? response.statusCode : CLIENT_CLOSED_REQUEST;
      this.notifyResponseListeners(request, status, closedAt - startedAt);
    });
  }

  private notifyResponseListeners(...response: Parameters<ResponseListener>): void {
    for (const listener of this.responseListeners) listener(...response);
  }

  /** Runs if Express tried no route, or failed. By default it would respond in HTML. */
  private finalHandler(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    const errorResponse = toErrorResponse(
      error ?? new ApiError('BAD_REQUEST', 'Invalid request target.'),
    );
    if (errorResponse.body.status >= 500) logFailedRequest(logger, request, error);
    sendError(response, errorResponse);
  }

  private rejectConnect(request: IncomingMessage, connection: Connection): void {
    // Node has removed its listeners from the socket: without one, a reset would end the process.
    connection.on('error', () => connection.destroy());
    const error = new ApiError('METHOD_NOT_ALLOWED', 'CONNECT is not supported.', {
      headers: { Allow: 'GET, HEAD, POST' },
    });
    const respond = (): void => this.writeRawResponse(connection, error, request);
    if (isIdle(connection)) respond();
    else connection.latestResponse?.once('close', respond);
  }

  private writeRawResponse(socket: Socket, error: ApiError, request?: IncomingMessage): void {
    const id = this.defaults.writeRawResponse(socket, toErrorResponse(error), request);
    this.notifyResponseListeners({ id, method: request?.method }, error.status, undefined);
  }
}
