/** Reads a published OpenAPI document: its operations, the validity of values, and samples of requests. */
import { readFileSync } from 'node:fs';
import { Ajv, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { sample, stringMatching } from 'fast-check';
import { parse } from 'yaml';
import { toOpenApi } from '../../../tools/generator/read/swagger.js';

export type Json = Readonly<Record<string, unknown>>;
type Direction = 'request' | 'response';

export interface Operation {
  readonly method: string;
  /** As in the document: `/pets/{petId}`. */
  readonly path: string;
  readonly pointer: readonly string[];
}

/** The order in which operations are requested: what creates rows first, what deletes them last. */
const METHODS = ['post', 'get', 'patch', 'put', 'delete'];

export const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
export const get = (value: unknown, key: string): unknown =>
  Array.isArray(value) ? value[Number(key)] : isObject(value) ? value[key] : undefined;
const toPointer = (keys: readonly string[]): string =>
  `#/${keys.map((key) => encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')}`;
export const withoutSlash = (path: string): string => path.replace(/(?<=.)\/$/, '');
/** `pet-id`, `pet_id` and `petId` are one name. */
export const toBareName = (name: string): string =>
  name.replaceAll(/[^\p{L}\d]/gu, '').toLowerCase();

/** An OpenAPI document as it was published, whose references are all to itself. */
export class Contract {
  readonly operations: readonly Operation[];
  private readonly ajv: Readonly<Record<Direction, Ajv>>;

  private readonly root: Json;

  /** @param file in JSON or YAML */
  constructor(file: string) {
    const root = toOpenApi(parse(readFileSync(file, 'utf8')) as Json);
    this.root = root;
    const create = (direction: Direction): Ajv => {
      const options = {
        strict: false,
        allErrors: true,
        validateSchema: false,
        logger: false,
        code: { regExp: Object.assign(toPattern, { code: '' }) },
      } as const;
      const ajv = String(root['openapi']).startsWith('3.0')
        ? new Ajv(options)
        : new Ajv2020(options);
      addFormats.default(ajv);
      return ajv.addSchema(toJsonSchema(root, direction) as Json, 'contract');
    };
    this.ajv = { request: create('request'), response: create('response') };
    this.operations = Object.keys(root['paths'] as Json)
      // A path has neither a query nor a fragment.
      .filter((path) => !/[?#]/.test(path))
      .flatMap((path) =>
        METHODS.map((method) => ({ method, path, ...this.find('paths', path, method) })),
      )
      .filter(({ value }) => value !== undefined)
      .toSorted(
        (a, b) =>
          METHODS.indexOf(a.method) - METHODS.indexOf(b.method) || getDepth(a) - getDepth(b),
      );
  }

  /** Finds what is at a pointer, and follows the references on the way. */
  find(...keys: string[]): { readonly value: unknown; readonly pointer: readonly string[] } {
    let [value, pointer]: [unknown, readonly string[]] = [this.root, []];
    for (const key of ['', ...keys]) {
      if (key !== '') [value, pointer] = [get(value, key), [...pointer, key]];
      for (let count = 0; typeof get(value, '$ref') === 'string' && count < 50; count++) {
        const reference = String(get(value, '$ref')).slice(2).split('/');
        pointer = reference.map((part) =>
          decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~'),
        );
        value = pointer.reduce<unknown>(get, this.root);
      }
    }
    return { value, pointer };
  }

  /** Returns why a value is invalid. */
  validate(pointer: readonly string[], value: unknown, direction: Direction): string | undefined {
    const ajv = this.ajv[direction];
    const key = `contract${toPointer(pointer)}`;
    let validate: ValidateFunction;
    try {
      validate = ajv.compile({ $ref: key });
    } catch (error) {
      return `cannot be compared: ${String(error)}`;
    }
    return validate(value) ? undefined : ajv.errorsText(validate.errors, { dataVar: 'it' });
  }

  /** Returns a value that a schema of requests accepts, as far as a sample can know; `n` makes it unique. */
  toSample(pointer: readonly string[], n: number, depth = 0): unknown {
    const { value } = this.find(...pointer);
    if (!isObject(value)) return {};
    const { const: constant, enum: values, type, allOf, oneOf, anyOf, items } = value;
    const at = (...keys: string[]) =>
      this.toSample([...this.find(...pointer).pointer, ...keys], n, depth + 1);
    if (constant !== undefined) return constant;
    if (Array.isArray(values)) return values.find((each) => each !== null);
    const keyword = Object.entries({ allOf, oneOf, anyOf }).find(([, each]) => Array.isArray(each));
    const object = isObject(value['properties']) ? this.toObject(pointer, value, n, depth) : {};
    if (keyword !== undefined) {
      const [name, alternatives] = keyword as [string, Json[]];
      const used = alternatives
        .map((each, index) => [each, index] as const)
        .filter(([each]) => each['type'] !== 'null')
        .slice(0, name === 'allOf' ? undefined : 1);
      const parts = used.map(([, index]) => at(name, String(index)));
      const kind = name === 'allOf' ? {} : toKind(value['discriminator'], used[0]?.[0]);
      return parts.every(isObject)
        ? (Object.assign({}, ...parts, object, kind) as unknown)
        : parts[0];
    }
    const kind = [type].flat().find((each) => each !== 'null') ?? guessType(value);
    if (kind === 'object') return object;
    if (kind === 'array') {
      const length = Math.max(
        Number(value['minItems'] ?? 0),
        depth > 4 || items === undefined ? 0 : 1,
      );
      return Array.from({ length }, () => at('items'));
    }
    if (kind === 'boolean') return n % 2 === 0;
    return kind === 'string'
      ? toText(value, n)
      : kind === undefined
        ? 'any'
        : toNumber(value, n, kind);
  }

  private toObject(
    pointer: readonly string[],
    { properties, required }: Json,
    n: number,
    depth: number,
  ): Json {
    const names = Object.keys(properties as Json).filter((name) => {
      const property = this.find(...pointer, 'properties', name).value;
      const isRequired = Array.isArray(required) && required.includes(name);
      return get(property, 'readOnly') !== true && (isRequired || depth < 3);
    });
    const { pointer: own } = this.find(...pointer);
    return Object.fromEntries(
      names.map((name) => [name, this.toSample([...own, 'properties', name], n, depth + 1)]),
    );
  }
}

/** Returns the property that tells the alternatives apart, with the value for one of them. */
function toKind(discriminator: unknown, alternative: Json | undefined): Json {
  const reference = alternative?.['$ref'];
  if (!isObject(discriminator) || typeof reference !== 'string') return {};
  const { propertyName, mapping } = discriminator;
  const mapped = Object.entries(mapping ?? {}).find(([, each]) => each === reference);
  return { [String(propertyName)]: mapped?.[0] ?? reference.split('/').at(-1) };
}

/** Public documents have patterns with escapes that are not necessary, such as `\:`, which the flag `u` forbids. */
function toPattern(pattern: string): RegExp {
  try {
    return new RegExp(pattern, 'u');
  } catch {
    return new RegExp(pattern);
  }
}

const getDepth = ({ path, method }: Operation): number =>
  path.split('/').length * (method === 'delete' ? -1 : 1);

const guessType = (schema: Json): string | undefined =>
  'properties' in schema || 'additionalProperties' in schema
    ? 'object'
    : 'items' in schema
      ? 'array'
      : undefined;

/** Makes JSON Schema of the schemas of a document: OpenAPI 3.0's own keywords, and what only requests or responses have. */
function toJsonSchema(value: unknown, direction: Direction): unknown {
  if (Array.isArray(value)) return value.map((each) => toJsonSchema(each, direction));
  if (!isObject(value)) return value;
  const foreign = direction === 'request' ? 'readOnly' : 'writeOnly';
  const { nullable, properties, required, exclusiveMinimum, exclusiveMaximum, ...rest } = value;
  const isForeign = (name: string): boolean => get(get(properties, name), foreign) === true;
  const schema: Record<string, unknown> = {
    ...Object.fromEntries(
      Object.entries(rest).map(([key, each]) => [key, toJsonSchema(each, direction)]),
    ),
    ...(typeof nullable === 'object' && { nullable: toJsonSchema(nullable, direction) }),
    ...(isObject(properties) && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, each]) => [
          name,
          isForeign(name) ? false : toJsonSchema(each, direction),
        ]),
      ),
    }),
    ...(required !== undefined && {
      required: Array.isArray(required)
        ? required.filter((name) => !isForeign(String(name)))
        : toJsonSchema(required, direction),
    }),
  };
  for (const [name, limit, exclusive] of [
    ['exclusiveMinimum', 'minimum', exclusiveMinimum],
    ['exclusiveMaximum', 'maximum', exclusiveMaximum],
  ] as const) {
    if (exclusive === true) schema[name] = schema[limit];
    else if (exclusive !== undefined && exclusive !== false)
      schema[name] = toJsonSchema(exclusive, direction);
  }
  return nullable === true ? { anyOf: [schema, { type: 'null' }] } : schema;
}

