/** Writes the DTO classes of the schemas of a contract. */
import { strings } from '@angular-devkit/schematics';
import pluralize from 'pluralize';
import {
  joinPointer,
  type Located,
  type NormalizedSchema,
  normalizeSchema,
  type OpenApiDocument,
  type Parameter,
  resolve,
  type Schema,
  type SchemaOrReference,
} from '../../openapi/openapi.js';
import { ContractError } from '../../openapi/contract.js';

/** A DTO class: one file. */
export interface GeneratedClass {
  readonly name: string;
  readonly text: string;
  /** The other classes that it uses. */
  readonly uses: ReadonlySet<string>;
  /** Of the schema in the contract. */
  readonly pointer: string;
}

/** A property, a parameter or an item, as TypeScript. */
interface Declaration {
  /** Without the `@`. */
  readonly decorator: string;
  readonly type: string;
}

/** What a property has besides the rules of its values. */
interface Place {
  readonly words: string;
  /** The name of a class, or of an enum, that the contract does not name. */
  readonly defaultName: string;
  readonly optional: boolean;
  /** Items and values have no other options than a description. */
  readonly isItem: boolean;
  readonly annotations: Pick<Schema, 'description' | 'example'>;
}

/** The class of the body of every error. */
export const ERROR_CLASS = 'ErrorBody';

export const toWords = (name: string): string =>
  strings.underscore(name).replaceAll('_', ' ').trim();
export const toFileName = (className: string): string => strings.dasherize(className);

/** Renders a value as TypeScript. */
export const render = (value: unknown): string => JSON.stringify(value);

const renderOptions = (options: Readonly<Record<string, string | undefined>>): string => {
  const entries = Object.entries(options).filter(([, text]) => text !== undefined);
  return `{ ${entries.map(([name, text]) => `${name}: ${text}`).join(', ')} }`;
};

export class Classes {
  readonly generated = new Map<string, GeneratedClass>();
  /** What the class that is being written contains besides its properties. */
  private constants: string[] = [];
  private uses = new Set<string>();

  constructor(private readonly document: OpenApiDocument) {
    for (const name of Object.keys(document.components?.schemas ?? {})) {
      const $ref = `#/components/schemas/${name}`;
      if (name !== 'Error' && isObject(normalizeSchema(document, { $ref }, $ref).value))
        this.getClass({ $ref }, $ref, name);
    }
    this.checkCycles();
  }

  /**
   * Returns the name of the class of an object, and writes the class unless that is done.
   *
   * @param defaultName of the class, if the contract does not name the schema
   */
  getClass(schema: SchemaOrReference, pointer: string, defaultName: string): string {
    const { name: component } = normalizeSchema(this.document, schema, pointer).value;
    if (component === 'Error') return ERROR_CLASS;
    // A property may add a description, or null, to the schema that it refers to.
    const target = component === undefined ? schema : { $ref: `#/components/schemas/${component}` };
    const { value, pointer: place } = normalizeSchema(this.document, target, pointer);
    const name = value.name ?? defaultName;
    const existing = this.generated.get(name);
    if (existing === undefined) {
      // Its own properties may refer to it.
      this.generated.set(name, { name, text: '', uses: new Set(), pointer: place });
      this.write(name, value, place, this.getBase(target, pointer, value));
    } else if (existing.pointer !== place) {
      throw new ContractError([
        `${place}: The class ${name} would be that of ${existing.pointer}, too.`,
      ]);
    }
    return name;
  }

  /** Writes a class with a property for each parameter. */
  writeParameters(
    name: string,
    description: string,
    parameters: readonly Located<Parameter>[],
  ): void {
    this.writeClass(name, parameters[0]!.pointer, () => {
      const properties = parameters.map(({ value, pointer }) =>
        this.renderProperty(
          value.name,
          { value: value.schema!, pointer: joinPointer(pointer, 'schema') },
          name,
          {
            optional: value.required !== true,
            annotations: value,
          },
        ),
      );
      return `/** ${description} */\nexport class ${name} {\n${properties.join('\n\n')}\n}`;
    });
  }

  /** Returns the schema of a response or a header as TypeScript, without references to classes. */
  renderSchema(schema: SchemaOrReference, pointer: string): string {
    const { value } = normalizeSchema(this.document, schema, pointer);
    const {
      name: _name,
      properties,
      required: _required,
      items,
      additionalProperties,
      ...rest
    } = value;
    if (properties.size > 0)
      throw new ContractError([
        `${pointer}: An object is not supported here: use it as a response or an item of one.`,
      ]);
    const entries = Object.entries({ ...rest }).filter(
      ([key]) => !/^(xml|externalDocs|title|x-)/.test(key),
    );
    const nested = [
      ...(items === undefined
        ? []
        : [`items: ${this.renderSchema(items, joinPointer(pointer, 'items'))}`]),
      ...(typeof additionalProperties !== 'object'
        ? []
        : [
            `additionalProperties: ${this.renderSchema(additionalProperties, joinPointer(pointer, 'additionalProperties'))}`,
          ]),
    ];
    return `{ ${[...entries.map(([key, item]) => `${key}: ${render(item)}`), ...nested].join(', ')} }`;
  }

