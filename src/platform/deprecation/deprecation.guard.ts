import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Response } from 'express';
import { ApiError } from '../errors/api-error.js';
import { Deprecation } from './deprecation.decorators.js';

/** Sends the headers `Deprecation` (RFC 9745) and `Sunset` (RFC 8594), also on errors, and 410 from the sunset on. */
@Injectable()
export class DeprecationGuard implements CanActivate {
  constructor(private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): true {
    const deprecation = this.reflector.get(Deprecation, context.getHandler());
    if (deprecation === undefined) return true;
    const { headers, sunsetAt } = deprecation;
    context.switchToHttp().getResponse<Response>().setHeaders(headers);
    if (Date.now() < sunsetAt) return true;
    throw new ApiError('GONE', `This operation was removed on ${headers.get('Sunset')}.`);
  }
}
