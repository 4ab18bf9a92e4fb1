import { STATUS_CODES, type ServerResponse } from 'node:http';
import { HttpException } from '@nestjs/common';
import { ApiError } from '../../errors/api-error.js';
import { ERROR_CODES, type ErrorCode } from '../../errors/error-codes.js';
import type { ErrorBody } from './error-body.dto.js';

/** The body and the headers of an error response. */
export interface ErrorResponse {
  readonly body: ErrorBody;
  readonly headers: Readonly<Record<string, string>>;
}

const INTERNAL_ERROR_MESSAGE = 'Internal server error. Include the X-Request-Id when reporting it.';

/**
 * Converts anything that was thrown into an error response. The message of a 5xx is shown only if it
 * was written for the client, in an {@link ApiError}.
 */
export function toErrorResponse(error: unknown): ErrorResponse {
  if (error instanceof ApiError) return { body: error.body, headers: error.headers };
  const status = getStatus(error);
  const message = status < 500 ? (error as Error).message : INTERNAL_ERROR_MESSAGE;
  return { body: { code: getErrorCode(status), message, status }, headers: {} };
}

/** Sends an error response. Headers that are already set, such as X-Request-Id, are kept. */
export function sendError(response: ServerResponse, { body, headers }: ErrorResponse): void {
  const text = JSON.stringify(body);
  response.statusCode = body.status;
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  // Set by a handler that failed after it had begun to describe its response.
  for (const name of ['ETag', 'Content-Encoding']) response.removeHeader(name);
  response.setHeader('Cache-Control', 'no-store');
  response.setHeader('Content-Type', 'application/json; charset=utf-8');
  response.setHeader('Content-Length', Buffer.byteLength(text));
  response.end(text);
}

/** Nest's exceptions and the errors of Express and its parsers carry a status; anything else is a 500. */
function getStatus(error: unknown): number {
  if (error instanceof HttpException) return error.getStatus();
  const status = error instanceof Error && 'status' in error ? error.status : undefined;
  return Number.isInteger(status) && (status as number) >= 400 && (status as number) < 500
    ? (status as number)
    : 500;
}

/** The first code of the table with a status; a status that is not in the table gets its reason phrase. */
function getErrorCode(status: number): string {
  const codes = Object.keys(ERROR_CODES) as ErrorCode[];
  return (
    codes.find((code) => ERROR_CODES[code].status === status) ??
    (STATUS_CODES[status] ?? 'ERROR').toUpperCase().replace(/\W+/g, '_')
  );
}
