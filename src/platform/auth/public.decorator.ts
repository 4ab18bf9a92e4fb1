import { applyDecorators } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ApiExtension } from '@nestjs/swagger';

export const IsPublic = Reflector.createDecorator<true>();

/** The extension that marks a public operation for `createDocument`, which removes it. */
export const PUBLIC_EXTENSION = 'x-public';

/**
 * Declares that a route needs no API key. The OpenAPI document lists an operation with `security: []`
 * and without the 401 of a missing key. No operation of the published interface is public.
 */
export function Public(): MethodDecorator {
  return applyDecorators(IsPublic(true), ApiExtension(PUBLIC_EXTENSION, true));
}
