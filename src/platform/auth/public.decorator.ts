import { applyDecorators, SetMetadata } from '@nestjs/common';
import { ApiExtension } from '@nestjs/swagger';

const PUBLIC = 'petstore:public';

/** The extension that marks a public operation for `createDocument`, which removes it. */
export const PUBLIC_EXTENSION = 'x-public';

/**
 * Declares that a route needs no API key. The OpenAPI document lists an operation with `security: []`
 * and without the 401 of a missing key. No operation of the published interface is public.
 */
export function Public(): MethodDecorator {
  return applyDecorators(SetMetadata(PUBLIC, true), ApiExtension(PUBLIC_EXTENSION, true));
}

/** Whether a handler is declared public. */
export function isPublic(handler: object): boolean {
  return Reflect.hasMetadata(PUBLIC, handler);
}
