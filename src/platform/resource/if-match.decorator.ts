import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { ApiHeader, ApiResponse } from '@nestjs/swagger';
import type { Request } from 'express';
import { ApiError } from '../errors/api-error.js';
import { ErrorBody } from '../http/responses/error-body.dto.js';
import { toVersionEtag } from '../http/responses/etag.js';
import { withMethodDecorators } from '../http/with-method-decorators.js';

/**
 * The versions of a row that a client accepts, as criteria of the statement that changes it; empty if
 * it accepts any.
 */
export interface VersionCriteria {
  readonly version?: readonly number[];
}

/** An ETag (RFC 9110, section 8.8.3), and the content of that of a version. */
const ETAG = /(W\/)?"([^"]*)"/g;
const VERSION = /^[1-9]\d{0,9}$/;
/** The maximum of the column, which PostgreSQL does not compare with a larger number. */
const MAX_VERSION = 2 ** 31 - 1;

/**
 * Parses If-Match (RFC 9110, section 13.1.1). ETags are compared strongly, so a weak one matches no
 * version. `*` matches every version.
 */
function parseIfMatch(ifMatch = '*'): VersionCriteria {
  if (ifMatch.trim() === '*') return {};
  const versions = [...ifMatch.matchAll(ETAG)]
    .filter(([, weak, content]) => weak === undefined && VERSION.test(content!))
    .map(([, , content]) => Number(content))
    .filter((version) => version <= MAX_VERSION);
  return { version: [...new Set(versions)] };
}

const parseIfMatchHeader = createParamDecorator(
  (isRequired: boolean, context: ExecutionContext): VersionCriteria => {
    const ifMatch = context.switchToHttp().getRequest<Request>().headers['if-match'];
    if (isRequired && ifMatch === undefined)
      throw new ApiError(
        'PRECONDITION_REQUIRED',
        'Send If-Match with the ETag of the resource, so that the changes of others are not lost.',
      );
    return parseIfMatch(ifMatch);
  },
);

/**
 * Passes the versions in If-Match to a handler, and declares the header and its errors in the OpenAPI
 * document. Add them to the criteria of `updateReturning` or `deleteReturning`, which evaluate them in
 * the statement; if no row meets the criteria, throw {@link preconditionFailed}.
 *
 * @param options.required rejects requests without If-Match (RFC 6585, section 3)
 * @throws {ApiError} PRECONDITION_REQUIRED
 */
export function IfMatch({ required = false }: { required?: boolean } = {}): ParameterDecorator {
  return withMethodDecorators(
    parseIfMatchHeader(required),
    ApiHeader({
      name: 'If-Match',
      required,
      description:
        'The ETag of the version to change. If the resource has another one by now, nothing is changed, and the response is 412.',
      schema: { type: 'string', maxLength: 1000, example: toVersionEtag(1) },
    }),
    ApiResponse({
      status: 412,
      type: ErrorBody,
      description: 'The resource has changed: its ETag is none of those in If-Match.',
    }),
    ...(required
      ? [ApiResponse({ status: 428, type: ErrorBody, description: 'If-Match is missing.' })]
      : []),
  );
}

/**
 * Returns the error for a row that exists but has none of the versions in If-Match.
 *
 * @param version the current version of the row
 */
export function preconditionFailed(version: number): ApiError {
  return new ApiError(
    'PRECONDITION_FAILED',
    `The resource has changed: its ETag is now ${toVersionEtag(version)}.`,
  );
}
