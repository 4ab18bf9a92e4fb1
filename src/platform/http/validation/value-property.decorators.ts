/** Decorators for the properties of a DTO that are not strings; `StringProperty` declares those. */
import { MAX_ID } from '../../config/max-id.js';
import { Property, type PropertyOptions } from './property.decorator.js';

/** Declares an id that the service assigned: of the resource itself, or of one that it references. */
export function IdProperty(options: PropertyOptions): PropertyDecorator {
  return IntegerProperty({ ...options, minimum: 1, maximum: MAX_ID, example: 1 });
}

/** Declares an integer. Limits between -(2^53-1) and 2^53-1 are exact in JSON. */
export function IntegerProperty(
  options: PropertyOptions & {
    readonly minimum: number;
    readonly maximum: number;
    readonly example: number;
  },
): PropertyDecorator {
  const { minimum, maximum, example } = options;
  const fits32Bits = minimum >= -(2 ** 31) && maximum < 2 ** 31;
  return Property(
    options,
    { type: 'integer', format: fits32Bits ? 'int32' : 'int64', minimum, maximum, example },
    (value) =>
      Number.isInteger(value) && (value as number) >= minimum && (value as number) <= maximum
        ? undefined
        : `must be an integer from ${minimum} to ${maximum}`,
  );
}

/** Declares a 64-bit floating-point number. */
export function NumberProperty(
  options: PropertyOptions & { readonly example: number },
): PropertyDecorator {
  return Property(
    options,
    { type: 'number', format: 'double', example: options.example },
    // JSON allows 1e999, which becomes Infinity and cannot be returned as it was sent.
    (value) => (Number.isFinite(value) ? undefined : 'must be a number'),
  );
}

/** Declares a boolean. */
export function BooleanProperty(options: PropertyOptions): PropertyDecorator {
  return Property(options, { type: 'boolean', example: true }, (value) =>
    typeof value === 'boolean' ? undefined : 'must be true or false',
  );
}

/** Declares a string with a fixed set of values. */
export function EnumProperty(
  options: PropertyOptions & { readonly values: readonly string[] },
): PropertyDecorator {
  const { values } = options;
  return Property(options, { type: 'string', enum: [...values], example: values[0] }, (value) =>
    values.includes(value as string) ? undefined : `must be one of ${values.join(', ')}`,
  );
}

/** RFC 3339, section 5.6. It captures the parts that `Date` would roll over. */
const DATE_TIME = /^\d{4}-(\d\d)-(\d\d)T(\d\d):\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/i;

/** In characters: RFC 3339 does not limit the digits of a fraction of a second. */
const MAX_DATE_TIME_LENGTH = 64;

/** Declares a point in time with an offset from UTC (RFC 3339). It is stored in milliseconds and returned in UTC. */
export function DateTimeProperty(options: PropertyOptions): PropertyDecorator {
  return Property(
    options,
    {
      type: 'string',
      format: 'date-time',
      maxLength: MAX_DATE_TIME_LENGTH,
      example: '2026-11-01T12:00:00.000Z',
    },
    (value) =>
      typeof value === 'string' && value.length <= MAX_DATE_TIME_LENGTH && isDateTime(value)
        ? undefined
        : 'must be a date and time with an offset from UTC, such as 2026-11-01T12:00:00Z',
  );
}

function isDateTime(text: string): boolean {
  const [, month, day, hour] = DATE_TIME.exec(text) ?? [];
  if (month === undefined || Number.isNaN(Date.parse(text))) return false;
  const daysOfMonth = new Date(Date.UTC(Number(text.slice(0, 4)), Number(month), 0)).getUTCDate();
  return Number(day) <= daysOfMonth && Number(hour) < 24;
}
