import { SchematicsException, strings } from '@angular-devkit/schematics';
import pluralize from 'pluralize';
import { isReservedWord } from './collisions.js';
import { type FieldNode, invalidField, parseFieldNodes, type TypeNode } from './field-syntax.js';

/** A field of a resource, with the code that the templates contain for it. */
export interface Field extends Property {
  /** Whether no two rows may have the same value. */
  readonly unique: boolean;
  /** Whether clients can select rows by its value. */
  readonly filter: boolean;
  /** Whether requests may set it to null. */
  readonly nullable?: boolean;
  /** Whether requests cannot contain it. */
  readonly readOnly: boolean;
  /** Whether responses do not contain it. */
  readonly writeOnly: boolean;
  /** An expression for its default, if it has one. */
  readonly default: string | undefined;
  /** An expression for the value in responses to which {@link default} leads. */
  readonly expectedDefault: string | undefined;
  /** The decorator of the query parameter, if it is a filter. */
  readonly filterDecorator: string;
  /** The name of its column. */
  readonly column: string;
  /** The table that it references. */
  readonly references?: string;
  readonly isDateTime: boolean;
  /** Whether a JSON merge patch changes parts of its value: an object or a map. */
  readonly isMerged: boolean;
  /** The arguments of `@Column`. */
  readonly columnArguments: string;
  /** The type of its property in the entity. */
  readonly entityType: string;
  /** The column in the migration. */
  readonly migrationColumn: string;
  /** An expression that converts the property of an entity, appended to its name, to the DTO's. */
  readonly toDto: string;
  /** The enums and classes of its values, including nested ones. */
  readonly enums: readonly Enum[];
  readonly classes: readonly NestedClass[];
  /** Expressions for the tests: a valid value, another valid value and invalid ones. */
  readonly sample: string;
  readonly otherSample: string;
  readonly invalids: readonly string[];
  /** Expressions for the tests: merge patches of {@link sample}, with their results. */
  readonly merges: readonly (readonly [patch: string, result: string])[];
}

/** A property of a DTO. */
export interface Property {
  readonly name: string;
  readonly optional: boolean;
  readonly decorator: string;
  readonly dtoType: string;
}

/** The type of an enum, and the constant that lists its values. */
export interface Enum {
  readonly name: string;
  readonly constant: string;
  readonly values: readonly string[];
}

/** The DTO of a nested object. */
export interface NestedClass {
  readonly name: string;
  readonly properties: readonly Property[];
}

/** What a type contributes to the code of a field. */
interface FieldType {
  readonly decorator: string;
  /** The arguments of the decorator before its options. */
  readonly argument?: string;
  /** The options of the decorator besides those that every decorator has. */
  readonly options: string;
  readonly dtoType: string;
  readonly columnType: string;
  readonly length?: number;
  readonly transformer?: string;
  readonly entityType?: string;
  readonly references?: string;
  readonly enums?: readonly Enum[];
  readonly classes?: readonly NestedClass[];
  /** Whether its values are objects, or arrays of objects. */
  readonly hasObjects?: boolean;
  readonly isMerged?: boolean;
  readonly sample: string;
  readonly otherSample: string;
  readonly invalids: readonly string[];
  readonly merges?: Field['merges'];
  /** An expression for the tests: another value each time. Without it, the field cannot be unique. */
  readonly uniqueSample?: string;
  /** Returns an expression for a default, or undefined if it is invalid. Without it, the field has none. */
  readonly parseDefault?: (text: string) => string | undefined;
}

/** What the user wrote about a field, and what its type needs of the resource. */
interface Definition {
  readonly name: string;
  readonly argument: string | undefined;
  readonly optional: boolean;
  /** Whether it is a part of the value of a field. */
  readonly isNested: boolean;
  /** Creates an error about the field. */
  readonly fail: (violation: string) => SchematicsException;
  readonly enumType: string;
  /** The table of the resource. */
  readonly table: string;
}

/** What a field belongs to: the resource, or a nested object. */
interface Owner {
  /** The class. */
  readonly item: string;
  readonly table: string;
  readonly isNested: boolean;
}

