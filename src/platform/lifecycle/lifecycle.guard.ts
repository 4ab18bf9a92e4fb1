import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import type { Response } from 'express';
import { ApiError } from '../errors/api-error.js';
import { getDeprecation } from './lifecycle.decorators.js';

/**
 * Sends the `Deprecation` and `Sunset` headers of a deprecated operation, also on errors, and rejects
 * requests after its sunset. It runs after authentication and before the body is read.
 *
 * @throws {ApiError} GONE from the sunset on
 */
@Injectable()
export class LifecycleGuard implements CanActivate {
  canActivate(context: ExecutionContext): true {
    const deprecation = getDeprecation(context.getHandler());
    if (deprecation === undefined) return true;
    const response = context.switchToHttp().getResponse<Response>();
    response.setHeader('Deprecation', deprecation.deprecation);
    if (deprecation.sunset !== undefined) response.setHeader('Sunset', deprecation.sunset);
    if (Date.now() < deprecation.sunsetAt) return true;
    throw new ApiError('GONE', `This operation was removed on ${deprecation.sunset}.`);
  }
}
