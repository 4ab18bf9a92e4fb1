import type { IncomingMessage } from 'node:http';
import { type CanActivate, type ExecutionContext, Inject, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Request, Response } from 'express';
import { CONFIG, type Config } from '../config/config.js';
import { DatabaseStartup } from '../database/connection/database-startup.js';
import { DatabaseUnavailableError } from '../database/connection/driver-errors.js';
import { ApiError } from '../errors/api-error.js';
import type { SlowBodyCheck } from '../http/body/slow-body-check.js';
import { ApiKeyVerifier } from './api-key-verifier.js';
import type { ApiKey } from './keys/api-key.entity.js';
import { IsPublic } from './public.decorator.js';
import { RateLimiter } from './rate-limiter.js';
import { RequiredScope } from './scope.decorator.js';

/** RFC 6750, section 2.1, with a case-insensitive scheme (RFC 9110, section 11.1) and a maximum length. */
const BEARER = /^Bearer +([A-Za-z0-9\-._~+/]{1,256}=*)$/i;

/** How many keys are counted separately, which bounds the number of series of the metric. */
const MAX_COUNTED_KEYS = 1_000;

/**
 * Requires a valid API key, except for `@Public()` routes, and limits its requests per minute.
 *
 * @throws {ApiError} UNAUTHORIZED if the key is missing or invalid; FORBIDDEN if it lacks the scope of the
 *   operation; TOO_MANY_REQUESTS after too many requests with the key, or failed attempts of the client;
 *   SERVICE_UNAVAILABLE if the key cannot be checked
 */
@Injectable()
export class ApiKeyGuard implements CanActivate, SlowBodyCheck {
  readonly limiter = new RateLimiter('api-key');
  /** The number of requests since the start of the process, by the id of their key, or `other` for those of further keys. */
  readonly requests = new Map<number | 'other', number>();

  constructor(
    @Inject(CONFIG) private readonly config: Config,
    private readonly verifier: ApiKeyVerifier,
    private readonly database: DatabaseStartup,
    private readonly reflector: Reflector,
  ) {}

  canActivate(context: ExecutionContext): true | Promise<true> {
    const request = context.switchToHttp().getRequest<Request>();
    const isPublic = this.reflector.get(IsPublic, context.getHandler());
    if (isPublic?.needsDatabase === false) return true;
    const key = isPublic ? undefined : this.getKey(request);
    if (!this.database.isReady) throw new DatabaseUnavailableError();
    if (key === undefined) return true;
    const verified = this.verifier.verify(key, request);
    return verified instanceof Promise
      ? verified.then((found) => this.authorize(found, context))
      : this.authorize(verified, context);
  }

  /** Verifies the key again after a slow body: it may have been revoked, or have expired, meanwhile. */
  async afterSlowBody(request: IncomingMessage): Promise<void> {
    if (request.apiKey === undefined) return;
    if (!this.database.isReady) throw new DatabaseUnavailableError();
    this.requireKey(await this.verifier.verify(this.getKey(request), request));
  }

  private authorize(key: ApiKey | undefined, context: ExecutionContext): true {
    this.requireKey(key);
    const http = context.switchToHttp();
    const request = http.getRequest<Request>();
    request.apiKey = key;
    this.limitRequests(key, http.getResponse<Response>());
    const implied = request.method === 'GET' || request.method === 'HEAD' ? 'read' : 'write';
    const scope = this.reflector.get(RequiredScope, context.getHandler()) ?? implied;
    if (key.scopes.split(' ').includes(scope)) return true;
    throw new ApiError('FORBIDDEN', `The API key lacks the scope ${scope}.`, {
      headers: this.toChallenge(`, error="insufficient_scope", scope="${scope}"`),
    });
  }

  /** Counts a request of a key, for the metrics and for the rate limit, which the response describes. */
  private limitRequests(key: ApiKey, response: Response): void {
    const counted = this.requests.has(key.id) || this.requests.size < MAX_COUNTED_KEYS;
    const id = counted ? key.id : 'other';
    this.requests.set(id, (this.requests.get(id) ?? 0) + 1);
    const limit = key.requestsPerMinute ?? this.config.keyRequestsPerMinute;
    if (limit === 0) return;
    const message = `Rate limit exceeded (${limit} requests per minute).`;
    const headers = this.limiter.consume(String(key.id), limit, message);
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  }

  private getKey(request: IncomingMessage): string {
    const key = getApiKey(request);
    if (key !== undefined) return key;
    // A header of one word is a key without the scheme.
    const isBare = /^(?!Bearer)\S+$/i.test(request.headers.authorization ?? '');
    const missing = isBare ? 'scheme Bearer' : 'API key';
    throw this.unauthorized(`The ${missing} is missing: send Authorization: Bearer <API_KEY>.`);
  }

  private requireKey(key: ApiKey | undefined): asserts key is ApiKey {
    const message = 'The API key is invalid: it is unknown, expired or revoked.';
    if (key === undefined) throw this.unauthorized(message, ', error="invalid_token"');
  }

  private unauthorized(message: string, error?: string): ApiError {
    return new ApiError('UNAUTHORIZED', message, { headers: this.toChallenge(error) });
  }

  /** @param error RFC 6750, section 3.1: only if a key was sent */
  private toChallenge(error = ''): Record<string, string> {
    return { 'WWW-Authenticate': `Bearer realm="${this.config.product.name}"${error}` };
  }
}

/** Returns the API key of a request: empty if it is malformed, undefined if there is none. */
export function getApiKey({ headers }: IncomingMessage): string | undefined {
  const { authorization = '' } = headers;
  const [, key] = BEARER.exec(authorization) ?? [];
  return key ?? (/^Bearer +\S/i.test(authorization) ? '' : undefined);
}
