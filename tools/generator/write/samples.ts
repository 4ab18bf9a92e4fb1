/** Makes values that a schema accepts, for the generated test and for examples. */
import {
  type CreateOperation,
  type DtoClass,
  getProperties,
  isGiven,
  type Module,
  type Property,
  type Resource,
  type Schema,
} from '../model.js';
import { findText, hasUnknownText } from '../texts.js';

/**
 * Returns a body that a class accepts, without the properties that only responses have.
 *
 * @param seed two seeds give two bodies whose texts differ, where the schema allows it
 */
export const toSample = ({ properties }: DtoClass, seed: number): Record<string, unknown> =>
  toObject(properties, seed, 0);

/**
 * Returns the properties of a resource that a request to create it has.
 *
 * @param toId returns the id of a row of a table, which a reference has; a property without one is left out
 */
export function toRow(
  { id, columns, request }: Resource,
  seed: number,
  toId: (table: string) => unknown,
): Record<string, unknown> {
  const sent = Object.entries(toSample(request, seed)).filter(
    ([name]) => name !== id.property || id.by === 'client',
  );
  const properties = sent.map(([name, value]) => {
    const { references, join } = columns.find((each) => each.name === name) ?? {};
    if (references !== undefined) return [name, toId(references)] as const;
    const table = join?.columns[1]!.references;
    return [
      name,
      table === undefined ? value : (value as []).flatMap(() => toId(table) ?? []),
    ] as const;
  });
  return Object.fromEntries(properties.filter(([, value]) => value !== undefined));
}

/** Returns how a resource is created. */
export const getCreate = ({ operations }: Module, resource: Resource): CreateOperation =>
  operations
    .map(({ implementation }) => implementation)
    .find((each): each is CreateOperation => each.kind === 'create' && each.resource === resource)!;

/** Returns a value that a schema accepts and that means as little as possible: 0, false, or an empty text or list. */
export function toDecided(schema: Schema): unknown {
  const { type, enum: values, format, pattern, minLength = 0 } = schema;
  if (type === 'array') return [];
  if (format === 'decimal') return '0';
  if (type === 'boolean' && values === undefined) return false;
  return type === 'string' && (values ?? pattern) === undefined && minLength === 0
    ? ''
    : toValue(schema, 0, 0);
}

/** An object; deep inside, only with what it always has, because a class may contain itself. */
function toObject(
  properties: readonly Property[],
  seed: number,
  depth: number,
): Record<string, unknown> {
  const used = properties.filter(
    (each) => each.readOnly !== true && (isGiven(each) || (depth < 3 && !hasUnknownText(each))),
  );
  return Object.fromEntries(
    used.map((each) => [each.name, depth > 7 ? null : toValue(each, seed, depth)]),
  );
}

function toValue(schema: Schema, seed: number, depth: number): unknown {
  const { type, enum: values, oneOf, discriminator, additionalProperties } = schema;
  if (values !== undefined) return values[seed % values.length];
  const properties = getProperties(schema);
  if (properties !== undefined) return toObject(properties, seed, depth + 1);
  if (discriminator !== undefined) {
    const [value, branch] = Object.entries(discriminator.mapping)[0]!;
    const object = toValue({ class: branch }, seed, depth + 1) as object;
    return { ...object, [discriminator.property]: value };
  }
  if (oneOf !== undefined) return toValue(oneOf[0]!, seed, depth + 1);
  if (type === 'string') return findText(schema, seed) ?? 'text';
  if (type === 'integer' || type === 'number') return toNumber(schema, seed);
  if (type === 'boolean') return seed % 2 === 0;
  if (type === 'array') return toArray(schema, seed, depth);
  if (type === undefined) return 'any';
  return typeof additionalProperties === 'object'
    ? { key: toValue(additionalProperties, seed, depth + 1) }
    : { key: 'value' };
}

function toArray(schema: Schema, seed: number, depth: number): unknown[] {
  const { items = {}, minItems = 0, maxItems = Infinity, uniqueItems } = schema;
  const length = depth > 3 ? minItems : Math.min(Math.max(minItems, 1), maxItems);
  return Array.from({ length }, (_, index) =>
    toValue(items, uniqueItems === true ? seed + index : seed, depth + 1),
  );
}

function toNumber(schema: Schema, seed: number): number {
  const { first, step, highest } = getNumbers(schema);
  const value = first + step * seed;
  return value <= highest ? value : first;
}

/** Returns the numbers that a schema accepts: those from the first to the highest, at a distance of a step. */
export function getNumbers(schema: Schema): { first: number; step: number; highest: number } {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, type } = schema;
  const step = multipleOf ?? (type === 'integer' ? 1 : 0.5);
  const lowest =
    minimum ??
    (exclusiveMinimum === undefined ? Math.min(0, maximum ?? 0) : exclusiveMinimum + step);
  const first = Math.ceil(lowest / step) * step;
  const highest = maximum ?? (exclusiveMaximum === undefined ? Infinity : exclusiveMaximum - step);
  return { first, step, highest };
}

/**
 * Returns values that the schema of a property rejects, by its name, if there are such.
 *
 * @param isForm whether the property is in a form, in which every scalar is text
 */
export function toInvalid(
  properties: readonly Property[],
  isForm: boolean,
): Record<string, unknown[]> {
  const property = properties.find(
    ({ readOnly, type, class: dto }) => readOnly !== true && (type ?? dto) !== undefined,
  );
  if (property === undefined) return {};
  const { name, type } = property;
  if (isForm && type === 'array') return { [name]: [{ key: 'text' }] };
  return { [name]: [type !== 'string' ? 'text' : isForm ? ['a', 'b'] : 1] };
}
