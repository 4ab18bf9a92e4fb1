import { ApiBody, ApiConsumes } from '@nestjs/swagger';
import { MERGE_PATCH_CONTENT_TYPE } from '../../http/body/accepted-body.js';
import { RequestParam } from '../../http/request-param.js';
import { toDocument } from '../../validation/property.js';
import type { Schema } from '../../validation/schema.js';
import { validateJson } from '../../validation/validation.pipe.js';

/** What differs from a body that is declared with `@Body`. */
export interface JsonBodyOptions {
  readonly description?: string;
  /** If it is false, the handler gets undefined for a request without a body. */
  readonly required?: boolean;
  /** Whether the body of a PATCH is a JSON merge patch (RFC 7396): its media type is documented, too. */
  readonly mergePatch?: boolean;
}

/**
 * Gives a handler a body that `@Body` cannot describe, such as an array of DTOs, and declares it in the OpenAPI
 * document.
 *
 * @throws {ApiError} VALIDATION_FAILED if it is invalid
 */
export function JsonBody(
  schema: Schema,
  { description, required = true, mergePatch = false }: JsonBodyOptions = {},
): ParameterDecorator {
  return RequestParam(
    ({ body }) => (body === undefined && !required ? undefined : validateJson(schema, body)),
    ApiBody({ description, required, schema: toDocument(schema) }),
    ...(mergePatch ? [ApiConsumes(MERGE_PATCH_CONTENT_TYPE, 'application/json')] : []),
  );
}
