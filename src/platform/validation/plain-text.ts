/**
 * The default pattern of strings: no NUL. The patterns of the platform have anchors, because some tools match whole strings,
 * and `\x00`, because some tools do not know `\u0000`.
 */
export const PLAIN_TEXT = String.raw`^[^\x00]*$`;

/**
 * The pattern of `notBlank`: one character is neither white space nor a control character. Unicode properties such as `\p{L}`
 * would be stricter, but many clients cannot compile them.
 */
export const NOT_BLANK = String.raw`^[\s\x01-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00]*$`;

/** Returns an example of a string for the OpenAPI document, because Swagger UI shows a random string without one. */
export const toTextExample = (minLength = 0, maxLength?: number): string =>
  'text'.padEnd(minLength, '.').slice(0, maxLength);
