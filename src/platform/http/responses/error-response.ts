import { STATUS_CODES, type ServerResponse } from 'node:http';
import { HttpException } from '@nestjs/common';
import { ApiError, type ErrorBody } from '../../errors/api-error.js';
import { ERROR_CODES, type ErrorCode } from '../../errors/error-codes.js';

/** What an error looks like to the client. */
export interface ErrorResponse {
  readonly body: ErrorBody;
  readonly headers: Readonly<Record<string, string>>;
}

const INTERNAL_ERROR_MESSAGE =
  'The service failed to answer; its log has the cause under the X-Request-Id of this answer.';

/** Turns anything that was thrown into the answer that the client gets; of a 5xx only what was written for it. */
export function toErrorResponse(error: unknown): ErrorResponse {
  if (error instanceof ApiError) return { body: error.body, headers: error.headers };
  const status = getStatus(error);
  const message = status < 500 ? (error as Error).message : INTERNAL_ERROR_MESSAGE;
  return { body: { code: getErrorCode(status), message, status }, headers: {} };
}

/** Answers with the Error body; headers that stand already, such as X-Request-Id, stay. */
export function sendError(response: ServerResponse, { body, headers }: ErrorResponse): void {
  const text = JSON.stringify(body);
  response.statusCode = body.status;
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  // Left over where a handler failed after it had begun to describe its answer.
  for (const name of ['ETag', 'Content-Encoding', 'Vary']) response.removeHeader(name);
  response.setHeader('Cache-Control', 'no-store');
  response.setHeader('Content-Type', 'application/json; charset=utf-8');
  response.setHeader('Content-Length', Buffer.byteLength(text));
  response.end(text);
}

/** Nest's exceptions and those of Express and its parsers carry their status; whatever else is thrown is a 500. */
function getStatus(error: unknown): number {
  if (error instanceof HttpException) return error.getStatus();
  const status = error instanceof Error && 'status' in error ? error.status : undefined;
  return Number.isInteger(status) && (status as number) >= 400 && (status as number) < 500
    ? (status as number)
    : 500;
}

/** The first code of the table with that status; a status that the table lacks is named by its reason phrase. */
function getErrorCode(status: number): string {
  const codes = Object.keys(ERROR_CODES) as ErrorCode[];
  return (
    codes.find((code) => ERROR_CODES[code].status === status) ??
    (STATUS_CODES[status] ?? 'ERROR').toUpperCase().replace(/\W+/g, '_')
  );
}
