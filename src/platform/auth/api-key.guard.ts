import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import type { Request } from 'express';
import { DatabaseConnection } from '../database/database-connection.js';
import { withDeadline, databaseUnavailable } from '../database/driver-errors.js';
import { ApiError } from '../errors/api-error.js';
import { ApiKeysService } from './api-keys.service.js';
import { AuthFailureLimiter } from './auth-failure-limiter.js';
import { isPublic } from './public.decorator.js';

/** RFC 6750, section 2.1, with the scheme in any case (RFC 9110, section 11.1), and the longest key that we take. */
const BEARER = /^Bearer +([A-Za-z0-9\-._~+/]{1,256}=*)$/i;

/** The API key that a request carries, valid or not. */
export function extractBearerToken({ headers: { authorization } }: Request): string | undefined {
  return authorization === undefined ? undefined : BEARER.exec(authorization)?.[1];
}

/** Lets a request pass that carries a valid API key, and those for a `@Public()` operation. */
@Injectable()
export class ApiKeyGuard implements CanActivate {
  constructor(
    private readonly keys: ApiKeysService,
    private readonly database: DatabaseConnection,
    private readonly failures: AuthFailureLimiter,
  ) {}

  canActivate(context: ExecutionContext): true | Promise<true> {
    return isPublic(context.getHandler()) || this.authenticate(context.switchToHttp().getRequest());
  }

  /** @throws {ApiError} UNAUTHORIZED where the request carries no valid key, TOO_MANY_REQUESTS where its address has sent too many, SERVICE_UNAVAILABLE where that cannot be told yet */
  authenticate(request: Request): true | Promise<true> {
    const { authorization } = request.headers;
    if (authorization === undefined || !/^Bearer +\S/i.test(authorization)) {
      throw unauthorized('The API key is missing: send Authorization: Bearer <API_KEY>.');
    }
    if (!this.database.isReady) throw databaseUnavailable();
    const key = extractBearerToken(request);
    return (
      (key !== undefined && this.keys.isCachedAndValid(key)) || this.verifyKey(key, request.ip)
    );
  }

  /**
   * Looks a key up. Past the limit of its address an unknown key is refused without a query of its
   * own, and a valid one passes all the same.
   */
  private async verifyKey(key: string | undefined, address: string | undefined): Promise<true> {
    const wait = this.failures.consume(address);
    let valid: boolean | undefined;
    try {
      if (key === undefined) valid = false;
      else
        valid = await withDeadline(
          wait === 0 ? this.keys.isValid(key) : this.keys.isListedAndValid(key),
        );
    } finally {
      // What could not be told for want of a database is no failure of the client.
      if (wait === 0 && valid !== false) this.failures.refund(address);
    }
    if (valid) return true;
    if (wait > 0) throw tooManyRequests(wait);
    throw unauthorized(
      'The API key is not valid: it is unknown, expired or revoked.',
      'invalid_token',
    );
  }
}

/** RFC 6585, section 4; RFC 9110, section 10.2.3: whole seconds. */
function tooManyRequests(wait: number): ApiError {
  return new ApiError(
    'TOO_MANY_REQUESTS',
    'Too many invalid API keys came from this address; a valid one is still taken.',
    { 'Retry-After': String(Math.ceil(wait / 1000)) },
  );
}

/** RFC 6750, section 3: `error` only where a key was sent. */
function unauthorized(message: string, error?: 'invalid_token'): ApiError {
  const challenge = `Bearer realm="petstore"${error === undefined ? '' : `, error="${error}"`}`;
  return new ApiError('UNAUTHORIZED', message, { 'WWW-Authenticate': challenge });
}
