import { type NestInterceptor, UseInterceptors } from '@nestjs/common';
// Nest has no public name for the metadata of `UseInterceptors`.
import { INTERCEPTORS_METADATA } from '@nestjs/common/constants.js';

const innermost = new WeakSet<object>();

/** Adds an interceptor that gets what the handler returns, wherever the decorator is; see {@link moveInnermost}. */
export function UseInnermostInterceptor(interceptor: NestInterceptor): MethodDecorator {
  innermost.add(interceptor);
  return UseInterceptors(interceptor);
}

/** Moves the interceptors of {@link UseInnermostInterceptor} behind the others of a handler, such as one that wraps results. */
export function moveInnermost(handler: object): void {
  const interceptors = (Reflect.getMetadata(INTERCEPTORS_METADATA, handler) ?? []) as object[];
  const sorted = interceptors.toSorted(
    (a, b) => Number(innermost.has(a)) - Number(innermost.has(b)),
  );
  Reflect.defineMetadata(INTERCEPTORS_METADATA, sorted, handler);
}
