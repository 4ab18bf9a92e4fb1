/** Makes valid and invalid values of schemas for the generated test. */
import { sample, stringMatching } from 'fast-check';
import { FORMATS, toLimits, toRegExp } from '../../../src/platform/validation/scalar-violations.js';
import { findProblems } from '../../../src/platform/validation/schema-rules.js';
import { type DtoClass, isGiven, type Property, type Schema } from '../model.js';
import { isSent } from '../plan/columns.js';

/** Thrown if no valid value is found. */
export class NoSample extends Error {}

/**
 * Returns a valid body of a class, whose values depend on the seed if the schema allows it.
 *
 * @throws {NoSample} if a required property has a pattern that the library does not know
 */
export function toSample(
  { properties }: DtoClass,
  seed: number,
  depth = 0,
): Record<string, unknown> {
  const used = properties.filter((each) => isSent(each) && (isGiven(each) || depth < 3));
  return Object.fromEntries(
    used.flatMap((each) => {
      try {
        return [[each.name, toValue(each, seed, depth)]];
      } catch (error) {
        if (!(error instanceof NoSample)) throw error;
        if (isGiven(each)) throw new NoSample(`no value of \`${each.name}\` is known`);
        return [];
      }
    }),
  );
}

function toValue(schema: Schema, seed: number, depth: number): unknown {
  const {
    type,
    class: dto,
    enum: values,
    additionalProperties,
    items = {},
    minItems = 0,
    maxItems = Infinity,
  } = schema;
  if (depth > 8) throw new NoSample('an object contains itself');
  if (dto !== undefined) return toSample(dto, seed, depth + 1);
  if (values !== undefined) return values[seed % values.length];
  if (type === 'string') return toText(schema, seed);
  if (type === 'integer' || type === 'number') return toNumber(schema, seed);
  if (type === 'boolean') return seed % 2 === 0;
  if (type === 'array') {
    const length = depth > 3 ? minItems : Math.min(Math.max(minItems, 1), maxItems);
    return Array.from({ length }, (_, index) => toValue(items, seed + index, depth + 1));
  }
  if (type === undefined) return `any ${seed}`;
  return {
    key:
      typeof additionalProperties === 'object'
        ? toValue(additionalProperties, seed, depth + 1)
        : seed,
  };
}

function toNumber(schema: Schema, seed: number): number {
  const { minimum, maximum } = toLimits(schema);
  const range = schema.type === 'integer' ? Infinity : (maximum - minimum) / 4;
  const step =
    schema.multipleOf ??
    (Number.isFinite(range) && range > 0
      ? Math.min(range, 0.5)
      : schema.type === 'integer'
        ? 1
        : 0.5);
  const isOpen = minimum <= Number.MIN_SAFE_INTEGER;
  const first = Math.floor((isOpen ? Math.min(0, maximum) : minimum) / step);
  const candidates = [seed, seed + 1, seed + 2, 0, -1].flatMap((count) => {
    const value = (first + count) * step;
    // Rounding removes errors of binary fractions, such as in 3 times 0.1.
    return [Number(value.toPrecision(15)), value];
  });
  return find(schema, candidates);
}

/** Returns the first value that a schema accepts. */
function find<Value>(schema: Schema, candidates: readonly Value[]): Value {
  const found = candidates.find((each) => findProblems(schema as never, each).length === 0);
  if (found === undefined) throw new NoSample('no value is known');
  return found;
}

function toText(schema: Schema, seed: number): string {
  const { format, pattern, minLength = 0, maxLength = Infinity } = schema;
  const example = FORMATS[format ?? '']?.example;
  const digit = String((seed % 9) + 1);
  const candidates = [
    ...(example === undefined
      ? [`${digit} text`.padEnd(minLength, '.').slice(0, maxLength)]
      : [
          /\d/.test(example) && format !== 'byte'
            ? example.replace(/\d(?=\D*$)/, digit)
            : `${digit}${example}`,
          example,
        ]),
    ...toMatching(pattern, seed),
  ];
  return find({ ...schema, type: 'string' }, candidates);
}

/** Returns texts that a pattern matches; none if the library does not know the pattern. */
function toMatching(pattern: string | undefined, seed: number): string[] {
  if (pattern === undefined) return [];
  try {
    return sample(stringMatching(toRegExp(pattern)), { seed, numRuns: 200 });
  } catch {
    return [];
  }
}

/** Returns an invalid value for a property, by its name. */
export function toInvalid(properties: readonly Property[]): Record<string, unknown[]> | undefined {
  const property = properties.find(
    (each) => isSent(each) && (each.type ?? each.class) !== undefined,
  );
  return property && { [property.name]: [property.type === 'string' ? 1 : 'text'] };
}