  /**
   * Returns a value that a schema allows, for the tests, as in its examples.
   *
   * @param options.full with the optional properties, too, unless a schema contains itself
   * @param options.other another value, if there is one
   */
  getSample(
    schema: SchemaOrReference,
    pointer: string,
    options: SampleOptions = {},
    parents: readonly string[] = [],
  ): unknown {
    const { value } = normalizeSchema(this.document, schema, pointer);
    const { other = false, full = false } = options;
    const isComposite = value.type === 'object' || value.type === 'array';
    if (value.example !== undefined && !(isComposite && full) && !(other && canVary(value)))
      return value.example;
    if (value.enum !== undefined) return value.enum.at(other ? -1 : 0);
    const path = value.name === undefined ? parents : [...parents, value.name];
    if (value.items !== undefined) {
      return Array.from({ length: Math.max(value.minItems ?? 1, 1) }, () =>
        this.getSample(value.items!, pointer, options, path),
      );
    }
    if (value.type !== 'object') return other ? getOtherSample(value) : getDefaultSample(value);
    const { additionalProperties } = value;
    if (full && typeof additionalProperties === 'object')
      return {
        [other ? 'second' : 'first']: this.getSample(additionalProperties, pointer, options, path),
      };
    const included = [...value.properties].filter(([name, property]) => {
      const target = normalizeSchema(this.document, property.value, property.pointer).value;
      const isRecursive = target.name !== undefined && path.includes(target.name);
      const isRequired = value.required?.includes(name) === true;
      return (isRequired || (full && !isRecursive)) && !this.isReadOnly(property);
    });
    return Object.fromEntries(
      included.map(([name, property]) => [
        name,
        this.getSample(property.value, property.pointer, options, path),
      ]),
    );
  }

  private isReadOnly({ value, pointer }: Located<SchemaOrReference>): boolean {
    return normalizeSchema(this.document, value, pointer).value.readOnly === true;
  }

  private write(
    name: string,
    schema: NormalizedSchema,
    pointer: string,
    base?: GeneratedClass & { readonly properties: ReadonlySet<string> },
  ): void {
    this.writeClass(name, pointer, () => {
      const properties = [...schema.properties]
        .filter(([property]) => base?.properties.has(property) !== true)
        .map(([property, located]) =>
          this.renderProperty(property, located, name, {
            optional: schema.required?.includes(property) !== true,
            annotations: {},
          }),
        );
      if (base !== undefined) this.uses.add(base.name);
      const description =
        schema.description === undefined
          ? ''
          : `@ApiSchema({ description: ${render(schema.description)} })\n`;
      return `${description}export class ${name}${base === undefined ? '' : ` extends ${base.name}`} {\n${properties.join('\n\n')}\n}`;
    });
  }

  private writeClass(name: string, pointer: string, renderClass: () => string): void {
    const { constants, uses } = this;
    this.constants = [];
    this.uses = new Set();
    const text = renderClass();
    this.uses.delete(name);
    this.generated.set(name, {
      name,
      pointer,
      uses: this.uses,
      text: [...new Set(this.constants), text].join('\n\n'),
    });
    this.constants = constants;
    this.uses = uses;
  }

  /** Returns the class that a class extends: the only reference of `allOf`, if it adds to its properties. */
  private getBase(
    schema: SchemaOrReference,
    pointer: string,
    { properties, required = [] }: NormalizedSchema,
  ): (GeneratedClass & { readonly properties: ReadonlySet<string> }) | undefined {
    const target = resolve<Schema>(this.document, schema, pointer);
    const { allOf = [] } = target.value;
    const references = allOf.filter(({ $ref }) => $ref !== undefined);
    const [reference] = references;
    if (reference === undefined || references.length > 1) return undefined;
    const { value } = normalizeSchema(this.document, reference, pointer);
    const names = new Set(value.properties.keys());
    const isExtension = [...value.properties].every(
      ([name, property]) =>
        properties.get(name)?.value === property.value &&
        required.includes(name) === (value.required?.includes(name) ?? false),
    );
    if (!isExtension || !isObject(value) || value.name === undefined) return undefined;
    const name = this.getClass(reference, pointer, value.name);
    return { ...this.generated.get(name)!, properties: names };
  }

