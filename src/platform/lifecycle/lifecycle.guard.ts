import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import type { Response } from 'express';
import { ApiError } from '../errors/api-error.js';
import { getDeprecation } from './lifecycle.decorators.js';

/**
 * Tells the clients of a deprecated operation so, on errors too, and ends the operation at its
 * sunset. It stands between the key and the body, so that a body is not read for nothing.
 *
 * @throws {ApiError} GONE from the sunset date on
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
    throw new ApiError('GONE', `This operation ended on ${deprecation.sunset}.`);
  }
}
