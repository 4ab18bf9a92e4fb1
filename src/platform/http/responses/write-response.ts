import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { matchesEtag } from './etag.js';

export const JSON_TYPE = 'application/json; charset=utf-8';

/**
 * Writes a representation, or 304 to a GET request whose client already has the one with its ETag. Headers that were set
 * before are kept unless these replace them.
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
  encoding: 'utf8' | 'latin1' = 'utf8',
): void {
  const { method, headers: conditions } = response.req;
  if (status === 200 && (method === 'GET' || method === 'HEAD')) {
    const etag = headers['ETag'] ?? response.getHeader('ETag');
    if (etag !== undefined && matchesEtag(conditions['if-none-match'], String(etag))) {
      response.writeHead(304, headers).end();
      return;
    }
  }
  response.writeHead(status, { ...headers, ...content }).end(body, encoding);
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
