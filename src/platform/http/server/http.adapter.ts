import type { IncomingMessage, ServerResponse } from 'node:http';
import { type RequestMethod, StreamableFile } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express, type Request, type Response } from 'express';
import type { Config } from '../../config/config.js';
import { ApiError } from '../../errors/api-error.js';
import { requestContext } from '../../logging/logger.js';
import { CachedJsonResponse } from '../responses/cached-json-response.js';
import { respondWithError } from '../responses/error.filter.js';
import { Versioned } from '../responses/versioned.js';
import { sendJson } from '../responses/write-response.js';
import { closeGracefully } from './graceful-shutdown.js';
import { HttpServer } from './http-server.js';
import type { ServerTimeouts } from './server-options.js';
import { handleUnmatchedRoutes, middlewareLayers } from './unmatched-routes.js';
import { withoutPort } from './without-port.js';

/** Nest's Express adapter on an {@link HttpServer}. Its shutdown loses no request. */
export class HttpAdapter extends ExpressAdapter {
  readonly http: HttpServer;
  /** The methods of all routes, for the `Allow` of `OPTIONS *`. */
  private allow = '';

  /** @param timeouts overrides, for tests */
  constructor(
    private readonly config: Config,
    timeouts: Partial<ServerTimeouts> = {},
  ) {
    const app = express();
    app.disable('x-powered-by');
    // Express would hash every body; lists have an ETag of their own.
    app.disable('etag');
    // Only the published paths exist: not /v1/Pets, nor /v1/pets/.
    app.enable('case sensitive routing');
    app.enable('strict routing');
    if (config.trustProxy !== undefined) {
      app.set('trust proxy', config.trustProxy);
      const isTrusted = app.get('trust proxy fn') as (address: string, hop: number) => boolean;
      app.set('trust proxy', (address: string, hop: number) =>
        isTrusted(withoutPort(address), hop),
      );
    }
    super(app);
    const handle = (request: IncomingMessage, response: ServerResponse): unknown => {
      // `OPTIONS *` asks about the whole service (RFC 9110, section 9.3.7). Express has no route for it.
      if (request.url === '*' && request.method === 'OPTIONS')
        return response.writeHead(204, { Allow: this.allow }).end();
      // Express calls it if it cannot route the request, or fails. By default it would respond in HTML.
      const fail = (error: unknown) =>
        respondWithError(error ?? new ApiError('BAD_REQUEST', 'Invalid request target.'), response);
      return requestContext.run(request, app, request as Request, response as Response, fail);
    };
    this.http = new HttpServer(config, handle, { app, timeouts });
  }

  override initHttpServer(): void {
    this.httpServer = this.http.server;
  }

  override reply(response: Response, body: unknown, status = response.statusCode): unknown {
    if (body instanceof CachedJsonResponse) return body.send(response);
    if (body instanceof StreamableFile) {
      // By default, Nest responds with 400 and a text if the stream fails.
      body.setErrorHandler((error) => respondWithError(error, response));
      return super.reply(response, body, status);
    }
    if (body instanceof Versioned)
      throw new TypeError('A handler returned a Versioned: declare it with @ReturnsEtag().');
    const isJson = typeof body === 'object' && body !== null;
    if (!isJson || response.hasHeader('Content-Type')) return super.reply(response, body, status);
    return sendJson(response, status, body);
  }

  /** Returns the cache key of Nest's `CacheInterceptor`: the URL of a request, and the id of its verified API key. */
  override getRequestUrl({ originalUrl, apiKey }: Request): string {
    return apiKey === undefined ? originalUrl : `${originalUrl} ${apiKey.id}`;
  }

  override createMiddlewareFactory(method: RequestMethod) {
    const register = super.createMiddlewareFactory(method);
    return (...middleware: Parameters<typeof register>): void => {
      const { stack } = this.getInstance<Express>().router;
      const { length } = stack;
      register(...middleware);
      for (const layer of stack.slice(length)) middlewareLayers.add(layer);
    };
  }

  override setNotFoundHandler(): this {
    this.allow = handleUnmatchedRoutes(this.getInstance<Express>());
    return this;
  }

  override async close(): Promise<void> {
    await closeGracefully(this.http, this.config.shutdownDelay);
  }
}
