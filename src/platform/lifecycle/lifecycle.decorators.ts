import { applyDecorators, SetMetadata } from '@nestjs/common';
import { ApiExtension } from '@nestjs/swagger';

/** A date in UTC, as `YYYY-MM-DD`. */
export type IsoDate = `${number}-${number}-${number}`;

/** The deprecation of an operation, in the form in which it is sent to clients. */
export interface Deprecation {
  /** The value of the `Deprecation` header (RFC 9745): `@` and seconds since 1970. */
  readonly deprecation: string;
  /** The sunset in milliseconds since 1970; Infinity if there is no date. */
  readonly sunsetAt: number;
  /** The value of the `Sunset` header (RFC 8594): an HTTP date. */
  readonly sunset: string | undefined;
}

export type Stability = 'experimental' | 'beta';

const DEPRECATION = 'petstore:deprecation';

/**
 * Marks an operation as deprecated since a date and, if it is known, as removed from another date,
 * from which it responds with 410. It sets the OpenAPI document and the `Deprecation` and `Sunset`
 * headers.
 *
 * @throws {RangeError} at startup, if a date does not exist or the sunset is not after `since`
 */
export function Deprecated({
  since,
  sunset,
}: {
  since: IsoDate;
  sunset?: IsoDate;
}): MethodDecorator {
  const deprecatedAt = parseUtcDate(since);
  const sunsetAt = sunset === undefined ? Infinity : parseUtcDate(sunset);
  if (sunsetAt <= deprecatedAt) {
    throw new RangeError(`The sunset ${sunset} must be later than the deprecation ${since}`);
  }
  const deprecation: Deprecation = {
    deprecation: `@${deprecatedAt / 1000}`,
    sunsetAt,
    sunset: sunset && new Date(sunsetAt).toUTCString(),
  };
  return applyDecorators(
    SetMetadata(DEPRECATION, deprecation),
    ApiExtension('x-deprecated-since', since),
    ...(sunset === undefined ? [] : [ApiExtension('x-sunset', sunset)]),
  );
}

/** Marks an operation as subject to change in the OpenAPI document. */
export function Stability(stability: Stability): MethodDecorator {
  return applyDecorators(ApiExtension('x-stability', stability));
}

/** Returns the deprecation of an operation, if it is deprecated. */
export function getDeprecation(handler: object): Deprecation | undefined {
  return Reflect.getMetadata(DEPRECATION, handler) as Deprecation | undefined;
}

/** Returns the start of a date in milliseconds since 1970. */
function parseUtcDate(date: string): number {
  const start = new Date(`${date}T00:00:00Z`);
  // Date accepts 30 February and rolls over to March.
  if (Number.isNaN(start.getTime()) || start.toISOString().slice(0, 10) !== date) {
    throw new RangeError(`${date} is not a valid date`);
  }
  return start.getTime();
}
