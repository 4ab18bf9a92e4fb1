/** The environment of the baselines, and the response headers of the service. */
import { hash, randomUUID } from 'node:crypto';

const { PORT, API_KEY = '' } = process.env;
export const { DATABASE_URL: url = '', MODE: mode = '' } = process.env;
export const port = Number(PORT);
export const file = url.replace(/^sqlite:/, '');
const keyHash = hash('sha256', API_KEY);

/** Compares hashes of the key, like a service that stores only these. */
export function isAuthorized(header = ''): boolean {
  return header.startsWith('Bearer ') && hash('sha256', header.slice(7)) === keyHash;
}

/** The headers that every response of the service has. */
export const defaultHeaders = (): Record<string, string> => ({
  'X-Request-Id': randomUUID(),
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
});
export const REVALIDATED = { 'Cache-Control': 'private, no-cache', Vary: 'Accept-Encoding' };

/** Creates a list response with the headers of the service. */
export function toListResponse(json: string): { body: Buffer; headers: Record<string, string> } {
  const body = Buffer.from(json);
  const ETag = `"${hash('sha256', body, 'base64url')}"`;
  const type = { 'Content-Type': 'application/json; charset=utf-8' };
  const headers = { ...REVALIDATED, ...type, ETag, 'Content-Length': String(body.length) };
  return { body, headers };
}
