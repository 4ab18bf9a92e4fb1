// A default import, because Node 18 has no hash, and would fail before the check of its version.
import crypto from 'node:crypto';
import { ApiHeader, ApiResponse } from '@nestjs/swagger';
import type { Request } from 'express';
import { getApiKey } from '../auth/api-key.guard.js';
import { ApiError } from '../errors/api-error.js';
import { RequestParam } from '../http/request-param.js';
import { ApiResponseHeaders } from '../http/responses/response-headers.js';
import type { IdempotencyRecord } from './idempotency-record.entity.js';

/** The Idempotency-Key of a request, and what identifies the request. */
export interface IdempotencyKey {
  /** The id of the API key: the keys of different clients never meet. */
  readonly apiKeyId: number;
  readonly value: string;
  /** An HMAC of the request's method, path, query and body. */
  readonly fingerprint: string;
  /** Returns the fingerprint that the previous release records: a SHA-256 without a key. */
  readonly getFormerFingerprint?: () => string;
  /** Called if the response is that of an earlier request. */
  readonly onReplay: () => void;
}

/** Returns what identifies a key, or its record, among those of all clients. */
export const toKeyId = ({ apiKeyId, value }: IdempotencyKey | IdempotencyRecord): string =>
  `${apiKeyId} ${value}`;

/**
 * A string of RFC 9651, section 3.3.3, as
 * https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-idempotency-key-header-07, section 2.1, requires it: in quotes,
 * with escaped quotes and backslashes; or other characters without quotes, as most clients send them.
 */
// oxlint-disable-next-line no-useless-escape -- in a class of other engines, [ starts another one
export const IDEMPOTENCY_KEY = /^("(([ !#-\[\]-~]|\\["\\]){1,255})"|[!#-+.-\[\]-~-]{1,255})$/;

/** The length of 255 escaped characters in quotes. */
export const IDEMPOTENCY_KEY_LENGTH = 512;

function getIdempotencyKey(request: Request): IdempotencyKey | undefined {
  // Node joins repeated headers with commas, as one value (RFC 9110, section 5.3).
  const header = request.get('Idempotency-Key');
  if (header === undefined || request.apiKey === undefined) return undefined;
  const [, bare, quoted] = IDEMPOTENCY_KEY.exec(header) ?? [];
  const value = quoted?.replaceAll(/\\(.)/g, '$1') ?? bare;
  if (value === undefined)
    throw new ApiError(
      'VALIDATION_FAILED',
      'Idempotency-Key must be one string of 1 to 255 printable ASCII characters; with a space, comma, quote or backslash, it must be quoted.',
    );
  const { method, originalUrl, path } = request;
  const body: unknown = request.body;
  // A handler may change the body later.
  const content = Buffer.isBuffer(body) ? body : JSON.stringify(body ?? null);
  // Two targets are the same if path and query are, byte for byte: neither the host nor an empty query counts.
  const [, query = ''] = originalUrl.split(/\?(.*)/s);
  return {
    apiKeyId: request.apiKey.id,
    value,
    // The API key is in no database: without it, a password in the body could be guessed from the record.
    fingerprint: crypto
      .createHmac('sha256', getApiKey(request)!)
      .update(`${method} ${path}?${query}\n`)
      .update(content)
      .digest('hex'),
    getFormerFingerprint: () => {
      const isJson = typeof content === 'string' && body !== undefined;
      const text = isJson ? content : JSON.stringify(body);
      return crypto.hash('sha256', `${method} ${originalUrl}\n${text}`);
    },
    onReplay: () => request.res!.setHeader('Idempotency-Replayed', 'true'),
  };
}

/**
 * Passes the Idempotency-Key of a request to a handler, for `Resource.create` or `transactionOnce`, and declares it in
 * the OpenAPI document. It is undefined for a `@Public()` operation, whose clients the service cannot tell apart.
 *
 * @throws {ApiError} VALIDATION_FAILED
 */
export function IdempotencyKey(): ParameterDecorator {
  return RequestParam(
    getIdempotencyKey,
    ApiHeader({
      name: 'Idempotency-Key',
      required: false,
      description:
        'Identifies this request, for example a UUID. If a request with the same key was successful in the last 24 hours, its response is repeated, and nothing is created.',
      schema: {
        type: 'string',
        maxLength: IDEMPOTENCY_KEY_LENGTH,
        pattern: IDEMPOTENCY_KEY.source,
      },
    }),
    ApiResponseHeaders({
      'Idempotency-Replayed': {
        description: '`true` if this is the response of an earlier request with the same key.',
        schema: { type: 'string', enum: ['true'], example: 'true' },
      },
    }),
    ApiResponse({ status: 422 }),
  );
}
