import { ERROR_CODES, type ErrorCode } from './error-codes.js';

/** An error that is reported to the client by its code. {@link ERROR_CODES} maps the code to a status. */
export class ApiError extends Error {
  override readonly name: string = 'ApiError';
  /** Whether a 5xx is expected, or logged by what threw it. Others are logged with their stack. */
  readonly isExpected: boolean = false;

  /**
   * @param code a row of `ERROR_CODES`
   * @param message what is wrong, for a human reader
   * @param headers response headers that belong to the error, such as `Allow`
   * @param cause the underlying error, for the log
   */
  constructor(
    readonly code: ErrorCode,
    message: string,
    readonly headers: Readonly<Record<string, string>> = {},
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause });
  }

  /** The HTTP status of the response. */
  get status(): number {
    return ERROR_CODES[this.code].status;
  }

  /** The body of the response. */
  get body(): { code: string; message: string; status: number } {
    return { code: this.code, message: this.message, status: this.status };
  }
}
