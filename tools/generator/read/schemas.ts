/** Reads schemas of OpenAPI 3.1 as what `@Property` takes. */
import { FORMATS, toRegExp } from '../../../src/platform/validation/scalar-violations.js';
import { PLAIN_TEXT, NOT_BLANK } from '../../../src/platform/validation/plain-text.js';
import { findProblems } from '../../../src/platform/validation/schema-rules.js';
import type { DtoClass, Notes, Schema } from '../model.js';
import { isUnusable, makeUnique, toClassName, toPascalCase } from '../names.js';
import { findBacktracking } from './backtracking.js';
import { entries, isObject, items, type Json, resolve, text } from './json.js';

/** Keywords beside an `allOf` or `$ref` that annotate, and do not validate. */
const ANNOTATIONS =
  'description title default example examples deprecated readOnly writeOnly nullable x-unique x-references summary'.split(
    ' ',
  );

const TYPES = new Set<unknown>(['string', 'integer', 'number', 'boolean', 'array', 'object']);
const INTEGER_FORMATS = new Set(['int32', 'int64']);

/** Removes the properties that are undefined. */
export const clean = <Value extends object>(value: Value): Value =>
  Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as Value;

export class SchemaReader {
  readonly classes: DtoClass[] = [];
  private readonly byReference = new Map<string, DtoClass>();
  private readonly reading = new Set<string>();
  private readonly names = new Set<string>();

  /**
   * @param prefix of class names that the service already has
   * @param taken the names of the schemas that other modules publish
   */
  constructor(
    private readonly root: Json,
    private readonly notes: Notes,
    private readonly prefix: string,
    private readonly taken: ReadonlySet<string>,
  ) {}

  /**
   * @param context the name of a class, if the schema is an object without a name
   * @param place of notes
   */
  read(json: unknown, context: string, place: string): Schema {
    const { schema, isNullable } = this.simplify(json);
    const read = this.readSchema(schema, context, place);
    return isNullable || read.nullable === true ? { ...read, nullable: true } : read;
  }

  /** Removes null from a schema, and unwraps unions of a single schema. */
  private simplify(json: unknown): { schema: Json; isNullable: boolean } {
    let schema = isObject(json) ? json : {};
    let isNullable = schema['nullable'] === true;
    for (let depth = 0; depth < 20; depth++) {
      const key = ['allOf', 'anyOf', 'oneOf'].find((each) => Array.isArray(schema[each]));
      if (key === undefined) break;
      const { [key]: _branches, ...others } = schema;
      const branches = items(schema[key]);
      const kept = key === 'allOf' ? branches : branches.filter((each) => !this.isNull(each));
      isNullable ||= kept.length < branches.length;
      const annotates = Object.keys(others).every((each) => ANNOTATIONS.includes(each));
      if (kept.length !== 1 || !annotates) {
        if (kept.length < branches.length) schema = { ...others, [key]: kept };
        break;
      }
      schema = { ...(kept[0] as Json), ...others };
      isNullable ||= schema['nullable'] === true;
    }
    return { schema, isNullable };
  }

  private isNull(json: unknown): boolean {
    const { type, enum: values, const: constant } = resolve(this.root, json) as Json;
    return (
      type === 'null' ||
      constant === null ||
      (Array.isArray(values) && values.length === 1 && values[0] === null)
    );
  }

  private readSchema(json: Json, context: string, place: string): Schema {
    const $ref = json['$ref'];
    if (typeof $ref !== 'string') return this.readKeywords(json, context, place);
    // A schema that only refers to itself.
    if (this.reading.has($ref) && !this.byReference.has($ref)) return {};
    this.reading.add($ref);
    const target = resolve(this.root, { $ref });
    const name = decodeURIComponent($ref.split('/').pop()!).replaceAll('~1', '/');
    const { schema, isNullable } = this.simplify(target);
    const read =
      isObject(schema) && typeof schema['$ref'] === 'string'
        ? this.readSchema(schema, name, place)
        : this.readKeywords(schema, name, name, $ref);
    this.reading.delete($ref);
    const { description: _description, ...rest } = read;
    const inherited = read.class === undefined ? read : rest;
    const own = this.readAnnotations({ ...inherited, ...json }, place, inherited.type);
    return { ...inherited, ...own, ...(isNullable && { nullable: true }) };
  }

