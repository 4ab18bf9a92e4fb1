/** Converts the schemas of a document to the form that `@Property` takes, and collects those that become classes. */
import { isDeepStrictEqual } from 'node:util';
import type { Discriminator, DtoClass, Notes, Property, Schema } from '../model.js';
import { makeUnique, toClassName } from '../names.js';
import { get, isObject, items, type Json, resolve, text } from './document.js';

/** The keywords that are copied as they are, with the type that they must have. */
const KEYWORDS: Readonly<Record<string, 'number' | 'string' | 'boolean'>> = {
  format: 'string',
  title: 'string',
  description: 'string',
  minLength: 'number',
  maxLength: 'number',
  pattern: 'string',
  minimum: 'number',
  maximum: 'number',
  multipleOf: 'number',
  minItems: 'number',
  maxItems: 'number',
  uniqueItems: 'boolean',
  minProperties: 'number',
  maxProperties: 'number',
  deprecated: 'boolean',
  readOnly: 'boolean',
  writeOnly: 'boolean',
};

/** The formats that are validated; any other is published. */
const FORMATS: ReadonlySet<string> = new Set(
  'int32 int64 float double decimal date date-time uuid uri email byte binary password'.split(' '),
);

/** Keywords that are not validated. */
const IGNORED = [
  'not',
  'if',
  'then',
  'else',
  'patternProperties',
  'propertyNames',
  'dependentRequired',
  'dependentSchemas',
  'prefixItems',
  'contains',
  'unevaluatedProperties',
  'unevaluatedItems',
];

const TYPES: ReadonlySet<string> = new Set([
  'string',
  'integer',
  'number',
  'boolean',
  'array',
  'object',
]);

/** The most ids of an array: each is stored as a row, and both databases limit the parameters of a statement. */
const MAX_REFERENCES = 1_000;

/** Deeper schemas are any JSON value: only one that contains itself is so deep. */
const MAX_DEPTH = 20;

const COMPONENT = /^#\/components\/schemas\/([^/]+)$/;

