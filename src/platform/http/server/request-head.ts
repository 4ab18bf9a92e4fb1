import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { ApiError } from '../../errors/api-error.js';
import { MAX_ETAGS_LENGTH, MAX_HEADERS } from './server-options.js';

/** The characters of a host and a port (RFC 3986, section 3.2.2). The host must not be empty (RFC 9110, section 4.2.1). */
const HOST = /^(?!:)[\w.~!$&'()*+,;=:%[\]-]+$/;
const REQUEST_ID = /^[\w.:;,/+=@~-]{1,128}$/;

/**
 * Checks what Node's parser accepts but HTTP/1.1 does not, or what a proxy in front may read differently.
 *
 * @returns the error to respond with before authentication; undefined if the head is valid
 */
export function validateRequestHead(request: IncomingMessage): ApiError | undefined {
  const { httpVersionMajor, httpVersionMinor, rawHeaders, headers, url } = request;
  if (httpVersionMajor !== 1)
    return new ApiError('BAD_REQUEST', 'The HTTP version must be 1.0 or 1.1.');
  // RFC 9112, section 3.2: no form of the target has a fragment.
  if (url!.includes('#'))
    return new ApiError('BAD_REQUEST', 'The request target must not have a fragment.');
  if (rawHeaders.length > MAX_HEADERS * 2)
    return new ApiError('HEADERS_TOO_LARGE', `The request has more than ${MAX_HEADERS} headers.`);
  for (const name of ['if-match', 'if-none-match'] as const)
    if ((headers[name]?.length ?? 0) > MAX_ETAGS_LENGTH)
      return new ApiError(
        'HEADERS_TOO_LARGE',
        `The header ${name} is longer than ${MAX_ETAGS_LENGTH} characters.`,
      );
  // RFC 9112, section 3.2: HTTP/1.1 requires one Host header, and any version forbids two or an invalid one.
  const { host } = headers;
  if (host === undefined ? httpVersionMinor > 0 : !HOST.test(host))
    return new ApiError('BAD_REQUEST', 'The request must have exactly one valid Host header.');
  // `headers` has the first of several lines; a proxy may check another one. `headersDistinct` has all lines, but takes 4 %
  // of the CPU time of a list request, so it is read only if lines are repeated.
  if (rawHeaders.length > 2 * Object.keys(headers).length)
    for (const name of ['Host', 'Authorization', 'Content-Type'])
      if ((request.headersDistinct[name.toLowerCase()]?.length ?? 0) > 1)
        return new ApiError('BAD_REQUEST', `The request has more than one ${name} header.`);
  const { expect, 'transfer-encoding': transferEncoding } = headers;
  // RFC 9110, section 10.1.1: HTTP/1.0 has no expectations.
  if (expect !== undefined && httpVersionMinor > 0 && expect.toLowerCase() !== '100-continue')
    return new ApiError('EXPECTATION_FAILED', 'Unsupported Expect header.');
  if (transferEncoding === undefined) return undefined;
  // RFC 9112, section 6.1: the length of such a request is ambiguous, and a proxy may read it differently.
  if (httpVersionMinor === 0)
    return new ApiError('BAD_REQUEST', 'Transfer-Encoding is not allowed in HTTP/1.0.');
  if (!/(^|,\s*)chunked$/i.test(transferEncoding))
    return new ApiError('BAD_REQUEST', 'The last Transfer-Encoding must be chunked.');
  if (/^chunked$/i.test(transferEncoding)) return undefined;
  return new ApiError('NOT_IMPLEMENTED', 'Unsupported Transfer-Encoding.');
}

/** Returns the client's `X-Request-Id` if it is valid and contains no key, because it is logged; otherwise a new UUID. */
export function getRequestId(
  { headers }: IncomingMessage,
  key: RegExp,
  bootstrapKey = '\0',
): string {
  const id = headers['x-request-id'];
  const isValid = typeof id === 'string' && REQUEST_ID.test(id);
  return isValid && !key.test(id) && !id.includes(bootstrapKey) ? id : randomUUID();
}
