import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import type { Response } from 'express';
import { ApiError } from '../errors/api-error.js';
import { getDeprecation } from './lifecycle.decorators.js';

/**
 * Sends the `Deprecation` (RFC 9745) and `Sunset` (RFC 8594) headers of a deprecated operation, also on errors.
 *
 * @throws {ApiError} GONE from the sunset on
 */
@Injectable()
export class LifecycleGuard implements CanActivate {
  canActivate(context: ExecutionContext): true {
    const deprecation = getDeprecation(context.getHandler());
    if (deprecation === undefined) return true;
    const response = context.switchToHttp().getResponse<Response>();
    const { deprecatedAt, sunsetAt } = deprecation;
    response.setHeader('Deprecation', `@${deprecatedAt / 1000}`);
    if (sunsetAt === undefined) return true;
    const sunset = new Date(sunsetAt).toUTCString();
    response.setHeader('Sunset', sunset);
    if (Date.now() < sunsetAt) return true;
    throw new ApiError('GONE', `This operation was removed on ${sunset}.`);
  }
}
