import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Request } from 'express';

/** The size, in bytes, from which a list is also offered with gzip. */
export const GZIP_THRESHOLD = 1024;

/** Compresses the bytes of a body. */
export const compress = promisify(gzip);

/** Skips the parser of q values, `acceptsEncodings`, for clients that do not mention gzip. */
export function acceptsGzip(request: Request): boolean {
  const accepted = request.headers['accept-encoding'];
  return (
    accepted?.includes('gzip') === true && request.acceptsEncodings('gzip', 'identity') === 'gzip'
  );
}
