import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';

export const JSON_TYPE = 'application/json; charset=utf-8';

/** A body in one part or several. */
export type ResponseBody = string | Buffer | readonly Buffer[];

/** Writes a complete response. Default headers, and those that were set before, are kept unless these replace them. */
export function writeResponse(
  response: ServerResponse,
  status: number,
  headers: OutgoingHttpHeaders,
  body: ResponseBody = '',
  encoding: 'utf8' | 'latin1' = 'utf8',
): void {
  response.writeHead(status, headers);
  if (typeof body === 'string' || Buffer.isBuffer(body)) return void response.end(body, encoding);
  for (const part of body) response.write(part);
  response.end();
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