  /** @param $ref of the class that is created */
  private readKeywords(json: Json, context: string, place: string, $ref?: string): Schema {
    const merged = this.merge(json);
    const types = [merged['type']].flat().filter((each) => each !== undefined && each !== 'null');
    const values = this.readValues(merged, types, place);
    const type =
      types.length === 1 && TYPES.has(types[0])
        ? (types[0] as Schema['type'])
        : types.length > 1
          ? undefined
          : infer(merged, values);
    if (types.length > 1) this.notes.add('several types are published, but not validated', place);
    const isNullable =
      [merged['type']].flat().includes('null') ||
      merged['nullable'] === true ||
      items(merged['enum']).includes(null);
    const union = items(merged['anyOf'] ?? merged['oneOf']);
    if (union.length > 0 || merged['not'] !== undefined)
      this.notes.add('oneOf, anyOf and not are published, or left out, but not validated', place);
    const base = {
      ...this.readAnnotations(merged, place, type),
      ...(isNullable && { nullable: true }),
    };
    if (type === 'object' && entries(merged['properties']).length > 0)
      return { class: this.readClass(merged, context, place, $ref), ...base };
    if (union.length > 0 && type === undefined) {
      const branches = union.map((each, index) =>
        this.read(each, `${context} ${index + 1}`, place),
      );
      return { ...base, anyOf: branches };
    }
    return clean({
      type,
      ...base,
      enum: values,
      ...(type === 'string' && this.readText(merged, place)),
      ...((type === 'integer' || type === 'number') && this.readNumber(merged, type, place)),
      ...(type === 'array' && {
        items: this.read(merged['items'] ?? {}, `${context} item`, place),
        minItems: toCount(merged['minItems']),
        maxItems: toCount(merged['maxItems']),
        uniqueItems: merged['uniqueItems'] === true ? true : undefined,
      }),
      ...(type === 'object' && {
        additionalProperties: isObject(merged['additionalProperties'])
          ? this.read(merged['additionalProperties'], `${context} value`, place)
          : undefined,
        minProperties: toCount(merged['minProperties']),
        maxProperties: toCount(merged['maxProperties']),
      }),
    });
  }

  /** Merges the schemas of an `allOf` with what is beside it. */
  private merge(json: Json, depth = 0): Json {
    const { allOf, ...own } = json;
    if (!Array.isArray(allOf) || depth > 20) return own;
    const parts = allOf.map((each) => {
      const target = resolve(this.root, each);
      return isObject(target) ? this.merge(target, depth + 1) : {};
    });
    const all = [...parts, own];
    const properties = all.map((each) => each['properties'] as Json | undefined);
    return Object.assign({}, ...all, {
      ...(properties.some((each) => each !== undefined) && {
        properties: Object.assign({}, ...properties) as Json,
      }),
      required: all.flatMap((each) => items(each['required'])),
      // A description of a part is not that of the whole.
      description: own['description'],
    }) as Json;
  }

  private readClass(json: Json, context: string, place: string, $ref = ''): DtoClass {
    const known = this.byReference.get($ref);
    if (known !== undefined) return known;
    const wanted = toClassName(context);
    const isTaken = this.taken.has(wanted);
    const name = makeUnique(isTaken ? toClassName(`${this.prefix} ${wanted}`) : wanted, this.names);
    const dto: DtoClass = {
      name,
      publishedName: name,
      description: text(json['description']),
      properties: [],
      unusable: [],
    };
    if (isTaken)
      this.notes.add(
        `its schema is published as ${name}, because the service has one with its name`,
        wanted,
      );
    this.classes.push(dto);
    if ($ref !== '') this.byReference.set($ref, dto);
    if (json['additionalProperties'] === true || isObject(json['additionalProperties']))
      this.notes.add('properties that are not declared are invalid', place);
    const required = new Set(items(json['required']));
    for (const each of required)
      if (!Object.hasOwn(json['properties'] as Json, String(each)))
        this.notes.add(
          'it is required, and left out: no schema declares it',
          `${name}.${String(each)}`,
        );
    for (const [property, each] of Object.entries(json['properties'] as Json)) {
      if (isUnusable(property)) {
        dto.unusable.push({ name: property, required: required.has(property) });
        continue;
      }
      const schema = this.read(each, `${name} ${toPascalCase(property)}`, `${name}.${property}`);
      dto.properties.push({
        ...schema,
        name: property,
        required: required.has(property),
      });
    }
    return dto;
  }

  private readValues(json: Json, types: readonly unknown[], place: string): Schema['enum'] {
    const all = json['const'] !== undefined ? [json['const']] : items(json['enum']);
    const values = [...new Set(all)].filter((each) => each !== null);
    const [type] = types;
    const isValid = (value: unknown): boolean =>
      type === undefined
        ? ['string', 'number', 'boolean'].includes(typeof value)
        : type === 'integer'
          ? Number.isSafeInteger(value)
          : typeof value === type;
    const valid = values.filter(isValid) as unknown[] as (string | number | boolean)[];
    if (valid.length < values.length)
      this.notes.add(
        `its enum has values that are not of the type ${String(type)}: they are not valid, and without others any ${String(type)} is`,
        place,
      );
    return valid.length === 0 ? undefined : valid;
  }

