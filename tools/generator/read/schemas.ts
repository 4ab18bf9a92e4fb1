/** Converts the schemas of a document to the form that `@Property` takes, and collects those that become classes. */
import { isDeepStrictEqual } from 'node:util';
import { FORMATS } from '../../../src/platform/validation/scalar-violations.js';
import {
  areDifferent,
  type Schema as PlatformSchema,
} from '../../../src/platform/validation/schema.js';
import { findProblems } from '../../../src/platform/validation/schema-rules.js';
import {
  type Discriminator,
  type DtoClass,
  getProperty,
  type Notes,
  type Property,
  type Schema,
} from '../model.js';
import { makeUnique, toBareName, toClassName, toPascalCase } from '../names.js';
import { findBacktracking } from './backtracking.js';
import { ContractError } from './document.js';
import { get, isObject, items, type Json, resolve, text } from './json.js';

/** The keywords that are copied as they are, by the type that they must have. */
const KEYWORDS = {
  string: 'format title description',
  number:
    'minLength maxLength minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems ' +
    'minProperties maxProperties',
  boolean: 'uniqueItems deprecated readOnly writeOnly',
};

/** The formats that need no note: those that are validated, and those that accept any value of their type. */
const KNOWN_FORMATS: ReadonlySet<string> = new Set(
  Object.keys(FORMATS).concat('int32', 'int64', 'float', 'double', 'binary', 'password'),
);

/** Keywords that are not validated. */
const IGNORED = (
  'not if then else patternProperties propertyNames dependentRequired dependentSchemas prefixItems contains ' +
  'unevaluatedProperties unevaluatedItems'
).split(' ');

const TYPES: ReadonlySet<string> = new Set('string integer number boolean array object'.split(' '));

/** The most ids of an array: each is stored as a row, and both databases limit the parameters of a statement. */
const MAX_REFERENCES = 1_000;

/** How often schemas are read: published documents of half a megabyte need up to 11,000 times. */
const MAX_STEPS = 200_000;

/** Deeper schemas are any JSON value: only one that contains itself is so deep. */
const MAX_DEPTH = 20;

const COMPONENT = /^#\/components\/schemas\/([^/]+)$/;

/** Reads schemas, and gives names to the classes of objects. */
export class SchemaReader {
  /** In the order in which they were first used. */
  readonly classes: DtoClass[] = [];
  private steps = 0;
  private readonly classNames = new Set<string>();
  /** The names of schemas, in lower case: an object without a name gets another one. */
  private readonly schemaNames: Set<string>;
  /** The bare names of ids: `id`, and parameters of paths that end so. */
  private readonly idNames: ReadonlySet<string>;
  /** The classes of components, by the names of those. */
  private readonly componentClasses = new Map<string, DtoClass>();

