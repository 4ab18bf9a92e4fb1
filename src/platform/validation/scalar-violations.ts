/**
 * The rules for strings and numbers. Each `find…Violation` returns the text that follows the path of a value in an error
 * message, such as " must be a UUID", or undefined if the value is valid.
 */
import { isBase64, isUUID } from 'class-validator';
import { NOT_BLANK } from './plain-text.js';
import type { Schema } from './schema.js';

/** A format whose strings are validated. */
interface Format {
  /** Returns true, or the text that follows "must be". */
  readonly check: (text: string) => true | string;
  /** The length of every valid string, for the OpenAPI document. */
  readonly length?: number;
  /** The maximum length if the schema has none. */
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly example: string;
}

/** Whether a date of the form `YYYY-MM-DD` exists: `Date` turns February 30 into March 2. */
export function isCalendarDate(text: string): boolean {
  const date = new Date(text);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

/** RFC 3339, section 5.6. */
const DATE = /^\d{4}-\d\d-\d\d$/;
const DATE_TIME = /^(\d{4}-\d\d-\d\d)T(\d\d):\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/i;

/** Checks a date and time. It is returned in UTC, so its year must have four digits there, too. */
function checkDateTime(text: string): true | string {
  const [, date, hour] = DATE_TIME.exec(text) ?? [];
  const year = new Date(text).getUTCFullYear();
  if (date === undefined || !isCalendarDate(date) || hour === '24' || Number.isNaN(year))
    return 'a date and time with an offset from UTC, such as 2026-11-01T12:00:00Z';
  return (year >= 0 && year <= 9999) || 'in the years 0000 to 9999 in UTC';
}

/** The characters of a URI (RFC 3986, section 2). `URL` also accepts others, such as spaces and backslashes. */
// oxlint-disable-next-line no-useless-escape -- other regular expression engines require the escape
const HTTP_URI = /^https?:\/\/([A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+$/;

/** RFC 5321, section 4.1.2, without quoted strings and address literals, and with a top-level domain. */
const EMAIL =
  /^[\w!#$%&'*+/=?^`{|}~-]+(\.[\w!#$%&'*+/=?^`{|}~-]+)*@([A-Za-z\d]([A-Za-z\d-]{0,61}[A-Za-z\d])?\.)+[A-Za-z\d]([A-Za-z\d-]{0,61}[A-Za-z\d])?$/;

const DECIMAL = /^-?(0|[1-9]\d*)(\.\d+)?$/;

/** The formats of strings that are validated. Values are returned as they were sent. */
export const FORMATS: Readonly<Record<string, Format>> = {
  date: {
    check: (text) => (DATE.test(text) && isCalendarDate(text)) || 'a date, such as 2026-11-01',
    length: 10,
    example: '2026-11-01',
  },
  // RFC 3339 does not limit the digits of a fraction of a second.
  'date-time': { check: checkDateTime, maxLength: 64, example: '2026-11-01T12:00:00.000Z' },
  uuid: {
    // UUIDs of any version.
    check: (text) => isUUID(text, 'loose') || 'a UUID',
    length: 36,
    example: '0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70',
  },
  uri: {
    check: (text) =>
      (HTTP_URI.test(text) && URL.canParse(text)) || 'a URI that starts with http:// or https://',
    maxLength: 2048,
    pattern: HTTP_URI.source,
    example: 'https://example.com/photos/1.jpg',
  },
  email: {
    // RFC 5321, section 4.5.3.1.1.
    check: (text) =>
      (EMAIL.test(text) && text.indexOf('@') <= 64) || 'an email address, such as ann@example.com',
    maxLength: 254,
    pattern: EMAIL.source,
    example: 'ann@example.com',
  },
  byte: {
    check: (text) => isBase64(text) || 'encoded in base64, with padding',
    pattern: '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$',
    example: 'cGV0cw==',
  },
  // A floating-point number would round an amount of money.
  decimal: {
    check: (text) => DECIMAL.test(text) || 'a decimal number in a string, such as 9.99',
    pattern: DECIMAL.source,
    example: '9.99',
  },
};

/** The second UTF-16 unit of a code point, which JavaScript counts, too. */
const LOW_SURROGATE = /[\udc00-\udfff]/g;

const patterns = new Map<string, RegExp>();

/** Compiles a pattern, with the flag `u` unless that rejects an escape in it, such as `\_`. */
export function toRegExp(pattern: RegExp | string): RegExp {
  if (typeof pattern !== 'string') return pattern;
  let compiled = patterns.get(pattern);
  if (compiled === undefined) {
    try {
      compiled = new RegExp(pattern, 'u');
    } catch {
      compiled = new RegExp(pattern);
    }
    patterns.set(pattern, compiled);
  }
  return compiled;
}

/** Finds what is wrong with a string. NUL, which PostgreSQL cannot store, and lone surrogates are always invalid. */
export function findStringViolation(schema: Schema, value: unknown): string | undefined {
  const format = FORMATS[schema.format ?? ''];
  const { minLength, maxLength = format?.maxLength, pattern, notBlank } = schema;
  const text = typeof value === 'string' ? value : '';
  if (text.includes('\0')) return ' must not contain a NUL character';
  if (!text.isWellFormed()) return ' must not contain a lone surrogate';
  if (text === value) {
    const length = text.replaceAll(LOW_SURROGATE, '').length;
    const violation = findSizeViolation('be', length, minLength, maxLength, 'characters long');
    if (violation !== undefined) return violation;
  }
  const expected = format?.check(text) ?? true;
  if (expected !== true) return ` must be ${expected}`;
  if (text !== value) return ' must be a string';
  if (notBlank === true && !toRegExp(NOT_BLANK).test(text)) return ' must not be blank';
  if (pattern === undefined || toRegExp(pattern).test(text)) return undefined;
  return ` must match the pattern ${toRegExp(pattern).source}`;
}

/** Finds what is wrong with a size, in a message such as " must have 1 to 2 items", whose verb is "have". */
export function findSizeViolation(
  verb: string,
  size: number,
  minimum = 0,
  maximum = Infinity,
  noun: string,
): string | undefined {
  if (size >= minimum && size <= maximum) return undefined;
  if (maximum === Infinity) return ` must ${verb} at least ${minimum} ${noun}`;
  return ` must ${verb} ${minimum === 0 ? 'at most' : `${minimum} to`} ${maximum} ${noun}`;
}

/** The limits of formats of numbers. JSON numbers are exact up to 2^53-1 (RFC 8259, section 6). */
const FORMAT_LIMITS: Readonly<Record<string, readonly [number, number]>> = {
  int32: [-(2 ** 31), 2 ** 31 - 1],
  int64: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
};

/**
 * Combines the limits of a schema and of its format to a minimum and a maximum, as in OpenAPI 3.0.3. Limits of integers are
 * inclusive.
 */
export function toLimits(schema: Schema) {
  const { type, exclusiveMinimum: above = -Infinity, exclusiveMaximum: below = Infinity } = schema;
  const isInteger = type === 'integer';
  const format =
    FORMAT_LIMITS[schema.format ?? ''] ??
    (isInteger ? FORMAT_LIMITS.int64! : [-Infinity, Infinity]);
  const minimum = Math.max(format[0], schema.minimum ?? -Infinity);
  const maximum = Math.min(format[1], schema.maximum ?? Infinity);
  if (isInteger)
    return {
      minimum: Math.max(Math.ceil(minimum), Math.floor(above) + 1),
      maximum: Math.min(Math.floor(maximum), Math.ceil(below) - 1),
    };
  return {
    minimum: Math.max(minimum, above),
    exclusiveMinimum: above !== -Infinity && above >= minimum,
    maximum: Math.min(maximum, below),
    exclusiveMaximum: below !== Infinity && below <= maximum,
  };
}

/** Finds what is wrong with a number. 1e999, which JSON allows, is invalid: JavaScript reads it as Infinity. */
export function findNumberViolation(schema: Schema, value: unknown): string | undefined {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = toLimits(schema);
  const isInteger = schema.type === 'integer';
  const number = typeof value === 'number' ? value : NaN;
  const isNumber = isInteger ? Number.isInteger : Number.isFinite;
  const isRepresentable = isNumber(schema.format === 'float' ? Math.fround(number) : number);
  const isAboveMinimum = exclusiveMinimum ? number > minimum : number >= minimum;
  const isBelowMaximum = exclusiveMaximum ? number < maximum : number <= maximum;
  if (isRepresentable && isAboveMinimum && isBelowMaximum) {
    const { multipleOf } = schema;
    const isMultiple = multipleOf === undefined || isMultipleOf(number, multipleOf);
    return isMultiple ? undefined : ` must be a multiple of ${multipleOf}`;
  }
  if (isInteger) return ` must be an integer from ${minimum} to ${maximum}`;
  const limits = [
    Number.isFinite(minimum) && `${exclusiveMinimum ? 'greater than' : 'at least'} ${minimum}`,
    Number.isFinite(maximum) && `${exclusiveMaximum ? 'less than' : 'at most'} ${maximum}`,
  ];
  const words = limits.filter(Boolean).join(' and ');
  return ` must be a number${words === '' ? '' : `, ${words}`}`;
}

/** Returns the default format of an integer: int32 if both limits fit, and otherwise int64. */
export function getIntegerFormat({ minimum, maximum }: ReturnType<typeof toLimits>): string {
  const [lowest, highest] = FORMAT_LIMITS.int32!;
  return minimum >= lowest && maximum <= highest ? 'int32' : 'int64';
}

/** Whether a number is a multiple in decimal arithmetic: in floating-point arithmetic, 0.3 is not one of 0.1. */
function isMultipleOf(value: number, divisor: number): boolean {
  const decimals = [value, divisor].map((number) => {
    const [coefficient, exponent = '0'] = String(number).split('e');
    const [integer, fraction = ''] = coefficient!.split('.');
    return { digits: BigInt(integer! + fraction), exponent: Number(exponent) - fraction.length };
  });
  const lowest = Math.min(...decimals.map(({ exponent }) => exponent));
  const [dividend = 0n, units = 1n] = decimals.map(
    ({ digits, exponent }) => digits * 10n ** BigInt(exponent - lowest),
  );
  return dividend % units === 0n;
}
