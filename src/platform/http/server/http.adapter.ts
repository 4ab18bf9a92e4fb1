import { randomUUID } from 'node:crypto';
import {
  createServer,
  IncomingMessage,
  type ServerOptions,
  ServerResponse,
  STATUS_CODES,
} from 'node:http';
import { Server as TcpServer, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express, type RequestHandler } from 'express';
import type { Config } from '../../config/config.js';
import { ApiError } from '../../errors/api-error.js';
import { type ErrorResponse, sendError, toErrorResponse } from '../responses/error-response.js';
import { type RequestInfo, getRouteLabel } from './route-label.js';
import { apiSecurityHeaders } from './security-headers.js';

declare module 'node:http' {
  interface IncomingMessage {
    /** The request id: the client's own where it is a sane one, else a fresh UUID. */
    id: string;
  }
}

/** Milliseconds that a client has to send its headers, and its whole request. */
const HEADERS_TIMEOUT = 5_000;
const REQUEST_TIMEOUT = 10_000;
/** Milliseconds between two looks for requests that are out of time; Node's default of 30 s would triple the limits. */
const TIMEOUT_CHECK_INTERVAL = 1_000;
/** Milliseconds in which a client must take something of the answer that waits for it. */
const SOCKET_TIMEOUT_MS = 30_000;

/** Bytes of the target and the headers together, in Node's way of counting. */
const MAX_HEADER_SIZE = 16 * 1024;
/** Header lines of a request; beyond a thousand Node drops them without a word, Authorization too. */
const MAX_HEADERS = 100;
/** Requests on one connection, so that clients spread anew over the instances, and a flood of pipelined ones ends. */
const MAX_REQUESTS_PER_CONNECTION = 10_000;

/** Milliseconds in which a request that is on the wire while the service stops can still arrive. */
const DRAIN_GRACE_PERIOD_MS = 500;
/** Milliseconds from the start of the stop to the moment when whatever is still open is cut. */
const SHUTDOWN_TIMEOUT_MS = 8_000;

const logger = new Logger('HttpAdapter');