  /**
   * @param prefix of classes whose published name the service already has
   * @param publishedNames the names of the schemas that the service publishes, without those of this module
   */
  constructor(
    private readonly root: Json,
    private readonly notes: Notes,
    private readonly prefix: string,
    private readonly publishedNames: ReadonlySet<string>,
  ) {
    const paths = allEntries(root['paths']).map(([path]) => path);
    const names = paths.flatMap((path) => path.match(/\{[^}]+\}/g) ?? []).map(toBareName);
    this.idNames = new Set(['id', ...names.filter((name) => name.endsWith('id'))]);
    const components = allEntries(get(root['components'], 'schemas'));
    this.schemaNames = new Set(components.map(([name]) => name.toLowerCase()));
  }

  /**
   * @param place where the schema is, for the notes
   * @param outer what the schema is in, up to the properties of a class
   */
  read(value: unknown, place: string, outer: readonly unknown[] = []): Schema {
    if (outer.length > MAX_DEPTH || !isObject(value)) return {};
    this.countStep();
    const merged = this.merge(value);
    const alternatives = merged['oneOf'] ?? merged['anyOf'];
    // Alternatives that contain themselves are any value there: each would have all of them.
    if (alternatives !== undefined && outer.includes(alternatives)) return {};
    const inner = [...outer, alternatives];
    const type = getType(merged);
    const name = getComponent(value);
    const annotations = readAnnotations(merged);
    if (alternatives !== undefined) return this.readAlternatives(merged, place, inner, annotations);
    if (type === undefined) return this.readAny(merged, place, annotations);
    if (type === 'object' && name !== undefined && this.canBeClass(merged, place)) {
      const { nullable, readOnly, writeOnly, deprecated } = annotations;
      return clean({
        class: this.toComponentClass(name, merged),
        nullable,
        // That of the component is on its class.
        description: text(value['description']),
        readOnly,
        writeOnly,
        deprecated,
      });
    }
    this.noteIgnored(merged, place);
    const schema = clean({
      ...annotations,
      type,
      ...(annotations.enum !== undefined && toEnum(annotations.enum, type)),
      ...(type === 'string' && { format: annotations.format }),
      ...(type === 'string' && toReferenceLimit(annotations)),
      ...(type === 'array' && this.readArray(merged, place, inner)),
      ...(type === 'object' && this.readObject(merged, place, inner)),
    });
    const { default: own, ...rest } = schema;
    if (own === undefined || type === 'array' || type === 'object') return schema;
    if (findProblems(schema as PlatformSchema, own).length === 0) return schema;
    this.notes.add('the default is not valid itself; there is none.', place);
    return rest;
  }

  private countStep(): void {
    if (++this.steps > MAX_STEPS)
      throw new ContractError([
        'components/schemas: too large, because schemas contain one another in too many ways.',
      ]);
  }

  /**
   * Makes an integer of a number that is an id by its place in a path, or named `id`: TypeScript has no other type for
   * it, and frameworks publish that.
   *
   * @param name of the property or the parameter
   */
  toId(name: string, schema: Schema): Schema {
    const { type, format: _format, ...rest } = schema;
    if (type !== 'number' || !this.idNames.has(toBareName(name))) return schema;
    this.notes.add('ids that are numbers are integers.');
    return { ...rest, type: 'integer' };
  }

  private readArray(merged: Json, place: string, outer: readonly unknown[]): Partial<Schema> {
    const item = this.read(merged['items'], `${place}[]`, outer);
    const { maxItems = Infinity } = merged as Schema;
    if (item.references === undefined || maxItems <= MAX_REFERENCES) return { items: item };
    this.notes.add(`at most ${MAX_REFERENCES} ids.`, place);
    return { items: item, maxItems: MAX_REFERENCES };
  }

  /** Whether an object has properties, and none that the prototypes of JavaScript have. */
  private canBeClass(merged: Json, place: string): boolean {
    const names = allEntries(merged['properties']).map(([name]) => name);
    const impossible = names.find((name) => name in Object.prototype);
    if (impossible === undefined) return names.length > 0;
    this.notes.add(`any object is accepted, because a property is named ${impossible}.`, place);
    return false;
  }

  private readObject(merged: Json, place: string, outer: readonly unknown[]): Partial<Schema> {
    if (this.canBeClass(merged, place))
      return { properties: this.readProperties(merged, place, outer) };
    const values = merged['additionalProperties'];
    const isAny = !isObject(values) || Object.keys(values).length === 0;
    return { additionalProperties: isAny ? true : this.read(values, `${place}.*`, outer) };
  }

  private readProperties(merged: Json, place: string, outer: readonly unknown[] = []): Property[] {
    const required = new Set(items(merged['required']));
    const additional = merged['additionalProperties'];
    const properties = allEntries(merged['properties']);
    if (properties.length > 0 && additional !== undefined && additional !== false)
      this.notes.add(
        'Objects have only the properties that the contract names; others are rejected with 400.',
      );
    return properties.map(([name, value]) => {
      const schema = this.toId(name, this.read(value, `${place}.${name}`, outer));
      return Object.assign({ name, required: required.has(name) }, schema);
    });
  }

  /** A schema that the contract names, in `components`: it becomes a class at its first use. */
  private toComponentClass(component: string, merged: Json): DtoClass {
    const known = this.componentClasses.get(component);
    if (known !== undefined) return known;
    const dto = this.addClass(component, text(merged['description']));
    this.componentClasses.set(component, dto);
    if (merged['discriminator'] !== undefined && this.isExtended(component))
      this.notes.add('the properties of the schemas that extend it are not accepted.', component);
    dto.properties = this.readProperties(merged, component);
    return dto;
  }

  /** Whether another component has a reference to a component in its `allOf`. */
  private isExtended(component: string): boolean {
    const components = allEntries(get(this.root['components'], 'schemas'));
    return components.some(([, schema]) =>
      items(get(schema, 'allOf')).some(
        (part) => getComponent({ $ref: get(part, '$ref') }) === component,
      ),
    );
  }

  private addClass(
    schemaName: string,
    description: string | undefined,
    properties: readonly Property[] = [],
  ): DtoClass {
    const isUsed = this.publishedNames.has(schemaName);
    const publishedName = isUsed ? `${this.prefix}${schemaName}` : schemaName;
    const name = makeUnique(toClassName(publishedName), this.classNames);
    const dto: DtoClass = { name, publishedName, description, properties };
    this.classes.push(dto);
    return dto;
  }

  /**
   * Reads the schema of a body. Its object becomes a class even if the contract gives it no name, as do those in its
   * properties, because it may be an envelope.
   *
   * @param name of such a class
   */
  readBody(value: unknown, name: string, place: string): Schema {
    const schema = this.read(value, place);
    const { class: dto, properties } = schema;
    if (dto === undefined)
      return this.toNamed(
        { ...schema, properties: properties && this.nameParts(properties, name) },
        name,
      );
    dto.properties = this.nameParts(dto.properties, dto.publishedName);
    return schema;
  }

  private nameParts(properties: readonly Property[], prefix: string): Property[] {
    return properties.map((each) => {
      const named = this.toNamed(each, `${prefix}${toPascalCase(each.name)}`);
      return Object.assign(named, { name: each.name, required: each.required });
    });
  }

  /** Makes classes of an object, or of the items of an array, that the contract gives no name. */
  private toNamed(schema: Schema, name: string): Schema {
    const { items: item, properties } = schema;
    if (item?.properties !== undefined)
      return { ...schema, items: this.toNamed(item, `${name}Item`) };
    if (properties === undefined) return { ...schema };
    const same = this.classes.find((each) => isDeepStrictEqual(each.properties, properties));
    const { description, nullable, readOnly, writeOnly, deprecated } = schema;
    const dto = same ?? this.addClass(makeUnique(name, this.schemaNames), description, properties);
    return clean({ class: dto, nullable, description, readOnly, writeOnly, deprecated });
  }

  /** Follows references and merges `allOf`. The properties and the required ones add up; another keyword overrides. */
  private merge(value: Json, depth = 0): Json {
    const resolved = resolve(this.root, value);
    if (!isObject(resolved) || depth > MAX_DEPTH) return {};
    this.countStep();
    const { allOf, ...own } = resolved;
    if (!Array.isArray(allOf)) return own;
    const parts = allOf.filter(isObject).map((part) => this.merge(part, depth + 1));
    const inherited: Json = Object.assign({}, ...parts);
    // A composition is not described by its parts, unless it is only a name for one.
    const { description: _description, example: _example, title: _title, ...rest } = inherited;
    // The alternatives of a class with a discriminator are the classes that extend it.
    const { oneOf: _oneOf, anyOf: _anyOf, discriminator, ...base } = rest;
    const composed = discriminator === undefined ? rest : base;
    const all = [...parts, own];
    const properties = Object.fromEntries(all.flatMap((part) => allEntries(part['properties'])));
    const required = [...new Set(all.flatMap((part) => items(part['required'])))];
    return {
      ...(parts.length === 1 && own['properties'] === undefined ? inherited : composed),
      ...own,
      ...(Object.keys(properties).length > 0 && { properties }),
      ...(required.length > 0 && { required }),
    };
  }

  /** `oneOf` and `anyOf`: null beside one alternative makes it nullable. */
  private readAlternatives(
    merged: Json,
    place: string,
    outer: readonly unknown[],
    annotations: Schema,
  ): Schema {
    const all = [...items(merged['oneOf']), ...items(merged['anyOf'])];
    const alternatives = all.filter((each) => !isNull(each));
    const nullable = annotations.nullable ?? (alternatives.length < all.length || undefined);
    const { oneOf: _oneOf, anyOf: _anyOf, description, ...others } = merged;
    if (alternatives.length === 1) {
      // What is beside an alternative counts for it, too.
      const isObjectBeside = (others['properties'] ?? others['required']) !== undefined;
      const [alternative] = alternatives;
      const single = this.read(
        isObjectBeside ? { allOf: [others, alternative] } : Object.assign({}, alternative, others),
        place,
        outer,
      );
      return clean({
        ...single,
        nullable: single.nullable ?? nullable,
        description: text(description) ?? single.description,
      });
    }
    const oneOf = alternatives.map((each, index) =>
      this.read(each, `${place}.oneOf[${index}]`, outer),
    );
    const discriminator = this.readDiscriminator(merged, oneOf, alternatives);
    if (discriminator === undefined && !areDifferent(oneOf.map(getJsonType)))
      this.notes.add(
        'the alternatives of oneOf and anyOf are accepted as they are, without a discriminator.',
        place,
      );
    return clean({ ...toAnnotations(annotations), oneOf, discriminator, nullable });
  }

  private readDiscriminator(
    merged: Json,
    oneOf: readonly Schema[],
    alternatives: readonly unknown[],
  ): Discriminator | undefined {
    const property = text(get(merged['discriminator'], 'propertyName'));
    if (property === undefined) return findDiscriminator(oneOf);
    const named = Object.entries(get(merged['discriminator'], 'mapping') ?? {}).map(
      ([value, target]) => [value, String(target).split('/').at(-1)!] as const,
    );
    const mapping: Record<string, DtoClass> = {};
    for (const [index, { class: dto }] of oneOf.entries()) {
      if (dto?.properties.some(({ name }) => name === property) !== true) return undefined;
      const source = String(get(alternatives[index], '$ref')).split('/').at(-1)!;
      const values = named.filter(([, target]) => target === source).map(([value]) => value);
      for (const value of values.length > 0 ? values : [source]) mapping[value] = dto;
    }
    return { property, mapping };
  }

  private readAny(merged: Json, place: string, annotations: Schema): Schema {
    this.noteIgnored(merged, place);
    const types = getTypes(merged);
    if (types.length > 1)
      this.notes.add(`any value is accepted, not only ${types.join(' or ')}.`, place);
    const { enum: values, nullable } = annotations;
    const type = values && getEnumType(values);
    return clean({
      ...toAnnotations(annotations),
      ...(type !== undefined && { type, enum: values, nullable }),
    });
  }

  private noteIgnored(merged: Json, place: string): void {
    const ignored = IGNORED.filter((keyword) => merged[keyword] !== undefined);
    if (ignored.length > 0)
      this.notes.add(`${ignored.join(', ')}: published by the contract, not validated.`, place);
    const format = text(merged['format']);
    if (format !== undefined && !KNOWN_FORMATS.has(format))
      this.notes.add(`The format ${format} is published, and not validated.`);
    const problem = findPatternProblem(merged);
    if (problem !== undefined) this.notes.add(`the pattern ${problem}, and not validated.`, place);
  }
}