function toText(
  { format, pattern, minLength = 0, maxLength = Infinity, example }: Json,
  n: number,
): string {
  const day = `2026-11-${String((n % 28) + 1).padStart(2, '0')}`;
  const known: Json = {
    date: day,
    'date-time': `${day}T12:00:00.000Z`,
    uuid: `0190c8f5-7c6f-7d3a-9c5e-${String(n).padStart(12, '0')}`,
    uri: `https://example.com/${n}`,
    email: `someone${n}@example.com`,
    byte: 'AAEC',
    decimal: `${n}.5`,
    time: '12:00:00Z',
  };
  const ofFormat = known[String(format)];
  const isMatch = typeof pattern !== 'string' || toPattern(pattern).test(String(ofFormat));
  if (typeof ofFormat === 'string' && isMatch) return ofFormat;
  if (typeof pattern === 'string')
    try {
      const text = sample(stringMatching(new RegExp(pattern, 'u')), {
        seed: n,
        numRuns: 500,
      }).find(({ length }) => length >= Number(minLength) && length <= Number(maxLength));
      return String(text ?? example);
    } catch {
      return String(example);
    }
  return `${n} text`.padEnd(Number(minLength), '.').slice(0, Number(maxLength));
}

function toNumber(schema: Json, n: number, type: unknown): number {
  const { minimum, exclusiveMinimum, maximum = Infinity, multipleOf } = schema;
  const step = Number(multipleOf ?? (type === 'integer' ? 1 : 0.5));
  const isExclusive = typeof exclusiveMinimum === 'number' || exclusiveMinimum === true;
  const lowest = Number(typeof exclusiveMinimum === 'number' ? exclusiveMinimum : (minimum ?? 0));
  const first = Math.ceil(lowest / step) * step + (isExclusive ? step : 0);
  return first + step * n < Number(maximum) ? first + step * n : first;
}