/** PostgreSQL truncates longer names. */
const MAX_IDENTIFIER_LENGTH = 63;
/** In characters. */
const MAX_TEXT_LENGTH = 10_000;
const MAX_ENUM_VALUE_LENGTH = 64;
/** The types of fields that a client can select rows by. */
const FILTER_TYPES = new Set(['string', 'integer', 'boolean', 'enum', 'date', 'uuid', 'ref']);
const FIELD_TYPES =
  'string(min..max), text, integer, integer(min..max), number, decimal(precision,scale), boolean, enum(a,b), date, date-time, uuid, uri, ref(resource), {fields}, map(type)';
const MODIFIERS = ['unique', 'filter', 'read-only', 'write-only'];

/**
 * Parses the fields of a resource; see `parseFieldNodes`.
 *
 * @param table the table of the resource
 * @param item the class of the resource
 * @throws {SchematicsException} with the field, the position and what is wrong
 */
export function parseFields(text: string, table: string, item: string): Field[] {
  const nodes = parseFieldNodes(text);
  if (nodes.length === 0) throw new SchematicsException('At least one field is required.');
  const fields = createFields(nodes, { item, table, isNested: false });
  const types = new Set(['', 'Patch', 'Entity', 'Filters'].map((suffix) => item + suffix));
  for (const [index, { enums, classes }] of fields.entries()) {
    for (const { name } of [...enums, ...classes]) {
      if (types.has(name)) {
        const violation = `the name of its type, ${name}, is used already`;
        throw invalidField(nodes[index]!, nodes[index]!.position, violation);
      }
      types.add(name);
    }
  }
  return fields;
}

function createFields(nodes: readonly FieldNode[], owner: Owner): Field[] {
  const names = nodes.map(({ name }) => name);
  const duplicate = nodes.find(({ name }, index) => names.indexOf(name) !== index);
  if (duplicate !== undefined)
    throw invalidField(duplicate, duplicate.position, `duplicate field: ${duplicate.name}`);
  return nodes.map((node) => createField(node, owner));
}

function createField(node: FieldNode, owner: Owner): Field {
  const { name, optional, position } = node;
  const { item, table, isNested } = owner;
  const fail = (violation: string, at = position): SchematicsException =>
    invalidField(node, at, violation);
  if (name === 'id' && !isNested) throw fail('the service assigns the id');
  if (name === 'prototype' || name in Object.prototype) throw fail(`${name} is a reserved name`);
  const type = createType(node.type, node, owner);
  const modifiers = checkModifiers(node, type, isNested);
  const unique = modifiers.includes('unique');
  const filter = modifiers.includes('filter');
  const readOnly = modifiers.includes('read-only');
  const writeOnly = modifiers.includes('write-only');
  const isDateTime = node.type.kind === 'value' && node.type.name === 'date-time';
  const value = parseDefault(node, type, isDateTime && readOnly);
  if (readOnly && value === undefined && !optional)
    throw fail('a read-only field needs a default, or ? if it has no value at first');
  const column = strings.underscore(name);
  for (const prefix of isNested ? [] : ['fk', 'ix', 'uq']) {
    const constraint = `${prefix}_${table}_${column}`;
    if (constraint.length > MAX_IDENTIFIER_LENGTH)
      throw fail(`the name ${constraint} exceeds ${MAX_IDENTIFIER_LENGTH} characters`);
  }
  const { columnType, length, transformer } = type;
  const columnOptions = [
    ...(column === name ? [] : [`name: '${column}'`]),
    ...(length === undefined ? [] : [`length: ${length}`]),
    ...(optional ? ['nullable: true'] : []),
    ...(transformer === undefined ? [] : [`transformer: ${transformer}`]),
  ];
  const typeName = node.type.kind === 'value' ? node.type.name : node.type.kind;
  const options = [
    ...(optional ? ['optional: true'] : []),
    ...(value !== undefined && !readOnly ? [`default: ${value}`] : []),
    ...(readOnly ? ['readOnly: true'] : []),
    ...(writeOnly ? ['writeOnly: true'] : []),
    `description: '${describeField(typeName, toWords(name), toWords(isNested ? getNoun(item) : item))}'`,
  ];
  return {
    name,
    optional,
    unique,
    filter,
    readOnly,
    writeOnly,
    default: value,
    expectedDefault: value === 'new Date()' ? 'expect.any(String)' : value,
    filterDecorator: `@Property(${renderSchema(type, `optional: true, description: 'Selects by: ${toWords(name)}.'`)})`,
    column,
    isDateTime,
    isMerged: type.isMerged === true,
    ...(type.references === undefined ? {} : { references: type.references }),
    enums: type.enums ?? [],
    classes: type.classes ?? [],
    decorator: `@Property(${renderSchema(type, options.join(', '))})`,
    dtoType: type.dtoType,
    columnArguments: `'${columnType}'${columnOptions.length === 0 ? '' : `, { ${columnOptions.join(', ')} }`}`,
    entityType: `${type.entityType ?? type.dtoType}${optional ? ' | null' : ''}`,
    migrationColumn: `{ name: '${column}', type: '${columnType}'${length === undefined ? '' : `, length: '${length}'`}${optional ? ', isNullable: true' : ''} }`,
    toDto: isDateTime ? `${optional ? '?' : ''}.toISOString()` : optional ? ' ?? undefined' : '',
    sample: unique ? type.uniqueSample! : type.sample,
    otherSample: unique ? type.uniqueSample! : type.otherSample,
    invalids: type.invalids,
    merges: type.merges ?? [],
  };
}