/** The characters of a host and a port (RFC 3986, section 3.2.2). */
const HOST = /^[\w.~!$&'()*+,;=:%[\]-]*$/;
const REQUEST_ID_PATTERN = /^[\w.:;,/+=@~-]{1,128}$/;
/** An API key of the service, or most of one; a client that sends one as its request id would find it in the log. */
const API_KEY = /pet_[\w-]{16}/;

/**
 * What is told of an answer in the moment in which it is handed to the network.
 *
 * @param milliseconds since the headers of the request were there; undefined where they never were
 */
export type ResponseListener = (
  request: RequestInfo,
  status: number,
  milliseconds: number | undefined,
) => void;

/** A connection, with the responses to the two newest requests that arrived on it, and how many arrived. */
interface Connection extends Socket {
  requests: number;
  latest?: ServerResponse;
  previous?: ServerResponse | undefined;
}

/** A response that knows when its request arrived, in milliseconds of `performance.now()`. */
interface TimedResponse extends ServerResponse {
  readonly startedAt: number;
}

/** A layer of the Express router, as far as it is used here; the published types lack `match`. */
interface RouterLayer {
  match(path: string): boolean;
  readonly route?: {
    readonly stack: readonly { readonly method?: string; readonly handle: RequestHandler }[];
  };
}

/** One route of the Express router: the methods it takes and what handles them. */
export interface RouteEntry {
  readonly method: string;
  readonly handler: RequestHandler;
}

/**
 * Nest's Express adapter with an HTTP server of our own making, so that
 *
 * - whatever Node would answer by itself, with no body, gets the Error body and a request id:
 *   malformed HTTP, headers too large, a timeout, a missing or doubled Host, an odd Expect, CONNECT;
 * - Express is fast on Node 20 and 22 (see {@link expressClasses});
 * - a stop cuts nothing that is in flight and waits for no idle connection.
 */
export class HttpAdapter extends ExpressAdapter {
  /** True from the first moment of a stop on. */
  stopping = false;
  private readonly connections = new Set<Connection>();
  private readonly responseListeners: ResponseListener[] = [];
  private readonly answerHeaders: ReturnType<typeof apiSecurityHeaders>;

  constructor(
    private readonly config: Pick<
      Config,
      'bootstrapApiKey' | 'keepAliveTimeout' | 'publicBaseUrl' | 'shutdownDelay' | 'trustProxy'
    >,
  ) {
    const app = express();
    // Nothing here reads them, and each costs microseconds a request: lists carry an ETag of their own.
    app.disable('x-powered-by');
    app.disable('etag');
    if (config.trustProxy !== undefined) app.set('trust proxy', config.trustProxy);
    super(app);
    this.answerHeaders = apiSecurityHeaders(config);
  }

  override initHttpServer(): void {
    const app = this.getInstance<Express>();
    this.httpServer = createServer(this.serverOptions(app), (request, response) =>
      this.handleRequest(app, request, response),
    )
      .on('connection', (socket: Connection) => {
        socket.requests = 0;
        this.connections.add(socket);
        socket.once('close', () => this.connections.delete(socket));
      })
      // Without this listener Node would send `100 Continue` before anybody has looked at the key.
      .on('checkContinue', (request, response) => this.handleRequest(app, request, response))
      .on('checkExpectation', (request, response) => {
        if (!this.initResponse(request, response)) return;
        sendError(
          response,
          errorResponse('EXPECTATION_FAILED', 'The only expectation met here is 100-continue.'),
        );
      })
      .on('connect', (request, socket: Connection) => {
        // Node has taken its listeners off the socket: without one, a reset would end the process.
        socket.on('error', () => socket.destroy());
        const rejection = errorResponse(
          'METHOD_NOT_ALLOWED',
          'This is no proxy: CONNECT is not taken.',
          {
            Allow: 'GET, HEAD, POST',
          },
        );
        const rejectConnect = () => this.writeRawResponse(socket, rejection, request);
        if (isIdle(socket)) rejectConnect();
        else socket.latest?.once('close', rejectConnect);
      })
      .on('clientError', (error: NodeJS.ErrnoException, socket: Connection) =>
        this.handleClientError(error, socket),
      );
    this.httpServer.keepAliveTimeout = this.config.keepAliveTimeout;
    this.httpServer.timeout = SOCKET_TIMEOUT_MS;
    // A client that has ended its side after the request still reads. Node would drop its answer.
    Object.assign(this.httpServer, { httpAllowHalfOpen: true });
  }

  /** Has a listener told of every answer. */
  onResponse(listener: ResponseListener): void {
    this.responseListeners.push(listener);
  }

  /** Connections with a request that is not answered yet; pipelined requests count as one. */
  get requestsInFlight(): number {
    return [...this.connections].filter((connection) => !isIdle(connection)).length;
  }

  get openConnectionCount(): number {
    return this.connections.size;
  }

  /** The options of Node's HTTP server. */
  protected serverOptions(app: Express): ServerOptions {
    return {
      ...expressClasses(app, (response) => this.notifyResponseListeners(response)),
      headersTimeout: HEADERS_TIMEOUT,
      requestTimeout: REQUEST_TIMEOUT,
      connectionsCheckingInterval: TIMEOUT_CHECK_INTERVAL,
      maxHeaderSize: MAX_HEADER_SIZE,
      // Node would answer 400 without a body; `receive` does it with one.
      requireHostHeader: false,
    };
  }

  /** The operations that the router has at a path, whatever their method. */
  findRoutes(path: string): RouteEntry[] {
    const { stack } = this.getInstance<Express>().router as unknown as { stack: RouterLayer[] };
    return stack.flatMap((layer) =>
      layer.route !== undefined && layer.match(path)
        ? layer.route.stack
            .filter(({ method }) => method !== undefined)
            .map(({ method, handle }) => ({ method: method!.toUpperCase(), handler: handle }))
        : [],
    );
  }

  override useStaticAssets(path: string, options: { prefix: string }): this {
    // Every other answer says no-store (see `prepare`): Swagger UI's files may be kept and revalidated.
    return super.useStaticAssets(path, {
      ...options,
      setHeaders: (response: ServerResponse) => response.setHeader('Cache-Control', 'no-cache'),
    });
  }

  override beforeClose(): void {
    this.stopping = true;
  }

  /**
   * Stops: after the configured delay no new connection is taken; requests in flight, and those
   * that arrive within `STOP_GRACE`, are answered with `Connection: close`; idle connections are
   * closed. Whatever is still open after `STOP_LIMIT` is cut.
   */
  override async close(): Promise<void> {
    const deadline = Date.now() + SHUTDOWN_TIMEOUT_MS;
    this.stopping = true;
    if (!this.httpServer.listening) return;
    await delay(this.config.shutdownDelay);
    // Not `httpServer.close()`, which closes idle connections at once, and with them requests that
    // are on the wire already.
    const closed = new Promise<void>((resolve) => {
      TcpServer.prototype.close.call(this.httpServer, () => resolve());
    });
    for (const { latest } of this.connections) {
      if (latest !== undefined && !latest.headersSent) latest.shouldKeepAlive = false;
    }
    const drainDeadline = Date.now() + DRAIN_GRACE_PERIOD_MS;
    while (this.connections.size > 0 && Date.now() < deadline) {
      await delay(20);
      if (Date.now() < drainDeadline) continue;
      for (const connection of this.connections) if (isIdle(connection)) connection.destroy();
    }
    for (const connection of this.connections) connection.destroy();
    await closed;
  }

  private handleRequest(app: Express, request: IncomingMessage, response: ServerResponse): void {
    if (!this.initResponse(request, response)) return;
    const rejection = validateRequestHead(request);
    if (rejection !== undefined) {
      // What follows on the connection may be anything.
      response.shouldKeepAlive = false;
      sendError(response, rejection);
    } else {
      // Where no route was even tried Express would answer by itself, in HTML.
      (app as unknown as Handler)(request, response, (error) =>
        this.finalHandler(request, response, error),
      );
    }
  }

  private finalHandler(request: IncomingMessage, response: ServerResponse, error: unknown): void {
    const rejection =
      error === undefined
        ? errorResponse('BAD_REQUEST', 'The target of the request has no path.')
        : toErrorResponse(error);
    if (rejection.body.status >= 500) {
      logger.error(`${request.method} ${getRouteLabel(request)} failed`, error, {
        requestId: request.id,
      });
    }
    sendError(response, rejection);
  }

  /** A response is about to end. */
  private notifyResponseListeners({ req, statusCode, startedAt }: TimedResponse): void {
    const milliseconds = performance.now() - startedAt;
    for (const listener of this.responseListeners) listener(req, statusCode, milliseconds);
  }

  /**
   * What every answer has: an id, no place in a cache unless its operation says so, what browsers mind.
   *
   * @returns false where the connection ends with the answer to an earlier request: nobody would
   *   see an answer, so nothing may be done
   */
  private initResponse(request: IncomingMessage, response: ServerResponse): boolean {
    const connection = request.socket as Connection;
    if (connection.latest?.shouldKeepAlive === false) return false;
    connection.previous = connection.latest;
    connection.latest = response;
    connection.requests++;
    // While stopping, not before the listener is closed: clients would only connect again. Node's
    // own `maxRequestsPerSocket` would answer 503 without a body, and leave the connection open.
    if (!this.httpServer.listening || connection.requests === MAX_REQUESTS_PER_CONNECTION)
      response.shouldKeepAlive = false;
    request.id = this.requestId(request);
    response.setHeader('X-Request-Id', request.id);
    response.setHeader('Cache-Control', 'no-store');
    for (const [name, value] of this.answerHeaders) response.setHeader(name, value);
    return true;
  }

  /** The client's own, where it is a sane one and no key, else a fresh UUID. */
  private requestId({ headers }: IncomingMessage): string {
    const given = headers['x-request-id'];
    return typeof given === 'string' &&
      REQUEST_ID_PATTERN.test(given) &&
      !this.containsApiKey(given)
      ? given
      : randomUUID();
  }

  private containsApiKey(text: string): boolean {
    const { bootstrapApiKey } = this.config;
    return API_KEY.test(text) || (bootstrapApiKey !== undefined && text.includes(bootstrapApiKey));
  }

  /** Answers a request that Node's HTTP parser gave up on, and closes the connection. */
  private handleClientError(error: NodeJS.ErrnoException, connection: Connection): void {
    const { latest, previous } = connection;
    const lastCompleteResponse = latest?.req.complete === true ? latest : previous;
    if (error.code === 'ECONNRESET' || !connection.writable) {
      connection.destroy();
    } else if (
      lastCompleteResponse !== undefined &&
      !lastCompleteResponse.writableFinished &&
      !lastCompleteResponse.destroyed
    ) {
      // A pipelined request went wrong: those before it are answered first, or their client would take
      // this error for one of their answers.
      lastCompleteResponse.once('close', () => this.handleClientError(error, connection));
    } else if (latest?.headersSent === true && !(latest.req.complete && latest.shouldKeepAlive)) {
      // The rest of a request that has its answer already, or what comes after the last one.
      connection.destroySoon();
    } else {
      // What went wrong is the body of a request whose headers came, or something without an id.
      this.writeRawResponse(
        connection,
        clientErrorResponse(error),
        latest?.req.complete === false ? latest.req : undefined,
      );
    }
  }

  /** Writes an answer where Node has no response object for it, and closes the connection. */
  private writeRawResponse(
    connection: Socket,
    { body, headers }: ErrorResponse,
    request?: IncomingMessage,
  ): void {
    const id = request?.id ?? (request === undefined ? randomUUID() : this.requestId(request));
    const text = JSON.stringify(body);
    const head = {
      Date: new Date().toUTCString(),
      Connection: 'close',
      'X-Request-Id': id,
      'Cache-Control': 'no-store',
      ...Object.fromEntries(this.answerHeaders),
      'Content-Type': 'application/json; charset=utf-8',
      'Content-Length': Buffer.byteLength(text),
      ...headers,
    };
    const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}\r\n`);
    connection.end(
      `HTTP/1.1 ${body.status} ${STATUS_CODES[body.status]}\r\n${lines.join('')}\r\n${text}`,
      () => connection.destroy(),
    );
    const notifyResponseListeners = { id, method: request?.method };
    for (const listener of this.responseListeners)
      listener(notifyResponseListeners, body.status, undefined);
  }
}

/**
 * Express sets the prototype of every request and response to its own, which makes V8 throw away
 * the optimised shapes of both. These classes make them with that prototype from the start, so that
 * Express's call changes nothing. Measured on Node 20: a Nest route takes 32 us with them and 106 us
 * without; on Node 24 the gain is 7 to 8 percent. Every answer is the same with and without them.
 *
 * @param notifyResponseListeners is told of a response before its `end`: a listener of `finish` would cost microseconds
 */
export function expressClasses(
  app: Express,
  notifyResponseListeners: (response: TimedResponse) => void,
): Pick<ServerOptions, 'IncomingMessage' | 'ServerResponse'> {
  class ExpressRequest extends IncomingMessage {}
  class ExpressResponse<Request extends IncomingMessage> extends ServerResponse<Request> {
    readonly startedAt = performance.now();

    // Node's overloads have no common signature.
    override end(chunk?: any, encoding?: any, callback?: any): this {
      if (!this.writableEnded) notifyResponseListeners(this);
      return super.end(chunk, encoding, callback);
    }
  }
  Object.setPrototypeOf(ExpressRequest.prototype, app.request);
  Object.setPrototypeOf(ExpressResponse.prototype, app.response);
  app.request = ExpressRequest.prototype as unknown as Express['request'];
  app.response = ExpressResponse.prototype as unknown as Express['response'];
  return { IncomingMessage: ExpressRequest, ServerResponse: ExpressResponse };
}

/** Express as it is called: with what comes after its last route. */
type Handler = (
  request: IncomingMessage,
  response: ServerResponse,
  next: (error?: unknown) => void,
) => void;

/** What is wrong with the head of a request that Node's parser took, if anything. It is told before the key is looked at: it gives nothing away. */
function validateRequestHead(request: IncomingMessage): ErrorResponse | undefined {
  const { httpVersionMajor, httpVersionMinor, rawHeaders, headers } = request;
  if (httpVersionMajor !== 1)
    return errorResponse('BAD_REQUEST', 'The HTTP version must be 1.0 or 1.1.');
  if (rawHeaders.length > MAX_HEADERS * 2)
    return errorResponse('HEADERS_TOO_LARGE', `The request has more than ${MAX_HEADERS} headers.`);
  if (!hasValidHostHeader(request))
    return errorResponse('BAD_REQUEST', 'The request must have exactly one valid Host header.');
  const coding = headers['transfer-encoding'];
  if (coding === undefined) return undefined;
  // RFC 9112, section 6.1: where a request ends is then a guess, and a proxy may guess otherwise.
  if (httpVersionMinor === 0)
    return errorResponse('BAD_REQUEST', 'HTTP/1.0 has no Transfer-Encoding.');
  const codings = coding
    .toLowerCase()
    .split(',')
    .map((name) => name.trim());
  if (codings.at(-1) !== 'chunked')
    return errorResponse('BAD_REQUEST', 'The last Transfer-Encoding must be chunked.');
  if (codings.length > 1)
    return errorResponse('NOT_IMPLEMENTED', 'The only Transfer-Encoding that is taken is chunked.');
  return undefined;
}

/** RFC 9112, section 3.2: an HTTP/1.1 request without a Host, and any with two or an invalid one, is a 400. */
function hasValidHostHeader({ rawHeaders, httpVersionMinor }: IncomingMessage): boolean {
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    if (name.length !== 4 || name.toLowerCase() !== 'host') continue;
    hosts++;
    if (!HOST.test(rawHeaders[index + 1]!)) return false;
  }
  return hosts === 1 || (hosts === 0 && httpVersionMinor === 0);
}

/** No request is being answered on the connection, and the last answer has left the process. */
function isIdle({ latest }: Connection): boolean {
  return latest === undefined || latest.writableFinished || latest.destroyed;
}

function errorResponse(
  ...[code, message, headers]: ConstructorParameters<typeof ApiError>
): ErrorResponse {
  return toErrorResponse(new ApiError(code, message, headers));
}

function clientErrorResponse({ code }: NodeJS.ErrnoException): ErrorResponse {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return errorResponse('HEADERS_TOO_LARGE', 'The request headers are larger than 16 KiB.');
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return errorResponse('PAYLOAD_TOO_LARGE', 'The chunk extensions of the body are too large.');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return errorResponse('REQUEST_TIMEOUT', 'The request did not arrive in time.');
    default:
      return errorResponse('BAD_REQUEST', 'The request is not valid HTTP.');
  }
}
