/**
 * Every error that the service gives: its code, its HTTP status, and when it is given. The README
 * and the OpenAPI document show this table. The first row of a status is the code that an
 * exception without a code of its own gets (see `toErrorAnswer`).
 */
export const ERROR_CODES = {
  BAD_REQUEST: {
    status: 400,
    description: 'the request is not valid HTTP, or its path cannot be decoded',
  },
  MALFORMED_JSON: { status: 400, description: 'the body is not JSON in UTF-8' },
  VALIDATION_FAILED: {
    status: 400,
    description: 'a property is missing, invalid or unknown; the message names each',
  },
  UNAUTHORIZED: { status: 401, description: 'the API key is missing, unknown, expired or revoked' },
  NOT_FOUND: {
    status: 404,
    description: 'nothing is served at the path, or it has no such resource',
  },
  METHOD_NOT_ALLOWED: {
    status: 405,
    description: 'the path is served, but not with this method; Allow lists those that are',
  },
  REQUEST_TIMEOUT: { status: 408, description: 'the request did not arrive in time' },
  RESOURCE_IN_USE: {
    status: 409,
    description: 'the resource cannot be deleted while another one refers to it',
  },
  GONE: { status: 410, description: 'the sunset date of the operation has passed' },
  PRECONDITION_FAILED: {
    status: 412,
    description:
      'a file of Swagger UI is not the one that If-Match or If-Unmodified-Since asks for',
  },
  PAYLOAD_TOO_LARGE: { status: 413, description: 'the body is larger than the limit' },
  UNSUPPORTED_MEDIA_TYPE: {
    status: 415,
    description: 'the body has a type, charset or encoding other than JSON in UTF-8',
  },
  RANGE_NOT_SATISFIABLE: { status: 416, description: 'a file of Swagger UI has no such range' },
  EXPECTATION_FAILED: {
    status: 417,
    description: 'the Expect header asks for something other than 100-continue',
  },
  TOO_MANY_REQUESTS: {
    status: 429,
    description:
      'the address sent too many invalid API keys, or the key too many requests; try again after Retry-After',
  },
  HEADERS_TOO_LARGE: {
    status: 431,
    description: 'the request headers are larger than 16 KiB, or more than 100',
  },
  INTERNAL_ERROR: {
    status: 500,
    description: 'the service failed; its log has the cause under the X-Request-Id',
  },
  NOT_IMPLEMENTED: {
    status: 501,
    description:
      'the operation is published, but not specified yet; or the request has a transfer coding other than chunked',
  },
  SERVICE_UNAVAILABLE: {
    status: 503,
    description: 'the database does not answer, or the service stops; try again after Retry-After',
  },
} as const satisfies Record<string, { status: number; description: string }>;

export type ErrorCode = keyof typeof ERROR_CODES;
