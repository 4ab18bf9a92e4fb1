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

/** The errors of body-parser, and those thrown by `verify`, by their `type`. */
const PARSE_ERRORS: Record<string, (limit: number) => ApiError> = {
  'entity.parse.failed': () => new ApiError('MALFORMED_JSON', 'The body is not valid JSON.'),
  'body.not.utf8': () => new ApiError('MALFORMED_JSON', 'The body is not valid UTF-8.'),
  'entity.too.large': (limit) =>
    new ApiError('PAYLOAD_TOO_LARGE', `The body is larger than ${limit} bytes.`),
  'depth.exceeded': () =>
    new ApiError('VALIDATION_FAILED', `JSON nesting depth exceeds ${MAX_DEPTH}.`),
  'encoding.unsupported': () =>
    new ApiError(
      'UNSUPPORTED_MEDIA_TYPE',
      'The Content-Encoding of the body must be gzip, deflate, br or none.',
    ),
  'charset.unsupported': () =>
    new ApiError('UNSUPPORTED_MEDIA_TYPE', 'The charset of the body must be UTF-8.'),
};

/** What the body of a request may be. */
interface AcceptedBody {
  readonly isJson: boolean;
  readonly types: string[];
  /** In bytes, also after decompression. */
  readonly limit: number;
  readonly parse: RequestHandler;
}

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
  private readonly json: AcceptedBody;
  private readonly patch: AcceptedBody;
  /** The bodies of operations with a `@BinaryBody`, by their handlers. */
  private readonly binary = new WeakMap<object, AcceptedBody>();

  constructor(@Inject(CONFIG) { bodyLimit: limit }: Config) {
    const parse = express.json({
      limit,
      // `canActivate` checks the type.
      type: () => true,
      // Any JSON value is parsed; the validation requires an object.
      strict: false,
      verify: (_request, _response, body, charset) => {
        // body-parser accepts any Unicode charset; JSON is exchanged in UTF-8 (RFC 8259, section 8.1).
        if (charset !== 'utf-8') throw parseError('charset.unsupported');
        // It would also replace invalid bytes with U+FFFD.
        if (!isUtf8(body)) throw parseError('body.not.utf8');
      },
    });
    this.json = { isJson: true, types: CONTENT_TYPES, limit, parse };
    this.patch = { ...this.json, types: PATCH_CONTENT_TYPES };
  }

  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const request = context.switchToHttp().getRequest<Request>();
    if (request.method === 'GET' || request.method === 'HEAD' || !hasBody(request)) return true;
    const accepted = this.getAcceptedBody(context.getHandler(), request);
    const { isJson, types, limit, parse } = accepted;
    if (!request.is(types)) {
      throw new ApiError(
        'UNSUPPORTED_MEDIA_TYPE',
        `The Content-Type of the body must be ${types.join(' or ')}.`,
        // RFC 5789, section 2.2.
        request.method === 'PATCH' ? { headers: { 'Accept-Patch': types.join(', ') } } : {},
      );
    }
    // If the Content-Length is too large, the body is not read.
    if (Number(request.headers['content-length'] ?? 0) > limit) {
      throw toApiError(parseError('entity.too.large'), request, accepted);
    }
    const { 'content-encoding': encoding = 'identity' } = request.headers;
    if (!CONTENT_ENCODINGS.has(encoding.toLowerCase()))
      throw toApiError(parseError('encoding.unsupported'), request, accepted);
    const response = context.switchToHttp().getResponse<Response>();
    // The client waits for this before it sends the body (RFC 9110, section 10.1.1).
    if (request.headers.expect !== undefined && request.httpVersion !== '1.0')
      response.writeContinue();
    return new Promise<boolean>((resolve, reject) => {
      const rejectWith = (error: unknown): void => reject(toApiError(error, request, accepted));
      if (request.headers['transfer-encoding'] !== undefined)
        enforceSizeLimit(request, limit, rejectWith);
      const source = toUnfinished(request);
      void parse(source, response, (error?: unknown) => {
        request.body = source.body;
        if (error !== undefined) rejectWith(error);
        else if (isJson && exceedsDepth(request.body, MAX_DEPTH))
          rejectWith(parseError('depth.exceeded'));
        else resolve(true);
      });
    });
  }

  private getAcceptedBody(handler: object, { method }: Request): AcceptedBody {
    const declared = getBinaryBody(handler);
    if (declared === undefined) return method === 'PATCH' ? this.patch : this.json;
    let accepted = this.binary.get(handler);
    if (accepted === undefined) {
      const { contentTypes, limit } = declared;
      const parse = express.raw({ limit, type: () => true });
      accepted = { isJson: false, types: [...contentTypes], limit, parse };
      this.binary.set(handler, accepted);
    }
    return accepted;
  }
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

/** body-parser reports a chunked body that is too large only when it ends, which it may never do. */
function enforceSizeLimit(
  request: Request,
  limit: number,
  rejectWith: (error: unknown) => void,
): void {
  let received = 0;
  request.on('data', ({ length }: Buffer) => {
    received += length;
    if (received > limit) rejectWith(parseError('entity.too.large'));
  });
}

function toApiError(
  error: unknown,
  { headers }: Request,
  { isJson, limit }: AcceptedBody,
): unknown {
  const type = error instanceof Error && 'type' in error ? String(error.type) : '';
  const encoding = headers['content-encoding'];
  // The errors of zlib have no type.
  if (type === '' && encoding !== undefined) {
    const message = `The body is not valid ${encoding}.`;
    return new ApiError(isJson ? 'MALFORMED_JSON' : 'BAD_REQUEST', message);
  }
  return PARSE_ERRORS[type]?.(limit) ?? error;
}

function parseError(type: string): Error {
  return Object.assign(new Error(type), { type, status: 400 });
}

/** RFC 9112, section 6.3: a request has a body if it declares its length. */
function hasBody({ headers }: Request): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

function exceedsDepth(value: unknown, depth: number): boolean {
  return (
    typeof value === 'object' &&
    value !== null &&
    (depth === 0 || Object.values(value).some((inner) => exceedsDepth(inner, depth - 1)))
  );
}
