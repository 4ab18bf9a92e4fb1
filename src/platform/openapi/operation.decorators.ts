import { applyDecorators, type Type } from '@nestjs/common';
import {
  ApiBadRequestResponse,
  ApiConflictResponse,
  ApiConsumes,
  ApiCreatedResponse,
  ApiNoContentResponse,
  ApiNotFoundResponse,
  ApiNotModifiedResponse,
  ApiOkResponse,
  ApiOperation,
} from '@nestjs/swagger';
import { ApiError } from '../errors/api-error.js';
import { MERGE_PATCH_CONTENT_TYPE } from '../http/body/accepted-body.js';
import { ErrorBody } from '../http/responses/error-body.dto.js';
import { ApiResponseHeaders, type ResponseHeader } from '../http/responses/response-headers.js';

/** What the OpenAPI document says about an operation. */
export interface OperationDocs {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  /** The description of the successful response. */
  readonly response: string;
}

/** Documents the 409 of an operation that stores a resource. */
function ApiUniqueResponse(unique: readonly string[] | undefined): MethodDecorator[] {
  if (unique === undefined) return [];
  const description = `Another resource has the same ${unique.join(' or ')}.`;
  return [ApiConflictResponse({ type: ErrorBody, description })];
}

/** Documents the 400 of an operation whose body is a whole resource, with an example of its message. */
function ApiInvalidResponse(message: string): MethodDecorator {
  return ApiBadRequestResponse({
    type: ErrorBody,
    description: 'Required fields are missing or values are invalid.',
    example: new ApiError('VALIDATION_FAILED', message).body,
  });
}

/** Documents an operation that returns a list with an ETag. */
export function ApiListOperation(
  type: Type,
  { response, ...docs }: OperationDocs,
): MethodDecorator {
  return applyDecorators(
    ApiOperation(docs),
    ApiOkResponse({
      type: [type],
      description: response,
      headers: {
        ETag: {
          schema: {
            type: 'string',
            pattern: '^"[^"]+"$',
            maxLength: 100,
            example: '"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"',
          },
          description: 'Identifies this version of the list.',
        },
      },
    }),
    ApiNotModifiedResponse({ description: 'Not modified: the list still matches If-None-Match.' }),
  );
}

const toTextHeader = (description: string, maxLength: number): ResponseHeader => ({
  description,
  schema: { type: 'string', maxLength },
});

/**
 * Documents the headers and the 304 of an operation that sends a `CachedJsonResponse`, and declares the rest
 * itself.
 *
 * @param options.pages whether the list has pages
 */
export function ApiListHeaders({ pages = false } = {}): MethodDecorator {
  return applyDecorators(
    ApiResponseHeaders({
      ETag: toTextHeader('Identifies this version of the list.', 100),
      ...(pages && {
        Link: toTextHeader(
          'The URL of the next page, relative to the URL of this request (RFC 8288). Missing on the last page.',
          20_000,
        ),
      }),
    }),
    ApiNotModifiedResponse({ description: 'Not modified: the list still matches If-None-Match.' }),
  );
}

/**
 * Documents an operation that creates a resource.
 *
 * @param docs.location an example of the `Location` header, if the resource can be read
 * @param docs.invalid an example of the message of a 400
 * @param docs.unique the properties that no two resources may share, if there are any
 */
export function ApiCreateOperation(
  type: Type,
  {
    response,
    location,
    invalid,
    unique,
    ...docs
  }: OperationDocs & { location?: string; invalid: string; unique?: readonly string[] },
): MethodDecorator {
  return applyDecorators(
    ApiOperation(docs),
    ApiCreatedResponse({
      type,
      description: response,
      ...(location !== undefined && {
        headers: {
          Location: {
            description: 'The URL of the resource, relative to the URL of this request.',
            schema: { type: 'string', format: 'uri-reference', maxLength: 100, example: location },
          },
        },
      }),
    }),
    ApiInvalidResponse(invalid),
    ...ApiUniqueResponse(unique),
  );
}

/** Documents an operation that returns a single resource. */
export function ApiReadOperation(
  type: Type,
  { response, ...docs }: OperationDocs,
): MethodDecorator {
  return applyDecorators(
    ApiOperation(docs),
    ApiOkResponse({ type, description: response }),
    ApiNotFoundResponse({ type: ErrorBody, description: 'No resource has this id.' }),
  );
}

/**
 * Documents an operation that replaces a resource.
 *
 * @param docs.invalid an example of the message of a 400
 * @param docs.unique the properties that no two resources may share, if there are any
 */
export function ApiReplaceOperation(
  type: Type,
  {
    response,
    invalid,
    unique,
    ...docs
  }: OperationDocs & { invalid: string; unique?: readonly string[] },
): MethodDecorator {
  return applyDecorators(
    ApiOperation(docs),
    ApiOkResponse({ type, description: response }),
    ApiInvalidResponse(invalid),
    ApiNotFoundResponse({ type: ErrorBody, description: 'No resource has this id.' }),
    ...ApiUniqueResponse(unique),
  );
}

/**
 * Documents an operation that applies a JSON merge patch (RFC 7396) to a resource.
 *
 * @param docs.unique the properties that no two resources may share, if there are any
 */
export function ApiPatchOperation(
  type: Type,
  { response, unique, ...docs }: OperationDocs & { unique?: readonly string[] },
): MethodDecorator {
  return applyDecorators(
    ApiOperation(docs),
    ApiConsumes(MERGE_PATCH_CONTENT_TYPE, 'application/json'),
    ApiOkResponse({ type, description: response }),
    ApiBadRequestResponse({ type: ErrorBody, description: 'Values are invalid.' }),
    ApiNotFoundResponse({ type: ErrorBody, description: 'No resource has this id.' }),
    ...ApiUniqueResponse(unique),
  );
}

/** Documents an operation that deletes a resource, unless another one refers to it. */
export function ApiDeleteOperation({ response, ...docs }: OperationDocs): MethodDecorator {
  return applyDecorators(
    ApiOperation(docs),
    ApiNoContentResponse({ description: response }),
    ApiNotFoundResponse({ type: ErrorBody, description: 'No resource has this id.' }),
    ApiConflictResponse({ type: ErrorBody, description: 'Another resource refers to it.' }),
  );
}
