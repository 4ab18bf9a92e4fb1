import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';

/**
 * Creates a parameter decorator that passes a value of the request to a handler.
 *
 * @param decorators applied to the method, to document the value in the OpenAPI document
 */
export function RequestParam(
  getValue: (request: Request, context: ExecutionContext) => unknown,
  ...decorators: readonly MethodDecorator[]
): ParameterDecorator {
  const decorateParameter = createParamDecorator((_data, context: ExecutionContext) =>
    getValue(context.switchToHttp().getRequest<Request>(), context),
  )();
  return (target, method, index) => {
    decorateParameter(target, method, index);
    const handler = Object.getOwnPropertyDescriptor(target, method!)!;
    for (const decorate of decorators) decorate(target, method!, handler);
  };
}
