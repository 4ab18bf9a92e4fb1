import type { IncomingMessage } from 'node:http';
import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { DatabaseConnection } from '../database/connection.js';
import { patiently, unavailable } from '../database/errors.js';
import { ApiError } from '../errors/api-error.js';
import { ApiKeysService } from './api-keys.service.js';
import { isPublic } from './public.decorator.js';

/** RFC 6750, section 2.1, with the scheme in any case (RFC 9110, section 11.1), and the longest key that we take. */
const BEARER = /^Bearer +([A-Za-z0-9\-._~+/]{1,256}=*)$/i;

/** Lets a request pass that carries a valid API key, and those for a `@Public()` operation. */
@Injectable()
export class ApiKeyGuard implements CanActivate {
  constructor(
    private readonly keys: ApiKeysService,
    private readonly database: DatabaseConnection,
  ) {}

  canActivate(context: ExecutionContext): true | Promise<true> {
    return isPublic(context.getHandler()) || this.authenticate(context.switchToHttp().getRequest());
  }

  /** @throws {ApiError} UNAUTHORIZED where the request carries no valid key, SERVICE_UNAVAILABLE where that cannot be told yet */
  authenticate({ headers: { authorization } }: IncomingMessage): true | Promise<true> {
    if (authorization === undefined || !/^Bearer +\S/i.test(authorization)) {
      throw unauthorized('The API key is missing: send Authorization: Bearer <API_KEY>.');
    }
    if (!this.database.isOpen) throw unavailable();
    const key = BEARER.exec(authorization)?.[1];
    const valid = key !== undefined && this.keys.isValid(key);
    return typeof valid === 'boolean' ? accept(valid) : patiently(valid).then(accept);
  }
}

function accept(valid: boolean): true {
  if (valid) return true;
  throw unauthorized(
    'The API key is not valid: it is unknown, expired or revoked.',
    'invalid_token',
  );
}

/** RFC 6750, section 3: `error` only where a key was sent. */
function unauthorized(message: string, error?: 'invalid_token'): ApiError {
  const challenge = `Bearer realm="petstore"${error === undefined ? '' : `, error="${error}"`}`;
  return new ApiError('UNAUTHORIZED', message, { 'WWW-Authenticate': challenge });
}
