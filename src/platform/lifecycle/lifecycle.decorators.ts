import { applyDecorators, SetMetadata } from '@nestjs/common';
import { ApiExtension } from '@nestjs/swagger';

/** A day in UTC, as `YYYY-MM-DD`. */
export type IsoDate = `${number}-${number}-${number}`;

/** What clients are told of an operation that goes away. */
export interface Deprecation {
  /** The value of the `Deprecation` header (RFC 9745): `@` and seconds since 1970. */
  readonly deprecation: string;
  /** Milliseconds since 1970 at which the operation ends; Infinity where no date is set. */
  readonly sunsetAt: number;
  /** The value of the `Sunset` header (RFC 8594): an HTTP date. */
  readonly sunset: string | undefined;
}

export type Stability = 'experimental' | 'beta';

const DEPRECATION = 'petstore:deprecation';

/**
 * Declares that an operation is deprecated since the start of a day, and, where it is known, that it
 * ends with the start of another: from then on it answers 410. The document, the `Deprecation` and
 * `Sunset` headers and the 410 follow from this one line.
 *
 * @throws {RangeError} at start, where a date does not exist or the sunset is not after `since`
 */
export function Deprecated({
  since,
  sunset,
}: {
  since: IsoDate;
  sunset?: IsoDate;
}): MethodDecorator {
  const startsAt = parseUtcDate(since);
  const sunsetAt = sunset === undefined ? Infinity : parseUtcDate(sunset);
  if (sunsetAt <= startsAt) {
    throw new RangeError(`The sunset ${sunset} must be later than the deprecation ${since}`);
  }
  const deprecation: Deprecation = {
    deprecation: `@${startsAt / 1000}`,
    sunsetAt,
    sunset: sunset && new Date(sunsetAt).toUTCString(),
  };
  return applyDecorators(
    SetMetadata(DEPRECATION, deprecation),
    ApiExtension('x-deprecated-since', since),
    ...(sunset === undefined ? [] : [ApiExtension('x-sunset', sunset)]),
  );
}

/** Declares that an operation may still change: the document carries the marker. */
export function Stability(stability: Stability): MethodDecorator {
  return applyDecorators(ApiExtension('x-stability', stability));
}

export function getDeprecation(handler: object): Deprecation | undefined {
  return Reflect.getMetadata(DEPRECATION, handler) as Deprecation | undefined;
}

function parseUtcDate(day: string): number {
  const start = new Date(`${day}T00:00:00Z`);
  // A Date rolls 30 February over to March.
  if (Number.isNaN(start.getTime()) || start.toISOString().slice(0, 10) !== day) {
    throw new RangeError(`${day} is not a day of the calendar`);
  }
  return start.getTime();
}
