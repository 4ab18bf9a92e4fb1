import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Request } from 'express';

/** The size, in bytes, from which a list is also offered with gzip. */
export const GZIP_THRESHOLD = 1024;

/** Compresses the bytes of a body. */
export const compress = promisify(gzip);

/**
 * Returns whether a client prefers gzip, which it may also call `x-gzip` (RFC 9110, section 8.4.1.3). Skips the parser
 * of q values, `acceptsEncodings`, for clients that do not mention it.
 */
export function acceptsGzip(request: Request): boolean {
  const name = /(x-)?gzip/i.exec(request.headers['accept-encoding'] ?? '')?.[0];
  return name !== undefined && request.acceptsEncodings(name, 'identity') === name;
}
