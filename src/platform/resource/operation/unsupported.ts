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
  if (sent !== undefined) throw toError(`query parameter ${String(sent)}`);
}

/** Refuses headers and query parameters before they are validated. */
export const createRefusal = (
  headerNames: readonly string[],
  queryNames: readonly string[],
): NestInterceptor<unknown> => ({
  intercept(context, next) {
    const { headers, query } = context.switchToHttp().getRequest<Request>();
    const header = headerNames.find((name) => headers[name.toLowerCase()] !== undefined);
    if (header !== undefined) throw toError(`header ${header}`);
    // `filter[name]` is a part of the parameter `filter`.
    const keys = new Set(Object.keys(query).flatMap((key) => [key, key.split('[')[0]!]));
    const parameter = queryNames.find((name) => keys.has(name));
    if (parameter !== undefined) throw toError(`query parameter ${parameter}`);
    return next.handle();
  },
});

const toError = (name: string): ApiError =>
  new ApiError('NOT_IMPLEMENTED', `The ${name} is not supported.`);
