import { applyDecorators } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ApiExtension } from '@nestjs/swagger';
import { refuseApiKeyId } from './api-key-id.decorator.js';

/** The options of a public route. */
export interface PublicOptions {
  /** Whether requests get 503 until the database is connected, which they do by default. */
  readonly needsDatabase?: boolean;
}

export const IsPublic = Reflector.createDecorator<PublicOptions>();

/** The extension that marks a public operation for `createDocument`, which removes it. */
export const PUBLIC_EXTENSION = 'x-public';

/**
 * Declares that a route needs no API key. The OpenAPI document lists an operation with `security: []`
 * and without the 401 of a missing key. No operation of the published interface is public.
 *
 * @throws {TypeError} if the handler has a parameter with `@ApiKeyId()`
 */
export function Public(options: PublicOptions = {}): MethodDecorator {
  return applyDecorators(IsPublic(options), ApiExtension(PUBLIC_EXTENSION, true), refuseApiKeyId);
}