/** Returns the names of the modifiers. */
function checkModifiers(node: FieldNode, type: FieldType, isNested: boolean): string[] {
  const names = node.modifiers.map(({ text }) => text);
  for (const { text, position } of node.modifiers) {
    const fail = (violation: string): SchematicsException =>
      invalidField(node, position, violation);
    const others = names.filter((name) => name !== text);
    if (!MODIFIERS.includes(text))
      throw fail(`unknown modifier ${text}, expected one of ${MODIFIERS.join(', ')}`);
    if (isNested) throw fail('the fields of an object have no modifiers');
    if (text === 'filter' && !(node.type.kind === 'value' && FILTER_TYPES.has(node.type.name)))
      throw fail(`only ${[...FILTER_TYPES].join(', ')} may be a filter`);
    if (text === 'unique' && type.uniqueSample === undefined)
      throw fail(
        'only string with a maximum of 10 or more, integer without limits, and uuid may be unique',
      );
    if (text === 'write-only' && others.length > 0)
      throw fail('a write-only field has no other modifiers');
    if (text === 'read-only' && others.includes('unique'))
      throw fail('a read-only field cannot be unique');
  }
  return names;
}

/** Returns an expression for the default. */
function parseDefault(
  node: FieldNode,
  { parseDefault: parse }: FieldType,
  canBeNow: boolean,
): string | undefined {
  if (node.default === undefined) return undefined;
  const { text, position } = node.default;
  if (node.optional)
    throw invalidField(node, position, 'a field with a default always has a value: omit the ?');
  if (canBeNow && text === 'now') return 'new Date()';
  if (parse === undefined) throw invalidField(node, position, 'the type has no defaults');
  const value = parse(text);
  if (value === undefined)
    throw invalidField(node, position, `${text} is not a valid value of the type`);
  return value;
}

/** What the types of fields are in a schema of `@Property`. */
const SCHEMAS: Record<string, string> = {
  IdProperty: `type: 'integer', minimum: 1,`,
  StringProperty: `type: 'string',`,
  IntegerProperty: `type: 'integer',`,
  DecimalProperty: `type: 'string', format: 'decimal',`,
  DateProperty: `type: 'string', format: 'date',`,
  DateTimeProperty: `type: 'string', format: 'date-time',`,
  UuidProperty: `type: 'string', format: 'uuid',`,
  UriProperty: `type: 'string', format: 'uri',`,
  NumberProperty: `type: 'number', format: 'double',`,
  BooleanProperty: `type: 'boolean',`,
  EnumProperty: `type: 'string',`,
  ArrayProperty: `type: 'array',`,
  MapProperty: `type: 'object',`,
};

