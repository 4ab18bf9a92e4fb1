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
import { ApiResponseHeaders } from '../http/responses/response-headers.js';
import { LIST_ETAG, LIST_LINK } from './page-params.decorator.js';

/** What the OpenAPI document says about an operation. */
interface OperationDocs {
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  /** The description of the successful response. */
  readonly response: string;
  /** The properties that no two resources may share: the operation may return 409. */
  readonly unique?: readonly string[];
}

/** What it says about an operation whose body is a whole resource. */
interface StoreOperationDocs extends OperationDocs {
  /** An example of the message of a 400. */
  readonly invalid: string;
}

/** Documents an operation. Standard responses are added to those of the decorators. */
function describeOperation(
  { operationId, summary, description, unique }: OperationDocs,
  ...decorators: MethodDecorator[]
): MethodDecorator {
  if (unique !== undefined) {
    const same = `Another resource has the same ${unique.join(' or ')}.`;
    decorators.push(ApiConflictResponse({ description: same }));
  }
  return applyDecorators(ApiOperation({ operationId, summary, description }), ...decorators);
}

const ApiInvalidResponse = ({ invalid }: StoreOperationDocs): MethodDecorator =>
  ApiBadRequestResponse({
    type: ErrorBody,
    description: 'Required fields are missing or values are invalid.',
    example: new ApiError('VALIDATION_FAILED', invalid).body,
  });

const ApiMissingResponse = (): MethodDecorator =>
  ApiNotFoundResponse({ description: 'No resource has this id.' });

const ApiUnchangedListResponse = (): MethodDecorator =>
  ApiNotModifiedResponse({ description: 'Not modified: the list still matches If-None-Match.' });

/** Documents an operation that returns a list with an ETag. */
export function ApiListOperation(type: Type, docs: OperationDocs): MethodDecorator {
  const example = '"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"';
  const schema = { type: 'string', pattern: '^"[^"]+"$', maxLength: 100, example } as const;
  return describeOperation(
    docs,
    ApiOkResponse({
      type: [type],
      description: docs.response,
      headers: { ETag: { schema, description: LIST_ETAG.description } },
    }),
    ApiUnchangedListResponse(),
  );
}

/**
 * Documents the headers and the 304 of an operation that returns a `CachedJsonResponse`, and declares the rest
 * itself.
 *
 * @param options.pages whether the list has pages
 */
export function ApiListHeaders({ pages = false } = {}): MethodDecorator {
  return applyDecorators(
    ApiResponseHeaders({ ETag: LIST_ETAG, ...(pages && { Link: LIST_LINK }) }),
    ApiUnchangedListResponse(),
  );
}

/**
 * Documents an operation that creates a resource.
 *
 * @param docs.location an example of the `Location` header, if the resource can be read
 */
export function ApiCreateOperation(
  type: Type,
  docs: StoreOperationDocs & { readonly location?: string },
): MethodDecorator {
  const Location = {
    description: 'The URL of the resource, relative to the URL of this request.',
    schema: { type: 'string', format: 'uri-reference', maxLength: 100, example: docs.location },
  } as const;
  return describeOperation(
    docs,
    ApiCreatedResponse({
      type,
      description: docs.response,
      ...(docs.location !== undefined && { headers: { Location } }),
    }),
    ApiInvalidResponse(docs),
  );
}

/** Documents an operation that returns a single resource. */
export function ApiReadOperation(type: Type, docs: OperationDocs): MethodDecorator {
  return describeOperation(
    docs,
    ApiOkResponse({ type, description: docs.response }),
    ApiMissingResponse(),
  );
}

/** Documents an operation that replaces a resource. */
export function ApiReplaceOperation(type: Type, docs: StoreOperationDocs): MethodDecorator {
  return describeOperation(
    docs,
    ApiOkResponse({ type, description: docs.response }),
    ApiInvalidResponse(docs),
    ApiMissingResponse(),
  );
}

/** Documents an operation that applies a JSON merge patch (RFC 7396) to a resource. */
export function ApiPatchOperation(type: Type, docs: OperationDocs): MethodDecorator {
  return describeOperation(
    docs,
    ApiConsumes(MERGE_PATCH_CONTENT_TYPE, 'application/json'),
    ApiOkResponse({ type, description: docs.response }),
    ApiBadRequestResponse({ description: 'Values are invalid.' }),
    ApiMissingResponse(),
  );
}

/** Documents an operation that deletes a resource, unless another one refers to it. */
export function ApiDeleteOperation(docs: OperationDocs): MethodDecorator {
  return describeOperation(
    docs,
    ApiNoContentResponse({ description: docs.response }),
    ApiMissingResponse(),
    ApiConflictResponse({ description: 'Another resource refers to it.' }),
  );
}
