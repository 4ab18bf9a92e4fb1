/** Decorators that declare a property of a DTO once, for the validation and for the OpenAPI document. */
import type { Type } from '@nestjs/common';
import type { ApiPropertyOptions } from '@nestjs/swagger';
import { MAX_ID } from '../config/max-id.js';
import { shorten } from '../errors/shorten.js';
import {
  type DeclaringDecorator,
  isObject,
  Property,
  type PropertyOptions,
  toNullable,
  type ValueRules,
} from './property.js';

/** Returns a check whose violation follows the path of every value that is not valid. */
const toCheck =
  (isValid: (value: unknown) => boolean, violation: string): ValueRules['check'] =>
  (value) =>
    isValid(value) ? undefined : violation;

/** Creates a decorator that has no options of its own. */
const createDecorator =
  <Value>(rules: ValueRules) =>
  (options: PropertyOptions<Value>): DeclaringDecorator =>
    Property(options, rules);

const matches = (value: unknown, pattern: RegExp): boolean =>
  typeof value === 'string' && pattern.test(value);

/** A character that is neither white space nor invisible; BRAILLE PATTERN BLANK has no property that says so. */
const NOT_BLANK = /[^\p{White_Space}\p{Default_Ignorable_Code_Point}\u2800]/u;

/** What OpenAPI 3.0 can express of it: its patterns have no Unicode properties, with which many clients fail. */
const NOT_WHITE_SPACE = String.raw`[^\s\u0085]`;

/** The second half of a code point that JavaScript counts twice. */
const LOW_SURROGATE = /[\udc00-\udfff]/g;

/** Lengths are in Unicode code points, as in JSON Schema. */
interface StringRules {
  readonly minLength?: number;
  /** Without it, only the limit of the body limits the length. */
  readonly maxLength?: number;
  /** The string must contain a character that is neither white space nor invisible. Not together with `pattern`. */
  readonly notBlank?: boolean;
  /** Must match a part of the string, unless it has anchors, as in JSON Schema. The only possible flag is `u`. */
  readonly pattern?: RegExp;
}

/**
 * Declares a string property of a DTO. No string may contain NUL, which PostgreSQL cannot store, or a
 * lone surrogate, which UTF-8 cannot encode.
 *
 * @throws {TypeError} if the OpenAPI document cannot express the pattern
 */
export function StringProperty(
  options: PropertyOptions<string> & StringRules & { readonly example: string },
): DeclaringDecorator {
  const { minLength, maxLength, notBlank = false, pattern } = options;
  if (pattern !== undefined && (notBlank || !/^u?$/.test(pattern.flags)))
    throw new TypeError('A pattern cannot have flags other than u, or be combined with notBlank.');
  return Property(options, {
    schema: {
      type: 'string',
      minLength,
      maxLength,
      pattern: notBlank ? NOT_WHITE_SPACE : pattern?.source,
    },
    check: (value) => checkString(value, options),
  });
}

function checkString(
  value: unknown,
  { minLength = 0, maxLength = Infinity, notBlank, pattern }: StringRules,
): string | undefined {
  if (typeof value !== 'string') return ' must be a string';
  if (value.includes('\0')) return ' must not contain a NUL character';
  if (!value.isWellFormed()) return ' must not contain a lone surrogate';
  const length = value.replaceAll(LOW_SURROGATE, '').length;
  if (length < minLength || length > maxLength)
    return ` must be ${toRange(minLength, maxLength)} characters long`;
  if (notBlank === true && !NOT_BLANK.test(value)) return ' must not be blank';
  if (pattern?.test(value) === false) return ` must match the pattern ${pattern.source}`;
  return undefined;
}

function toRange(minimum: number, maximum: number): string {
  if (maximum === Infinity) return `at least ${minimum}`;
  return minimum === 0 ? `at most ${maximum}` : `${minimum} to ${maximum}`;
}

/** Declares an id that the service assigned: of the resource itself, or of one that it references. */
export function IdProperty(options: PropertyOptions<number>): DeclaringDecorator {
  return IntegerProperty({ ...options, minimum: 1, maximum: MAX_ID, example: 1 });
}

