import type { NestInterceptor } from '@nestjs/common';
import { INTERCEPTORS_METADATA } from '@nestjs/common/constants.js';

/**
 * Adds an interceptor to a method, around those that it has, such as that of `@IdempotencyKey`: it completes the responses
 * that they repeat, too. Nest's `UseInterceptors` adds it inside.
 */
export const OuterInterceptor =
  (interceptor: NestInterceptor<never>): MethodDecorator =>
  (_target, _name, { value: method }) => {
    const inner = (Reflect.getMetadata(INTERCEPTORS_METADATA, method as object) ?? []) as unknown[];
    Reflect.defineMetadata(INTERCEPTORS_METADATA, [interceptor, ...inner], method as object);
  };
