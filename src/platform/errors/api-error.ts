import { HttpException } from '@nestjs/common';
import { ERROR_CODES, type ErrorCode, type FeatureErrorCode } from './error-codes.js';

interface ApiErrorOptions {
  /** Response headers that belong to the error, such as `Allow`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The underlying error, for the log. */
  readonly cause?: unknown;
  /** Omits the log line of a 5xx that is intended, or that was logged before. */
  readonly skipLog?: boolean;
}

/** An error for the client. Its code determines the status. Exception filters of modules handle it as `HttpException`. */
export class ApiError extends HttpException {
  override readonly name: string = 'ApiError';
  readonly code: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly skipLog: boolean;

  constructor(
    code: ErrorCode | FeatureErrorCode,
    message: string,
    { headers = {}, cause, skipLog = false }: ApiErrorOptions = {},
  ) {
    const declared = typeof code === 'string' ? { code, status: ERROR_CODES[code].status } : code;
    super({ code: declared.code, message, status: declared.status }, declared.status);
    this.cause = cause;
    this.code = declared.code;
    this.headers = headers;
    this.skipLog = skipLog;
  }
}
