import { isUtf8 } from 'node:buffer';
import { ApiError } from '../../errors/api-error.js';

/** The maximum nesting of arrays and objects, so that recursive functions do not exceed the stack. */
const MAX_DEPTH = 32;

/** Parses JSON in UTF-8. @throws {ApiError} MALFORMED_JSON, or VALIDATION_FAILED if it is nested too deeply */
export function parseJson(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) throw new ApiError('MALFORMED_JSON', 'The body is not valid UTF-8.');
  let value: unknown;
  try {
    // JSON.parse rejects a byte order mark.
    value = JSON.parse(bytes.toString().replace(/^\ufeff/, ''));
  } catch {
    throw new ApiError('MALFORMED_JSON', 'The body is not valid JSON.');
  }
  if (exceedsDepth(value, MAX_DEPTH))
    throw new ApiError('VALIDATION_FAILED', `JSON nesting depth exceeds ${MAX_DEPTH}.`);
  return value;
}

function exceedsDepth(value: unknown, depth: number): boolean {
  return (
    typeof value === 'object' &&
    value !== null &&
    (depth === 0 || Object.values(value).some((inner) => exceedsDepth(inner, depth - 1)))
  );
}
