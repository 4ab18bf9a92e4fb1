import { ERROR_CODES, type ErrorCode, type FeatureErrorCode } from './error-codes.js';

interface ApiErrorOptions {
  /** Response headers that belong to the error, such as `Allow`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The underlying error, for the log. */
  readonly cause?: unknown;
  /** Whether a 5xx is not logged, because it is intended, or logged by what threw it. */
  readonly skipLog?: boolean;
}

/** An error that is reported to the client by its code, which has a status. */
export class ApiError extends Error {
  override readonly name: string = 'ApiError';
  readonly code: string;
  /** The HTTP status of the response. */
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly skipLog: boolean;

  constructor(
    code: ErrorCode | FeatureErrorCode,
    message: string,
    { headers = {}, cause, skipLog = false }: ApiErrorOptions = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = typeof code === 'string' ? code : code.code;
    this.status = typeof code === 'string' ? ERROR_CODES[code].status : code.status;
    this.headers = headers;
    this.skipLog = skipLog;
  }
}