  private readText(json: Json, place: string): Partial<Schema> {
    const encoded = json['contentEncoding'] === 'base64' ? 'byte' : undefined;
    const maxLength = toCount(json['maxLength']);
    // The service validates the format before the pattern.
    const longest = json['format'] === 'uuid' ? 36 : maxLength;
    return {
      format: text(json['format']) ?? encoded,
      minLength: toCount(json['minLength']),
      maxLength,
      // The platform publishes its own rules as patterns.
      notBlank: json['pattern'] === NOT_BLANK ? true : undefined,
      pattern: [PLAIN_TEXT, NOT_BLANK].includes(String(json['pattern']))
        ? undefined
        : this.readPattern(json['pattern'], longest, place),
    };
  }

  private readPattern(
    pattern: unknown,
    maxLength: number | undefined,
    place: string,
  ): string | undefined {
    if (typeof pattern !== 'string') return undefined;
    try {
      toRegExp(pattern);
      const growth = findBacktracking(pattern, maxLength);
      if (growth === undefined) return pattern;
      this.notes.add(
        `its pattern is left out, because it could block the service (${growth})`,
        place,
      );
    } catch {
      this.notes.add('its pattern is left out, because it is not valid in JavaScript', place);
    }
    return undefined;
  }

  private readNumber(json: Json, type: 'integer' | 'number', place: string): Partial<Schema> {
    const toLimit = (key: string): number | undefined => {
      const value = json[key];
      if (typeof value !== 'number' || !Number.isFinite(value)) return undefined;
      if (Math.abs(value) <= Number.MAX_SAFE_INTEGER) return value;
      if (type === 'integer') this.notes.add('integers are from -(2^53-1) to 2^53-1', place);
      return undefined;
    };
    const multipleOf = toLimit('multipleOf');
    const format = text(json['format']);
    return {
      // The platform validates the formats of integers for each number.
      format: type === 'number' && INTEGER_FORMATS.has(format ?? '') ? undefined : format,
      minimum: toLimit('minimum'),
      maximum: toLimit('maximum'),
      exclusiveMinimum: toLimit('exclusiveMinimum'),
      exclusiveMaximum: toLimit('exclusiveMaximum'),
      multipleOf: multipleOf !== undefined && multipleOf > 0 ? multipleOf : undefined,
    };
  }

  private readAnnotations(json: Json, place: string, type?: Schema['type']): Partial<Schema> {
    const { default: value, examples } = json;
    const example = json['example'] ?? (Array.isArray(examples) ? examples[0] : undefined);
    const references = text(json['x-references']);
    return clean({
      description: text(json['description']),
      default: this.readDefault(json, type, place),
      example: value !== example && isScalarOf(json, type, example) ? example : undefined,
      readOnly: json['readOnly'] === true ? true : undefined,
      writeOnly: json['writeOnly'] === true ? true : undefined,
      deprecated: json['deprecated'] === true ? true : undefined,
      unique: json['x-unique'] === true ? true : undefined,
      references,
    });
  }

  /** Returns a default, without null, as which omitted properties are stored anyway. */
  private readDefault(json: Json, type: Schema['type'], place: string): unknown {
    const { default: value } = json;
    if (value === undefined || value === null) return undefined;
    const isEmpty = Array.isArray(value) && value.length === 0 && type === 'array';
    if (isEmpty || isScalarOf(json, type, value)) return value;
    this.notes.add('its default is left out, because it is not valid or not a scalar', place);
    return undefined;
  }
}

/** Returns whether a value is a valid scalar. */
function isScalarOf(json: Json, type: Schema['type'], value: unknown): boolean {
  if (!['string', 'integer', 'number', 'boolean'].includes(type ?? '')) return false;
  const values = items(json['enum']);
  if (typeof value === 'object' || value === undefined) return false;
  if (values.length > 0 && !values.includes(value)) return false;
  const { format, minLength, maxLength, pattern, minimum, maximum } = json as Schema;
  const schema = { type, format, minLength, maxLength, pattern, minimum, maximum };
  try {
    return findProblems(clean(schema), value).length === 0;
  } catch {
    return false;
  }
}

/** Infers the type of a schema that does not declare one. */
function infer(json: Json, values: Schema['enum']): Schema['type'] {
  if (json['properties'] !== undefined || isObject(json['additionalProperties'])) return 'object';
  if (json['items'] !== undefined) return 'array';
  if (values?.every((each) => typeof each === 'string')) return 'string';
  if (values?.every((each) => Number.isInteger(each))) return 'integer';
  if (values?.every((each) => typeof each === 'boolean')) return 'boolean';
  const format = String(json['format']);
  return Object.hasOwn(FORMATS, format) ? 'string' : undefined;
}

const toCount = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : undefined;
