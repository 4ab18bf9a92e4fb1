import { applyDecorators } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ApiExtension } from '@nestjs/swagger';
import { isCalendarDate } from '../validation/scalar-violations.js';

/** A date in UTC, as `YYYY-MM-DD`. */
export type IsoDate = `${number}-${number}-${number}`;

/** The headers of a deprecated operation, and its sunset in milliseconds since 1970, or infinity without one. */
export const Deprecation = Reflector.createDecorator<{
  readonly headers: Map<string, string>;
  readonly sunsetAt: number;
}>();

/**
 * Marks an operation as deprecated since a date. From the date of its sunset on, if there is one, it returns 410. Both dates are
 * in the OpenAPI document and in the headers `Deprecation` and `Sunset`.
 *
 * @throws {RangeError} at startup, if a date does not exist or the sunset is not after `since`
 */
export function Deprecated(dates: { since: IsoDate; sunset?: IsoDate }): MethodDecorator {
  const { since, sunset } = dates;
  const deprecatedAt = parseUtcDate(since);
  const sunsetAt = sunset === undefined ? Infinity : parseUtcDate(sunset);
  if (sunsetAt <= deprecatedAt)
    throw new RangeError(`The sunset ${sunset} must be later than the deprecation ${since}`);
  const headers = new Map([['Deprecation', `@${deprecatedAt / 1000}`]]);
  if (sunset !== undefined) headers.set('Sunset', new Date(sunsetAt).toUTCString());
  return applyDecorators(
    Deprecation({ headers, sunsetAt }),
    ApiExtension('x-deprecated-since', since),
    ...(sunset === undefined ? [] : [ApiExtension('x-sunset', sunset)]),
  );
}

/** Marks an operation as subject to change in the OpenAPI document. */
export function Stability(stability: 'experimental' | 'beta'): MethodDecorator {
  return ApiExtension('x-stability', stability);
}

/** Returns the start of a date in milliseconds since 1970. */
function parseUtcDate(date: string): number {
  if (!isCalendarDate(date)) throw new RangeError(`${date} is not a valid date`);
  return Date.parse(date);
}
