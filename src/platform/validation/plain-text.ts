/**
 * The pattern of strings that have no other. The patterns of the platform have anchors, so that tools that match whole
 * strings agree, and `\x00`, because not all of them know `\u0000`.
 */
export const PLAIN_TEXT = String.raw`^[^\x00]*$`;

/**
 * The pattern of `notBlank`: a text has a character that is neither white space nor a control character. Unicode
 * properties would be stricter, but many clients fail with them.
 */
export const NOT_BLANK = String.raw`^[\s\x01-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00]*$`;

/** Returns an example of such a string: Swagger UI would show a random one. */
export const toTextExample = (minLength = 0, maxLength?: number): string =>
  'text'.padEnd(minLength, '.').slice(0, maxLength);
