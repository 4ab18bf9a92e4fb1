import {
  applyDecorators,
  HttpCode,
  type NestInterceptor,
  type Type,
  UseInterceptors,
} from '@nestjs/common';
import { ApiOperation, ApiProduces, ApiResponse, type ApiResponseOptions } from '@nestjs/swagger';
import type { Response } from 'express';
import { tap } from 'rxjs';
import { ApiResponseHeaders, getResponseHeaders } from '../../http/responses/response-headers.js';
import { toDocument } from '../../validation/property.js';
import type { Schema } from '../../validation/schema.js';
import { isVersioned } from './versioned.js';

type ErrorStatus = number | 'default';

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
  /** Whether it returns a `CachedJsonResponse`, of all rows or of a page. */
  readonly list?: 'whole' | 'pages';
  /**
   * The URL of the created resource, for the `Location` header: relative to the URL of the request (RFC 9110, section
   * 10.2.2), so that it is valid behind a proxy that adds a path prefix, and with a property of the resource in braces,
   * such as `pets/{id}` for `POST /v1/pets`, or `pets/{data.id}` if the response has the resource in `data`.
   */
  readonly location?: string;
  /** The statuses of its own errors, or their descriptions if the usual ones do not fit. */
  readonly errors?: readonly ErrorStatus[] | Readonly<Partial<Record<ErrorStatus, string>>>;
  /** Whether it returns 501. */
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
  const { location } = options;
  const descriptions: ApiResponseOptions[] = [
    ...(Array.isArray(errors)
      ? errors.map((error: ErrorStatus) => ({ status: error, description: '' }))
      : Object.entries(errors).map(([error, text]) => ({ status: error, description: text }))),
    ...(notImplemented === true ? [{ status: 501, description: '' }] : []),
  ] as ApiResponseOptions[];
  return applyDecorators(
    ApiOperation({ operationId, summary, description, tags: tags && [...tags], deprecated }),
    HttpCode(status),
    ...descriptions.map((each) => ApiResponse(each)),
    ...(response === undefined
      ? []
      : [ApiSuccess({ status, description: response, ...toBody(returns, contentTypes) })]),
    ...(contentTypes.length > 0 ? [ApiProduces(...contentTypes)] : []),
    ApiResponseHeaders({
      ...(list !== undefined && { ETag: ETAG }),
      ...(list === 'pages' && { Link: LINK }),
      ...(location !== undefined && { Location: toHeader(location) }),
    }),
    ...(location === undefined ? [] : [UseInterceptors(createLocationInterceptor(location))]),
  );
}

/** Documents the successful response with the headers that any decorator declares. */
const ApiSuccess =
  (options: ApiResponseOptions): MethodDecorator =>
  (target, name, descriptor) =>
    ApiResponse({ ...options, headers: getResponseHeaders(descriptor.value as object) })(
      target,
      name,
      descriptor,
    );

/** The property in braces of a location. */
const PROPERTY = /\{([^}]+)\}/;

const toHeader = (location: string) => ({
  description: 'The URL of the resource, relative to the URL of this request.',
  schema: {
    type: 'string',
    format: 'uri-reference',
    maxLength: 100,
    example: location.replace(PROPERTY, '1'),
  },
});

const getProperty = (value: unknown, name: string): unknown =>
  (value as Record<string, unknown>)[name];

const createLocationInterceptor = (location: string): NestInterceptor<object> => ({
  intercept: (context, next) =>
    next.handle().pipe(
      tap((created) => {
        const body: unknown = isVersioned(created) ? created.body : created;
        const fill = (_match: string, path: string): string =>
          encodeURIComponent(String(path.split('.').reduce(getProperty, body)));
        const response = context.switchToHttp().getResponse<Response>();
        response.location(location.replace(PROPERTY, fill));
      }),
    ),
});

function toBody(returns: OperationOptions['returns'], contentTypes: readonly string[]): object {
  if (typeof returns === 'function' || Array.isArray(returns)) return { type: returns };
  if (returns !== undefined) return { schema: toDocument(returns as Schema) };
  return contentTypes.length > 0 ? { schema: { type: 'string', format: 'binary' } } : {};
}
