import { isUtf8 } from 'node:buffer';
import { PassThrough } from 'node:stream';
import { type CanActivate, type ExecutionContext, Inject, Injectable } from '@nestjs/common';
import express, { type Request, type RequestHandler, type Response } from 'express';
import { CONFIG, type Config } from '../../config/config.js';
import { ApiError } from '../../errors/api-error.js';
import { getBinaryBody, MERGE_PATCH_CONTENT_TYPE } from './accepted-body.js';

const CONTENT_TYPES = ['application/json'];
const PATCH_CONTENT_TYPES = [MERGE_PATCH_CONTENT_TYPE, ...CONTENT_TYPES];

/** The supported content codings. If Node.js has zstd, body-parser would decode that, too. */
const CONTENT_ENCODINGS = new Set(['gzip', 'deflate', 'br', 'identity']);

/** The maximum nesting of arrays and objects. Code that walks through a body may then be recursive. */
const MAX_DEPTH = 32;

/**
 * Parses the body of a request into `request.body`: JSON, or the bytes of an operation with a
 * `@BinaryBody`. It is a guard because it must run after `ApiKeyGuard`: no byte of a body is read before
 * the key is checked, and Express middleware runs before all guards.
 *
 * @throws {ApiError} MALFORMED_JSON, BAD_REQUEST if bytes cannot be decompressed, PAYLOAD_TOO_LARGE,
 *   UNSUPPORTED_MEDIA_TYPE, or VALIDATION_FAILED if the body is nested too deeply
 */
@Injectable()
export class BodyParserGuard implements CanActivate {
  /** Middleware that reads and decompresses a body, by the limit of its size. */
  private readonly readers = new Map<number, RequestHandler>();

  constructor(@Inject(CONFIG) private readonly config: Config) {}

  canActivate(context: ExecutionContext): true | Promise<true> {
    const request = context.switchToHttp().getRequest<Request>();
    const { method, headers } = request;
    if (method === 'GET' || method === 'HEAD' || !hasBody(request)) return true;
    const binary = getBinaryBody(context.getHandler());
    const { contentTypes, limit } = binary ?? {
      contentTypes: method === 'PATCH' ? PATCH_CONTENT_TYPES : CONTENT_TYPES,
      limit: this.config.bodyLimit,
    };
    requireSupported(request, contentTypes);
    if (binary === undefined) requireUtf8(headers['content-type']!);
    // If the Content-Length is too large, the body is not read.
    if (Number(headers['content-length'] ?? 0) > limit) throw tooLarge(limit);
    const response = context.switchToHttp().getResponse<Response>();
    // The client waits for this before it sends the body (RFC 9110, section 10.1.1).
    if (headers.expect !== undefined && request.httpVersion !== '1.0') response.writeContinue();
    return this.read(request, response, limit).then(
      (bytes) => {
        request.body = binary === undefined ? parseJson(bytes) : bytes;
        return true;
      },
      (error: unknown) => {
        // Of the errors of body-parser and zlib, only those of zlib have no type.
        const encoding = headers['content-encoding'];
        if (encoding === undefined || error instanceof ApiError || getType(error) !== undefined)
          throw error;
        const code = binary === undefined ? 'MALFORMED_JSON' : 'BAD_REQUEST';
        throw new ApiError(code, `The body is not valid ${encoding}.`);
      },
    );
  }

  /** @param limit the maximum size in bytes, also after decompression */
  private read(request: Request, response: Response, limit: number): Promise<Buffer> {
    let read = this.readers.get(limit);
    if (read === undefined) {
      read = express.raw({ limit, type: () => true });
      this.readers.set(limit, read);
    }
    return new Promise((resolve, reject) => {
      // body-parser reports a chunked body that is too large only when it ends, which it may never do.
      if (request.headers['transfer-encoding'] !== undefined) {
        let received = 0;
        request.on('data', ({ length }: Buffer) => {
          received += length;
          if (received > limit) reject(tooLarge(limit));
        });
      }
      const source = toUnfinished(request);
      void read(source, response, (error?: unknown) => {
        if (error === undefined) resolve(source.body as Buffer);
        else if (getType(error) === 'entity.too.large') reject(tooLarge(limit));
        else reject(error);
      });
    });
  }
}

/** RFC 9112, section 6.3: a request has a body if it declares its length. */
function hasBody({ headers }: Request): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

function requireSupported(request: Request, contentTypes: readonly string[]): void {
  if (!request.is([...contentTypes])) {
    throw new ApiError(
      'UNSUPPORTED_MEDIA_TYPE',
      `The Content-Type of the body must be ${contentTypes.join(' or ')}.`,
      // RFC 5789, section 2.2.
      request.method === 'PATCH' ? { headers: { 'Accept-Patch': contentTypes.join(', ') } } : {},
    );
  }
  const { 'content-encoding': encoding = 'identity' } = request.headers;
  if (!CONTENT_ENCODINGS.has(encoding.toLowerCase())) {
    throw new ApiError(
      'UNSUPPORTED_MEDIA_TYPE',
      'The Content-Encoding of the body must be gzip, deflate, br or none.',
    );
  }
}

/** JSON is exchanged in UTF-8 (RFC 8259, section 8.1). */
function requireUtf8(contentType: string): void {
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(contentType)?.[1] ?? 'utf-8';
  if (charset.toLowerCase() !== 'utf-8')
    throw new ApiError('UNSUPPORTED_MEDIA_TYPE', 'The charset of the body must be UTF-8.');
}

function parseJson(bytes: Buffer): unknown {
  // Its length was unknown.
  if (bytes.length === 0) return {};
  if (!isUtf8(bytes)) throw new ApiError('MALFORMED_JSON', 'The body is not valid UTF-8.');
  let value: unknown;
  try {
    // Without a byte order mark.
    value = JSON.parse(bytes.toString().replace(/^\ufeff/, ''));
  } catch {
    throw new ApiError('MALFORMED_JSON', 'The body is not valid JSON.');
  }
  if (exceedsDepth(value, MAX_DEPTH))
    throw new ApiError('VALIDATION_FAILED', `JSON nesting depth exceeds ${MAX_DEPTH}.`);
  return value;
}

/**
 * Returns a request whose body body-parser reads. It skips the body of a client that has half-closed its
 * connection, as one that was read before.
 */
function toUnfinished(request: Request): Request {
  if (request.socket.readable) return request;
  const { method, headers } = request;
  return Object.assign(request.pipe(new PassThrough()), { method, headers }) as unknown as Request;
}

const tooLarge = (limit: number): ApiError =>
  new ApiError('PAYLOAD_TOO_LARGE', `The body is larger than ${limit} bytes.`);

const getType = (error: unknown): unknown =>
  error instanceof Error && 'type' in error ? error.type : undefined;

function exceedsDepth(value: unknown, depth: number): boolean {
  return (
    typeof value === 'object' &&
    value !== null &&
    (depth === 0 || Object.values(value).some((inner) => exceedsDepth(inner, depth - 1)))
  );
}
