/** Finds texts that a schema accepts, for samples of requests. */
import { sample, stringMatching } from 'fast-check';
import { FORMATS, toRegExp } from '../../src/platform/validation/scalar-violations.js';
import type { Schema as PlatformSchema } from '../../src/platform/validation/schema.js';
import { findProblems } from '../../src/platform/validation/schema-rules.js';
import { getNested, type Schema } from './model.js';

/**
 * Returns a text that a schema accepts: one of its format, one that its pattern matches, or its example. Undefined if none
 * of them has the format, matches the pattern and is within the limits.
 *
 * @param seed two seeds give two texts, where the schema allows it
 */
export function findText(schema: Schema, seed: number): string | undefined {
  const { format, pattern, example, minLength = 0, maxLength = Infinity } = schema;
  const known = FORMATS[format ?? ''];
  if (known === undefined && pattern === undefined)
    return `text ${seed}`.padEnd(minLength, '.').slice(0, maxLength);
  const isValid = (text: unknown): text is string => isText(schema, text);
  const ofFormat = known && toExample(known.example, seed);
  if (isValid(ofFormat)) return ofFormat;
  return toMatching(pattern, seed).find(isValid) ?? (isValid(example) ? example : undefined);
}

/** Whether a value is a text that a schema accepts. */
export const isText = (schema: Schema, value: unknown): value is string =>
  findProblems({ ...schema, type: 'string' } as PlatformSchema, value).length === 0;

/** Whether a schema has a text that {@link findText} does not find. */
export const hasUnknownText = (schema: Schema): boolean =>
  getNested(schema).some(
    (each) => each.type === 'string' && each.enum === undefined && findText(each, 1) === undefined,
  );

/** Returns an example of a format with another last digit, or with one in front, for each seed below 9. */
function toExample(example: string, seed: number): string {
  const digit = String((seed % 9) + 1);
  return /\d/.test(example) ? example.replace(/\d(?=\D*$)/, digit) : `${digit}${example}`;
}

/** Returns texts that a pattern matches; none if the library does not know the pattern. */
function toMatching(pattern: string | undefined, seed: number): string[] {
  if (pattern === undefined) return [];
  try {
    return sample(stringMatching(toRegExp(pattern)), { seed, numRuns: 1_000 });
  } catch {
    return [];
  }
}
