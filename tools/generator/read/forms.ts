/** Finds out whether `@FormBody` knows how the texts of a form become values. */
import { getNested, getProperties, type Property, type Schema } from '../model.js';
import { entries, type Json } from './json.js';

export const FORM_TYPE = /^application\/x-www-form-urlencoded(;|$)/i;

/**
 * Returns why the values of a form are unknown; undefined if they are known.
 *
 * @param encodings those of the properties (OpenAPI, Encoding Object)
 */
export function findFormProblem(schema: Schema, encodings: unknown): string | undefined {
  const properties = getProperties(schema) ?? [];
  const unclear = properties.find((property) => getNested(property).some(isUnclear));
  if (unclear !== undefined) return `nothing says what a text in the form is as ${unclear.name}`;
  const encoded = entries(encodings).find(([name, encoding]) => {
    const property = properties.find((each) => each.name === name);
    return property !== undefined && !isUsual(property, encoding as Json);
  });
  return encoded && `the form encodes ${encoded[0]} in a style of its own`;
}

/** Whether a text may be several values: only one that may be anything stays a text. */
const isUnclear = ({ oneOf, discriminator }: Schema): boolean =>
  oneOf !== undefined && discriminator === undefined;

/** Whether an object is JSON or has keys in brackets, and an array repeats its name. */
function isUsual(property: Property, { style, explode, contentType }: Json): boolean {
  if (style === 'deepObject') return true;
  if (property.type === 'array')
    return (style ?? 'form') === 'form' && explode !== false && contentType === undefined;
  const isObject = (getProperties(property) ?? property.discriminator) !== undefined;
  if (isObject || property.type === 'object')
    return (style ?? explode) === undefined && /json|^undefined$/.test(String(contentType));
  return contentType === undefined || contentType === 'text/plain';
}