  private renderProperty(
    name: string,
    { value, pointer }: Located<SchemaOrReference>,
    className: string,
    { optional, annotations }: Pick<Place, 'optional' | 'annotations'>,
  ): string {
    const { value: schema } = normalizeSchema(this.document, value, pointer);
    const { decorator, type } = this.renderDeclaration(
      { value, pointer },
      {
        words: toWords(name),
        defaultName: `${className}${strings.classify(name)}`,
        optional: optional && schema.default === undefined,
        isItem: false,
        annotations,
      },
    );
    const isOptional = optional && schema.default === undefined;
    return `@Property(${decorator})\n${name}${isOptional ? '?' : '!'}: ${type}${schema.nullable === true ? ' | null' : ''};`;
  }

  private renderDeclaration(
    { value, pointer }: Located<SchemaOrReference>,
    place: Place,
  ): Declaration {
    const { value: schema } = normalizeSchema(this.document, value, pointer);
    if (
      place.isItem &&
      (schema.nullable ?? schema.default ?? schema.readOnly ?? schema.writeOnly) !== undefined
    )
      throw new ContractError([
        `${pointer}: An item cannot be null, or have a default, readOnly or writeOnly.`,
      ]);
    const options = {
      optional: place.optional ? 'true' : undefined,
      nullable: schema.nullable === true ? 'true' : undefined,
      description: render(
        place.annotations.description ??
          schema.description ??
          `${strings.capitalize(place.words)}.`,
      ),
      default: schema.default === undefined ? undefined : render(schema.default),
      readOnly: schema.readOnly === true ? 'true' : undefined,
      writeOnly: schema.writeOnly === true ? 'true' : undefined,
    };
    const example = place.annotations.example ?? schema.example;
    const given = { ...options, example: example === undefined ? undefined : render(example) };
    const sample = { ...options, example: render(example ?? getDefaultSample(schema)) };
    if (schema.enum !== undefined) return this.renderEnum(schema, place, given);
    switch (schema.type) {
      case 'string':
        return renderString(schema, given, sample, pointer);
      case 'integer':
        return {
          decorator: renderOptions({
            type: `'integer'`,
            format: schema.format && render(schema.format),
            ...pick(schema, ['minimum', 'maximum']),
            ...sample,
          }),
          type: 'number',
        };
      case 'number':
        return {
          decorator: renderOptions({ type: `'number'`, format: `'double'`, ...sample }),
          type: 'number',
        };
      case 'boolean':
        return { decorator: renderOptions({ type: `'boolean'`, ...given }), type: 'boolean' };
      case 'array':
        return this.renderArray(schema, pointer, place, given);
      default:
        return this.renderObject({ value, pointer }, schema, place, given);
    }
  }

  private renderEnum(
    { name, enum: values = [] }: NormalizedSchema,
    { defaultName }: Place,
    options: Record<string, string | undefined>,
  ): Declaration {
    const type = name ?? defaultName;
    const constant = strings.underscore(pluralize.plural(type)).toUpperCase();
    this.constants.push(
      `const ${constant} = ${render(values)} as const;\nexport type ${type} = (typeof ${constant})[number];`,
    );
    return { decorator: renderOptions({ type: `'string'`, enum: constant, ...options }), type };
  }

  private renderArray(
    schema: NormalizedSchema,
    pointer: string,
    place: Place,
    options: Record<string, string | undefined>,
  ): Declaration {
    const items = joinPointer(pointer, 'items');
    const { decorator, type } = this.renderDeclaration(
      { value: schema.items!, pointer: items },
      getItemPlace(place),
    );
    const { value } = normalizeSchema(this.document, schema.items!, items);
    if (value.type === 'array' && this.hasObjects(value, items))
      throw new ContractError([`${items}: Arrays of arrays of objects are not supported.`]);
    return {
      decorator: renderOptions({
        type: `'array'`,
        items: decorator,
        ...pick(schema, ['minItems', 'maxItems', 'uniqueItems']),
        ...options,
      }),
      type: /^\w+$/.test(type) ? `${type}[]` : `(${type})[]`.replace(/^\((\w+\[\])+\)/, '$1'),
    };
  }

  private hasObjects({ items }: NormalizedSchema, pointer: string): boolean {
    const { value } = normalizeSchema(this.document, items!, pointer);
    return isObject(value) || (value.type === 'array' && this.hasObjects(value, pointer));
  }

  private renderObject(
    { value, pointer }: Located<SchemaOrReference>,
    schema: NormalizedSchema,
    place: Place,
    options: Record<string, string | undefined>,
  ): Declaration {
    const { additionalProperties } = schema;
    if (typeof additionalProperties === 'object') {
      const located = {
        value: additionalProperties,
        pointer: joinPointer(pointer, 'additionalProperties'),
      };
      const { decorator, type } = this.renderDeclaration(located, getItemPlace(place));
      if (decorator.includes('type: () =>'))
        throw new ContractError([`${located.pointer}: Maps of objects are not supported.`]);
      return {
        decorator: renderOptions({
          type: `'object'`,
          additionalProperties: decorator,
          ...pick(schema, ['maxProperties']),
          ...options,
        }),
        type: `Record<string, ${type}>`,
      };
    }
    const name = this.getClass(value, pointer, place.defaultName);
    this.uses.add(name);
    const isPlain = place.isItem;
    return {
      decorator: isPlain
        ? `{ type: () => ${name} }`
        : renderOptions({ type: `() => ${name}`, ...options }),
      type: name,
    };
  }

