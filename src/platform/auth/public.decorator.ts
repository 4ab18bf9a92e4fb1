import { SetMetadata } from '@nestjs/common';
import { PATH_METADATA } from '@nestjs/common/constants.js';

const PUBLIC = 'petstore:public';

/** Declares that an operation needs no API key. Nothing of the published interface is public. */
export const Public = (): MethodDecorator => SetMetadata(PUBLIC, true);

/** Whether the operation is declared public. */
export function isPublic(handler: object): boolean {
  return Reflect.hasMetadata(PUBLIC, handler);
}

/**
 * Whether the `ApiKeyGuard` stands before a handler of the Express router: Nest copies the metadata
 * of a controller's method to it, which a handler that is not Nest's own, such as Swagger UI's, lacks.
 */
export function requiresApiKey(handler: object): boolean {
  return Reflect.hasMetadata(PATH_METADATA, handler) && !isPublic(handler);
}
