import { ApiBody, ApiResponse } from '@nestjs/swagger';
import { RequestParam } from '../http/request-param.js';
import { toDocument } from './property.js';
import type { Schema } from './schema.js';
import { validateJson } from './validation.pipe.js';

/**
 * Passes a body that is not an object to a handler, such as an array of DTOs, and declares it in the OpenAPI document.
 *
 * @throws {ApiError} VALIDATION_FAILED if it is invalid
 */
export function JsonBody(schema: Schema): ParameterDecorator {
  const document = { required: true, schema: toDocument(schema) };
  return RequestParam(
    ({ body }) => validateJson(schema, body),
    ApiBody(document),
    ApiResponse({ status: 400, description: 'Values are missing or invalid.' }),
  );
}
