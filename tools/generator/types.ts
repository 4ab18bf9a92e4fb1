/** The types of TypeScript that the values of schemas have. */
import type { Schema } from './model.js';

/** The type of the values of a schema, with null at its end. */
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

/** Whether two schemas are one type, without null. */
export const isSameType = (a: Schema, b: Schema): boolean =>
  toType({ ...a, nullable: false }) === toType({ ...b, nullable: false });
