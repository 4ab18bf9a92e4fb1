import type { OpenAPIObject } from '@nestjs/swagger';
import type { ErrorCode } from '../errors/error-codes.js';
import type { Product } from '../config/product.js';
import { getErrorCode } from '../http/responses/error.filter.js';
import { MAX_ETAGS_LENGTH } from '../http/server/server-options.js';

export type Operation = NonNullable<OpenAPIObject['paths'][string]['get']>;
type Response = Exclude<NonNullable<Operation['responses'][string]>, { $ref: string }>;
type Headers = NonNullable<NonNullable<OpenAPIObject['components']>['headers']>;

const toHeader = (description: string, maxLength: number, example: string) => ({
  description,
  schema: { type: 'string', maxLength, example },
});

/** The headers that several operations return, for `components`. */
// prettier-ignore
export const STANDARD_HEADERS = {
  'X-Request-Id': toHeader('Identifies the request in the logs: the X-Request-Id of the request if it is valid (up to 128 ASCII characters), otherwise a UUID.', 128, '8f14e45f-ceea-467f-a1f0-1b2c3d4e5f60'),
  RateLimit: toHeader('The state of the rate limit (draft-ietf-httpapi-ratelimit-headers-10): `r` requests are left for `t` seconds. Missing if the key has no limit, or was not checked.', 100, '"api-key";r=599;t=60'),
  'RateLimit-Policy': toHeader('The definition of the rate limit: `q` requests in `w` seconds.', 100, '"api-key";q=600;w=60'),
  'Retry-After': toHeader('The seconds to wait before the next attempt.', 100, '1'),
  'WWW-Authenticate': toHeader('The challenge (RFC 6750): the scheme, and what is wrong with a key that was sent.', 200, 'Bearer'),
  Deprecation: toHeader('Since when the operation is deprecated: `@` and seconds since 1970 (RFC 9745).', 100, '@1793491200'),
  Sunset: toHeader('From when the operation returns 410 (RFC 8594).', 100, 'Mon, 01 Nov 2027 00:00:00 GMT'),
} satisfies Headers;

/** Returns {@link STANDARD_HEADERS} with the realm of a service. */
export function describeHeaders({ name }: Product): Headers {
  const { description } = STANDARD_HEADERS['WWW-Authenticate'];
  const challenge = toHeader(description, 200, `Bearer realm="${name}"`);
  return { ...STANDARD_HEADERS, 'WWW-Authenticate': challenge };
}

/** The headers of every response after the API key was accepted. */
const RATE_LIMIT_HEADERS = ['RateLimit', 'RateLimit-Policy'] as const;

/** The headers of most responses. Swagger UI shows them once, in the description of the document. */
export const COMMON_HEADERS = ['X-Request-Id', ...RATE_LIMIT_HEADERS] as const;

const toReferences = (names: readonly string[]): Record<string, { $ref: string }> =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]));

/** An error that several operations return. */
interface ErrorDescription {
  /** The name in `components`. */
  readonly name: string;
  readonly description: string;
  /** The code in the example; by default, the first code of the status. */
  readonly code?: ErrorCode;
  readonly message?: string;
  readonly headers?: readonly string[];
}

// prettier-ignore
const ERRORS: Readonly<Record<string, ErrorDescription>> = {
  400: { name: 'BadRequest', code: 'VALIDATION_FAILED', description: 'Required fields are missing or values are invalid.', message: 'name is missing.' },
  401: { name: 'Unauthorized', code: 'UNAUTHORIZED', description: 'The API key is missing or invalid.', message: 'The API key is missing: send Authorization: Bearer <API_KEY>.', headers: ['WWW-Authenticate'] },
  403: { name: 'Forbidden', code: 'FORBIDDEN', description: 'The API key lacks the scope that the operation requires.', message: 'The API key lacks the scope write.', headers: ['WWW-Authenticate'] },
  404: { name: 'NotFound', code: 'NOT_FOUND', description: 'The resource does not exist.', message: 'Resource not found.' },
  409: { name: 'Conflict', code: 'ALREADY_EXISTS', description: 'Another resource has the same unique values, or refers to this one.', message: 'Another resource has the same name.' },
  410: { name: 'Gone', code: 'GONE', description: 'The sunset date of the operation has passed.', message: 'This operation was removed on Mon, 01 Nov 2027 00:00:00 GMT.' },
  412: { name: 'PreconditionFailed', code: 'PRECONDITION_FAILED', description: 'The resource has changed: its ETag is none of those in If-Match.', message: 'The resource has changed: its ETag is now "2".' },
  413: { name: 'PayloadTooLarge', code: 'PAYLOAD_TOO_LARGE', description: 'The body exceeds the size limit.', message: 'The body is larger than 102400 bytes.' },
  415: { name: 'UnsupportedMediaType', code: 'UNSUPPORTED_MEDIA_TYPE', description: 'The media type, charset or content encoding of the body is not supported.', message: 'The Content-Type of the body must be application/json.' },
  422: { name: 'UnprocessableContent', code: 'IDEMPOTENCY_KEY_REUSED', description: 'The Idempotency-Key was used for a different request.', message: 'The Idempotency-Key was used for a different request.' },
  428: { name: 'PreconditionRequired', code: 'PRECONDITION_REQUIRED', description: 'If-Match is missing.', message: 'Send If-Match with the ETag of the resource, so that the changes of others are not lost.' },
  429: { name: 'TooManyRequests', code: 'TOO_MANY_REQUESTS', description: 'Too many requests with the key, or too many failed authentication attempts.', message: 'Rate limit exceeded (600 requests per minute).', headers: ['Retry-After'] },
  431: { name: 'RequestHeaderFieldsTooLarge', code: 'HEADERS_TOO_LARGE', description: 'If-Match or If-None-Match is too long, or other headers are.', message: `The header if-none-match is longer than ${MAX_ETAGS_LENGTH} characters.` },
  500: { name: 'InternalServerError', code: 'INTERNAL_ERROR', description: 'An unexpected error.', message: 'Internal server error. Include the X-Request-Id when reporting it.' },
  501: { name: 'NotImplemented', code: 'NOT_IMPLEMENTED', description: 'Not implemented yet.', message: 'Not implemented.' },
  503: { name: 'ServiceUnavailable', code: 'SERVICE_UNAVAILABLE', description: 'The database is unavailable, or the service is shutting down.', message: 'Service temporarily unavailable. Please retry later.', headers: ['Retry-After'] },
  default: { name: 'OtherError', description: 'Not specified yet, or any other error.' },
};

