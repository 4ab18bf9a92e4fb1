/** Decorators that declare a property of a DTO once, for the validation and for the OpenAPI document. */
import { applyDecorators } from '@nestjs/common';
import { ApiProperty, type ApiPropertyOptions } from '@nestjs/swagger';
import { registerDecorator, ValidateIf } from 'class-validator';
import { MAX_ID } from '../../config/max-id.js';

/** The options that every property has. */
export interface PropertyOptions {
  /** The property may be omitted; null is still invalid. */
  readonly optional?: boolean;
  readonly description: string;
}

/**
 * Declares a property of a DTO once, for the validation and for the OpenAPI document.
 *
 * @param schema the OpenAPI schema of the property
 * @param validate returns what is wrong with a value, as the end of a sentence that starts with the
 *   name of the property; undefined if the value is valid
 */
function Property(
  { optional = false, description }: PropertyOptions,
  schema: ApiPropertyOptions,
  validate: (value: unknown) => string | undefined,
): PropertyDecorator {
  const violation = (value: unknown): string | undefined =>
    value === undefined ? 'is missing' : validate(value);
  return applyDecorators(
    ApiProperty({ required: !optional, description, ...schema } as ApiPropertyOptions),
    ...(optional ? [ValidateIf((_object, value) => value !== undefined)] : []),
    (target: object, property: string | symbol) =>
      registerDecorator({
        name: 'property',
        target: target.constructor,
        propertyName: property as string,
        validator: {
          validate: (value: unknown) => violation(value) === undefined,
          defaultMessage: (details) => `${details?.property} ${violation(details?.value)}`,
        },
      }),
  );
}

/** A character that is not white space. JavaScript's class lacks one of Unicode's, NEXT LINE. */
const NOT_BLANK = /[^\s\u0085]/;

/** Lengths are in Unicode code points, as in JSON Schema. */
export interface StringPropertyOptions extends PropertyOptions {
  readonly minLength?: number;
  readonly maxLength: number;
  /** The string must contain a character that is not white space. */
  readonly notBlank?: boolean;
  readonly example: string;
}

/**
 * Declares a string property of a DTO. No string may contain NUL, which PostgreSQL cannot store, or a
 * lone surrogate, which UTF-8 cannot encode.
 */
export function StringProperty(options: StringPropertyOptions): PropertyDecorator {
  const { minLength, maxLength, notBlank = false, example } = options;
  return Property(
    options,
    {
      type: 'string',
      ...(minLength === undefined ? {} : { minLength }),
      maxLength,
      ...(notBlank ? { pattern: NOT_BLANK.source } : {}),
      example,
    },
    (value) => validateString(value, options),
  );
}

/** Returns what is wrong with a value, or undefined if it is valid. */
function validateString(
  value: unknown,
  { minLength = 0, maxLength, notBlank }: StringPropertyOptions,
): string | undefined {
  if (typeof value !== 'string') return 'must be a string';
  if (value.includes('\0')) return 'must not contain a NUL character';
  if (!value.isWellFormed()) return 'must not contain a lone surrogate';
  const length = codePointLength(value);
  if (length < minLength || length > maxLength) {
    return minLength === 0
      ? `must be at most ${maxLength} characters long`
      : `must be ${minLength} to ${maxLength} characters long`;
  }
  if (notBlank === true && !NOT_BLANK.test(value)) return 'must not be blank';
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

/** RFC 3339, section 5.6. */
const DATE_TIME = /^(\d{4}-\d\d-\d\d)T(\d\d):\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$/i;

/** In characters: RFC 3339 does not limit the digits of a fraction of a second. */
const MAX_DATE_TIME_LENGTH = 64;

/**
 * Declares a point in time with an offset from UTC (RFC 3339). It is stored in milliseconds and returned
 * in UTC, in which its year must have four digits, too.
 */
export function DateTimeProperty(options: PropertyOptions): PropertyDecorator {
  return Property(
    options,
    {
      type: 'string',
      format: 'date-time',
      maxLength: MAX_DATE_TIME_LENGTH,
      example: '2026-11-01T12:00:00.000Z',
    },
    validateDateTime,
  );
}

function validateDateTime(value: unknown): string | undefined {
  const text = typeof value === 'string' && value.length <= MAX_DATE_TIME_LENGTH ? value : '';
  const [, date, hour] = DATE_TIME.exec(text) ?? [];
  const time = new Date(text);
  if (date === undefined || !isCalendarDate(date) || hour === '24' || Number.isNaN(time.getTime()))
    return 'must be a date and time with an offset from UTC, such as 2026-11-01T12:00:00Z';
  const year = time.getUTCFullYear();
  return year >= 0 && year <= 9999 ? undefined : 'must be in the years 0000 to 9999 in UTC';
}

/** Whether a date in the form of RFC 3339 exists. `Date` turns February 30 into March 2. */
function isCalendarDate(text: string): boolean {
  const date = new Date(text);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}
