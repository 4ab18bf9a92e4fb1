import { ApiParam } from '@nestjs/swagger';
import { MAX_ID } from '../config/max-id.js';
import { ApiError } from '../errors/api-error.js';
import { RequestParam } from '../http/request-param.js';

/** The form in which the service writes an id: no sign, leading zero or exponent. */
const ID = /^[1-9]\d{0,15}$/;

/**
 * Passes the id in the path to a handler, as a number, and declares it in the OpenAPI document.
 *
 * @throws {ApiError} NOT_FOUND if the path segment cannot be an id
 */
export function IdParam(
  name: string,
  { description = 'The id that the service assigned.', example = 1 } = {},
): ParameterDecorator {
  return RequestParam(
    ({ params }) => {
      const text = String(params[name]);
      const id = ID.test(text) ? Number(text) : Infinity;
      if (id > MAX_ID) throw new ApiError('NOT_FOUND', 'Resource not found.');
      return id;
    },
    ApiParam({
      name,
      description,
      schema: { type: 'integer', format: 'int64', minimum: 1, maximum: MAX_ID, example },
    }),
  );
}
