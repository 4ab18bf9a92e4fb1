import { applyDecorators, SetMetadata } from '@nestjs/common';
import { ApiExtension } from '@nestjs/swagger';

/** A date in UTC, as `YYYY-MM-DD`. */
export type IsoDate = `${number}-${number}-${number}`;

/** The dates of a deprecated operation, in milliseconds since 1970. */
export interface Deprecation {
  readonly deprecatedAt: number;
  readonly sunsetAt: number | undefined;
}

const DEPRECATION = 'petstore:deprecation';

/**
 * Marks an operation as deprecated since a date and, if it is known, as removed from another date, from which it
 * responds with 410. It sets the OpenAPI document and the `Deprecation` and `Sunset` headers.
 *
 * @throws {RangeError} at startup, if a date does not exist or the sunset is not after `since`
 */
export function Deprecated(dates: { since: IsoDate; sunset?: IsoDate }): MethodDecorator {
  const { since, sunset } = dates;
  const deprecatedAt = parseUtcDate(since);
  const sunsetAt = sunset === undefined ? undefined : parseUtcDate(sunset);
  if (sunsetAt !== undefined && sunsetAt <= deprecatedAt)
    throw new RangeError(`The sunset ${sunset} must be later than the deprecation ${since}`);
  return applyDecorators(
    SetMetadata(DEPRECATION, { deprecatedAt, sunsetAt } satisfies Deprecation),
    ApiExtension('x-deprecated-since', since),
    ...(sunset === undefined ? [] : [ApiExtension('x-sunset', sunset)]),
  );
}

/** Marks an operation as subject to change in the OpenAPI document. */
export function Stability(stability: 'experimental' | 'beta'): MethodDecorator {
  return ApiExtension('x-stability', stability);
}

/** Returns the deprecation of an operation, if it is deprecated. */
export function getDeprecation(handler: object): Deprecation | undefined {
  return Reflect.getMetadata(DEPRECATION, handler) as Deprecation | undefined;
}

/** Returns the start of a date in milliseconds since 1970. */
function parseUtcDate(date: string): number {
  const start = new Date(`${date}T00:00:00Z`);
  // Date accepts 30 February and rolls over to March.
  if (Number.isNaN(start.getTime()) || start.toISOString().slice(0, 10) !== date)
    throw new RangeError(`${date} is not a valid date`);
  return start.getTime();
}