/** Reads schemas, and gives names to the classes of objects. */
export class SchemaReader {
  /** In the order in which they were first used. */
  readonly classes: DtoClass[] = [];
  private readonly classNames = new Set<string>();
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
  ) {}

  /**
   * @param place where the schema is, for the notes
   * @param outer what the schema is in, up to the properties of a class
   */
  read(value: unknown, place: string, outer: readonly unknown[] = []): Schema {
    if (outer.length > MAX_DEPTH || !isObject(value)) return {};
    const reference = COMPONENT.exec(String(value['$ref']))?.[1];
    const merged = this.merge(value);
    const alternatives = merged['oneOf'] ?? merged['anyOf'];
    // Alternatives that contain themselves are any value there: each would have all of them.
    if (alternatives !== undefined && outer.includes(alternatives)) return {};
    const inner = [...outer, alternatives];
    const { type, nullable } = getType(merged);
    const name = reference === undefined ? this.getAlias(value) : decodeURIComponent(reference);
    const annotations = this.readAnnotations(merged, nullable);
    if (alternatives !== undefined)
      return this.readAlternatives(merged, place, inner, nullable, annotations);
    if (type === undefined) return this.readAny(merged, place, annotations);
    if (type === 'object' && name !== undefined && this.canBeClass(merged, place)) {
      // In OpenAPI 3.0 the siblings of a reference are ignored; what the component itself says is on its class.
      const { description, readOnly, writeOnly, deprecated } = value as Schema;
      return clean({
        class: this.toComponentClass(name, merged),
        nullable: annotations.nullable,
        description,
        readOnly,
        writeOnly,
        deprecated,
      });
    }
    this.noteIgnored(merged, place);
    return clean({
      ...annotations,
      type,
      ...(annotations.enum !== undefined && toEnum(annotations.enum, type)),
      ...(type === 'string' && { format: annotations.format }),
      ...(type === 'string' && toReferenceLimit(annotations)),
      ...(type === 'array' && this.readArray(merged, place, inner)),
      ...(type === 'object' && this.readObject(merged, place, inner)),
    });
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
    const names = Object.keys(merged['properties'] ?? {});
    const impossible = names.find((name) => name in Object.prototype);
    if (impossible === undefined) return names.length > 0;
    this.notes.add(`any object is accepted, because a property is named ${impossible}.`, place);
    return false;
  }

  private readObject(merged: Json, place: string, outer: readonly unknown[]): Partial<Schema> {
    const isKnown = this.canBeClass(merged, place);
    const properties = isKnown ? this.readProperties(merged, place, outer) : [];
    const additional = merged['additionalProperties'];
    if (properties.length > 0) return { properties };
    return {
      additionalProperties:
        isObject(additional) && Object.keys(additional).length > 0
          ? this.read(additional, `${place}.*`, outer)
          : true,
    };
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
      const schema = this.read(value, `${place}.${name}`, outer);
      return Object.assign({ name, required: required.has(name) }, schema);
    });
  }

  /** A schema that the contract names, in `components`: it becomes a class at its first use. */
  private toComponentClass(component: string, merged: Json): DtoClass {
    const known = this.componentClasses.get(component);
    if (known !== undefined) return known;
    const publishedName = this.toPublishedName(component);
    const name = makeUnique(toClassName(publishedName), this.classNames);
    const description = text(merged['description']);
    const dto: DtoClass = { name, publishedName, description, properties: [] };
    this.componentClasses.set(component, dto);
    this.classes.push(dto);
    dto.properties = this.readProperties(merged, component);
    return dto;
  }

  /**
   * Reads the schema of a body, whose object becomes a class even if the contract gives it no name.
   *
   * @param name of such a class
   */
  readBody(value: unknown, name: string, place: string): Schema {
    const schema = this.read(value, place);
    if (schema.type === 'array' && schema.items?.properties !== undefined)
      return { ...schema, items: this.toClass(schema.items, `${name}Item`) };
    return schema.properties === undefined ? schema : this.toClass(schema, name);
  }

  private toClass({ properties = [], nullable, description }: Schema, name: string): Schema {
    const same = this.classes.find((each) => isDeepStrictEqual(each.properties, properties));
    const dto = same ?? this.addClass(name, properties, description);
    return clean({ class: dto, nullable, description });
  }

  /** Adds a class for an object to which the contract gives no name. */
  private addClass(
    name: string,
    properties: readonly Property[],
    description: string | undefined,
  ): DtoClass {
    const className = makeUnique(toClassName(this.toPublishedName(name)), this.classNames);
    const dto = { name: className, publishedName: className, description, properties };
    this.classes.push(dto);
    return dto;
  }

  private toPublishedName(name: string): string {
    return this.publishedNames.has(name) ? `${this.prefix}${name}` : name;
  }

  /** The component that a schema is, if it is nothing but one: `{ allOf: [{ $ref }] }`. */
  private getAlias(value: Json): string | undefined {
    const parts = items(value['allOf']);
    if (parts.length !== 1 || value['properties'] !== undefined || value['required'] !== undefined)
      return undefined;
    const match = COMPONENT.exec(String(get(parts[0], '$ref')));
    return match === null ? undefined : decodeURIComponent(match[1]!);
  }

  /** Follows references and merges `allOf`. The properties and the required ones add up; another keyword overrides. */
  private merge(value: Json, depth = 0): Json {
    const resolved = resolve(this.root, value);
    if (!isObject(resolved) || depth > MAX_DEPTH) return {};
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

  private readAnnotations(merged: Json, isNullable: boolean): Schema {
    const copied = Object.entries(KEYWORDS).flatMap(([key, type]) =>
      typeof merged[key] === type && merged[key] !== '' ? [[key, merged[key]]] : [],
    );
    const values = items(merged['enum']);
    const constants = Object.hasOwn(merged, 'const') ? [merged['const']] : values;
    const scalars = [...new Set(constants)].filter((item) =>
      ['string', 'number', 'boolean'].includes(typeof item),
    );
    const examples = items(merged['examples']);
    return clean({
      ...Object.fromEntries(copied),
      ...toLimits(merged),
      enum: scalars.length > 0 ? (scalars as Schema['enum']) : undefined,
      nullable: isNullable || constants.includes(null) || undefined,
      example: merged['example'] ?? examples[0],
      default: merged['default'] ?? undefined,
      unique: merged['x-unique'] === true || undefined,
      references: text(merged['x-references']),
    });
  }

  /** `oneOf` and `anyOf`: null beside one alternative makes it nullable. */
  private readAlternatives(
    merged: Json,
    place: string,
    outer: readonly unknown[],
    nullable: boolean,
    annotations: Schema,
  ): Schema {
    const all = [...items(merged['oneOf']), ...items(merged['anyOf'])];
    const alternatives = all.filter((each) => !isNull(each));
    const isNullable = nullable || alternatives.length < all.length || undefined;
    const { oneOf: _oneOf, anyOf: _anyOf, ...rest } = merged;
    if (alternatives.length === 1) {
      const single = this.read(
        isObject(rest['properties']) ? { allOf: [rest, alternatives[0]] } : alternatives[0],
        place,
        outer,
      );
      return clean({
        ...single,
        nullable: single.nullable ?? isNullable,
        description: annotations.description ?? single.description,
      });
    }
    const oneOf = alternatives.map((each, index) =>
      this.read(each, `${place}.oneOf[${index}]`, outer),
    );
    const discriminator = this.readDiscriminator(merged, oneOf, alternatives);
    if (discriminator === undefined)
      this.notes.add(
        'the alternatives of oneOf and anyOf are accepted as they are, without a discriminator.',
        place,
      );
    return clean({ ...toAnnotations(annotations), oneOf, discriminator, nullable: isNullable });
  }

  private readDiscriminator(
    merged: Json,
    oneOf: readonly Schema[],
    alternatives: readonly unknown[],
  ): Discriminator | undefined {
    const property = text(get(merged['discriminator'], 'propertyName'));
    if (property === undefined) return undefined;
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
    const types = [merged['type'] ?? []]
      .flat()
      .map(String)
      .filter((type) => type !== 'null');
    if (types.length > 1)
      this.notes.add(`any value is accepted, not only ${types.join(' or ')}.`, place);
    const { enum: values } = annotations;
    const type = values && getEnumType(values);
    const { nullable } = annotations;
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
    if (format !== undefined && !FORMATS.has(format))
      this.notes.add(`The format ${format} is published, and not validated.`);
    if (typeof merged['pattern'] === 'string' && !isPattern(merged['pattern']))
      this.notes.add('the pattern is not one of JavaScript, and not validated.', place);
  }
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

function isPattern(source: string): boolean {
  try {
    return new RegExp(source, 'u') instanceof RegExp;
  } catch {
    return false;
  }
}

/** The limit of an id, which no text is longer than: indexes have one, too. */
const toReferenceLimit = ({ references, format, maxLength }: Schema): Schema =>
  references === undefined || format === 'uuid' ? {} : { maxLength: maxLength ?? 255 };

/** The type of a schema. Without one, its keywords tell it. */
function getType(schema: Json): { type: Schema['type'] | undefined; nullable: boolean } {
  const types = [schema['type'] ?? []].flat().map(String);
  const others = types.filter((type) => type !== 'null');
  const nullable = schema['nullable'] === true || others.length < types.length;
  const [type = guessType(schema)] = others;
  return {
    type: others.length > 1 || !TYPES.has(type!) ? undefined : (type as Schema['type']),
    nullable,
  };
}

function guessType(schema: Json): string | undefined {
  if (schema['properties'] !== undefined || schema['additionalProperties'] !== undefined)
    return 'object';
  if (schema['items'] !== undefined) return 'array';
  return schema['format'] !== undefined ||
    schema['pattern'] !== undefined ||
    schema['maxLength'] !== undefined ||
    schema['minLength'] !== undefined
    ? 'string'
    : undefined;
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

/** Exclusive limits in the form of 3.1: a number. In 3.0, they are a flag of `minimum` and `maximum`. */
function toLimits({ minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Json): Schema {
  return {
    ...(exclusiveMinimum === true
      ? { minimum: undefined, exclusiveMinimum: minimum as number }
      : typeof exclusiveMinimum === 'number' && { exclusiveMinimum }),
    ...(exclusiveMaximum === true
      ? { maximum: undefined, exclusiveMaximum: maximum as number }
      : typeof exclusiveMaximum === 'number' && { exclusiveMaximum }),
  };
}
