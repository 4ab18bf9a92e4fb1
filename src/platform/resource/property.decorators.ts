/** Decorators that declare a property of a DTO once, for the validation and for the OpenAPI document. */
import { isDeepStrictEqual } from 'node:util';
import type { Type } from '@nestjs/common';
import type { ApiPropertyOptions } from '@nestjs/swagger';
import { MAX_ID } from '../config/max-id.js';
import {
  type DeclaringDecorator,
  Property,
  type PropertyOptions,
  toNullable,
  type ValueRules,
} from './property.js';

/** A character that is not white space. JavaScript's class lacks one of Unicode's, NEXT LINE. */
const NOT_BLANK = /[^\s\u0085]/;

/** Lengths are in Unicode code points, as in JSON Schema. */
export interface StringPropertyOptions extends PropertyOptions<string> {
  readonly minLength?: number;
  /** Without it, only the limit of the body limits the length. */
  readonly maxLength?: number;
  /** The string must contain a character that is not white space. Not together with `pattern`. */
  readonly notBlank?: boolean;
  /** Must match a part of the string, unless it has anchors, as in JSON Schema. The only possible flag is `u`. */
  readonly pattern?: RegExp;
  readonly example: string;
}

/**
 * Declares a string property of a DTO. No string may contain NUL, which PostgreSQL cannot store, or a
 * lone surrogate, which UTF-8 cannot encode.
 *
 * @throws {TypeError} if the OpenAPI document cannot express the pattern
 */
export function StringProperty(options: StringPropertyOptions): DeclaringDecorator {
  const { minLength, maxLength, notBlank = false, pattern, example } = options;
  if (pattern !== undefined && (notBlank || !/^u?$/.test(pattern.flags)))
    throw new TypeError('A pattern cannot have flags other than u, or be combined with notBlank.');
  return Property(options, {
    schema: {
      type: 'string',
      ...(minLength === undefined ? {} : { minLength }),
      ...(maxLength === undefined ? {} : { maxLength }),
      ...(notBlank ? { pattern: NOT_BLANK.source } : {}),
      ...(pattern === undefined ? {} : { pattern: pattern.source }),
      example,
    },
    validate: (value, path) => validateString(value, path, options),
  });
}

/** Returns what is wrong with a value, or undefined if it is valid. */
function validateString(
  value: unknown,
  path: string,
  {
    minLength = 0,
    maxLength = Infinity,
    notBlank,
    pattern,
  }: Pick<StringPropertyOptions, 'minLength' | 'maxLength' | 'notBlank' | 'pattern'>,
): string | undefined {
  if (typeof value !== 'string') return `${path} must be a string`;
  if (value.includes('\0')) return `${path} must not contain a NUL character`;
  if (!value.isWellFormed()) return `${path} must not contain a lone surrogate`;
  const length = codePointLength(value);
  if (length < minLength || length > maxLength) {
    if (maxLength === Infinity) return `${path} must be at least ${minLength} characters long`;
    return minLength === 0
      ? `${path} must be at most ${maxLength} characters long`
      : `${path} must be ${minLength} to ${maxLength} characters long`;
  }
  if (notBlank === true && !NOT_BLANK.test(value)) return `${path} must not be blank`;
  if (pattern?.test(value) === false) return `${path} must match the pattern ${pattern.source}`;
  return undefined;
}

