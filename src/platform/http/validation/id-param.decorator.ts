import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { ApiParam } from '@nestjs/swagger';
import type { Request } from 'express';
import { MAX_ID } from '../../database/columns.js';
import { ApiError } from '../../errors/api-error.js';

/** An id as the service writes it: no sign, no leading zero, no exponent. */
const ID = /^[1-9]\d{0,15}$/;

const parseIdParam = createParamDecorator((name: string, context: ExecutionContext): number => {
  const text = String(context.switchToHttp().getRequest<Request>().params[name]);
  const id = ID.test(text) ? Number(text) : Infinity;
  if (id > MAX_ID) throw new ApiError('NOT_FOUND', 'There is no resource with this id.');
  return id;
});

/**
 * Gives a handler the id in its path, as a number, and declares it in the OpenAPI document.
 *
 * @throws {ApiError} NOT_FOUND for what can be no id
 */
export function IdParam(name: string): ParameterDecorator {
  return (target, method, index) => {
    parseIdParam(name)(target, method, index);
    const handler = Object.getOwnPropertyDescriptor(target, method!)!;
    ApiParam({
      name,
      description: 'The id that the service assigned.',
      schema: { type: 'integer', format: 'int64', minimum: 1, maximum: MAX_ID, example: 1 },
    })(target, method!, handler);
  };
}
