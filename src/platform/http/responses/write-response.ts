import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';

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

/** Writes a value as JSON. */
export function sendJson(
  response: ServerResponse,
  status: number,
  value: unknown,
  headers: OutgoingHttpHeaders = {},
): void {
  const text = JSON.stringify(value);
  writeResponse(
    response,
    status,
    { ...headers, 'Content-Type': JSON_TYPE, 'Content-Length': Buffer.byteLength(text) },
    text,
  );
}
