import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Request, Response } from 'express';

const compress = promisify(gzip);

/** Bytes from which on a gzip form is worth making. */
const COMPRESSION_THRESHOLD = 1024;

/** One form of the answer: its bytes, and the headers that describe them. */
interface Representation {
  readonly body: Buffer;
  readonly etag: string;
  readonly encoding: string | undefined;
}

/** An answer in JSON that is made once and sent many times, plain or as gzip, with a strong ETag for either. */
export class CachedJsonResponse {
  private readonly plain: Representation;
  private gzipped: Promise<Representation> | undefined;

  /** @param value what the body says; it is turned into JSON here, once */
  constructor(value: unknown) {
    this.plain = createRepresentation(Buffer.from(JSON.stringify(value)));
  }

  /** Sends the form that the client accepts, or 304 where the client has it already. */
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

/** `acceptsEncodings` weighs the q values; a client that does not name gzip is spared that. */
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
  response.setHeader('Vary', 'Accept-Encoding');
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

/** RFC 9110, section 13.1.2: a list of ETags, compared weakly, or `*`. */
function matchesEtag(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  return (
    ifNoneMatch === etag ||
    ifNoneMatch
      .split(',')
      .some((item) => item.trim() === '*' || item.trim().replace(/^W\//, '') === etag)
  );
}
