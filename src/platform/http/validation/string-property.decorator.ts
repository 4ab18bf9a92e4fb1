import { Property, type PropertyOptions } from './property.decorator.js';

/** A character that is not white space: JavaScript's class lacks one of Unicode's, the next line control. */
const NOT_BLANK = /[^\s\u0085]/;

/** What a text property may be. Lengths are in characters, which are Unicode code points, as JSON Schema counts them. */
export interface StringPropertyOptions extends PropertyOptions {
  readonly minLength?: number;
  readonly maxLength: number;
  /** The text must have a character that is not white space. */
  readonly notBlank?: boolean;
  readonly example: string;
}

/**
 * A text property of a DTO. Whatever the limits, a text has no NUL, which PostgreSQL cannot store, and
 * no lone surrogate, which UTF-8 cannot carry.
 */
export function StringProperty(rules: StringPropertyOptions): PropertyDecorator {
  const { minLength, maxLength, notBlank = false, example } = rules;
  return Property(
    rules,
    {
      type: 'string',
      ...(minLength === undefined ? {} : { minLength }),
      maxLength,
      ...(notBlank ? { pattern: NOT_BLANK.source } : {}),
      example,
    },
    (value) => validate(value, rules),
  );
}

/** What is wrong with a value, or undefined where nothing is. */
function validate(
  value: unknown,
  { minLength = 0, maxLength, notBlank }: StringPropertyOptions,
): string | undefined {
  if (typeof value !== 'string') return 'must be a string';
  if (value.includes('\0')) return 'must not contain a NUL character';
  if (!value.isWellFormed()) return 'must not contain a lone surrogate';
  if (isShorter(value, minLength) || isLonger(value, maxLength)) {
    return minLength === 0
      ? `must be at most ${maxLength} characters long`
      : `must be ${minLength} to ${maxLength} characters long`;
  }
  if (notBlank === true && !NOT_BLANK.test(value)) return 'must not be blank';
  return undefined;
}

// A text has at most as many characters as UTF-16 units and at least half as many, so most need no counting.
const isShorter = (text: string, limit: number): boolean =>
  text.length < limit * 2 && codePointLength(text) < limit;
const isLonger = (text: string, limit: number): boolean =>
  text.length > limit && (text.length > limit * 2 || codePointLength(text) > limit);

function codePointLength(text: string): number {
  return Array.from(text).length;
}
