import { ERROR_CODES, type ErrorCode } from './error-codes.js';

interface ApiErrorOptions {
  /** Response headers that belong to the error, such as `Allow`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The underlying error, for the log. */
  readonly cause?: unknown;
  /** Whether a 5xx is not logged, because it is intended, or logged by what threw it. */
  readonly skipLog?: boolean;
}

/** An error that is reported to the client by its code. {@link ERROR_CODES} maps the code to a status. */
export class ApiError extends Error {
  override readonly name: string = 'ApiError';
  readonly headers: Readonly<Record<string, string>>;
  readonly skipLog: boolean;

  constructor(
    readonly code: ErrorCode,
    message: string,
    { headers = {}, cause, skipLog = false }: ApiErrorOptions = {},
  ) {
    super(message, cause === undefined ? undefined : { cause });
    this.headers = headers;
    this.skipLog = skipLog;
  }

  /** The HTTP status of the response. */
  get status(): number {
    return ERROR_CODES[this.code].status;
  }
}
