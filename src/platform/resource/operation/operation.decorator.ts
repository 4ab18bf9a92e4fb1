import {
  applyDecorators,
  Header,
  HttpCode,
  type NestInterceptor,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import {
  ApiOperation,
  ApiProduces,
  ApiQuery,
  ApiResponse,
  type ApiResponseOptions,
} from '@nestjs/swagger';
import type { Response } from 'express';
import { tap } from 'rxjs';
import { ApiResponseHeaders, getResponseHeaders } from '../../http/responses/response-headers.js';
import { toDocument } from '../../validation/property.js';
import type { Schema } from '../../validation/schema.js';
import { createRefusal, UNSUPPORTED } from './unsupported.js';
import { UseInnermostInterceptor } from './innermost-interceptor.js';

type ErrorStatus = number | 'default';

/** A header of the successful response. */
export interface HeaderOptions {
  readonly description: string;
  /** The schema in the OpenAPI document. */
  readonly schema: object;
  /**
   * Returns the value of the header, of what the handler returns. Undefined sends none, and characters that are not ASCII are
   * percent-encoded. Without the function, the handler sets the header, such as with `@Header`.
   */
  value?(this: void, body: unknown): number | string | undefined;
}

/** What the OpenAPI document says about an operation, besides its parameters and the errors of the platform. */
export interface OperationOptions {
  readonly operationId: string;
  readonly summary?: string;
  readonly description?: string;
  /** By default, those of the controller. */
  readonly tags?: readonly string[];
  /** Only a mark: `@Deprecated` adds dates and headers. */
  readonly deprecated?: boolean;
  /** The status of the successful response, by default 200. */
  readonly status?: number;
  /** The description of the successful response. Without it, success is not specified yet. */
  readonly response?: string;
  /** The body of the successful response: a DTO, an array of it, or a schema. */
  readonly returns?: Type | readonly [Type] | Schema;
  /** The media types of a body that is not JSON. */
  readonly contentTypes?: readonly string[];
  /** Whether the operation returns a `CachedJsonResponse`, of all rows or of a page. */
  readonly list?: 'whole' | 'pages';
  /**
   * The `Location` of the created resource, with a property of the response in braces: `pets/{id}` for `POST /v1/pets`, or
   * `pets/{data.id}` if the response has the resource in `data`. It is relative to the URL of the request (RFC 9110, section
   * 10.2.2), so that it is valid behind a proxy that adds a path prefix.
   */
  readonly location?: string;
  /** Headers of the successful response, by their names. Pages of `CORS_ORIGINS` may read them. */
  readonly headers?: Readonly<Record<string, HeaderOptions>>;
  /** The statuses of errors of the operation, or their descriptions if the usual ones do not fit. */
  readonly errors?: readonly ErrorStatus[] | Readonly<Partial<Record<ErrorStatus, string>>>;
  /** Optional query parameters that it would ignore, with their schemas: a request with one gets 501; see also `refuseQuery`. */
  readonly unsupportedQuery?: Readonly<Record<string, Schema>>;
  /** Whether the operation returns 501. */
  readonly notImplemented?: boolean;
}

const ETAG = {
  description: 'Identifies this version of the list.',
  schema: {
    type: 'string',
    pattern: '^"[^"]+"$',
    maxLength: 100,
    example: '"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"',
  },
};

const LINK = {
  description:
    'The URL of the next page, relative to the URL of this request (RFC 8288). Missing on the last page.',
  schema: { type: 'string', maxLength: 20_000, example: '<?limit=20&after=20>; rel="next"' },
};

/** Documents an operation and its responses, sets the status of the successful one, and sends its `Location`. */
export function Operation(options: OperationOptions): MethodDecorator {
  const { operationId, summary, description, tags, deprecated, status = 200 } = options;
  const { returns, contentTypes = [], response, list, errors = [], notImplemented } = options;
  const { location, headers = {}, unsupportedQuery = {} } = options;
  const queryNames = Object.keys(unsupportedQuery);
  const sentHeaders = {
    ...headers,
    ...(location !== undefined && { Location: toLocation(location) }),
  };
  const described: [status: unknown, description?: string][] = Array.isArray(errors)
    ? errors.map((error: ErrorStatus) => [error])
    : Object.entries(errors);
  if (notImplemented === true) described.push([501]);
  return applyDecorators(
    ApiOperation({ operationId, summary, description, tags: tags && [...tags], deprecated }),
    HttpCode(status),
    ...described.map(([error, text]) =>
      ApiResponse({ status: error as ErrorStatus, description: text }),
    ),
    ...Object.entries(unsupportedQuery).map(([name, { description: text, ...schema }]) => {
      const texts = [text, UNSUPPORTED].filter((each) => each !== undefined);
      const documented = { name, required: false, schema: toDocument(schema) };
      return ApiQuery({ ...documented, description: texts.join('\n\n') });
    }),
    ...(queryNames.length > 0 ? [UseInterceptors(createRefusal(queryNames))] : []),
    ...(response === undefined
      ? []
      : [ApiSuccess({ status, description: response, ...toBody(returns, contentTypes) })]),
    ...(contentTypes.length > 0 ? [ApiProduces(...contentTypes)] : []),
    // The handler chooses one of several types, such as that of a `StreamableFile`.
    ...(contentTypes.length === 1 ? [Header('Content-Type', contentTypes[0]!)] : []),
    ApiResponseHeaders({
      ...(list !== undefined && { ETag: ETAG }),
      ...(list === 'pages' && { Link: LINK }),
      ...Object.fromEntries(
        Object.entries(sentHeaders).map(([name, { value: _value, ...documented }]) => [
          name,
          documented,
        ]),
      ),
    }),
    ...(Object.keys(sentHeaders).length > 0
      ? [SendHeaders(sentHeaders, Object.keys(headers))]
      : []),
  );
}

/** Documents the successful response with the headers that any decorator declares. */
const ApiSuccess =
  (options: ApiResponseOptions): MethodDecorator =>
  (...target) =>
    ApiResponse({ ...options, headers: getResponseHeaders(target[2].value as object) })(...target);

/** The property in braces of a location. */
const PROPERTY = /\{([^}]+)\}/;

