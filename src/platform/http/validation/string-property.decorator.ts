import { Property, type PropertyOptions } from './property.decorator.js';

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
    (value) => validate(value, options),
  );
}

/** Returns what is wrong with a value, or undefined if it is valid. */
function validate(
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
