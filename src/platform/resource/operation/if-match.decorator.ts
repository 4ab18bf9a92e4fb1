import { ApiHeader, ApiResponse } from '@nestjs/swagger';
import { MAX_VERSION } from '../../database/statements/columns.js';
import { ApiError } from '../../errors/api-error.js';
import { RequestParam } from '../../http/request-param.js';
import { toVersionEtag } from '../../http/responses/etag.js';
import { MAX_ETAGS_LENGTH } from '../../http/server/server-options.js';

/** The versions of a row that a client accepts, as criteria of a statement; empty if it accepts any. */
export interface VersionCriteria {
  readonly version?: readonly number[];
}

/** RFC 9110, section 8.8.3. */
const ETAG = /(W\/)?"[!#-~\x80-\xff]*"/g;
/** RFC 9110, section 5.6.1.2: a list may have empty elements. */
const ETAGS = new RegExp(`^[ \\t,]*(${ETAG.source}[ \\t]*(,[ \\t,]*|$))+$`);

/**
 * Parses If-Match (RFC 9110, section 13.1.1). ETags are compared strongly, so a weak one matches no version, as does
 * anything else.
 */
function parseIfMatch(ifMatch = '*'): VersionCriteria {
  if (ifMatch.trim() === '*') return {};
  const etags = (ETAGS.test(ifMatch) && ifMatch.match(ETAG)) || [];
  const versions = etags
    .filter((etag) => /^"[1-9]\d{0,9}"$/.test(etag))
    .map((etag) => Number(etag.slice(1, -1)));
  return { version: [...new Set(versions.filter((version) => version <= MAX_VERSION))] };
}

/**
 * Passes the versions in If-Match to a handler, and declares the header and its errors in the OpenAPI
 * document. Add them to the criteria of a `Resource`, such as `{ id, ...ifMatch }`.
 *
 * @param options.required rejects requests without If-Match (RFC 6585, section 3)
 * @throws {ApiError} PRECONDITION_REQUIRED
 */
export function IfMatch({ required = false } = {}): ParameterDecorator {
  const description =
    'The ETag of the version to change. If the resource has another one by now, nothing is changed, and the response is 412.';
  const schema = {
    type: 'string',
    maxLength: MAX_ETAGS_LENGTH,
    example: toVersionEtag(1),
  } as const;
  return RequestParam(
    ({ headers }) => {
      if (required && headers['if-match'] === undefined)
        throw new ApiError(
          'PRECONDITION_REQUIRED',
          'Send If-Match with the ETag of the resource, so that the changes of others are not lost.',
        );
      return parseIfMatch(headers['if-match']);
    },
    ApiHeader({ name: 'If-Match', required, description, schema }),
    ApiResponse({ status: 412 }),
    ...(required ? [ApiResponse({ status: 428 })] : []),
  );
}
