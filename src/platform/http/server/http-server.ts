import {
  createServer,
  IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { Express } from 'express';
import type { Config } from '../../config/config.js';
import { ApiError } from '../../errors/api-error.js';
import type { ErrorCode } from '../../errors/error-codes.js';
import { respondWithError } from '../responses/error.filter.js';
import { defaultHeaders } from '../responses/default-headers.js';
import { type Connection, isIdle } from './connections.js';
import { createMessageClasses } from './message-classes.js';
import { getRequestId, validateRequestHead } from './request-head.js';
import type { ResponseListener } from './request-info.js';
import { SharedBodies } from './shared-bodies.js';
import {
  MAX_HEADER_SIZE,
  MAX_REQUESTS_PER_CONNECTION,
  SERVER_TIMEOUTS,
  type ServerTimeouts,
} from './server-options.js';

/** The status reported for a client that disconnected before the response, as in nginx. */
const CLIENT_CLOSED_REQUEST = 499;

/** The errors of Node's HTTP parser for which the response is not 400. */
const PARSER_ERRORS: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  HPE_HEADER_OVERFLOW: ['HEADERS_TOO_LARGE', 'The request headers are larger than 16 KiB.'],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [
    'PAYLOAD_TOO_LARGE',
    'The chunk extensions of the body are too large.',
  ],
  ERR_HTTP_REQUEST_TIMEOUT: ['REQUEST_TIMEOUT', 'The request did not arrive in time.'],
};

/**
 * Node's HTTP server, which responds with the Error body and a request id to everything Node would
 * otherwise respond to without a body: malformed HTTP, oversized headers, timeouts, an invalid Host, an
 * unsupported Expect, CONNECT.
 */
export class HttpServer {
  readonly server: Server;
  readonly timeouts: ServerTimeouts;
  /** The open connections, idle ones included. */
  readonly connections = new Set<Connection>();
  readonly sharedBodies = new SharedBodies();
  private readonly classes;
  /** An API key of the service, or most of one. */
  private readonly keyPattern;
  private readonly responseListeners: ResponseListener[] = [];

  /**
   * @param handle handles the requests whose head is valid
   * @param options.app the Express application, if it handles them
   */
  constructor(
    private readonly config: Config,
    private readonly handle: RequestListener,
    { app, timeouts = {} }: { app?: Express; timeouts?: Partial<ServerTimeouts> } = {},
  ) {
    this.keyPattern = new RegExp(`(${config.product.keyPrefixes.join('|')})_[\\w-]{16}`);
    this.timeouts = { ...SERVER_TIMEOUTS, ...timeouts };
    this.classes = createMessageClasses(defaultHeaders(config), app);
    const options = {
      ...this.classes,
      keepAliveTimeout: config.keepAliveTimeout,
      headersTimeout: this.timeouts.headers,
      requestTimeout: this.timeouts.request,
      connectionsCheckingInterval: this.timeouts.checkInterval,
      maxHeaderSize: MAX_HEADER_SIZE,
      // Node would respond 400 without a body; `validateRequestHead` responds with one.
      requireHostHeader: false,
    };
    const listener: RequestListener = this.handleRequest.bind(this);
    this.server = createServer(options, listener)
      .on('connection', (connection: Connection) => {
        connection.requestCount = 0;
        connection.sharedBodies = this.sharedBodies;
        this.connections.add(connection);
        connection.once('close', () => this.connections.delete(connection));
      })
      // Without this listener Node would send `100 Continue` before the key is checked.
      .on('checkContinue', listener)
      .on('checkExpectation', listener)
      .on('connect', (request, socket: Connection) => this.rejectConnect(request, socket))
      .on('clientError', (error: NodeJS.ErrnoException, connection: Connection) =>
        this.rejectInvalid(error, connection),
      );
    this.server.timeout = this.timeouts.socket;
    // A client that half-closes after sending still receives the response. Node has no documented
    // option for it: `allowHalfOpen` of net.Server is always on, and without this field http.Server
    // aborts the request all the same.
    Object.assign(this.server, { httpAllowHalfOpen: true });
  }

  /** Registers a listener for every response, including those of requests that are not handled. */
  onResponse(listener: ResponseListener): void {
    this.responseListeners.push(listener);
  }