  /** Files that import each other could not be loaded. */
  private checkCycles(): void {
    const visit = (name: string, path: readonly string[]): void => {
      if (path.includes(name)) {
        const cycle = [...path.slice(path.indexOf(name)), name].join(', ');
        throw new ContractError([
          `${this.generated.get(name)!.pointer}: Schemas that refer to each other are not supported: ${cycle}.`,
        ]);
      }
      for (const next of this.generated.get(name)?.uses ?? []) visit(next, [...path, name]);
    };
    for (const name of this.generated.keys()) visit(name, []);
  }
}

const getItemPlace = ({ words, defaultName }: Place): Place => ({
  words: pluralize.singular(words),
  defaultName: pluralize.singular(defaultName),
  optional: false,
  isItem: true,
  annotations: {},
});

/** Whether a schema is an object with named properties. */
export const isObject = ({ type, additionalProperties }: NormalizedSchema): boolean =>
  type === 'object' && typeof additionalProperties !== 'object';

const pick = (
  schema: NormalizedSchema,
  keys: readonly (keyof NormalizedSchema)[],
): Record<string, string | undefined> =>
  Object.fromEntries(
    keys.map((key) => [key, schema[key] === undefined ? undefined : render(schema[key])]),
  );

const FORMATS = new Set(['date', 'date-time', 'uuid', 'uri']);

function renderString(
  schema: NormalizedSchema,
  given: Record<string, string | undefined>,
  sample: Record<string, string | undefined>,
  pointer: string,
): Declaration {
  const { format, pattern } = schema;
  if (format === undefined) {
    const literal = pattern === undefined ? undefined : String(new RegExp(pattern, 'u'));
    const limits = pick(schema, ['minLength', 'maxLength']);
    return {
      decorator: renderOptions({ type: `'string'`, ...limits, pattern: literal, ...sample }),
      type: 'string',
    };
  }
  if (
    !FORMATS.has(format) ||
    schema.minLength !== undefined ||
    (schema.maxLength !== undefined && format !== 'uri')
  )
    throw new ContractError([
      `${pointer}: The format ${format} is not supported here, or not with a length.`,
    ]);
  const maxLength = format === 'uri' ? pick(schema, ['maxLength']) : {};
  return {
    decorator: renderOptions({ type: `'string'`, format: `'${format}'`, ...maxLength, ...given }),
    type: 'string',
  };
}

/** Which value `getSample` returns. */
interface SampleOptions {
  readonly full?: boolean;
  readonly other?: boolean;
}

/** Whether the generator knows another value than the example. */
const canVary = ({ pattern }: NormalizedSchema): boolean => pattern === undefined;

/** A value that differs from {@link getDefaultSample} and from most examples. */
function getOtherSample(schema: NormalizedSchema): unknown {
  const { type, format, minLength = 0, maxLength = Infinity, minimum, maximum } = schema;
  switch (type) {
    case 'string':
      if (schema.pattern !== undefined) return schema.example;
      return (
        {
          date: '2024-02-29',
          'date-time': '1969-07-20T20:17:40.000Z',
          uuid: '5f0c1f7e-9f0b-4c3a-8a55-0c2a3d4e5f60',
          uri: 'https://example.com/2.jpg',
        }[format ?? ''] ?? 'other'.padEnd(minLength, '!').slice(0, maxLength)
      );
    case 'integer':
      return Math.min(Math.max(minimum ?? 2, 2), maximum ?? Infinity);
    case 'number':
      return -0.25;
    case 'boolean':
      return false;
    default:
      return {};
  }
}

/** A value that a schema allows, if the contract has no example. */
function getDefaultSample({
  type,
  format,
  minLength = 0,
  maxLength = Infinity,
  minimum,
  maximum,
}: NormalizedSchema): unknown {
  switch (type) {
    case 'string':
      return (
        {
          date: '2026-11-01',
          'date-time': '2026-11-01T12:00:00.000Z',
          uuid: '0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70',
          uri: 'https://example.com/1.jpg',
        }[format ?? ''] ?? 'example'.padEnd(minLength, '.').slice(0, maxLength)
      );
    case 'integer':
      return Math.min(Math.max(minimum ?? 1, 1), maximum ?? Infinity);
    case 'number':
      return 1.5;
    case 'boolean':
      return true;
    default:
      return {};
  }
}
