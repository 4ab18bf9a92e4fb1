import { isUtf8 } from 'node:buffer';
import type { Transform } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import {
  type CanActivate,
  type ExecutionContext,
  Inject,
  Injectable,
  type RawBodyRequest,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Request, Response } from 'express';
import { CONFIG, type Config } from '../../config/config.js';
import { ApiError } from '../../errors/api-error.js';
import type { ErrorCode } from '../../errors/error-codes.js';
import { AcceptBinaryBody, MERGE_PATCH_CONTENT_TYPE } from './accepted-body.js';
import { SlowBodyCheck } from './slow-body-check.js';

/** How long a body may take to arrive before it counts as slow, in milliseconds. */
const SLOW_BODY_MS = 100;

/** The maximum nesting of arrays and objects, so that recursive functions do not exceed the stack. */
const MAX_DEPTH = 32;

const CONTENT_TYPES = ['application/json'];
const PATCH_CONTENT_TYPES = [MERGE_PATCH_CONTENT_TYPE, ...CONTENT_TYPES];

const DECODERS = new Map<string, () => Transform>([
  ['gzip', createGunzip],
  // RFC 9110, section 8.4.1.3.
  ['x-gzip', createGunzip],
  ['deflate', createInflate],
  ['br', createBrotliDecompress],
]);

/**
 * Parses the body of a request into `request.body`: JSON, or bytes for an operation with a `@BinaryBody`. Express middleware
 * would run before all guards, but no byte of a body may be read before `ApiKeyGuard` has checked the key. After a slow body,
 * the key is verified again, because it may have been revoked since.
 *
 * @throws {ApiError} UNAUTHORIZED, MALFORMED_JSON, BAD_REQUEST if bytes cannot be decompressed, PAYLOAD_TOO_LARGE,
 *   UNSUPPORTED_MEDIA_TYPE, or VALIDATION_FAILED if the body is nested too deeply
 */
@Injectable()
export class BodyParserGuard implements CanActivate {
  constructor(
    @Inject(CONFIG) private readonly config: Config,
    private readonly reflector: Reflector,
    private readonly slowBodyCheck: SlowBodyCheck,
  ) {}

  canActivate(context: ExecutionContext): true | Promise<true> {
    const request = context.switchToHttp().getRequest<Request>();
    const { method, headers } = request;
    if (method === 'GET' || method === 'HEAD' || !hasBody(request)) return true;
    const binary = this.reflector.get(AcceptBinaryBody, context.getHandler());
    const jsonTypes = method === 'PATCH' ? PATCH_CONTENT_TYPES : CONTENT_TYPES;
    const { contentTypes, limit } = binary ?? {
      contentTypes: jsonTypes,
      limit: this.config.bodyLimit,
    };
    requireSupported(request, contentTypes);
    if (binary === undefined) requireUtf8(headers['content-type']!);
    // A body with a Content-Length above the limit is not read.
    if (Number(headers['content-length'] ?? 0) > limit) throw tooLarge(limit);
    const response = context.switchToHttp().getResponse<Response>();
    // The client waits for this before it sends the body (RFC 9110, section 10.1.1).
    if (headers.expect !== undefined && request.httpVersion !== '1.0') response.writeContinue();
    const invalid = binary === undefined ? 'MALFORMED_JSON' : 'BAD_REQUEST';
    const startedAt = performance.now();
    return readBody(request, limit, invalid).then(async (bytes): Promise<true> => {
      // An empty body counts as missing, as with a Content-Length of 0.
      if (bytes.length > 0) request.body = binary === undefined ? parseJson(bytes) : bytes;
      // The bytes after decompression, as with Nest's option `rawBody`.
      (request as RawBodyRequest<Request>).rawBody = bytes;
      if (performance.now() - startedAt >= SLOW_BODY_MS)
        await this.slowBodyCheck.afterSlowBody(request);
      return true;
    });
  }
}

/**
 * Reads and decompresses a body. The package body-parser is not used, because it reads a rejected body to its end, which may
 * never come, and skips the body of a client that has half-closed its connection.
 *
 * @param invalid the error code if the body cannot be decompressed
 */
function readBody(request: Request, limit: number, invalid: ErrorCode): Promise<Buffer> {
  const { 'content-encoding': encoding = 'identity' } = request.headers;
  const decoder = DECODERS.get(encoding.toLowerCase())?.();
  return new Promise((resolve, reject) => {
    const fail = (error: ApiError): void => {
      if (decoder !== undefined) request.unpipe(decoder.destroy());
      // Discards the rest of the body.
      request.resume();
      reject(error);
    };
    request.on('error', () => fail(new ApiError('BAD_REQUEST', 'The client disconnected.')));
    decoder?.on('error', () => fail(new ApiError(invalid, `The body is not valid ${encoding}.`)));
    const chunks: Buffer[] = [];
    let size = 0;
    (decoder === undefined ? request : request.pipe(decoder))
      .on('data', (chunk: Buffer) => {
        size += chunk.length;
        if (size > limit) fail(tooLarge(limit));
        else chunks.push(chunk);
      })
      .on('end', () => resolve(Buffer.concat(chunks)));
  });
}

/** Parses JSON in UTF-8. @throws {ApiError} MALFORMED_JSON, or VALIDATION_FAILED if it is nested too deeply */
function parseJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new ApiError('MALFORMED_JSON', 'The body is not valid UTF-8.');
  let value: unknown;
  try {
    // JSON.parse rejects a byte order mark.
    value = JSON.parse(bytes.toString().replace(/^\ufeff/, ''));
  } catch {
    throw new ApiError('MALFORMED_JSON', 'The body is not valid JSON.');
  }
  if (exceedsDepth(value, MAX_DEPTH))
    throw new ApiError('VALIDATION_FAILED', `JSON nesting depth exceeds ${MAX_DEPTH}.`);
  return value;
}

function exceedsDepth(value: unknown, depth: number): boolean {
  return (
    typeof value === 'object' &&
    value !== null &&
    (depth === 0 || Object.values(value).some((inner) => exceedsDepth(inner, depth - 1)))
  );
}

/** RFC 9112, section 6.3: a request has a body if it declares its length. */
function hasBody({ headers }: Request): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}

function requireSupported(request: Request, contentTypes: readonly string[]): void {
  if (!request.is([...contentTypes])) {
    const message = `The Content-Type of the body must be ${contentTypes.join(' or ')}.`;
    // RFC 5789, section 2.2.
    const accepted = { 'Accept-Patch': contentTypes.join(', ') };
    const headers = request.method === 'PATCH' ? accepted : {};
    throw new ApiError('UNSUPPORTED_MEDIA_TYPE', message, { headers });
  }
  const encoding = request.headers['content-encoding']?.toLowerCase() ?? 'identity';
  const message = 'The Content-Encoding of the body must be gzip, deflate, br or none.';
  if (encoding !== 'identity' && !DECODERS.has(encoding))
    throw new ApiError('UNSUPPORTED_MEDIA_TYPE', message);
}

/** JSON is exchanged in UTF-8 (RFC 8259, section 8.1). */
function requireUtf8(contentType: string): void {
  const charset = /;\s*charset\s*=\s*"?([^\s";]*)/i.exec(contentType)?.[1] ?? 'utf-8';
  if (charset.toLowerCase() !== 'utf-8')
    throw new ApiError('UNSUPPORTED_MEDIA_TYPE', 'The charset of the body must be UTF-8.');
}

const tooLarge = (limit: number): ApiError =>
  new ApiError('PAYLOAD_TOO_LARGE', `The body is larger than ${limit} bytes.`);
