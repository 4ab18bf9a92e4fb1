import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { ApiParam } from '@nestjs/swagger';
import type { Request } from 'express';
import { MAX_ID } from '../config/max-id.js';
import { ApiError } from '../errors/api-error.js';
import { withMethodDecorators } from '../http/with-method-decorators.js';

/** The form in which the service writes an id: no sign, leading zero or exponent. */
const ID = /^[1-9]\d{0,15}$/;

const parseIdParam = createParamDecorator((name: string, context: ExecutionContext): number => {
  const text = String(context.switchToHttp().getRequest<Request>().params[name]);
  const id = ID.test(text) ? Number(text) : Infinity;
  if (id > MAX_ID) throw new ApiError('NOT_FOUND', 'Resource not found.');
  return id;
});

/**
 * Passes the id in the path to a handler, as a number, and declares it in the OpenAPI document.
 *
 * @param docs what the OpenAPI document says about it
 * @throws {ApiError} NOT_FOUND if the path segment cannot be an id
 */
export function IdParam(
  name: string,
  { description = 'The id that the service assigned.', example = 1 } = {},
): ParameterDecorator {
  return withMethodDecorators(
    parseIdParam(name),
    ApiParam({
      name,
      description,
      schema: { type: 'integer', format: 'int64', minimum: 1, maximum: MAX_ID, example },
    }),
  );
}