function renderSchema({ decorator, argument, options }: FieldType, ownOptions: string): string {
  return `{ ${SCHEMAS[decorator] ?? `type: ${argument},`} ${options} ${ownOptions} }`;
}

/** Returns the schema of the items of an array, or of the values of a map. */
function renderItem(type: FieldType, description: string): string {
  return renderSchema(type, type.argument === undefined ? `description: '${description}'` : '');
}

function createType(type: TypeNode, field: FieldNode, owner: Owner): FieldType {
  const fail = (violation: string): SchematicsException =>
    invalidField(field, type.position, violation);
  switch (type.kind) {
    case 'value': {
      const create = fieldTypes[type.name];
      if (create === undefined) throw fail(`unknown type, expected one of ${FIELD_TYPES}`);
      const isPart = field.type !== type;
      return create({
        name: field.name,
        argument: type.argument,
        optional: field.optional,
        isNested: isPart || owner.isNested,
        fail,
        enumType: getTypeName(field.name, owner, isPart),
        table: owner.table,
      });
    }
    case 'array': {
      const items = createType(type.items, field, owner);
      if (type.items.kind === 'array' && items.hasObjects === true)
        throw fail('an array of arrays of objects is not supported');
      return createArrayType(type, items, toWords(field.name));
    }
    case 'map': {
      const values = createType(type.values, field, owner);
      if (values.hasObjects === true)
        throw fail('a map of objects is not supported: use an array of objects');
      return createMapType(type.max, values);
    }
    default: {
      const name = getTypeName(field.name, owner, field.type !== type);
      const nested = { item: name, table: owner.table, isNested: true };
      return createObjectType(name, createFields(type.fields, nested));
    }
  }
}

/** Returns the name of the type of a field, or of its parts, such as `PetTag` for the items of `tags`. */
function getTypeName(field: string, { item }: Owner, isPart: boolean): string {
  return item + strings.classify(isPart ? pluralize.singular(field) : field);
}

/** In a JSON column. */
const JSON_COLUMN = { columnType: 'json', options: '', invalids: [`'text'`, '{ nested: true }'] };

function createArrayType(
  { min, max }: { min: number; max: number },
  items: FieldType,
  words: string,
): FieldType {
  const list = (...samples: string[]): string => {
    const length = Math.min(Math.max(samples.length, min), max);
    return `[${Array.from({ length }, (_item, index) => samples[index % samples.length]).join(', ')}]`;
  };
  const description = `${strings.capitalize(pluralize.singular(words))}.`;
  return {
    ...JSON_COLUMN,
    decorator: 'ArrayProperty',
    options: `items: ${renderItem(items, description)}, ${min > 0 ? `minItems: ${min}, ` : ''}maxItems: ${max},`,
    dtoType: `${items.dtoType}[]`,
    enums: items.enums ?? [],
    classes: items.classes ?? [],
    hasObjects: items.hasObjects === true,
    sample: list(items.sample),
    otherSample: list(items.otherSample, items.sample),
    invalids: [...JSON_COLUMN.invalids, list(items.invalids[0]!), ...(min > 0 ? ['[]'] : [])],
    ...(min === 0 && { parseDefault: (text) => (text === '[]' ? text : undefined) }),
  };
}

function createMapType(max: number, values: FieldType): FieldType {
  const { sample, otherSample } = values;
  return {
    ...JSON_COLUMN,
    decorator: 'MapProperty',
    options: `additionalProperties: ${renderItem(values, 'Value of an entry.')}, maxProperties: ${max},`,
    dtoType: `Record<string, ${values.dtoType}>`,
    enums: values.enums ?? [],
    isMerged: true,
    sample: `{ first: ${sample} }`,
    otherSample: `{ first: ${otherSample} }`,
    invalids: [`'text'`, '[]', `{ first: ${values.invalids[0]} }`],
    merges: [
      ['{ first: null }', '{}'],
      ...(max > 1
        ? [[`{ second: ${otherSample} }`, `{ first: ${sample}, second: ${otherSample} }`] as const]
        : []),
    ],
    parseDefault: (text) => (text === '{}' ? text : undefined),
  };
}