const toLocation = (location: string): HeaderOptions => ({
  description: 'The URL of the resource, relative to the URL of this request.',
  schema: {
    type: 'string',
    format: 'uri-reference',
    maxLength: 100,
    example: location.replace(PROPERTY, '1'),
  },
  value: (body) =>
    location.replace(PROPERTY, (_match, path: string) =>
      encodeURIComponent(String(path.split('.').reduce(getProperty, body))),
    ),
});

const getProperty = (value: unknown, name: string): unknown =>
  (value as Record<string, unknown>)[name];

/** What a header cannot contain as it is (RFC 9110, section 5.5). */
const NOT_ASCII = /[^\x20-\x7e]+/g;

const EXPOSED = 'Access-Control-Expose-Headers';

/** @param exposed what pages of other origins may read besides the headers of the platform */
function SendHeaders(
  headers: NonNullable<OperationOptions['headers']>,
  exposed: readonly string[],
): MethodDecorator {
  const interceptor: NestInterceptor<unknown> = {
    intercept(context, next) {
      const response = context.switchToHttp().getResponse<Response>();
      const names = response.getHeader(EXPOSED);
      if (names !== undefined) response.setHeader(EXPOSED, [names, ...exposed].join(','));
      return next.handle().pipe(
        tap((body) => {
          for (const [header, { value }] of Object.entries(headers)) {
            const text = value?.(body);
            if (text === undefined) continue;
            const encoded = String(text).toWellFormed().replaceAll(NOT_ASCII, encodeURIComponent);
            response.setHeader(header, encoded);
          }
        }),
      );
    },
  };
  // The body of a `Versioned`, which the interceptor of `@ReturnsEtag` takes out of it.
  return UseInnermostInterceptor(interceptor, 1);
}

function toBody(returns: OperationOptions['returns'], contentTypes: readonly string[]): object {
  if (typeof returns === 'function' || Array.isArray(returns)) return { type: returns };
  if (returns !== undefined) return { schema: toDocument(returns as Schema) };
  return contentTypes.length > 0 ? { schema: { type: 'string', format: 'binary' } } : {};
}
