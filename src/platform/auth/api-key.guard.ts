import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import type { Request } from 'express';
import { DatabaseConnection } from '../database/database-connection.js';
import { withDeadline } from '../database/deadline.js';
import { DatabaseUnavailableError } from '../database/driver-errors.js';
import { ApiError } from '../errors/api-error.js';
import { ApiKeysService } from './api-keys.service.js';
import { AuthFailureLimiter } from './auth-failure-limiter.js';
import { isPublic } from './public.decorator.js';

/** RFC 6750, section 2.1, with a case-insensitive scheme (RFC 9110, section 11.1) and a maximum length. */
const BEARER = /^Bearer +([A-Za-z0-9\-._~+/]{1,256}=*)$/i;

/** Returns the API key of a request, valid or not. */
export function extractBearerToken({ headers: { authorization } }: Request): string | undefined {
  return authorization === undefined ? undefined : BEARER.exec(authorization)?.[1];
}

/**
 * Requires a valid API key, except for `@Public()` routes.
 *
 * @throws {ApiError} UNAUTHORIZED if the key is missing or invalid; TOO_MANY_REQUESTS after too many
 *   failed attempts of the client; SERVICE_UNAVAILABLE if the key cannot be checked
 */
@Injectable()
export class ApiKeyGuard implements CanActivate {
  /** Keys that are being verified for the first time. */
  private readonly pending = new Map<string, Promise<unknown>>();

  constructor(
    private readonly keys: ApiKeysService,
    private readonly database: DatabaseConnection,
    private readonly failures: AuthFailureLimiter,
  ) {}

  canActivate(context: ExecutionContext): true | Promise<true> {
    return isPublic(context.getHandler()) || this.authenticate(context.switchToHttp().getRequest());
  }

  private authenticate(request: Request): true | Promise<true> {
    const { authorization } = request.headers;
    if (authorization === undefined || !/^Bearer +\S/i.test(authorization)) {
      throw unauthorized('The API key is missing: send Authorization: Bearer <API_KEY>.');
    }
    if (!this.database.isReady) throw new DatabaseUnavailableError();
    const key = extractBearerToken(request);
    return (
      (key !== undefined && this.keys.isCachedAndValid(key)) || this.verifyKey(key, request.ip)
    );
  }

  private async verifyKey(key: string | undefined, clientIp: string | undefined): Promise<true> {
    if (key === undefined) {
      await this.failures.consume(clientIp);
      throw invalidKey();
    }
    // Many first requests with a valid key must not count as failures until the first is verified.
    await this.pending.get(key)?.catch(() => undefined);
    if (this.keys.isCachedAndValid(key)) return true;
    // Keys that were valid before are exempt: other clients at the same address may exceed the limit.
    const isValid = this.keys.isCached(key)
      ? withDeadline(this.keys.isValid(key))
      : this.verifyNewKey(key, clientIp);
    if (!(await isValid)) throw invalidKey();
    return true;
  }

  private async verifyNewKey(key: string, clientIp: string | undefined): Promise<boolean> {
    await this.failures.consume(clientIp);
    const lookup = withDeadline(this.keys.isValid(key));
    this.pending.set(key, lookup);
    try {
      const isValid = await lookup;
      if (isValid) await this.failures.refund(clientIp);
      return isValid;
    } catch (error) {
      // The database failed, not the client.
      await this.failures.refund(clientIp);
      throw error;
    } finally {
      this.pending.delete(key);
    }
  }
}

function invalidKey(): ApiError {
  return unauthorized(
    'The API key is invalid: it is unknown, expired or revoked.',
    'invalid_token',
  );
}

/** RFC 6750, section 3: `error` only if a key was sent. */
function unauthorized(message: string, error?: 'invalid_token'): ApiError {
  const challenge = `Bearer realm="petstore"${error === undefined ? '' : `, error="${error}"`}`;
  return new ApiError('UNAUTHORIZED', message, { 'WWW-Authenticate': challenge });
}