function createObjectType(name: string, fields: readonly Field[]): FieldType {
  const samples = fields.map((field) => [field.name, field.sample] as const);
  const first = fields[0]!;
  const optional = fields.find((field) => field.optional);
  return {
    ...JSON_COLUMN,
    decorator: 'ObjectProperty',
    argument: `() => ${name}`,
    dtoType: name,
    enums: fields.flatMap(({ enums }) => enums),
    classes: [...fields.flatMap(({ classes }) => classes), { name, properties: fields }],
    hasObjects: true,
    isMerged: true,
    sample: toObject(samples),
    otherSample: toObject(fields.map((field) => [field.name, field.otherSample])),
    invalids: [...JSON_COLUMN.invalids, '[]', `{ ${first.name}: ${first.invalids[0]} }`],
    merges: [
      [
        toObject([[first.name, first.otherSample]]),
        toObject([[first.name, first.otherSample], ...samples.slice(1)]),
      ],
      ...(optional === undefined
        ? []
        : [
            [
              `{ ${optional.name}: null }`,
              toObject(samples.filter(([key]) => key !== optional.name)),
            ] as const,
          ]),
    ],
  };
}

/** Returns an expression for an object. */
function toObject(properties: readonly (readonly [string, string])[]): string {
  return `{ ${properties.map(([key, value]) => `${key}: ${value}`).join(', ')} }`;
}

/** Returns the noun for a nested object, whose class starts with that of the resource. */
const getNoun = (className: string): string => strings.decamelize(className).split('_').at(-1)!;

const toWords = (name: string): string => strings.decamelize(name).replaceAll('_', ' ');

/** Returns the description of a field in the OpenAPI document. */
function describeField(typeName: string, words: string, noun: string): string {
  switch (typeName) {
    case 'boolean':
      return `Whether the ${noun} ${/^(is|has|can|needs|was) /.test(words) ? '' : 'is '}${words}.`;
    case 'date':
      return `Date: ${words}.`;
    case 'date-time':
      return `Date and time: ${words}.`;
    case 'ref':
      return `Id of the ${words.replace(/ id$/, '')}.`;
    default:
      return `${strings.capitalize(words)} of the ${noun}.`;
  }
}

const quote = (text: string): string => `'${text.replaceAll(/['\\]/g, String.raw`\$&`)}'`;

/** Returns invalid values of a type whose values are neither objects nor arrays. */
const scalar = (invalid: string): string[] => [invalid, '{ nested: true }'];

const isDate = (text: string): boolean =>
  /^\d{4}-\d\d-\d\d$/.test(text) &&
  !Number.isNaN(Date.parse(text)) &&
  new Date(text).toISOString().startsWith(text);

/** Returns the regular expression of the decimal numbers with these digits. */
function toDecimalPattern(precision: number, scale: number): string {
  const digits = precision - scale;
  const integer = digits === 0 ? '0' : `(0|[1-9]\\d{0,${digits - 1}})`;
  return `/^-?${integer}${scale === 0 ? '' : `(\\.\\d{1,${scale}})?`}$/`;
}

function isDecimal(text: string, precision: number, scale: number): boolean {
  const [, integer, fraction = ''] = /^-?(0|[1-9]\d*)(?:\.(\d+))?$/.exec(text) ?? [];
  if (integer === undefined || fraction.length > scale) return false;
  return integer === '0' || integer.length <= precision - scale;
}

