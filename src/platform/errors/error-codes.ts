/**
 * Every error code of the platform, with its HTTP status and its meaning. `npm run docs:tables` writes them into
 * docs/errors.md; the OpenAPI document has the same table. An exception of Nest has no code, and gets the first one of its
 * status: one without a special meaning.
 */
// prettier-ignore
export const ERROR_CODES = {
  BAD_REQUEST: { status: 400, description: 'the request is not valid HTTP, or its path cannot be decoded' },
  MALFORMED_JSON: { status: 400, description: 'the body is not JSON in UTF-8' },
  VALIDATION_FAILED: { status: 400, description: 'a property is missing, invalid or unknown; the message names up to ten' },
  UNAUTHORIZED: { status: 401, description: 'the API key is missing, unknown, expired or revoked' },
  FORBIDDEN: { status: 403, description: 'the API key lacks the scope that the operation requires' },
  NOT_FOUND: { status: 404, description: 'no route matches the path, or the resource does not exist' },
  METHOD_NOT_ALLOWED: { status: 405, description: 'the path does not support the method; the `Allow` header lists the supported methods' },
  REQUEST_TIMEOUT: { status: 408, description: 'the request did not arrive in time' },
  CONFLICT: { status: 409, description: 'the request conflicts with the state of the resource' },
  RESOURCE_IN_USE: { status: 409, description: 'the resource cannot be deleted while another one refers to it' },
  ALREADY_EXISTS: { status: 409, description: 'another resource has the same values of unique properties; the message names them' },
  RESOURCE_GONE: { status: 410, description: 'the resource existed, and does not any more' },
  GONE: { status: 410, description: 'the sunset date of the operation has passed' },
  PRECONDITION_FAILED: { status: 412, description: 'the resource has changed since the client read the version that `If-Match` names' },
  PAYLOAD_TOO_LARGE: { status: 413, description: 'the body, or what a merge patch would make of an object, exceeds the size limit' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, description: 'the media type, charset or content encoding of the body is not supported' },
  EXPECTATION_FAILED: { status: 417, description: 'the `Expect` header is something other than `100-continue`' },
  UNPROCESSABLE_CONTENT: { status: 422, description: 'the content is valid, but cannot be processed' },
  IDEMPOTENCY_KEY_REUSED: { status: 422, description: 'the `Idempotency-Key` was used for a different request' },
  PRECONDITION_REQUIRED: { status: 428, description: 'the operation requires `If-Match` with the ETag of the resource' },
  TOO_MANY_REQUESTS: { status: 429, description: 'too many failed authentication attempts, or too many requests with the key; retry after `Retry-After`' },
  HEADERS_TOO_LARGE: { status: 431, description: 'the request headers exceed 16 KiB, there are more than 100, or `If-Match` or `If-None-Match` exceeds 8,192 characters' },
  INTERNAL_ERROR: { status: 500, description: 'an unexpected error; the log has its cause under the `X-Request-Id`' },
  NOT_IMPLEMENTED: { status: 501, description: 'the operation is not implemented yet, or the Transfer-Encoding is not supported' },
  SERVICE_UNAVAILABLE: { status: 503, description: 'the database is unavailable, the request conflicted with others, or the service is shutting down; retry after `Retry-After`' },
} as const satisfies Record<string, { status: number; description: string }>;

export type ErrorCode = keyof typeof ERROR_CODES;

/** The format of a code. */
export const ERROR_CODE = /^[A-Z][A-Z0-9_]{0,63}$/;

/** An error code of a feature, which declares it in `@Feature` and throws it with `ApiError`. */
export interface FeatureErrorCode {
  readonly code: string;
  readonly status: number;
  /** The meaning of the code, as in {@link ERROR_CODES}. */
  readonly description: string;
}
