import { applyDecorators, SetMetadata } from '@nestjs/common';
import { ApiExtension } from '@nestjs/swagger';
import type { Scope } from './keys/api-key.entity.js';

const SCOPE = 'petstore:scope';

/** Declares the scope that an operation requires, also in the OpenAPI document, if its method implies another one. */
export const RequireScope = (scope: Scope): MethodDecorator =>
  applyDecorators(SetMetadata(SCOPE, scope), ApiExtension('x-required-scope', scope));

/** Returns the scope that an operation requires: GET and HEAD imply `read`, other methods `write`. */
export function getRequiredScope(handler: object, method: string): Scope {
  return (
    (Reflect.getMetadata(SCOPE, handler) as Scope | undefined) ??
    (method === 'GET' || method === 'HEAD' ? 'read' : 'write')
  );
}
