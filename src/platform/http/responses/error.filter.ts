import { STATUS_CODES, type ServerResponse } from 'node:http';
import { inspect } from 'node:util';
import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException } from '@nestjs/common';
import { ApiError } from '../../errors/api-error.js';
import { ERROR_CODES, type ErrorCode } from '../../errors/error-codes.js';
import { shorten } from '../../errors/shorten.js';
import { logFailedRequest } from '../server/request-logger.js';
import { type ErrorBody, MAX_MESSAGE_SIZE } from './error-body.dto.js';
import { sendJson } from './write-response.js';

const INTERNAL_ERROR_MESSAGE = 'Internal server error. Include the X-Request-Id when reporting it.';

/** Responds to every error of a request with the body `{ code, message, status }`. */
@Catch()
export class ErrorFilter implements ExceptionFilter {
  catch(error: unknown, host: ArgumentsHost): void {
    respondWithError(error, host.switchToHttp().getResponse());
  }
}

/**
 * Responds to anything that was thrown, and logs an unexpected error. Headers that are already set, such as Deprecation, are
 * kept.
 */
export function respondWithError(error: unknown, response: ServerResponse): void {
  const body = toErrorBody(error);
  // 501 is intended, not a failure.
  const skipLog = body.status === 501 || (error instanceof ApiError && error.skipLog);
  if (body.status >= 500 && !skipLog) logFailedRequest(response.req, error);
  // A response that has begun cannot be changed: closing the connection shows that it is incomplete.
  if (response.headersSent) response.destroy();
  if (response.destroyed) return;
  // Set by a handler that failed after it had begun to describe its response.
  for (const name of ['ETag', 'Content-Encoding', 'Content-Disposition'])
    response.removeHeader(name);
  sendJson(response, body.status, body, {
    ...(error instanceof ApiError && error.headers),
    'Cache-Control': 'no-store',
  });
}

/**
 * Converts anything that was thrown into the body of an error response. The message of a 500 is shown only if it was
 * written for the client, in an {@link ApiError}. Nest converts the errors of Express and its parsers to its exceptions;
 * other errors with a status, such as those of an HTTP client, describe another response than that of the service.
 */
function toErrorBody(error: unknown): ErrorBody {
  if (error instanceof ApiError)
    return { code: error.code, message: limitSize(error.message), status: error.getStatus() };
  const given = error instanceof HttpException ? error.getStatus() : 500;
  const status = given >= 400 && given <= 599 ? given : 500;
  const message =
    status === 500 ? INTERNAL_ERROR_MESSAGE : limitSize(getMessage(error as HttpException));
  return { code: getErrorCode(status), message, status };
}

/** Returns the message of an exception, or the messages. Of an object without one, such as that of terminus, it is the text. */
function getMessage(exception: HttpException): string {
  const response = exception.getResponse();
  const { message = response } = Object(response) as { message?: unknown };
  if (Array.isArray(message)) return message.join('; ');
  if (typeof message === 'string') return message;
  return inspect(message, { depth: 5, breakLength: Infinity, compact: true });
}

/** Cuts a message that is too long: a UTF-16 code unit takes at most six bytes. */
const limitSize = (message: string): string =>
  Buffer.byteLength(JSON.stringify(message)) > MAX_MESSAGE_SIZE ? shorten(message, 640) : message;

/** The first code of the table with a status; a status that is not in the table gets its reason phrase. */
export function getErrorCode(status: number): string {
  const codes = Object.keys(ERROR_CODES) as ErrorCode[];
  return (
    codes.find((code) => ERROR_CODES[code].status === status) ??
    (STATUS_CODES[status] ?? 'ERROR').toUpperCase().replace(/\W+/g, '_')
  );
}