/** Creates an error response, with an example if the error has a message and a status. */
function toErrorResponse(status: string, error: ErrorDescription): Response {
  const { description, message, code = getErrorCode(Number(status)), headers = [] } = error;
  const limit = status === '401' ? [] : RATE_LIMIT_HEADERS;
  const schema = { $ref: '#/components/schemas/Error' };
  const hasExample = message !== undefined && status !== 'default';
  const example = hasExample && { example: { code, message, status: Number(status) } };
  return {
    description,
    headers: toReferences(['X-Request-Id', ...limit, ...headers]),
    content: { 'application/json': { schema, ...example } },
  };
}

/** The error responses that operations refer to, for `components`. */
export const STANDARD_RESPONSES: Readonly<Record<string, Response>> = Object.fromEntries(
  Object.entries(ERRORS).map(([status, error]) => [error.name, toErrorResponse(status, error)]),
);

/**
 * Adds the error responses and the headers that operations have in common. An error that the operation describes keeps its
 * description; any other is a reference to `components`. Errors of HTTP itself, such as 408, are only in the description of
 * the document, because any request may cause them (decision 12); 431 is an exception for `If-Match` and `If-None-Match`.
 */
export function describeStandardResponses(operation: Operation, method: string): void {
  if (method === 'get') describeRevalidation(operation);
  const { responses } = operation;
  const headers = toReferences([
    'X-Request-Id',
    ...(requiresKey(operation) ? RATE_LIMIT_HEADERS : []),
    ...('x-deprecated-since' in operation ? ['Deprecation'] : []),
    ...('x-sunset' in operation ? ['Sunset'] : []),
  ]);
  for (const status of new Set([...Object.keys(responses), ...getErrors(operation)]))
    responses[status] = complete(status, responses[status], headers);
}

/**
 * Completes a response of an operation.
 *
 * @param declared the response of the decorators, whose description may be empty
 * @param headers the headers that guards and handlers add to it
 */
function complete(
  status: string,
  declared: Operation['responses'][string],
  headers: Response['headers'],
): NonNullable<Operation['responses'][string]> {
  if (declared !== undefined && '$ref' in declared) return declared;
  const allHeaders = { ...declared?.headers, ...headers };
  if (declared !== undefined && Number(status) < 400) return { ...declared, headers: allHeaders };
  // Only these errors are always sent after the guards that set the headers.
  const isHandled = status === '410' || status === '501';
  const error = ERRORS[status] ?? ERRORS['default']!;
  const text = declared?.description || undefined;
  if (text === undefined && !isHandled) return { $ref: `#/components/responses/${error.name}` };
  const standard = toErrorResponse(status, {
    ...error,
    ...(text !== undefined && { description: text, message: text }),
  });
  return {
    ...declared,
    ...standard,
    headers: { ...standard.headers, ...(isHandled ? allHeaders : declared?.headers) },
  };
}

/** The headers that may be too long (431), but accept any content, so that they cause no 400. */
const CONDITIONAL_HEADERS: ReadonlySet<string> = new Set(['If-Match', 'If-None-Match']);

const requiresKey = ({ security }: Operation): boolean => security === undefined;

/** Returns the statuses of the errors that the key, the parameters and the body of an operation may cause. */
function getErrors(operation: Operation): string[] {
  const { parameters = [], requestBody, responses } = operation;
  const isSpecified = Object.keys(responses).some((status) => status.startsWith('2'));
  // An invalid parameter of the path causes a 404.
  const names = parameters.flatMap((each) => ('in' in each && each.in !== 'path' ? each.name : []));
  const isValidated =
    requestBody !== undefined || names.some((name) => !CONDITIONAL_HEADERS.has(name));
  return [
    ...(requiresKey(operation) ? ['401', '403', '429'] : []),
    ...('x-sunset' in operation ? ['410'] : []),
    ...(isValidated ? ['400'] : []),
    ...(requestBody === undefined ? [] : ['413', '415']),
    ...(names.some((name) => CONDITIONAL_HEADERS.has(name)) ? ['431'] : []),
    '500',
    '503',
    // Linters and generators reject an operation without a success or a default.
    ...(isSpecified ? [] : ['default']),
  ];
}

/** Adds `If-None-Match` and 304 to an operation whose response has an ETag. */
function describeRevalidation(operation: Operation): void {
  const { responses } = operation;
  const ok = responses['200'];
  const etag = ok !== undefined && 'headers' in ok ? ok.headers?.['ETag'] : undefined;
  if (etag === undefined) return;
  (operation.parameters ??= []).push({
    name: 'If-None-Match',
    in: 'header',
    required: false,
    description: 'The ETag of the version that the client has.',
    // Swagger UI would send an example.
    schema: { type: 'string', maxLength: MAX_ETAGS_LENGTH },
  });
  responses['304'] = {
    description: 'Not modified: the resource still matches If-None-Match.',
    ...responses['304'],
    headers: { ETag: etag },
  };
}
