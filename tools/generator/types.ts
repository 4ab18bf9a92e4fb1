/** Returns the TypeScript types of schemas. */
import type { Schema } from './model.js';

/** Returns the type of the values of a schema. */
export function toType(schema: Schema): string {
  const type = toBareType(schema);
  return schema.nullable === true && type !== 'unknown' ? `${type} | null` : type;
}

function toBareType({
  type,
  class: dto,
  enum: values,
  items,
  additionalProperties,
}: Schema): string {
  if (dto !== undefined) return dto.name;
  if (values !== undefined) return values.map((each) => JSON.stringify(each)).join(' | ');
  if (type === 'array') {
    const item = toType(items ?? {});
    return /^[\w.]+$/.test(item) ? `${item}[]` : `(${item})[]`;
  }
  if (type === 'object')
    return `Record<string, ${toType(typeof additionalProperties === 'object' ? additionalProperties : {})}>`;
  return type === 'integer' ? 'number' : (type ?? 'unknown');
}

/** Returns whether two schemas have the same type, apart from null. */
export const isSameType = (a: Schema, b: Schema): boolean =>
  toType({ ...a, nullable: false }) === toType({ ...b, nullable: false });
