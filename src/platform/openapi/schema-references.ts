import type { Type } from '@nestjs/common';
import { getSchemaPath } from '@nestjs/swagger';

/** The type of a property that may have any type: Nest documents one without a type as that of its class. */
export const ANY_TYPE = 'any JSON value';

/**
 * Replaces the functions that return classes by references, at every depth: Nest does so only for the type of a property.
 *
 * @param classes gets the classes
 * @returns a copy
 */
export function resolveClasses<Value>(value: Value, classes: Set<Type>): Value {
  if (typeof value === 'function') {
    const dto = (value as () => Type)();
    classes.add(dto);
    return getSchemaPath(dto) as Value;
  }
  if (Array.isArray(value)) return value.map((item) => resolveClasses(item, classes)) as Value;
  if (typeof value !== 'object' || value === null) return value;
  const { type, ...others } = value as { type?: unknown; nullable?: boolean };
  const entries = Object.entries(type === ANY_TYPE || typeof type === 'function' ? others : value);
  const copy = Object.fromEntries(
    entries.map(([name, inner]) => [name, resolveClasses(inner, classes)]),
  );
  if (typeof type !== 'function') return copy as Value;
  const reference = { $ref: resolveClasses(type, classes) };
  if (entries.length === 0) return reference as Value;
  // As Nest does.
  return {
    ...copy,
    ...(others.nullable === true && { type: 'object' }),
    allOf: [reference],
  } as Value;
}