const fieldTypes: Record<string, (definition: Definition) => FieldType> = {
  string: (definition) => {
    const [min, max] = parseRange(definition) ?? [1, 255];
    if (min < 0 || max < 1 || max > MAX_TEXT_LENGTH) {
      throw definition.fail(
        `expected a length from 0 to ${MAX_TEXT_LENGTH}, such as string(1..100)`,
      );
    }
    return createTextType('varchar', min, max);
  },
  text: ({ argument, fail }) => {
    if (argument !== undefined)
      throw fail('takes no argument; use string(min..max) to limit the length');
    return createTextType('text', 0, MAX_TEXT_LENGTH);
  },
  integer: (definition) => {
    const [min, max] = parseRange(definition) ?? [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];
    const sample = Math.min(Math.max(min, 1), max);
    const isInRange = (value: number): boolean => value >= min && value <= max;
    const fits32Bits = min >= -(2 ** 31) && max < 2 ** 31;
    return {
      decorator: 'IntegerProperty',
      options: `minimum: ${min}, maximum: ${max}, example: ${sample},`,
      dtoType: 'number',
      ...(fits32Bits
        ? { columnType: 'integer' }
        : { columnType: 'bigint', transformer: 'bigintTransformer' }),
      sample: `${sample}`,
      otherSample: `${max}`,
      invalids: scalar('1.5'),
      ...(definition.argument === undefined && { uniqueSample: 'nextNumber()' }),
      parseDefault: (text) =>
        /^-?\d+$/.test(text) && isInRange(Number(text)) ? String(Number(text)) : undefined,
    };
  },
  decimal: ({ argument, fail }) => {
    const [, precision, scale] = /^(\d{1,2}), *(\d{1,2})$/.exec(argument ?? '')?.map(Number) ?? [];
    if (
      precision === undefined ||
      scale === undefined ||
      precision > 38 ||
      scale > precision ||
      precision < 1
    )
      throw fail('expected precision and scale, such as decimal(10,2)');
    const example = scale === 0 ? '1' : `0.${'1'.padStart(scale, '0')}`;
    return {
      decorator: 'DecimalProperty',
      options: `pattern: ${toDecimalPattern(precision, scale)}, example: '${example}',`,
      dtoType: 'string',
      columnType: 'varchar',
      // With a sign and a decimal point.
      length: precision + 3,
      sample: quote(example),
      otherSample: quote('0'),
      invalids: scalar('1.5'),
      parseDefault: (text) => (isDecimal(text, precision, scale) ? quote(text) : undefined),
    };
  },
  date: (definition) => {
    rejectArgument(definition);
    return {
      ...createFormatType('DateProperty', 10, '2026-11-01', '2024-02-29', '2026-02-30'),
      parseDefault: (text) => (isDate(text) ? quote(text) : undefined),
    };
  },
  uuid: (definition) => {
    rejectArgument(definition);
    return {
      ...createFormatType(
        'UuidProperty',
        36,
        '5f0c1f7e-9f0b-4c3a-8a55-0c2a3d4e5f60',
        '0b9f0c1f-7e9f-4b4c-93a8-a550c2a3d4e5',
        'not-a-uuid',
      ),
      uniqueSample: 'randomUUID()',
    };
  },
  uri: (definition) => {
    rejectArgument(definition);
    return createFormatType(
      'UriProperty',
      2048,
      'https://example.com/1.jpg',
      'https://example.com/2.jpg',
      'no uri',
    );
  },
  number: (definition) => {
    rejectArgument(definition);
    return {
      decorator: 'NumberProperty',
      options: 'example: 1.5,',
      dtoType: 'number',
      columnType: 'double precision',
      sample: '1.5',
      otherSample: '-0.25',
      invalids: scalar(`'1.5'`),
      parseDefault: (text) => (Number.isFinite(Number(text)) ? String(Number(text)) : undefined),
    };
  },
  boolean: (definition) => {
    rejectArgument(definition);
    return {
      decorator: 'BooleanProperty',
      options: '',
      dtoType: 'boolean',
      columnType: 'boolean',
      sample: 'true',
      otherSample: 'false',
      invalids: scalar('1'),
      parseDefault: (text) => (text === 'true' || text === 'false' ? text : undefined),
    };
  },
  enum: ({ argument, fail, enumType }) => {
    const values = (argument ?? '').split(',').map((value) => value.trim());
    const isValid = (value: string): boolean =>
      /^[A-Za-z0-9][A-Za-z0-9_-]*$/.test(value) && value.length <= MAX_ENUM_VALUE_LENGTH;
    if (!values.every(isValid)) {
      throw fail('expected values of letters, digits, _ and -, such as enum(on,off)');
    }
    if (new Set(values).size !== values.length) throw fail('duplicate value');
    const constant = strings.underscore(pluralize.plural(enumType)).toUpperCase();
    return {
      decorator: 'EnumProperty',
      options: `enum: ${constant},`,
      dtoType: enumType,
      columnType: 'varchar',
      length: MAX_ENUM_VALUE_LENGTH,
      enums: [{ name: enumType, constant, values }],
      sample: quote(values[0]!),
      otherSample: quote(values.at(-1)!),
      invalids: scalar(quote(`not ${values[0]}`)),
      parseDefault: (text) => (values.includes(text) ? quote(text) : undefined),
    };
  },
  'date-time': (definition) => {
    rejectArgument(definition);
    // The update has a variable for each date and time, besides these.
    if (isReservedWord(definition.name) || ['changes', 'rest'].includes(definition.name))
      throw definition.fail(`${definition.name} is a reserved name`);
    return {
      decorator: 'DateTimeProperty',
      options: '',
      dtoType: 'string',
      columnType: 'bigint',
      transformer: 'epochMillisTransformer',
      entityType: 'Date',
      sample: `'2026-11-01T12:00:00.000Z'`,
      otherSample: `'1969-07-20T20:17:40.000Z'`,
      invalids: scalar(`'2026-02-30T12:00:00Z'`),
    };
  },
  ref: ({ argument, fail, optional, isNested, table }) => {
    if (isNested) throw fail('a reference cannot be a part of an array, an object or a map');
    if (argument === undefined || !/^[a-z][a-z0-9-]*$/.test(argument))
      throw fail('expected the referenced resource, such as ref(categories)');
    const references = strings.underscore(argument);
    if (references === table && !optional) {
      throw fail(
        'a reference to the same resource must be optional, because the first row has nothing to reference',
      );
    }
    return {
      decorator: 'IdProperty',
      options: '',
      dtoType: 'number',
      columnType: 'bigint',
      transformer: 'bigintTransformer',
      references,
      sample: `await insertRow(app.dataSource, '${references}')`,
      otherSample: `await insertRow(app.dataSource, '${references}')`,
      invalids: scalar('0'),
    };
  },
};

