import { isUtf8 } from 'node:buffer';
import { ApiError } from '../../errors/api-error.js';

/** The maximum nesting of arrays and objects. Code that walks through a body may then be recursive. */
export const MAX_DEPTH = 32;

/** @throws {ApiError} MALFORMED_JSON, or VALIDATION_FAILED if it is nested too deeply */
export function parseJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new ApiError('MALFORMED_JSON', 'The body is not valid UTF-8.');
  let value: unknown;
  try {
    // Without a byte order mark.
    value = JSON.parse(bytes.toString().replace(/^\ufeff/, ''));
  } catch {
    throw new ApiError('MALFORMED_JSON', 'The body is not valid JSON.');
  }
  requireDepth(value, MAX_DEPTH);
  return value;
}

/** @throws {ApiError} VALIDATION_FAILED if a value is nested more deeply */
export function requireDepth(value: unknown, depth: number): void {
  if (exceedsDepth(value, depth))
    throw new ApiError('VALIDATION_FAILED', `JSON nesting depth exceeds ${MAX_DEPTH}.`);
}

function exceedsDepth(value: unknown, depth: number): boolean {
  return (
    typeof value === 'object' &&
    value !== null &&
    (depth === 0 || Object.values(value).some((inner) => exceedsDepth(inner, depth - 1)))
  );
}

/** A text of a form, and where it belongs: `items[0][price]=5` has the path `['items', '0', 'price']`. */
export interface FormField {
  readonly path: readonly string[];
  readonly text: string;
}

/** A name with keys in brackets. Brackets in another order are a part of the name. */
const NAME = /^([^[\]]*)((?:\[[^[\]]*\])+)$/;

/**
 * Parses a form (https://url.spec.whatwg.org/#application/x-www-form-urlencoded), more strictly than `URLSearchParams`,
 * which replaces what it cannot decode. What a path means depends on the schema: `qs`, which guesses it, loses keys that
 * look like indexes, and what follows a bracket.
 *
 * @throws {ApiError} BAD_REQUEST if it cannot be decoded, or VALIDATION_FAILED if it is nested too deeply
 */
export function parseForm(bytes: Buffer): FormField[] {
  if (!isUtf8(bytes)) throw new ApiError('BAD_REQUEST', 'The body is not valid UTF-8.');
  const fields = bytes.toString().split('&');
  return fields.filter(Boolean).map((field) => {
    const [name, text] = field.split(/=(.*)/s, 2).map(decode) as [string, string?];
    const [, first = name, keys = ''] = NAME.exec(name) ?? [];
    const path = [first, ...Array.from(keys.matchAll(/\[(.*?)\]/gs), ([, key]) => key!)];
    if (path.length > MAX_DEPTH)
      throw new ApiError('VALIDATION_FAILED', `Form nesting depth exceeds ${MAX_DEPTH}.`);
    return { path, text: text ?? '' };
  });
}

function decode(encoded: string): string {
  try {
    return decodeURIComponent(encoded.replaceAll('+', ' '));
  } catch {
    throw new ApiError('BAD_REQUEST', 'The body has an invalid percent-encoding.');
  }
}