/** The type of the JSON values of an alternative; undefined if it has several. */
const getJsonType = ({ type, class: dto, discriminator }: Schema): string | undefined =>
  (dto ?? discriminator) === undefined ? type : 'object';

/** Finds a property that tells classes apart: each requires it, with values that no other has. */
function findDiscriminator(alternatives: readonly Schema[]): Discriminator | undefined {
  const classes = alternatives.flatMap(({ class: dto }) => dto ?? []);
  const [first] = classes;
  if (first === undefined || classes.length < alternatives.length) return undefined;
  for (const { name } of first.properties) {
    const properties = classes.map((dto) => getProperty(dto, name));
    const values = properties.flatMap((each) =>
      each?.required === true && each.readOnly !== true && each.nullable !== true
        ? [each.enum ?? []]
        : [[]],
    );
    const all = values.flat();
    const isText = all.every((value) => typeof value === 'string');
    if (isText && values.every(({ length }) => length > 0) && new Set(all).size === all.length)
      return {
        property: name,
        mapping: Object.fromEntries(
          values.flatMap((each, index) => each.map((value) => [value, classes[index]!])),
        ),
      };
  }
  return undefined;
}

/** The entries of an object, with those that start with `x-`, which a property may. */
const allEntries = (value: unknown): [string, unknown][] =>
  isObject(value) ? Object.entries(value) : [];

