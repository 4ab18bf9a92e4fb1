import { STATUS_CODES, type ServerResponse } from 'node:http';
import { HttpException } from '@nestjs/common';
import { ApiError } from '../../errors/api-error.js';
import { ERROR_CODES, type ErrorCode } from '../../errors/error-codes.js';
import type { ErrorBody } from './error-body.dto.js';
import { sendJson } from './write-response.js';

const INTERNAL_ERROR_MESSAGE = 'Internal server error. Include the X-Request-Id when reporting it.';

/**
 * Converts anything that was thrown into the body of an error response. The message of a 5xx is shown
 * only if it was written for the client, in an {@link ApiError}.
 */
export function toErrorBody(error: unknown): ErrorBody {
  if (error instanceof ApiError) return error.body;
  const status = getStatus(error);
  const message = status < 500 ? (error as Error).message : INTERNAL_ERROR_MESSAGE;
  return { code: getErrorCode(status), message, status };
}

/** Sends an error response. Headers that are already set, such as Deprecation, are kept. */
export function sendError(response: ServerResponse, error: unknown): void {
  const body = toErrorBody(error);
  // Set by a handler that failed after it had begun to describe its response.
  for (const name of ['ETag', 'Content-Encoding']) response.removeHeader(name);
  sendJson(response, body.status, body, {
    ...(error instanceof ApiError && error.headers),
    'Cache-Control': 'no-store',
  });
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
