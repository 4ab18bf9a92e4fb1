/** What a contract has and an operation does not support: a request with it gets 501, and is never half understood. */
import type { NestInterceptor } from '@nestjs/common';
import type { Request } from 'express';
import { ApiError } from '../../errors/api-error.js';

/** The description of a parameter that is refused. */
export const UNSUPPORTED = 'Not supported yet: returns 501.';

/**
 * Refuses a request with query parameters whose effect is not implemented.
 *
 * @param query the validated parameters
 * @throws {ApiError} 501 that names the first one
 */
export function refuseQuery<Query extends object>(query: Query, ...names: (keyof Query)[]): void {
  const sent = names.find((name) => query[name] !== undefined);
  if (sent !== undefined) throw toError(String(sent));
}

/** Refuses query parameters before they are validated. */
export const createRefusal = (queryNames: readonly string[]): NestInterceptor<unknown> => ({
  intercept(context, next) {
    const { query } = context.switchToHttp().getRequest<Request>();
    // `filter[name]` is a part of the parameter `filter`.
    const keys = new Set(Object.keys(query).flatMap((key) => [key, key.split('[')[0]!]));
    const parameter = queryNames.find((name) => keys.has(name));
    if (parameter !== undefined) throw toError(parameter);
    return next.handle();
  },
});

const toError = (name: string): ApiError =>
  new ApiError('NOT_IMPLEMENTED', `The query parameter ${name} is not supported.`);
