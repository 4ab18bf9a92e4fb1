import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { matchesEtag } from './etag.js';

export const JSON_TYPE = 'application/json; charset=utf-8';

/** Writes a complete response. Default headers, and those that were set before, are kept unless these replace them. */
export function writeResponse(
  response: ServerResponse,
  status: number,
  headers: OutgoingHttpHeaders,
  body: string | Buffer = '',
  encoding: 'utf8' | 'latin1' = 'utf8',
): void {
  response.writeHead(status, headers);
  response.end(body, encoding);
}

/**
 * Writes a representation, or 304 to a GET request whose client already has the one with its ETag.
 *
 * @param headers those that a 304 has, too
 * @param content those that describe the body
 */
export function writeRepresentation(
  response: ServerResponse,
  status: number,
  headers: OutgoingHttpHeaders,
  content: OutgoingHttpHeaders,
  body: string | Buffer,
  encoding?: 'latin1',
): void {
  const { method, headers: conditions } = response.req;
  if (status === 200 && (method === 'GET' || method === 'HEAD')) {
    const etag = headers['ETag'] ?? response.getHeader('ETag');
    if (etag !== undefined && matchesEtag(conditions['if-none-match'], String(etag)))
      return writeResponse(response, 304, headers);
  }
  writeResponse(response, status, { ...headers, ...content }, body, encoding);
}

/** Writes a value as JSON. */
export function sendJson(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers: OutgoingHttpHeaders = {},
): void {
  const text = JSON.stringify(value);
  const content = { 'Content-Type': JSON_TYPE, 'Content-Length': Buffer.byteLength(text) };
  writeRepresentation(response, status, headers, content, text);
}
