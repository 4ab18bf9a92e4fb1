import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Request, Response } from 'express';
import { matchesEtag } from './etag.js';

const compress = promisify(gzip);

/** The size, in bytes, from which a body is also offered with gzip. */
const COMPRESSION_THRESHOLD = 1024;

/** One representation of the response (RFC 9110, section 3.2): its bytes and the headers that describe them. */
interface Representation {
  readonly body: Buffer;
  readonly etag: string;
  readonly encoding: string | undefined;
}

/** A JSON response that is serialized once and sent many times, plain or with gzip, each with a strong ETag. */
export class CachedJsonResponse {
  private readonly plain: Representation;
  private gzipped: Promise<Representation> | undefined;

  /** @param value the body; it is serialized here, once */
  constructor(value: unknown) {
    this.plain = createRepresentation(Buffer.from(JSON.stringify(value)));
  }

  /** Sends the representation that the client accepts, or 304 if the client already has it. */
  send(request: Request, response: Response): void | Promise<void> {
    if (this.plain.body.length < COMPRESSION_THRESHOLD || !acceptsGzip(request))
      return send(this.plain, request, response);
    this.gzipped ??= compress(this.plain.body).then((body) => createRepresentation(body, 'gzip'));
    return this.gzipped.then((representation) => send(representation, request, response));
  }
}

function createRepresentation(body: Buffer, encoding?: string): Representation {
  return { body, encoding, etag: `"${createHash('sha256').update(body).digest('base64url')}"` };
}

/** Skips the parser of q values, `acceptsEncodings`, for clients that do not mention gzip. */
function acceptsGzip(request: Request): boolean {
  const accepted = request.headers['accept-encoding'];
  return (
    accepted?.includes('gzip') === true && request.acceptsEncodings('gzip', 'identity') === 'gzip'
  );
}

function send(
  { body, etag, encoding }: Representation,
  request: Request,
  response: Response,
): void {
  response.setHeader('ETag', etag);
  response.setHeader('Cache-Control', 'private, no-cache');
  // Appended, because CORS may have set Origin.
  response.appendHeader('Vary', 'Accept-Encoding');
  if (matchesEtag(request.headers['if-none-match'], etag)) {
    response.statusCode = 304;
    response.end();
    return;
  }
  if (encoding !== undefined) response.setHeader('Content-Encoding', encoding);
  response.setHeader('Content-Type', 'application/json; charset=utf-8');
  response.setHeader('Content-Length', body.length);
  response.end(body);
}
