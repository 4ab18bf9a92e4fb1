import { type NestInterceptor, UseInterceptors } from '@nestjs/common';
// Nest has no public name for the metadata of `UseInterceptors`.
import { INTERCEPTORS_METADATA } from '@nestjs/common/constants.js';

/** The ranks of innermost interceptors. */
const ranks = new WeakMap<object, number>();

const getRank = (interceptor: object): number => ranks.get(interceptor) ?? 0;

/**
 * Adds an interceptor that gets what the handler returns, wherever the decorator is; see {@link moveInnermost}.
 *
 * @param rank of two such interceptors, the one with the lower rank gets what the other one returns
 */
export function UseInnermostInterceptor(
  interceptor: NestInterceptor,
  rank: number,
): MethodDecorator {
  ranks.set(interceptor, rank);
  return UseInterceptors(interceptor);
}

/** Moves the interceptors of {@link UseInnermostInterceptor} behind the others of a handler, such as one that wraps results. */
export function moveInnermost(handler: object): void {
  const interceptors = (Reflect.getMetadata(INTERCEPTORS_METADATA, handler) ?? []) as object[];
  const sorted = interceptors.toSorted((a, b) => getRank(a) - getRank(b));
  Reflect.defineMetadata(INTERCEPTORS_METADATA, sorted, handler);
}
