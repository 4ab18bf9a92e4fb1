/** What is wrong with strings and numbers: functions that return the text that follows the path in a message. */
import type { Schema } from './schema.js';

type Violation = string | undefined;

/** A format whose strings are validated. */
interface Format {
  /** What the OpenAPI document says about it, unless the schema says something else. */
  readonly document: Schema;
  readonly check: (text: string) => Violation;
}

const toFormat = (
  isValid: RegExp | ((text: string) => boolean),
  noun: string,
  document: Schema,
): Format => ({
  document,
  check: (text) =>
    (isValid instanceof RegExp ? isValid.test(text) : isValid(text))
      ? undefined
      : ` must be ${noun}`,
});

/** RFC 3339, section 5.6. */
const FULL_DATE = /^\d{4}-\d\d-\d\d$/;
const DATE_TIME = /^(\d{4}-\d\d-\d\d)T(\d\d):\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/i;

/** Whether a date in the form of RFC 3339 exists. `Date` turns February 30 into March 2. */
function isCalendarDate(text: string): boolean {
  const date = new Date(text);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

/** It is stored in milliseconds and returned in UTC, in which its year must have four digits, too. */
function checkDateTime(text: string): Violation {
  const [, date, hour] = DATE_TIME.exec(text) ?? [];
  const time = new Date(text);
  if (date === undefined || !isCalendarDate(date) || hour === '24' || Number.isNaN(time.getTime()))
    return ' must be a date and time with an offset from UTC, such as 2026-11-01T12:00:00Z';
  const year = time.getUTCFullYear();
  return year >= 0 && year <= 9999 ? undefined : ' must be in the years 0000 to 9999 in UTC';
}

/** The characters of a URI (RFC 3986, section 2). `URL` also accepts others, such as spaces and backslashes. */
const HTTP_URI = /^https?:\/\/([A-Za-z0-9\-._~:/?#[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})+$/;

/** RFC 5321, section 4.1.2, without quoted strings and address literals, and with a top-level domain. */
const EMAIL =
  /^(?=.{1,64}@)[\w!#$%&'*+/=?^`{|}~-]+(\.[\w!#$%&'*+/=?^`{|}~-]+)*@([a-z\d]([a-z\d-]{0,61}[a-z\d])?\.)+[a-z\d]([a-z\d-]{0,61}[a-z\d])?$/i;

/** The formats that are validated. Values are returned as they were sent. */
export const FORMATS: Readonly<Record<string, Format>> = {
  // RFC 3339 does not limit the digits of a fraction of a second.
  'date-time': {
    document: { maxLength: 64, example: '2026-11-01T12:00:00.000Z' },
    check: checkDateTime,
  },
  date: toFormat(
    (text) => FULL_DATE.test(text) && isCalendarDate(text),
    'a date, such as 2026-11-01',
    { example: '2026-11-01' },
  ),
  // RFC 9562, section 4: any version.
  uuid: toFormat(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, 'a UUID', {
    example: '0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70',
  }),
  uri: toFormat(
    (text) => HTTP_URI.test(text) && URL.canParse(text),
    'a URI that starts with http:// or https://',
    { maxLength: 2048, pattern: HTTP_URI.source, example: 'https://example.com/photos/1.jpg' },
  ),
  email: toFormat(EMAIL, 'an email address, such as ann@example.com', {
    maxLength: 254,
    example: 'ann@example.com',
  }),
  // RFC 4648, section 4. A regular expression with a repeated group fails on a text of megabytes.
  byte: toFormat(
    (text) => text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text),
    'encoded in base64, with padding',
    { example: 'cGV0cw==' },
  ),
  // As text, because a floating-point number would round an amount of money.
  decimal: toFormat(/^-?(0|[1-9]\d*)(\.\d+)?$/, 'a decimal number in a string, such as 9.99', {
    example: '9.99',
  }),
};

/** The limits of the formats of numbers: those of JSON are exact up to 2^53-1 (RFC 8259, section 6). */
const LIMITS: Readonly<Record<string, readonly [number, number]>> = {
  int32: [-(2 ** 31), 2 ** 31 - 1],
  int64: [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  float: [-(2 - 2 ** -23) * 2 ** 127, (2 - 2 ** -23) * 2 ** 127],
};

/** A character that is neither white space nor invisible; BRAILLE PATTERN BLANK has no property that says so. */
const NOT_BLANK = /[^\p{White_Space}\p{Default_Ignorable_Code_Point}\u2800]/u;

/** What OpenAPI 3.0 can express of it: its patterns have no Unicode properties, with which many clients fail. */
export const NOT_WHITE_SPACE = String.raw`[^\s\u0085]`;

/** The second half of a code point that JavaScript counts twice. */
const LOW_SURROGATE = /[\udc00-\udfff]/g;

/**
 * Returns the regular expression of a schema, which has the flag `u` if it can.
 *
 * @throws {TypeError} if the OpenAPI document cannot express the pattern
 */
function toRegExp({ pattern, notBlank = false }: Schema): RegExp | undefined {
  if (pattern === undefined) return undefined;
  if (notBlank || (pattern instanceof RegExp && !/^u?$/.test(pattern.flags)))
    throw new TypeError('A pattern cannot have flags other than u, or be combined with notBlank.');
  if (pattern instanceof RegExp) return pattern;
  try {
    return new RegExp(pattern, 'u');
  } catch {
    // Escapes that are not necessary, such as \_, are allowed without the flag.
    return new RegExp(pattern);
  }
}

/** Returns a check that no string contains NUL, which PostgreSQL cannot store, or what UTF-8 cannot encode. */
export function toStringCheck(schema: Schema): (value: unknown) => Violation {
  const { document, check } = FORMATS[schema.format ?? ''] ?? {};
  const { minLength = 0, maxLength = document?.maxLength ?? Infinity, notBlank } = schema;
  const pattern = toRegExp(schema);
  return (value) => {
    if (typeof value !== 'string') return check?.('') ?? ' must be a string';
    if (value.includes('\0')) return ' must not contain a NUL character';
    if (!value.isWellFormed()) return ' must not contain a lone surrogate';
    const length = value.replaceAll(LOW_SURROGATE, '').length;
    if (length < minLength || length > maxLength)
      return ` must be ${toRange(minLength, maxLength)} characters long`;
    const violation = check?.(value);
    if (violation !== undefined) return violation;
    if (notBlank === true && !NOT_BLANK.test(value)) return ' must not be blank';
    return pattern?.test(value) === false ? ` must match the pattern ${pattern.source}` : undefined;
  };
}

export function toRange(minimum: number, maximum: number): string {
  if (maximum === Infinity) return `at least ${minimum}`;
  return minimum === 0 ? `at most ${maximum}` : `${minimum} to ${maximum}`;
}

/**
 * Returns the format and the limits of an integer. The format defaults to int32 if both limits fit, otherwise to int64;
 * the limits never exceed those of the format.
 */
export function toIntegerRange(schema: Schema) {
  const { minimum = -Infinity, maximum = Infinity } = schema;
  const { exclusiveMinimum = -Infinity, exclusiveMaximum = Infinity } = schema;
  const [lowest, highest] = LIMITS[schema.format ?? ''] ?? LIMITS.int64!;
  const low = Math.max(lowest, Math.ceil(minimum), Math.floor(exclusiveMinimum) + 1);
  const high = Math.min(highest, Math.floor(maximum), Math.ceil(exclusiveMaximum) - 1);
  const fits32Bits = low >= LIMITS.int32![0] && high <= LIMITS.int32![1];
  return {
    format: schema.format ?? (fits32Bits ? 'int32' : 'int64'),
    minimum: low,
    maximum: high,
    exclusiveMinimum: undefined,
    exclusiveMaximum: undefined,
  };
}

export function toIntegerCheck(schema: Schema): (value: unknown) => Violation {
  const { minimum, maximum } = toIntegerRange(schema);
  return (value) =>
    Number.isInteger(value) && Number(value) >= minimum && Number(value) <= maximum
      ? checkMultiple(schema, Number(value))
      : ` must be an integer from ${minimum} to ${maximum}`;
}

/** Returns a check that also rejects Infinity: JSON allows 1e999, which cannot be returned as it was sent. */
export function toNumberCheck(schema: Schema): (value: unknown) => Violation {
  const [lowest, highest] = LIMITS[schema.format ?? ''] ?? [];
  const { minimum = lowest, maximum = highest, exclusiveMinimum, exclusiveMaximum } = schema;
  const limits = [
    ['at least', minimum, (value: number, limit: number) => value >= limit],
    ['greater than', exclusiveMinimum, (value: number, limit: number) => value > limit],
    ['at most', maximum, (value: number, limit: number) => value <= limit],
    ['less than', exclusiveMaximum, (value: number, limit: number) => value < limit],
  ] as const;
  const given = limits.filter(([, limit]) => limit !== undefined);
  const words = given.map(([comparison, limit]) => `${comparison} ${limit}`).join(' and ');
  const violation = ` must be a number${words === '' ? '' : `, ${words}`}`;
  return (value) =>
    Number.isFinite(value) && given.every(([, limit, holds]) => holds(Number(value), limit!))
      ? checkMultiple(schema, Number(value))
      : violation;
}

/** Compares decimal digits: the remainder of floating-point numbers is not exact, such as that of 0.3 and 0.1. */
function checkMultiple({ multipleOf }: Schema, value: number): Violation {
  if (multipleOf === undefined) return undefined;
  const [dividend, divisor] = [toDecimal(value), toDecimal(multipleOf)];
  const exponent = Math.min(dividend.exponent, divisor.exponent);
  const toUnits = (decimal: typeof divisor) =>
    decimal.digits * 10n ** BigInt(decimal.exponent - exponent);
  const isMultiple = toUnits(dividend) % toUnits(divisor) === 0n;
  return isMultiple ? undefined : ` must be a multiple of ${multipleOf}`;
}

function toDecimal(value: number) {
  const [coefficient = '', exponent = '0'] = String(value).split('e');
  const [integer = '', fraction = ''] = coefficient.split('.');
  return { digits: BigInt(integer + fraction), exponent: Number(exponent) - fraction.length };
}
