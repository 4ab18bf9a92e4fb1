import type { IncomingMessage } from 'node:http';
import { ApiError } from '../../errors/api-error.js';
import type { Connection } from './connections.js';

/**
 * Handles the `clientError` event: responds to a request that Node's HTTP parser rejected, and closes
 * the connection.
 *
 * @param respond writes the response and closes the connection; the request is given if its head was
 *   parsed
 */
export function handleClientError(
  error: NodeJS.ErrnoException,
  connection: Connection,
  respond: (error: ApiError, request?: IncomingMessage) => void,
): void {
  const { latestResponse: latest, previousResponse: previous } = connection;
  const lastCompleteResponse = latest?.req.complete === true ? latest : previous;
  if (error.code === 'ECONNRESET' || !connection.writable) {
    connection.destroy();
  } else if (
    lastCompleteResponse !== undefined &&
    !lastCompleteResponse.writableFinished &&
    !lastCompleteResponse.destroyed
  ) {
    // A pipelined request is invalid: those before it get their responses first, or the client would
    // match this error with one of them.
    lastCompleteResponse.once('close', () => handleClientError(error, connection, respond));
  } else if (latest?.headersSent === true && !(latest.req.complete && latest.shouldKeepAlive)) {
    // The rest of a request that has its response already, or bytes after the last request.
    connection.destroySoon();
  } else {
    // Either the body of a request whose headers were parsed is invalid, or a request without an id.
    respond(toApiError(error), latest?.req.complete === false ? latest.req : undefined);
  }
}

function toApiError({ code }: NodeJS.ErrnoException): ApiError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new ApiError('HEADERS_TOO_LARGE', 'The request headers are larger than 16 KiB.');
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new ApiError('PAYLOAD_TOO_LARGE', 'The chunk extensions of the body are too large.');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new ApiError('REQUEST_TIMEOUT', 'The request did not arrive in time.');
    default:
      return new ApiError('BAD_REQUEST', 'The request is not valid HTTP.');
  }
}