/** Removes what is undefined. */
export const clean = <Value extends object>(value: Value): Value =>
  Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as Value;

/** What a schema says besides what its values are. */
const toAnnotations = (schema: Schema): Schema => {
  const { description, title, example, default: value, readOnly, writeOnly, deprecated } = schema;
  return clean({ description, title, example, default: value, readOnly, writeOnly, deprecated });
};

/** Whether null is the only value of a schema, as OpenAPI 3.1 and 3.0 write it. */
const isNull = (schema: unknown): boolean =>
  get(schema, 'type') === 'null' || isDeepStrictEqual(get(schema, 'enum'), [null]);

function isPattern(source: unknown): source is string {
  try {
    return typeof source === 'string' && new RegExp(source) instanceof RegExp;
  } catch {
    return false;
  }
}

/** Returns why a pattern is not validated. */
function findPatternProblem({ pattern, maxLength }: Json): string | undefined {
  if (pattern === undefined) return undefined;
  if (!isPattern(pattern)) return 'is not one of JavaScript';
  const growth = findBacktracking(pattern, maxLength as number | undefined);
  return growth && `is too slow for some texts (${growth})`;
}

/** The limit of an id, which no text is longer than: indexes have one, too. */
const toReferenceLimit = ({ references, format, maxLength }: Schema): Schema =>
  references === undefined || format === 'uuid' ? {} : { maxLength: maxLength ?? 255 };

