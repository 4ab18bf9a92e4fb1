import type { Type } from '@nestjs/common';
import { getSchemaPath } from '@nestjs/swagger';
import { ANY_TYPE } from '../validation/property.js';

/**
 * Returns a copy of a value without `ANY_TYPE`, in which the paths of schemas replace the functions that return classes.
 *
 * @param classes the set to which these classes are added
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
