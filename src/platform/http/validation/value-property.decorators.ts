/** Declare the properties of a DTO that are no text; see `Text` for those that are. */
import { MAX_ID } from '../../database/columns.js';
import { Property, type PropertyOptions } from './property.decorator.js';

/** An id that the service assigned: of the resource itself, or of one that it refers to. */
export function IdProperty(rules: PropertyOptions): PropertyDecorator {
  return IntegerProperty({ ...rules, minimum: 1, maximum: MAX_ID, example: 1 });
}

/** A whole number; every limit between -(2^53-1) and 2^53-1 is exact in JSON. */
export function IntegerProperty(
  rules: PropertyOptions & {
    readonly minimum: number;
    readonly maximum: number;
    readonly example: number;
  },
): PropertyDecorator {
  const { minimum, maximum, example } = rules;
  const fits32Bits = minimum >= -(2 ** 31) && maximum < 2 ** 31;
  return Property(
    rules,
    { type: 'integer', format: fits32Bits ? 'int32' : 'int64', minimum, maximum, example },
    (value) =>
      Number.isInteger(value) && (value as number) >= minimum && (value as number) <= maximum
        ? undefined
        : `must be a whole number from ${minimum} to ${maximum}`,
  );
}

/** A number of 64 bits, as JSON and both databases have it. */
export function NumberProperty(
  rules: PropertyOptions & { readonly example: number },
): PropertyDecorator {
  return Property(
    rules,
    { type: 'number', format: 'double', example: rules.example },
    // JSON can say 1e999, which is Infinity, which no database answers as it was sent.
    (value) => (Number.isFinite(value) ? undefined : 'must be a number'),
  );
}

/** True or false. */
export function BooleanProperty(rules: PropertyOptions): PropertyDecorator {
  return Property(rules, { type: 'boolean', example: true }, (value) =>
    typeof value === 'boolean' ? undefined : 'must be true or false',
  );
}

/** One text of a few. */
export function EnumProperty(
  rules: PropertyOptions & { readonly values: readonly string[] },
): PropertyDecorator {
  const { values } = rules;
  return Property(rules, { type: 'string', enum: [...values], example: values[0] }, (value) =>
    values.includes(value as string) ? undefined : `must be one of ${values.join(', ')}`,
  );
}

/** RFC 3339, section 5.6; the captured parts are those that `Date` would roll over. */
const DATE_TIME = /^\d{4}-(\d\d)-(\d\d)T(\d\d):\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/i;

/** Characters; RFC 3339 sets no limit to the digits of a second. */
const MAX_DATE_TIME_LENGTH = 64;

/** A point in time (RFC 3339), with an offset from UTC. It is kept to the millisecond and answered in UTC. */
export function DateTimeProperty(rules: PropertyOptions): PropertyDecorator {
  return Property(
    rules,
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