function createFormatType(
  decorator: string,
  length: number,
  sample: string,
  otherSample: string,
  invalid: string,
): FieldType {
  return {
    decorator,
    options: '',
    dtoType: 'string',
    columnType: 'varchar',
    length,
    sample: quote(sample),
    otherSample: quote(otherSample),
    invalids: scalar(quote(invalid)),
  };
}

function createTextType(columnType: string, min: number, max: number): FieldType {
  const sample = 'example'.padEnd(min, '.').slice(0, max);
  return {
    decorator: 'StringProperty',
    options: `${min > 0 ? `minLength: ${min}, ` : ''}maxLength: ${max},${min > 0 ? ' notBlank: true,' : ''} example: '${sample}',`,
    dtoType: 'string',
    columnType,
    ...(columnType === 'varchar' ? { length: max } : {}),
    sample: quote(sample),
    otherSample: quote('🐶'.repeat(Math.min(max, Math.max(min, 1)))),
    invalids: scalar(max > 200 ? `'x'.repeat(${max + 1})` : quote('x'.repeat(max + 1))),
    parseDefault: (text) => {
      const { length } = Array.from(text);
      return length >= min && length <= max ? quote(text) : undefined;
    },
    ...(columnType === 'varchar' &&
      max >= 10 && { uniqueSample: `String(nextNumber()).padStart(${Math.max(min, 1)}, '0')` }),
  };
}

function rejectArgument({ argument, fail }: Definition): void {
  if (argument !== undefined) throw fail('takes no argument');
}

function parseRange({ argument, fail }: Definition): [number, number] | undefined {
  if (argument === undefined) return undefined;
  const [, min, max] = /^(-?\d+)\.\.(-?\d+)$/.exec(argument) ?? [];
  const limits: [number, number] = [Number(min), Number(max)];
  if (!limits.every(Number.isSafeInteger) || limits[0] > limits[1]) {
    throw fail('expected integers min..max, such as (1..100)');
  }
  return limits;
}
