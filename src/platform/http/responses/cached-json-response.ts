import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { StreamableFile } from '@nestjs/common';
import type { Request, Response } from 'express';
import type { Connection } from '../server/connections.js';
import { JSON_TYPE, writeRepresentation } from './write-response.js';

/**
 * The size, in bytes, below which a body is sent as a string, with the head in one write. With 500 bytes it
 * saves 8 µs of CPU time per request; from 5,000 on it costs time.
 */
const STRING_THRESHOLD = 4096;

/** The size, in bytes, from which a list is also offered with gzip. */
const GZIP_THRESHOLD = 1024;

/** The largest list, in bytes. `toJSON` converts it to a string, which V8 limits to about twice as much. */
const MAX_LIST_LENGTH = 256 * 1024 * 1024;

const compress = promisify(gzip);

/** A list is larger than {@link MAX_LIST_LENGTH}. */
export class BodyTooLargeError extends Error {
  override readonly name = 'BodyTooLargeError';
}

/** A representation of the response (RFC 9110, section 3.2). */
interface Representation {
  readonly body: Buffer;
  /** The body as it is sent: a small one as a string with one character for each byte. */
  readonly sent: string | Buffer;
  readonly etag: string;
  readonly encoding?: string | undefined;
}

/** The query parameter that selects a page, with its value. */
export type PageParameter = Readonly<Record<string, number | string>>;

/**
 * A JSON response that is serialized once and sent many times, plain or with gzip, each with a strong ETag. It is a
 * `StreamableFile`, because interceptors leave these as they are, such as Nest's `ClassSerializerInterceptor` and
 * `CacheInterceptor`; the adapter sends it without a stream.
 */
export class CachedJsonResponse extends StreamableFile {
  /** Whether a cache holds it; otherwise only the responses that are being sent do. */
  isCached = false;
  private gzipped: Promise<Representation> | undefined;

  private readonly plain: Representation;
  /** The size in memory: gzip may take as much again. */
  readonly bytes: number;

  private constructor(
    body: Buffer,
    private readonly next?: PageParameter,
  ) {
    super(Buffer.of());
    this.plain = toRepresentation(body, next);
    this.bytes = 2 * body.length;
  }

  /**
   * Serializes a list, or a page of one, chunk by chunk.
   *
   * @param toItem converts a row to an item of the list
   * @param paging.next the query parameter that selects the next page, if the rows are a page and not the last one
   * @throws {BodyTooLargeError}
   */
  static async ofList<Row>(
    chunks: Iterable<readonly Row[]> | AsyncIterable<readonly Row[]>,
    toItem: (row: Row) => unknown,
    { next }: { readonly next?: PageParameter | undefined } = {},
  ): Promise<CachedJsonResponse> {
    const parts: Buffer[] = [];
    let length = 0;
    for await (const rows of chunks) {
      if (rows.length === 0) continue;
      const part = Buffer.from(JSON.stringify(rows.map(toItem)));
      // Brackets around each chunk become commas between them.
      part.write(parts.length === 0 ? '[' : ',');
      parts.push(part.subarray(0, -1));
      length += part.length;
      if (length > MAX_LIST_LENGTH)
        throw new BodyTooLargeError(
          `The list is larger than ${MAX_LIST_LENGTH} bytes: offer it in pages.`,
        );
    }
    const body =
      parts.length === 0 ? Buffer.from('[]') : Buffer.concat([...parts, Buffer.from(']')]);
    return new CachedJsonResponse(body, next);
  }

  /** Serializes an object with a list, or with a page of one. */
  static ofObject(value: object, next?: PageParameter): CachedJsonResponse {
    return new CachedJsonResponse(Buffer.from(JSON.stringify(value)), next);
  }

  /** Returns the list, for an interceptor that puts it into an object. */
  toJSON(): unknown {
    return JSON.parse(this.plain.body.toString());
  }

  /** Sends the representation that the client accepts, or 304 if the client already has it. */
  send(response: Response): void | Promise<void> {
    const { req: request } = response;
    if (this.next !== undefined) response.setHeader('Link', toNextLink(request, this.next));
    if (this.plain.body.length < GZIP_THRESHOLD || !acceptsGzip(request))
      return this.write(this.plain, response);
    this.gzipped ??= compress(this.plain.body).then(
      (body) => toRepresentation(body, this.next, 'gzip'),
      (error: unknown) => {
        this.gzipped = undefined;
        throw error;
      },
    );
    return this.gzipped.then((representation) => this.write(representation, response));
  }

  private write({ body, sent, etag, encoding }: Representation, response: Response): void {
    // CORS may have set Origin.
    const vary = response.getHeader('Vary');
    const headers = {
      ETag: etag,
      'Cache-Control': 'private, no-cache',
      Vary: vary === undefined ? 'Accept-Encoding' : [String(vary), 'Accept-Encoding'],
    };
    const content = {
      ...(encoding !== undefined && { 'Content-Encoding': encoding }),
      'Content-Type': JSON_TYPE,
      'Content-Length': body.length,
    };
    writeRepresentation(response, 200, headers, content, sent, 'latin1');
    if (response.statusCode === 200)
      (response.req.socket as Connection).sharedBodies.addReader(response, this, body.length);
  }
}

/**
 * Returns whether a client prefers gzip, which it may also call `x-gzip` (RFC 9110, section 8.4.1.3). Skips the parser
 * of q values, `acceptsEncodings`, for clients that do not mention it.
 */
function acceptsGzip(request: Request): boolean {
  const name = /(x-)?gzip/i.exec(request.headers['accept-encoding'] ?? '')?.[0];
  return name !== undefined && request.acceptsEncodings(name, 'identity') === name;
}

function toRepresentation(body: Buffer, next?: PageParameter, encoding?: string): Representation {
  const hash = createHash('sha256').update(body);
  // Whether a page is the last one is part of its state.
  if (next !== undefined) hash.update(`next: ${JSON.stringify(next)}`);
  const etag = `"${hash.digest('base64url')}"`;
  const sent = body.length < STRING_THRESHOLD ? body.toString('latin1') : body;
  return { body, sent, etag, encoding };
}

/**
 * Returns the Link header of a page (RFC 8288). The URL is relative to that of the request, so that it is
 * valid behind a proxy that adds a path prefix, and keeps the other query parameters.
 */
function toNextLink({ originalUrl }: Request, next: PageParameter): string {
  const [, query = ''] = originalUrl.split(/\?(.*)/s);
  const parameters = new URLSearchParams(query);
  for (const [name, value] of Object.entries(next)) parameters.set(name, String(value));
  return `<?${parameters.toString()}>; rel="next"`;
}
