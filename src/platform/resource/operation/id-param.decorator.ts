import { ApiParam } from '@nestjs/swagger';
import { MAX_ID } from '../../config/max-id.js';
import { ApiError } from '../../errors/api-error.js';
import { RequestParam } from '../../http/request-param.js';
import { toDocument } from '../../validation/property.js';
import type { Schema } from '../../validation/schema.js';
import { findProblems, parseParameter } from '../../validation/schema-rules.js';

/** The schemas of the types of ids. */
const SCHEMAS = {
  integer: { type: 'integer', format: 'int64', minimum: 1, maximum: MAX_ID, example: 1 },
  uuid: { type: 'string', format: 'uuid' },
  text: { type: 'string', minLength: 1, example: 'rex' },
} as const satisfies Record<string, Schema>;

/**
 * Passes the id in the path to a handler, as a number or a string, and declares it in the OpenAPI document.
 *
 * @param options.type the type of the entity's `IdColumn`, by default integer
 * @param options.schema the published schema, if it is not that of the type
 * @throws {ApiError} NOT_FOUND if the path segment cannot be an id
 */
export function IdParam(
  name: string,
  options: {
    readonly type?: keyof typeof SCHEMAS;
    readonly description?: string;
    readonly schema?: Schema;
  } = {},
): ParameterDecorator {
  const { type = 'integer', description = 'The id that the service assigned.' } = options;
  const schema = SCHEMAS[type];
  return RequestParam(
    ({ params }) => {
      const text = String(params[name]);
      const id = parseParameter(schema, text);
      // The service writes an integer in one way, for example without a leading zero.
      if (String(id) !== text || findProblems(schema, id).length > 0)
        throw new ApiError('NOT_FOUND', 'Resource not found.');
      return type === 'uuid' ? text.toLowerCase() : id;
    },
    ApiParam({ name, description, schema: toDocument(options.schema ?? schema) }),
  );
}