/** The limits of the formats: JSON numbers are exact up to 2^53-1 (RFC 8259, section 6). */
const INTEGER_LIMITS = {
  int32: [-(2 ** 31), 2 ** 31 - 1],
  int64: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
} as const;

/**
 * Declares an integer. The format defaults to int32 if both limits fit, otherwise to int64; the limits, to those of
 * the format.
 *
 * @throws {RangeError} if a limit exceeds those of the format: for int64, from -(2^53-1) to 2^53-1
 */
export function IntegerProperty(
  options: PropertyOptions<number> & {
    readonly format?: 'int32' | 'int64';
    readonly minimum?: number;
    readonly maximum?: number;
  },
): DeclaringDecorator {
  const [lowest, highest] = INTEGER_LIMITS[options.format ?? 'int64'];
  const { minimum = lowest, maximum = highest } = options;
  if (minimum < lowest || maximum > highest)
    throw new RangeError(`The limits ${minimum} and ${maximum} exceed those of the format.`);
  const fits32Bits = minimum >= INTEGER_LIMITS.int32[0] && maximum <= INTEGER_LIMITS.int32[1];
  const format = options.format ?? (fits32Bits ? 'int32' : 'int64');
  return Property(options, {
    schema: { type: 'integer', format, minimum, maximum },
    check: toCheck(
      (value) => Number.isInteger(value) && Number(value) >= minimum && Number(value) <= maximum,
      ` must be an integer from ${minimum} to ${maximum}`,
    ),
    parse: (parameter) => (matches(parameter, /^-?\d+$/) ? Number(parameter) : parameter),
  });
}

/** Declares a 64-bit floating-point number. */
export const NumberProperty = createDecorator<number>({
  schema: { type: 'number', format: 'double', example: 1.5 },
  // JSON allows 1e999, which becomes Infinity and cannot be returned as it was sent.
  check: toCheck(Number.isFinite, ' must be a number'),
  parse: (parameter) =>
    matches(parameter, /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i) ? Number(parameter) : parameter,
});

/** Declares a boolean. */
export const BooleanProperty = createDecorator<boolean>({
  schema: { type: 'boolean', example: true },
  check: toCheck((value) => typeof value === 'boolean', ' must be true or false'),
  parse: (parameter) =>
    parameter === 'true' || parameter === 'false' ? parameter === 'true' : parameter,
});

/** Declares a string with a fixed set of values. */
export function EnumProperty(
  options: PropertyOptions<string> & { readonly values: readonly string[] },
): DeclaringDecorator {
  const { values } = options;
  return Property(options, {
    schema: { type: 'string', enum: [...values], example: values[0] },
    check: toCheck(
      (value) => values.includes(value as string),
      ` must be one of ${values.join(', ')}`,
    ),
  });
}

/** RFC 3339, section 5.6. */
const FULL_DATE = /^\d{4}-\d\d-\d\d$/;
const DATE_TIME = /^(\d{4}-\d\d-\d\d)T(\d\d):\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/i;

/** In characters: RFC 3339 does not limit the digits of a fraction of a second. */
const MAX_DATE_TIME_LENGTH = 64;

/**
 * Declares a point in time with an offset from UTC (RFC 3339). It is stored in milliseconds and returned
 * in UTC, in which its year must have four digits, too.
 */
export const DateTimeProperty = createDecorator<string>({
  schema: {
    type: 'string',
    format: 'date-time',
    maxLength: MAX_DATE_TIME_LENGTH,
    example: '2026-11-01T12:00:00.000Z',
  },
  check: checkDateTime,
});

function checkDateTime(value: unknown): string | undefined {
  const text = typeof value === 'string' && value.length <= MAX_DATE_TIME_LENGTH ? value : '';
  const [, date, hour] = DATE_TIME.exec(text) ?? [];
  const time = new Date(text);
  if (date === undefined || !isCalendarDate(date) || hour === '24' || Number.isNaN(time.getTime()))
    return ' must be a date and time with an offset from UTC, such as 2026-11-01T12:00:00Z';
  const year = time.getUTCFullYear();
  return year >= 0 && year <= 9999 ? undefined : ' must be in the years 0000 to 9999 in UTC';
}

