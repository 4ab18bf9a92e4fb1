import { applyDecorators, type Type } from '@nestjs/common';
import { ApiConsumes, ApiOperation, ApiResponse } from '@nestjs/swagger';
import { ApiError } from '../errors/api-error.js';
import { MERGE_PATCH_CONTENT_TYPE } from '../http/body/accepted-body.js';
import { ErrorBody } from '../http/responses/error-body.dto.js';
import { ApiResponseHeaders } from '../http/responses/response-headers.js';

/** What the OpenAPI document says about an operation, besides the standard responses. */
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

/** Documents an operation and its successful response. */
function describeOperation(
  { operationId, summary, description, response, unique = [] }: OperationDocs,
  status: number,
  type: Type | [Type] | undefined,
  ...decorators: MethodDecorator[]
): MethodDecorator {
  const same = `Another resource has the same ${unique.join(' or ')}.`;
  return applyDecorators(
    ApiOperation({ operationId, summary, description }),
    ApiResponse({ status, ...(type && { type }), description: response }),
    ...(unique.length > 0 ? [ApiResponse({ status: 409, description: same })] : []),
    ...decorators,
  );
}

const ApiMissingResponse = (): MethodDecorator =>
  ApiResponse({ status: 404, description: 'No resource has this id.' });

const ApiInvalidResponse = ({ invalid }: StoreOperationDocs): MethodDecorator =>
  ApiResponse({
    status: 400,
    type: ErrorBody,
    description: 'Required fields are missing or values are invalid.',
    example: new ApiError('VALIDATION_FAILED', invalid).body,
  });

/**
 * Documents an operation that returns a `CachedJsonResponse`.
 *
 * @param docs.pages whether the list has pages, which `PageParams` selects
 */
export function ApiListOperation(
  type: Type,
  docs: OperationDocs & { readonly pages?: boolean },
): MethodDecorator {
  const invalid = ApiResponse({ status: 400, description: 'A parameter is invalid.' });
  const errors = docs.pages === true ? [invalid] : [];
  return describeOperation(docs, 200, [type], ApiListHeaders(docs), ...errors);
}

/** Documents the headers and the 304 of a list, if its operation declares the rest itself. */
export function ApiListHeaders({ pages = false } = {}): MethodDecorator {
  const example = '"47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"';
  const ETag = {
    description: 'Identifies this version of the list.',
    schema: { type: 'string', pattern: '^"[^"]+"$', maxLength: 100, example },
  };
  const Link = {
    description:
      'The URL of the next page, relative to the URL of this request (RFC 8288). Missing on the last page.',
    schema: { type: 'string', maxLength: 20_000, example: '<?limit=20&after=20>; rel="next"' },
  };
  return applyDecorators(
    ApiResponseHeaders({ ETag, ...(pages && { Link }) }),
    ApiResponse({
      status: 304,
      description: 'Not modified: the list still matches If-None-Match.',
    }),
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
  const { location: example } = docs;
  const Location = {
    description: 'The URL of the resource, relative to the URL of this request.',
    schema: { type: 'string', format: 'uri-reference', maxLength: 100, example },
  };
  return describeOperation(
    docs,
    201,
    type,
    ApiInvalidResponse(docs),
    ApiResponseHeaders(example === undefined ? {} : { Location }),
  );
}

/** Documents an operation that returns a single resource. */
export function ApiReadOperation(type: Type, docs: OperationDocs): MethodDecorator {
  return describeOperation(docs, 200, type, ApiMissingResponse());
}

/** Documents an operation that replaces a resource. */
export function ApiReplaceOperation(type: Type, docs: StoreOperationDocs): MethodDecorator {
  return describeOperation(docs, 200, type, ApiInvalidResponse(docs), ApiMissingResponse());
}

/** Documents an operation that applies a JSON merge patch (RFC 7396) to a resource. */
export function ApiPatchOperation(type: Type, docs: OperationDocs): MethodDecorator {
  return describeOperation(
    docs,
    200,
    type,
    ApiConsumes(MERGE_PATCH_CONTENT_TYPE, 'application/json'),
    ApiResponse({ status: 400, description: 'Values are invalid.' }),
    ApiMissingResponse(),
  );
}

/** Documents an operation that deletes a resource, unless another one refers to it. */
export function ApiDeleteOperation(docs: OperationDocs): MethodDecorator {
  return describeOperation(
    docs,
    204,
    undefined,
    ApiMissingResponse(),
    ApiResponse({ status: 409, description: 'Another resource refers to it.' }),
  );
}
