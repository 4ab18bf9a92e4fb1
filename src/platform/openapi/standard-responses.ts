import type { OpenAPIObject } from '@nestjs/swagger';
import { PUBLIC_EXTENSION } from '../auth/public.decorator.js';
import { ApiError } from '../errors/api-error.js';
import { ERROR_CODES, type ErrorCode } from '../errors/error-codes.js';
import { RESPONSE_HEADER } from '../http/responses/response-headers.js';

/** An operation of the OpenAPI document, with the extensions that decorators declare. */
export type Operation = NonNullable<OpenAPIObject['paths'][string]['get']> & {
  [PUBLIC_EXTENSION]?: true;
  'x-deprecated-since'?: string;
  'x-sunset'?: string;
  'x-stability'?: string;
  'x-required-scope'?: string;
};
type Response = Exclude<NonNullable<Operation['responses'][string]>, { $ref: string }>;
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

const RATE_LIMIT_HEADERS = ['RateLimit', 'RateLimit-Policy'];

const toReferences = (names: readonly string[]): Record<string, { $ref: string }> =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));

/** The content of an error response, with an example of the Error body. */
const toContent = (example?: object): NonNullable<Response['content']> => ({
  'application/json': {
    schema: { $ref: '#/components/schemas/Error' },
    ...(example && { example }),
  },
});

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
  describeDeclaredHeaders(operation);
  if (method === 'get') describeRevalidation(operation);
  addErrors(operation, operation['x-required-scope'] ?? (method === 'get' ? 'read' : 'write'));
  // An operation that is not implemented: linters and generators reject one without a success or a default.
  if (!Object.keys(responses).some((status) => status.startsWith('2'))) {
    const description = 'Not specified yet, or any other error.';
    responses.default = { description, content: toContent() };
  }
  const guardHeaders = [
    ...(requiresKey(operation) ? RATE_LIMIT_HEADERS : []),
    ...('x-deprecated-since' in operation ? ['Deprecation'] : []),
    ...('x-sunset' in operation ? ['Sunset'] : []),
  ];
  for (const [key, response] of Object.entries(responses)) {
    if (response === undefined || '$ref' in response) continue;
    const status = Number(key);
    if (status >= 400) response.content ??= toContent();
    // What is sent after these guards; 501 is the response of an operation that is not implemented.
    const isHandled = status < 400 || status === 410 || status === 501;
    response.headers = {
      ...response.headers,
      ...toReferences(['X-Request-Id', ...(isHandled ? guardHeaders : [])]),
    };
  }
}

const requiresKey = ({ security }: Operation): boolean => security === undefined;

/** Adds the errors that an operation may return for a reason that is not its own. */
function addErrors(operation: Operation, scope: string): void {
  const add = (
    code: ErrorCode,
    description: string,
    message: string,
    ...headers: string[]
  ): void => {
    operation.responses[ERROR_CODES[code].status] ??= {
      description,
      headers: toReferences(headers),
      content: toContent(new ApiError(code, message).body),
    };
  };
  if (requiresKey(operation)) {
    add(
      'UNAUTHORIZED',
      'The API key is missing or invalid.',
      'The API key is missing: send Authorization: Bearer <API_KEY>.',
      'WWW-Authenticate',
    );
    add(
      'FORBIDDEN',
      'The API key lacks the scope that the operation requires.',
      `The API key lacks the scope ${scope}.`,
      'WWW-Authenticate',
    );
    add(
      'TOO_MANY_REQUESTS',
      'Too many requests with the key, or too many failed authentication attempts.',
      'Rate limit exceeded (600 requests per minute).',
      'Retry-After',
      ...RATE_LIMIT_HEADERS,
    );
  }
  if ('x-sunset' in operation) {
    const message = 'This operation was removed on Mon, 01 Nov 2027 00:00:00 GMT.';
    add('GONE', 'The sunset date of the operation has passed.', message);
  }
  if (operation.requestBody !== undefined) {
    const message = 'The body is larger than 102400 bytes.';
    add('PAYLOAD_TOO_LARGE', 'The body exceeds the size limit.', message);
    add(
      'UNSUPPORTED_MEDIA_TYPE',
      'The media type, charset or content encoding of the body is not supported.',
      'The Content-Type of the body must be application/json.',
    );
  }
  const message = 'Internal server error. Include the X-Request-Id when reporting it.';
  add('INTERNAL_ERROR', 'An unexpected error.', message);
  add(
    'SERVICE_UNAVAILABLE',
    'The database is unavailable, or the service is shutting down.',
    'Service temporarily unavailable. Please retry later.',
    'Retry-After',
  );
}

/** Moves the headers that decorators declare from the extensions of an operation to its successful responses. */
function describeDeclaredHeaders(operation: Operation): void {
  for (const [extension, header] of Object.entries(operation)) {
    if (!extension.startsWith(RESPONSE_HEADER)) continue;
    Reflect.deleteProperty(operation, extension);
    const name = extension.slice(RESPONSE_HEADER.length);
    for (const [status, response] of Object.entries(operation.responses)) {
      if (status.startsWith('2') && response !== undefined && !('$ref' in response))
        response.headers = { [name]: header as Headers[string], ...response.headers };
    }
  }
}

/** Adds the conditional request of a GET whose response has an ETag. */
function describeRevalidation(operation: Operation): void {
  const { parameters = [], responses } = operation;
  const ok = responses['200'];
  const etag = ok !== undefined && 'headers' in ok ? ok.headers?.['ETag'] : undefined;
  if (etag === undefined) return;
  operation.parameters = [
    ...parameters,
    {
      name: 'If-None-Match',
      in: 'header',
      required: false,
      description: 'The ETag of the version that the client has.',
      // Without an example, which Swagger UI would send.
      schema: { type: 'string', maxLength: 1000 },
    },
  ];
  responses['304'] = {
    description: 'Not modified: the resource still matches If-None-Match.',
    ...responses['304'],
    headers: { ETag: etag },
  };
}
