import { ApiParam } from '@nestjs/swagger';
import { MAX_ID } from '../config/max-id.js';
import { ApiError } from '../errors/api-error.js';
import { RequestParam } from '../http/request-param.js';
import { toDocument } from './property.js';
import type { Schema } from './schema.js';

/** An integer as the service writes it, without a sign, leading zero or exponent, and a UUID. */
const INTEGER = /^[1-9]\d{0,15}$/;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The types of ids: their schemas, and how the segment of a path becomes an id, or undefined if it cannot be one. */
const ID_TYPES = {
  integer: {
    schema: { type: 'integer', format: 'int64', minimum: 1, maximum: MAX_ID, example: 1 },
    parse: (text: string) =>
      INTEGER.test(text) && Number(text) <= MAX_ID ? Number(text) : undefined,
  },
  uuid: {
    schema: { type: 'string', format: 'uuid', example: '0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70' },
    parse: (text: string) => (UUID.test(text) ? text.toLowerCase() : undefined),
  },
  text: {
    schema: { type: 'string', minLength: 1, example: 'rex' },
    // PostgreSQL cannot store NUL.
    parse: (text: string) => (text.includes('\0') ? undefined : text),
  },
} as const;

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
    readonly type?: keyof typeof ID_TYPES;
    readonly description?: string;
    readonly example?: number | string;
    readonly schema?: Schema;
  } = {},
): ParameterDecorator {
  const { type = 'integer', description = 'The id that the service assigned.' } = options;
  const { schema, parse } = ID_TYPES[type];
  const published = options.schema === undefined ? schema : toDocument(options.schema);
  return RequestParam(
    ({ params }) => {
      const id = parse(String(params[name]));
      if (id === undefined) throw new ApiError('NOT_FOUND', 'Resource not found.');
      return id;
    },
    ApiParam({
      name,
      description,
      schema: { ...published, ...(options.example !== undefined && { example: options.example }) },
    }),
  );
}