/** Whether a date in the form of RFC 3339 exists. `Date` turns February 30 into March 2. */
function isCalendarDate(text: string): boolean {
  const date = new Date(text);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

/** Declares a date without a time: `full-date` of RFC 3339, section 5.6. It must exist in the calendar. */
export const DateProperty = createDecorator<string>({
  schema: { type: 'string', format: 'date', example: '2026-11-01' },
  check: toCheck(
    (value) => matches(value, FULL_DATE) && isCalendarDate(value as string),
    ' must be a date, such as 2026-11-01',
  ),
});

/** RFC 9562, section 4. */
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Declares a UUID of any version (RFC 9562). It is returned as it was sent. */
export const UuidProperty = createDecorator<string>({
  schema: { type: 'string', format: 'uuid', example: '0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70' },
  check: toCheck((value) => matches(value, UUID), ' must be a UUID'),
});

/** The characters of a URI (RFC 3986, section 2). `URL` also accepts others, such as spaces and backslashes. */
const HTTP_URI = /^https?:\/\/([A-Za-z0-9\-._~:/?#[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+$/;

/**
 * Declares an absolute URI with the scheme http or https (RFC 3986). It is returned as it was sent.
 *
 * @param options.maxLength in characters; 2048 by default
 */
export function UriProperty(
  options: PropertyOptions<string> & { readonly maxLength?: number },
): DeclaringDecorator {
  const { maxLength = 2048 } = options;
  return Property(options, {
    schema: {
      type: 'string',
      format: 'uri',
      maxLength,
      pattern: HTTP_URI.source,
      example: 'https://example.com/photos/1.jpg',
    },
    check: (value) =>
      // A regular expression with a repeated group fails on a text of megabytes.
      (typeof value === 'string' ? checkString(value, { maxLength }) : undefined) ??
      (matches(value, HTTP_URI) && URL.canParse(value as string)
        ? undefined
        : ' must be a URI that starts with http:// or https://'),
  });
}

/**
 * Declares a decimal number as text, such as an amount of money, which a floating-point number would
 * round. It has no exponent, plus sign or leading zeros.
 *
 * @param options.precision the maximum number of digits, as in the type `numeric(precision, scale)` of SQL
 * @param options.scale the maximum number of digits after the decimal point
 * @throws {RangeError} if the scale is not from 0 to the precision, or the precision is 0
 */
export function DecimalProperty(
  options: PropertyOptions<string> & {
    readonly precision: number;
    readonly scale: number;
    readonly example: string;
  },
): DeclaringDecorator {
  const { precision, scale } = options;
  const digits = precision - scale;
  if (!(precision > 0 && scale >= 0 && digits >= 0))
    throw new RangeError(`numeric(${precision}, ${scale}) is not a decimal.`);
  const integer = digits === 0 ? '0' : `(0|[1-9]\\d{0,${digits - 1}})`;
  const fraction = scale === 0 ? '' : `(\\.\\d{1,${scale}})?`;
  const pattern = new RegExp(`^-?${integer}${fraction}$`);
  return Property(options, {
    schema: { type: 'string', format: 'decimal', pattern: pattern.source },
    check: toCheck(
      (value) => matches(value, pattern),
      ` must be a decimal number in a string, with at most ${digits} digits before and ${scale} after the decimal point`,
    ),
  });
}

/**
 * Declares a nested object. Its properties are validated like those of the body.
 *
 * @param getClass returns the DTO of the object, which may be declared later in the file
 * @param options may be omitted for the items of an array
 */
export function ObjectProperty(
  getClass: () => Type,
  options: PropertyOptions<object> = { description: '' },
): DeclaringDecorator {
  return Property(options, toObjectRules(getClass));
}

const toObjectRules = (getClass: () => Type): ValueRules => ({
  schema: { type: () => getClass() },
  getClass,
  check: toCheck(isObject, ' must be an object'),
  toPatch: (toPatch) => toObjectRules(() => toPatch(getClass())),
});

/**
 * Returns the rules of the items of an array, or of the values of a map.
 *
 * @throws {TypeError} if the decorator has an option that only a property can have
 */
function getItemRules({ declaration: { options, rules } }: DeclaringDecorator): ValueRules {
  for (const name of ['optional', 'nullable', 'default', 'readOnly', 'writeOnly'])
    if (name in options) throw new TypeError(`An item or value cannot have the option ${name}.`);
  if (rules.getClass !== undefined) return rules;
  const { description, example = rules.schema.example } = options;
  return { ...rules, schema: { ...rules.schema, description, example } };
}

/**
 * Declares an array of values or objects. In a query, the parameter is repeated for each item, such as
 * `?tag=a&tag=b`. A JSON merge patch replaces the whole array.
 *
 * @param options.maxItems without it, only the limit of the body limits the number of items
 * @param options.uniqueItems no two items may be equal, as JSON
 * @throws {TypeError} for an array of arrays of objects, or if the items have an option of properties
 */
export function ArrayProperty(
  options: PropertyOptions<readonly unknown[]> & {
    readonly items: DeclaringDecorator;
    readonly minItems?: number;
    readonly maxItems?: number;
    readonly uniqueItems?: boolean;
  },
): DeclaringDecorator {
  const { minItems = 0, maxItems = Infinity, uniqueItems } = options;
  const items = getItemRules(options.items);
  const { getClass } = items;
  if ('isArray' in items.schema)
    throw new TypeError('An array of arrays of objects is not supported: use objects as items.');
  return Property(options, {
    schema: {
      ...(getClass === undefined
        ? { type: 'array', items: items.schema }
        : { type: () => getClass(), isArray: true }),
      minItems: options.minItems,
      maxItems: options.maxItems,
      uniqueItems,
    } as ApiPropertyOptions,
    getClass,
    check: (value) => {
      if (!Array.isArray(value)) return ' must be an array';
      if (value.length < minItems || value.length > maxItems)
        return ` must have ${toRange(minItems, maxItems)} items`;
      for (const [index, item] of value.entries()) {
        const violation = items.check(item);
        if (violation !== undefined) return `[${index}]${violation}`;
      }
      return uniqueItems === true && hasDuplicate(value)
        ? ' must not contain equal items'
        : undefined;
    },
    parse: (parameter) => [parameter].flat().map((text) => items.parse?.(text) ?? text),
  });
}

const hasDuplicate = (items: readonly unknown[]): boolean =>
  new Set(items.map((item) => JSON.stringify(item, sortNames))).size < items.length;

/** Makes the text of equal objects equal, whatever the order of their properties. */
const sortNames = (_name: string, value: unknown): unknown =>
  isObject(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
    : value;

/**
 * Declares a map: an object with any keys. Keys must be valid strings, without the names that JavaScript
 * objects inherit, such as `constructor`. In a JSON merge patch, null removes an entry.
 *
 * @param options.maxProperties without it, only the limit of the body limits the number of entries
 * @throws {TypeError} for a map of objects, or if the values have an option of properties
 */
export function MapProperty(
  options: PropertyOptions<Readonly<Record<string, unknown>>> & {
    readonly values: DeclaringDecorator;
    readonly maxProperties?: number;
  },
): DeclaringDecorator {
  const values = getItemRules(options.values);
  if (values.getClass !== undefined)
    throw new TypeError('A map of objects is not supported: use an array of objects.');
  return Property(options, toMapRules(values, options.maxProperties));
}

const toMapRules = (values: ValueRules, maxProperties?: number): ValueRules => ({
  schema: {
    type: 'object',
    additionalProperties: values.schema,
    maxProperties,
  } as ApiPropertyOptions,
  check: (value) => {
    if (!isObject(value)) return ' must be an object';
    const entries = Object.entries(value);
    if (maxProperties !== undefined && entries.length > maxProperties)
      return ` must have at most ${maxProperties} properties`;
    for (const [key, entry] of entries) {
      const invalidKey = checkString(key, {});
      if (invalidKey !== undefined) return `: a key${invalidKey}`;
      const violation = values.check(entry);
      if (violation !== undefined) return `.${shorten(key)}${violation}`;
    }
    return undefined;
  },
  toPatch: () =>
    toMapRules(
      {
        schema: toNullable(values.schema),
        check: (value) => (value === null ? undefined : values.check(value)),
      },
      maxProperties,
    ),
});
