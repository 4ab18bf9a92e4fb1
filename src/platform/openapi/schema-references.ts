import type { Type } from '@nestjs/common';
import { getSchemaPath } from '@nestjs/swagger';
import { ANY_TYPE } from '../validation/property.js';

/**
 * Replaces the functions that return classes by the paths of their schemas, at every depth.
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
  const entries = Object.entries(value)
    .filter(([name, inner]) => name !== 'type' || inner !== ANY_TYPE)
    .map(([name, inner]) => [name, resolveClasses(inner, classes)]);
  return Object.fromEntries(entries) as Value;
}