  private handleRequest(request: IncomingMessage, response: ServerResponse): void {
    const connection = request.socket as Connection;
    const { latestResponse } = connection;
    // An earlier response closes the connection: the client would not receive this one.
    if (latestResponse?.shouldKeepAlive === false) return;
    // Node would close the connection after a response without `100 Continue`, although the body has arrived.
    if (latestResponse?.req.headers.expect !== undefined)
      Object.assign(latestResponse, { _expect_continue: false });
    connection.requestCount++;
    // During a shutdown, connections are kept until the server stops listening: clients would reconnect. Node's
    // `maxRequestsPerSocket` is not used because it responds 503 without a body to pipelined requests.
    if (!this.server.listening || connection.requestCount === MAX_REQUESTS_PER_CONNECTION)
      response.shouldKeepAlive = false;
    this.initResponse(request, response);
    const rejection = validateRequestHead(request);
    if (rejection !== undefined) {
      // What follows on the connection cannot be trusted.
      response.shouldKeepAlive = false;
      respondWithError(rejection, response);
    } else if (latestResponse?.closed !== false) this.handle(request, response);
    // Pipelined requests are handled in turn: a client that reads no response has only one in memory.
    else latestResponse.once('close', () => this.handle(request, response));
  }

  private initResponse(request: IncomingMessage, response: ServerResponse): void {
    const connection = request.socket as Connection;
    connection.previousResponse = connection.latestResponse;
    connection.latestResponse = response;
    request.id = getRequestId(request, this.keyPattern, this.config.bootstrapApiKey);
    if (this.responseListeners.length === 0) return;
    const startedAt = performance.now();
    response.on('close', () => {
      const milliseconds = performance.now() - startedAt;
      const status = response.writableEnded ? response.statusCode : CLIENT_CLOSED_REQUEST;
      for (const listener of this.responseListeners) listener(request, status, milliseconds);
    });
  }

  private rejectConnect(request: IncomingMessage, connection: Connection): void {
    // Node has removed its listeners from the socket: without one, a reset would end the process.
    connection.on('error', () => connection.destroy());
    const headers = { Allow: '' };
    const error = new ApiError('METHOD_NOT_ALLOWED', 'CONNECT is not supported.', { headers });
    const { latestResponse } = connection;
    if (isIdle(connection)) this.reject(connection, error, request);
    else latestResponse?.once('close', () => this.reject(connection, error, request));
  }

  /** Responds to a request that Node's HTTP parser rejected, unless it is pipelined, and closes the connection. */
  private rejectInvalid(error: NodeJS.ErrnoException, connection: Connection): void {
    const { latestResponse: latest, previousResponse: previous } = connection;
    const lastComplete = latest?.req.complete === true ? latest : previous;
    if (error.code === 'ECONNRESET' || !connection.writable) {
      connection.destroy();
    } else if (lastComplete?.closed === false) {
      // The client would take an error for the response to an earlier one of its pipelined requests.
      lastComplete.shouldKeepAlive = false;
      lastComplete.once('close', () => connection.destroySoon());
    } else if (latest?.headersSent === true && !(latest.req.complete && latest.shouldKeepAlive)) {
      // The invalid bytes are the rest of a request that has its response already, or follow the last request.
      connection.destroySoon();
    } else {
      const [code, message] = PARSER_ERRORS[error.code ?? ''] ?? [
        'BAD_REQUEST',
        'The request is not valid HTTP.',
      ];
      // Either the body of a request whose head was parsed is invalid, or the head of a request.
      const request = latest?.req.complete === false ? latest.req : undefined;
      this.reject(connection, new ApiError(code, message), request);
    }
  }

  /**
   * Responds with an error to something that Node does not pass to the request listener, and closes the connection.
   *
   * @param request the request, if its head was parsed
   */
  private reject(connection: Connection, error: ApiError, request?: IncomingMessage): void {
    const { latestResponse } = connection;
    if (request !== undefined && latestResponse?.req === request) {
      // The handler may be waiting for the rest of the body: what it sends is ignored.
      latestResponse.detachSocket(connection);
      latestResponse.destroy();
    }
    const response = new this.classes.ServerResponse(request ?? new IncomingMessage(connection));
    response.assignSocket(connection);
    response.shouldKeepAlive = false;
    response.once('finish', () => connection.destroySoon());
    this.initResponse(response.req, response);
    respondWithError(error, response);
  }
}
