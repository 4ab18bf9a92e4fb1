import type { OpenAPIObject } from '@nestjs/swagger';
import { ApiError } from '../errors/api-error.js';
import { ERROR_CODES, type ErrorCode } from '../errors/error-codes.js';

/** An operation of the OpenAPI document. */
export type Operation = NonNullable<OpenAPIObject['paths'][string]['get']>;
type Headers = NonNullable<NonNullable<OpenAPIObject['components']>['headers']>;

/** The headers that the service sends with responses of several operations, for `components`. */
export const STANDARD_HEADERS: Headers = {
  'X-Request-Id': {
    description:
      'Identifies the request in the logs: the X-Request-Id of the request if it is valid (up to 128 ASCII characters), otherwise a UUID.',
    schema: { type: 'string', maxLength: 128, example: '8f14e45f-ceea-467f-a1f0-1b2c3d4e5f60' },
  },
  RateLimit: {
    description:
      'The state of the rate limit (draft-ietf-httpapi-ratelimit-headers-10): `r` requests are left for `t` seconds. Missing if there is no limit.',
    schema: { type: 'string', maxLength: 100, example: '"api-key";r=599;t=60' },
  },
  'RateLimit-Policy': {
    description: 'The definition of the rate limit: `q` requests in `w` seconds.',
    schema: { type: 'string', maxLength: 100, example: '"api-key";q=600;w=60' },
  },
  'Retry-After': {
    description: 'The seconds to wait before the next attempt.',
    schema: { type: 'string', maxLength: 100, example: '1' },
  },
  'WWW-Authenticate': {
    description:
      'The challenge (RFC 6750): the scheme, and what is wrong with a key that was sent.',
    schema: { type: 'string', maxLength: 200, example: 'Bearer realm="petstore"' },
  },
  Deprecation: {
    description: 'Since when the operation is deprecated: `@` and seconds since 1970 (RFC 9745).',
    schema: { type: 'string', maxLength: 100, example: '@1793491200' },
  },
  Sunset: {
    description: 'From when the operation returns 410 (RFC 8594).',
    schema: { type: 'string', maxLength: 100, example: 'Mon, 01 Nov 2027 00:00:00 GMT' },
  },
};

/** An error that operations return for a reason that is not their own. */
interface StandardError {
  readonly code: ErrorCode;
  readonly description: string;
  /** An example of its message. */
  readonly message: string;
  readonly headers?: readonly string[];
  /** Which operations may return it; without it, all do. */
  readonly when?: (operation: Operation) => boolean;
}

const ERROR_SCHEMA = { $ref: '#/components/schemas/Error' };
const RATE_LIMIT_HEADERS = ['RateLimit', 'RateLimit-Policy'];

const requiresKey = ({ security }: Operation): boolean => security === undefined;
const hasBody = ({ requestBody }: Operation): boolean => requestBody !== undefined;
const hasSunset = (operation: Operation): boolean => 'x-sunset' in operation;

/** @param scope the scope that the operation requires */
const getStandardErrors = (scope: string): readonly StandardError[] => [
  {
    code: 'UNAUTHORIZED',
    description: 'The API key is missing or invalid.',
    message: 'The API key is missing: send Authorization: Bearer <API_KEY>.',
    headers: ['WWW-Authenticate'],
    when: requiresKey,
  },
  {
    code: 'FORBIDDEN',
    description: 'The API key lacks the scope that the operation requires.',
    message: `The API key lacks the scope ${scope}.`,
    headers: ['WWW-Authenticate'],
    when: requiresKey,
  },
  {
    code: 'GONE',
    description: 'The sunset date of the operation has passed.',
    message: 'This operation was removed on Mon, 01 Nov 2027 00:00:00 GMT.',
    when: hasSunset,
  },
  {
    code: 'PAYLOAD_TOO_LARGE',
    description: 'The body exceeds the size limit.',
    message: 'The body is larger than 102400 bytes.',
    when: hasBody,
  },
  {
    code: 'UNSUPPORTED_MEDIA_TYPE',
    description: 'The media type, charset or content encoding of the body is not supported.',
    message: 'The Content-Type of the body must be application/json.',
    when: hasBody,
  },
  {
    code: 'TOO_MANY_REQUESTS',
    description: 'Too many requests with the key, or too many failed authentication attempts.',
    message: 'Rate limit exceeded (600 requests per minute).',
    headers: ['Retry-After', ...RATE_LIMIT_HEADERS],
    when: requiresKey,
  },
  {
    code: 'INTERNAL_ERROR',
    description: 'An unexpected error.',
    message: 'Internal server error. Include the X-Request-Id when reporting it.',
  },
  {
    code: 'SERVICE_UNAVAILABLE',
    description: 'The database is unavailable, or the service is shutting down.',
    message: 'Service temporarily unavailable. Please retry later.',
    headers: ['Retry-After'],
  },
];

/**
 * Adds the errors and the headers that do not depend on what an operation does. An error that the
 * operation describes itself is kept, and gets the Error body if it has no other. Errors of HTTP itself,
 * such as 408, are not listed: they may occur with any request, and the description of the document has
 * them (decision 12).
 *
 * @param method the method of the operation, in lower case
 */
export function describeStandardResponses(operation: Operation, method: string): void {
  const { responses } = operation;
  const scope = method === 'get' ? 'read' : 'write';
  for (const { code, description, message, headers = [], when } of getStandardErrors(scope)) {
    if (when?.(operation) === false) continue;
    const example = new ApiError(code, message).body;
    responses[ERROR_CODES[code].status] ??= {
      description,
      headers: toReferences(headers),
      content: { 'application/json': { schema: ERROR_SCHEMA, example } },
    };
  }
  // An operation that is not implemented: linters and generators reject one without a success or a default.
  if (!Object.keys(responses).some((status) => status.startsWith('2'))) {
    const description = 'Not specified yet, or any other error.';
    responses.default = { description, content: { 'application/json': { schema: ERROR_SCHEMA } } };
  }
  for (const [status, response] of Object.entries(responses)) {
    if (response === undefined || '$ref' in response) continue;
    if (/^[45]/.test(status)) response.content ??= { 'application/json': { schema: ERROR_SCHEMA } };
    response.headers = {
      ...response.headers,
      ...toReferences(['X-Request-Id', ...getHeaderNames(operation, Number(status))]),
    };
  }
}

/** The standard headers of a response with a status, besides the request id. */
function getHeaderNames(operation: Operation, status: number): string[] {
  // The guards run in this order; 501 is the response of an operation that is not implemented.
  const isHandled = status < 400 || status === 410 || status === 501;
  return [
    ...(isHandled && requiresKey(operation) ? RATE_LIMIT_HEADERS : []),
    ...(isHandled && 'x-deprecated-since' in operation ? ['Deprecation'] : []),
    ...(isHandled && hasSunset(operation) ? ['Sunset'] : []),
  ];
}

function toReferences(names: readonly string[]): Record<string, { $ref: string }> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));
}
