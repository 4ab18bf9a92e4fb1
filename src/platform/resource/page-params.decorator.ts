import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { ApiQuery, ApiResponse } from '@nestjs/swagger';
import type { Request } from 'express';
import { MAX_ID } from '../config/max-id.js';
import { ApiError } from '../errors/api-error.js';
import { ErrorBody } from '../http/responses/error-body.dto.js';
import { ApiResponseHeaders } from '../http/responses/response-headers.js';
import { withMethodDecorators } from '../http/with-method-decorators.js';

/** Which page of a list a client requests. */
export interface PageParams {
  /** The maximum number of items. */
  readonly limit: number;
  /** The id after which the page starts; by default the page is the first one. */
  readonly after: number | undefined;
}

const LIMIT = { type: 'integer', format: 'int32', minimum: 1, maximum: 100, default: 20 } as const;
const AFTER = { type: 'integer', format: 'int64', minimum: 1, maximum: MAX_ID } as const;

/** The headers of a list, in the OpenAPI document. */
export const LIST_ETAG = {
  description: 'Identifies this version of the list.',
  schema: { type: 'string', maxLength: 100 },
};
export const LIST_LINK = {
  description:
    'The URL of the next page, relative to the URL of this request (RFC 8288). Missing on the last page.',
  schema: { type: 'string', maxLength: 20_000, example: '<?limit=20&after=20>; rel="next"' },
};

const parsePageParams = createParamDecorator((_data, context: ExecutionContext): PageParams => {
  const { query } = context.switchToHttp().getRequest<Request>();
  const problems: string[] = [];
  const parse = (name: string, { maximum }: { readonly maximum: number }): number | undefined => {
    const text = query[name];
    if (text === undefined) return undefined;
    const value = typeof text === 'string' && /^[1-9]\d{0,15}$/.test(text) ? Number(text) : NaN;
    if (!(value <= maximum)) problems.push(`${name} must be an integer from 1 to ${maximum}`);
    return value;
  };
  const page = { limit: parse('limit', LIMIT) ?? LIMIT.default, after: parse('after', AFTER) };
  if (problems.length > 0) throw new ApiError('VALIDATION_FAILED', `${problems.join('; ')}.`);
  return page;
});

/**
 * Passes the query parameters `limit` (1 to 100, default 20) and `after` (the id after which the page
 * starts) to a handler, and declares them, the `Link` header and 400 in the OpenAPI document. The
 * response is a `CachedJsonResponse` with `next`.
 *
 * @throws {ApiError} VALIDATION_FAILED
 */
export function PageParams(): ParameterDecorator {
  const limit = 'The maximum number of items.';
  const after = 'The id after which the page starts. The Link header has the URL of the next page.';
  return withMethodDecorators(
    parsePageParams(),
    ApiQuery({ name: 'limit', required: false, description: limit, schema: LIMIT }),
    ApiQuery({ name: 'after', required: false, description: after, schema: AFTER }),
    ApiResponseHeaders({ ETag: LIST_ETAG, Link: LIST_LINK }),
    ApiResponse({ status: 400, type: ErrorBody, description: 'A parameter is invalid.' }),
  );
}
