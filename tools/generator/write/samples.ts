/** Makes values that a schema accepts, for the generated test. */
import { sample, stringMatching } from 'fast-check';
import type { DtoClass, Property, Schema } from '../model.js';

/** A property of an object whose value makes a request invalid. */
export interface Invalid {
  readonly property: string;
  readonly value: unknown;
}

/**
 * Returns a body that a class accepts, without the properties that only responses have.
 *
 * @param seed two seeds give two bodies whose texts differ, where the schema allows it
 */
export function toSample(
  dto: DtoClass,
  classes: readonly DtoClass[],
  seed: number,
): Record<string, unknown> {
  const properties = dto.properties.filter(({ readOnly }) => readOnly !== true);
  return Object.fromEntries(
    properties.flatMap((property) => {
      const value = toValue(property, classes, seed, 0);
      return value === undefined ? [] : [[property.name, value]];
    }),
  );
}

function toValue(
  schema: Schema,
  classes: readonly DtoClass[],
  seed: number,
  depth: number,
): unknown {
  if (schema.enum !== undefined) return schema.enum[seed % schema.enum.length];
  if (schema.class !== undefined) {
    const dto = classes.find(({ name }) => name === schema.class)!;
    return toObject(dto.properties, classes, seed, depth);
  }
  if (schema.properties !== undefined) return toObject(schema.properties, classes, seed, depth);
  if (schema.oneOf !== undefined) return toAlternative(schema, classes, seed, depth);
  switch (schema.type) {
    case 'string':
      return toText(schema, seed);
    case 'integer':
    case 'number':
      return toNumber(schema, seed);
    case 'boolean':
      return seed % 2 === 0;
    case 'array':
      return toArray(schema, classes, seed, depth);
    case 'object':
      return schema.additionalProperties === true || schema.additionalProperties === undefined
        ? { key: 'value' }
        : { key: toValue(schema.additionalProperties, classes, seed, depth + 1) };
    default:
      return 'any';
  }
}

/** An object; deep inside, only with what is required, because a class may contain itself. */
function toObject(
  properties: readonly Property[],
  classes: readonly DtoClass[],
  seed: number,
  depth: number,
): object {
  const used = properties.filter(
    ({ readOnly, required }) => readOnly !== true && (required || depth < 2),
  );
  return Object.fromEntries(
    used.map((property) => [
      property.name,
      depth > 6 ? null : toValue(property, classes, seed, depth + 1),
    ]),
  );
}

function toAlternative(
  { oneOf = [], discriminator }: Schema,
  classes: readonly DtoClass[],
  seed: number,
  depth: number,
): unknown {
  if (discriminator === undefined) return toValue(oneOf[0]!, classes, seed, depth + 1);
  const [value, name] = Object.entries(discriminator.mapping)[0]!;
  return {
    ...(toValue({ class: name }, classes, seed, depth + 1) as object),
    [discriminator.property]: value,
  };
}

function toArray(
  { items = {}, minItems = 0, maxItems = Infinity, uniqueItems }: Schema,
  classes: readonly DtoClass[],
  seed: number,
  depth: number,
): unknown[] {
  const length = Math.min(Math.max(minItems, 1), maxItems);
  return Array.from({ length: depth > 3 ? minItems : length }, (_, index) =>
    toValue(items, classes, uniqueItems === true ? seed + index : seed, depth + 1),
  );
}

const FORMATS: Readonly<Record<string, (seed: number) => string>> = {
  date: (seed) => `2026-11-${String((seed % 28) + 1).padStart(2, '0')}`,
  'date-time': (seed) => `2026-11-${String((seed % 28) + 1).padStart(2, '0')}T12:00:00.000Z`,
  uuid: (seed) => `0190c8f5-7c6f-7d3a-9c5e-${String(seed).padStart(12, '0')}`,
  uri: (seed) => `https://example.com/${seed}`,
  email: (seed) => `someone${seed}@example.com`,
  byte: () => 'AAEC',
  decimal: (seed) => `${seed % 10}`,
};

function toText(
  { format, pattern, minLength = 0, maxLength = Infinity }: Schema,
  seed: number,
): string {
  const known = FORMATS[format ?? ''];
  if (known !== undefined) return known(seed);
  if (pattern !== undefined) {
    const hasLength = (text: string): boolean => {
      const { length } = Array.from(text);
      return length >= minLength && length <= maxLength && !text.includes('\0');
    };
    const matching = stringMatching(new RegExp(pattern, 'u')).filter(hasLength);
    return sample(matching, { seed, numRuns: 1 })[0]!;
  }
  return `text ${seed}`.padEnd(minLength, '.').slice(0, maxLength);
}

function toNumber(schema: Schema, seed: number): number {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, type } = schema;
  const step = multipleOf ?? (type === 'integer' ? 1 : 0.5);
  const lowest =
    minimum ??
    (exclusiveMinimum === undefined ? Math.min(0, maximum ?? 0) : exclusiveMinimum + step);
  const first = Math.ceil(lowest / step) * step;
  const highest = maximum ?? (exclusiveMaximum === undefined ? Infinity : exclusiveMaximum - step);
  const value = first + step * seed;
  return value <= highest ? value : first;
}

/** Returns a property and a value that its schema rejects, if there is one. */
export function toInvalid({ properties }: DtoClass): Invalid | undefined {
  const candidates = properties
    .filter(({ readOnly }) => readOnly !== true)
    .flatMap(({ name, type, class: className }) => {
      const value = {
        string: 1,
        integer: 'text',
        number: 'text',
        boolean: 'text',
        array: 'text',
        object: 'text',
      }[className === undefined ? type! : 'object'];
      return value === undefined ? [] : [{ property: name, value }];
    });
  return candidates[0];
}