/** The component that a schema is: `{ $ref }`, or nothing but a name for it, `{ allOf: [{ $ref }] }`. */
function getComponent(schema: Json): string | undefined {
  const [part, ...others] = items(schema['allOf']);
  const isAlias = others.length === 0 && !('properties' in schema || 'required' in schema);
  const reference = schema['$ref'] ?? (isAlias ? get(part, '$ref') : undefined);
  const name = COMPONENT.exec(String(reference))?.[1];
  return name && decodeURIComponent(name);
}

function readAnnotations(merged: Json): Schema {
  const copied = Object.entries(KEYWORDS).flatMap(([type, keywords]) =>
    keywords
      .split(' ')
      .filter((keyword) => typeof merged[keyword] === type && merged[keyword] !== '')
      .map((keyword) => [keyword, merged[keyword]]),
  );
  const values = 'const' in merged ? [merged['const']] : items(merged['enum']);
  const scalars = [...new Set(values)].filter((item) =>
    ['string', 'number', 'boolean'].includes(typeof item),
  );
  const isNullable =
    merged['nullable'] === true || items(merged['type']).includes('null') || values.includes(null);
  return clean({
    ...Object.fromEntries(copied),
    ...toLimits(merged),
    pattern: findPatternProblem(merged) === undefined ? (merged['pattern'] as string) : undefined,
    enum: scalars.length > 0 ? (scalars as Schema['enum']) : undefined,
    nullable: isNullable || undefined,
    description: text(merged['description']),
    example: merged['example'] ?? items(merged['examples'])[0],
    default: merged['default'] ?? undefined,
    unique: merged['x-unique'] === true || undefined,
    assigned: merged['x-assigned'] === 'now' ? 'now' : undefined,
    references: text(merged['x-references']),
  });
}

const getTypes = ({ type = [] }: Json): string[] =>
  [type]
    .flat()
    .map(String)
    .filter((each) => each !== 'null');

/** The type of a schema. Without one, its keywords tell it; with several, it is undefined. */
function getType(schema: Json): Schema['type'] {
  const [type = guessType(schema), ...others] = getTypes(schema);
  return others.length === 0 && TYPES.has(type!) ? (type as Schema['type']) : undefined;
}

function guessType(schema: Json): string | undefined {
  const has = (keyword: string): boolean => schema[keyword] !== undefined;
  if (['properties', 'additionalProperties'].some(has)) return 'object';
  if (has('items')) return 'array';
  return ['format', 'pattern', 'maxLength', 'minLength'].some(has) ? 'string' : undefined;
}

/** The values of an enum that have its type. If none has, the values say more than the type. */
function toEnum(values: NonNullable<Schema['enum']>, type: Schema['type']): Schema {
  if (type === 'array' || type === 'object') return { enum: undefined };
  const typed = values.filter(
    (value) => getEnumType([value]) === type || (type === 'number' && typeof value === 'number'),
  );
  return typed.length > 0 ? { enum: typed } : { type: getEnumType(values), enum: values };
}

function getEnumType(values: readonly unknown[]): Schema['type'] {
  if (values.every((value) => typeof value === 'string')) return 'string';
  if (values.every((value) => typeof value === 'boolean')) return 'boolean';
  if (values.every((value) => Number.isInteger(value))) return 'integer';
  return values.every((value) => typeof value === 'number') ? 'number' : undefined;
}

/** Exclusive limits in the form of 3.1, a number. In 3.0, they are a flag of `minimum` and `maximum`. */
const toLimits = ({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Json): object => ({
  ...(exclusiveMinimum === true && { minimum: undefined, exclusiveMinimum: minimum }),
  ...(exclusiveMaximum === true && { maximum: undefined, exclusiveMaximum: maximum }),
});
