/**
 * The pattern of strings that have no other. The patterns of the platform have anchors, so that tools that match whole
 * strings agree, and `\x00`, because not all of them know `\u0000`.
 */
export const PLAIN_TEXT = String.raw`^[^\x00]*$`;

/** What OpenAPI 3.0 can express of `notBlank`: its patterns have no Unicode properties, with which many clients fail. */
export const VISIBLE_TEXT = String.raw`^[\s\x01-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00]*$`;

interface Lengths {
  readonly minLength?: number;
  readonly maxLength?: number;
}

/** Returns an example of such a string: Swagger UI would show a random one. */
export const toTextExample = ({ minLength = 0, maxLength }: Lengths): string =>
  'text'.padEnd(minLength, '.').slice(0, maxLength);
