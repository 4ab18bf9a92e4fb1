import { SetMetadata } from '@nestjs/common';
import type { Scope } from './keys/api-key.entity.js';

const SCOPE = 'petstore:scope';

/** Declares the scope that an operation requires, if it is not the one that its method implies. */
export const RequireScope = (scope: Scope): MethodDecorator => SetMetadata(SCOPE, scope);

/** Returns the scope that an operation requires: GET and HEAD imply `read`, other methods `write`. */
export function getRequiredScope(handler: object, method: string): Scope {
  return (
    (Reflect.getMetadata(SCOPE, handler) as Scope | undefined) ??
    (method === 'GET' || method === 'HEAD' ? 'read' : 'write')
  );
}