function codePointLength(text: string): number {
  let surrogatePairs = 0;
  for (let index = 0; index < text.length; index++) {
    // A low surrogate: the string is well-formed, so each ends a pair.
    if ((text.charCodeAt(index) & 0xfc00) === 0xdc00) surrogatePairs++;
  }
  return text.length - surrogatePairs;
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

export interface IntegerPropertyOptions extends PropertyOptions<number> {
  /** Defaults to int32 if both limits fit, otherwise int64. */
  readonly format?: 'int32' | 'int64';
  /** Defaults to the minimum of the format. */
  readonly minimum?: number;
  /** Defaults to the maximum of the format. */
  readonly maximum?: number;
  readonly example: number;
}

/**
 * Declares an integer.
 *
 * @throws {RangeError} if a limit exceeds those of the format: for int64, from -(2^53-1) to 2^53-1
 */
export function IntegerProperty(options: IntegerPropertyOptions): DeclaringDecorator {
  const [lowest, highest] = INTEGER_LIMITS[options.format ?? 'int64'];
  const { minimum = lowest, maximum = highest, example } = options;
  if (minimum < lowest || maximum > highest)
    throw new RangeError(`The limits ${minimum} and ${maximum} exceed those of the format.`);
  const fits32Bits = minimum >= INTEGER_LIMITS.int32[0] && maximum <= INTEGER_LIMITS.int32[1];
  const format = options.format ?? (fits32Bits ? 'int32' : 'int64');
  return Property(options, {
    schema: { type: 'integer', format, minimum, maximum, example },
    validate: (value, path) =>
      Number.isInteger(value) && (value as number) >= minimum && (value as number) <= maximum
        ? undefined
        : `${path} must be an integer from ${minimum} to ${maximum}`,
    parse: (parameter) => (matches(parameter, /^-?\d+$/) ? Number(parameter) : parameter),
  });
}

/** Declares a 64-bit floating-point number. */
export function NumberProperty(
  options: PropertyOptions<number> & { readonly example: number },
): DeclaringDecorator {
  return Property(options, {
    schema: { type: 'number', format: 'double', example: options.example },
    // JSON allows 1e999, which becomes Infinity and cannot be returned as it was sent.
    validate: (value, path) => (Number.isFinite(value) ? undefined : `${path} must be a number`),
    parse: (parameter) =>
      matches(parameter, /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i) ? Number(parameter) : parameter,
  });
}

const matches = (value: unknown, pattern: RegExp): boolean =>
  typeof value === 'string' && pattern.test(value);

/** Declares a boolean. */
export function BooleanProperty(options: PropertyOptions<boolean>): DeclaringDecorator {
  return Property(options, {
    schema: { type: 'boolean', example: true },
    validate: (value, path) =>
      typeof value === 'boolean' ? undefined : `${path} must be true or false`,
    parse: (parameter) =>
      parameter === 'true' || parameter === 'false' ? parameter === 'true' : parameter,
  });
}

/** Declares a string with a fixed set of values. */
export function EnumProperty(
  options: PropertyOptions<string> & { readonly values: readonly string[] },
): DeclaringDecorator {
  const { values } = options;
  return Property(options, {
    schema: { type: 'string', enum: [...values], example: values[0] },
    validate: (value, path) =>
      values.includes(value as string) ? undefined : `${path} must be one of ${values.join(', ')}`,
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
export function DateTimeProperty(options: PropertyOptions<string>): DeclaringDecorator {
  return Property(options, {
    schema: {
      type: 'string',
      format: 'date-time',
      maxLength: MAX_DATE_TIME_LENGTH,
      example: '2026-11-01T12:00:00.000Z',
    },
    validate: validateDateTime,
  });
}

function validateDateTime(value: unknown, path: string): string | undefined {
  const text = typeof value === 'string' && value.length <= MAX_DATE_TIME_LENGTH ? value : '';
  const [, date, hour] = DATE_TIME.exec(text) ?? [];
  const time = new Date(text);
  if (date === undefined || !isCalendarDate(date) || hour === '24' || Number.isNaN(time.getTime()))
    return `${path} must be a date and time with an offset from UTC, such as 2026-11-01T12:00:00Z`;
  const year = time.getUTCFullYear();
  return year >= 0 && year <= 9999 ? undefined : `${path} must be in the years 0000 to 9999 in UTC`;
}

/** Whether a date in the form of RFC 3339 exists. `Date` turns February 30 into March 2. */
function isCalendarDate(text: string): boolean {
  const date = new Date(text);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

/** Declares a date without a time: `full-date` of RFC 3339, section 5.6. It must exist in the calendar. */
export function DateProperty(options: PropertyOptions<string>): DeclaringDecorator {
  return Property(options, {
    schema: { type: 'string', format: 'date', example: '2026-11-01' },
    validate: (value, path) =>
      matches(value, FULL_DATE) && isCalendarDate(value as string)
        ? undefined
        : `${path} must be a date, such as 2026-11-01`,
  });
}

/** RFC 9562, section 4. */
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Declares a UUID of any version (RFC 9562). It is returned as it was sent. */
export function UuidProperty(options: PropertyOptions<string>): DeclaringDecorator {
  return Property(options, {
    schema: { type: 'string', format: 'uuid', example: '0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70' },
    validate: (value, path) => (matches(value, UUID) ? undefined : `${path} must be a UUID`),
  });
}

/** The characters of a URI (RFC 3986, section 2). `URL` also accepts others, such as spaces and backslashes. */
const HTTP_URI = /^https?:\/\/([A-Za-z0-9\-._~:/?#[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+$/;

/** Declares an absolute URI with the scheme http or https (RFC 3986). It is returned as it was sent. */
export function UriProperty(
  options: PropertyOptions<string> & {
    /** In characters; 2048 by default. */
    readonly maxLength?: number;
    readonly example?: string;
  },
): DeclaringDecorator {
  const { maxLength = 2048, example = 'https://example.com/photos/1.jpg' } = options;
  return Property(options, {
    schema: { type: 'string', format: 'uri', maxLength, pattern: HTTP_URI.source, example },
    validate: (value, path) => {
      if (!matches(value, HTTP_URI) || !URL.canParse(value as string))
        return `${path} must be a URI that starts with http:// or https://`;
      return validateString(value, path, { maxLength });
    },
  });
}

export interface DecimalPropertyOptions extends PropertyOptions<string> {
  /** The maximum number of digits, as in the type `numeric(precision, scale)` of SQL. */
  readonly precision: number;
  /** The maximum number of digits after the decimal point. */
  readonly scale: number;
  /** The number must not have a minus sign. */
  readonly unsigned?: boolean;
  readonly example: string;
}

/**
 * Declares a decimal number as text, such as an amount of money, which a floating-point number would
 * round. It has no exponent, plus sign or leading zeros.
 *
 * @throws {RangeError} if the scale is not from 0 to the precision, or the precision is 0
 */
export function DecimalProperty(options: DecimalPropertyOptions): DeclaringDecorator {
  const { precision, scale, unsigned = false, example } = options;
  const digits = precision - scale;
  if (!(precision > 0 && scale >= 0 && digits >= 0))
    throw new RangeError(`numeric(${precision}, ${scale}) is not a decimal.`);
  const integer = digits === 0 ? '0' : `(0|[1-9]\\d{0,${digits - 1}})`;
  const fraction = scale === 0 ? '' : `(\\.\\d{1,${scale}})?`;
  const pattern = new RegExp(`^${unsigned ? '' : '-?'}${integer}${fraction}$`);
  const limits = `at most ${digits} digits before and ${scale} after the decimal point`;
  return Property(options, {
    schema: { type: 'string', format: 'decimal', pattern: pattern.source, example },
    validate: (value, path) =>
      matches(value, pattern)
        ? undefined
        : `${path} must be a${unsigned ? 'n unsigned' : ''} decimal number in a string, with ${limits}`,
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
  validate: (value, path) => (isObject(value) ? undefined : `${path} must be an object`),
  toPatch: (toPatch) => toObjectRules(() => toPatch(getClass())),
});

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/**
 * Returns the rules of the items of an array, or of the values of a map.
 *
 * @throws {TypeError} if the decorator has an option that only a property can have
 */
function getItemRules({ declaration: { options, rules } }: DeclaringDecorator): ValueRules {
  const { description, example, ...others } = options;
  for (const name of ['optional', 'nullable', 'default', 'readOnly', 'writeOnly'])
    if (name in others) throw new TypeError(`An item or value cannot have the option ${name}.`);
  return rules.getClass === undefined
    ? {
        ...rules,
        schema: { ...rules.schema, description, ...(example === undefined ? {} : { example }) },
      }
    : rules;
}

export interface ArrayPropertyOptions extends PropertyOptions<readonly unknown[]> {
  /** The decorator that declares each item. */
  readonly items: DeclaringDecorator;
  readonly minItems?: number;
  /** Without it, only the limit of the body limits the number of items. */
  readonly maxItems?: number;
  /** No two items may be equal, as JSON. */
  readonly uniqueItems?: boolean;
}

/**
 * Declares an array of values or objects. In a query, the parameter is repeated for each item, such as
 * `?tag=a&tag=b`. A JSON merge patch replaces the whole array.
 *
 * @throws {TypeError} for an array of arrays of objects, or if the items have an option of properties
 */
export function ArrayProperty(options: ArrayPropertyOptions): DeclaringDecorator {
  const { minItems = 0, maxItems = Infinity, uniqueItems = false } = options;
  const items = getItemRules(options.items);
  const { getClass } = items;
  if ('isArray' in items.schema)
    throw new TypeError('An array of arrays of objects is not supported: use objects as items.');
  return Property(options, {
    schema: {
      ...(getClass === undefined
        ? { type: 'array', items: items.schema }
        : { type: () => getClass(), isArray: true }),
      ...(minItems === 0 ? {} : { minItems }),
      ...(maxItems === Infinity ? {} : { maxItems }),
      ...(uniqueItems ? { uniqueItems } : {}),
    } as ApiPropertyOptions,
    ...(getClass === undefined ? {} : { getClass }),
    validate: (value, path) => {
      if (!Array.isArray(value)) return `${path} must be an array`;
      if (value.length < minItems || value.length > maxItems) {
        if (maxItems === Infinity) return `${path} must have at least ${minItems} items`;
        return minItems === 0
          ? `${path} must have at most ${maxItems} items`
          : `${path} must have ${minItems} to ${maxItems} items`;
      }
      for (const [index, item] of value.entries()) {
        const violation = items.validate(item, `${path}[${index}]`);
        if (violation !== undefined) return violation;
      }
      return uniqueItems && hasDuplicate(value)
        ? `${path} must not contain equal items`
        : undefined;
    },
    parse: (parameter) =>
      [parameter].flat().map((text) => (items.parse === undefined ? text : items.parse(text))),
  });
}

function hasDuplicate(items: readonly unknown[]): boolean {
  // The fast path; only objects need the comparison of each with each.
  if (items.every((item) => typeof item !== 'object')) return new Set(items).size < items.length;
  return items.some((item, index) =>
    items.slice(0, index).some((other) => isDeepStrictEqual(item, other)),
  );
}

export interface MapPropertyOptions extends PropertyOptions<Readonly<Record<string, unknown>>> {
  /** The decorator that declares each value. */
  readonly values: DeclaringDecorator;
  /** The maximum number of entries; without it, only the limit of the body limits them. */
  readonly maxProperties?: number;
}

/**
 * Declares a map: an object with any keys. Keys must be valid strings, without the names that JavaScript
 * objects inherit, such as `constructor`. In a JSON merge patch, null removes an entry.
 *
 * @throws {TypeError} for a map of objects, or if the values have an option of properties
 */
export function MapProperty(options: MapPropertyOptions): DeclaringDecorator {
  const values = getItemRules(options.values);
  if (values.getClass !== undefined)
    throw new TypeError('A map of objects is not supported: use an array of objects.');
  return Property(options, toMapRules(values, options.maxProperties));
}

const toMapRules = (values: ValueRules, maxProperties = Infinity): ValueRules => ({
  schema: {
    type: 'object',
    additionalProperties: values.schema,
    ...(maxProperties === Infinity ? {} : { maxProperties }),
  } as ApiPropertyOptions,
  validate: (value, path) => {
    if (!isObject(value)) return `${path} must be an object`;
    const entries = Object.entries(value);
    if (entries.length > maxProperties)
      return `${path} must have at most ${maxProperties} properties`;
    for (const [key, entry] of entries) {
      const violation =
        validateString(key, `${path}: a key`, {}) ?? values.validate(entry, `${path}.${key}`);
      if (violation !== undefined) return violation;
    }
    return undefined;
  },
  toPatch: () =>
    toMapRules(
      {
        schema: toNullable(values.schema),
        validate: (value, path) => (value === null ? undefined : values.validate(value, path)),
      },
      maxProperties,
    ),
});
