import { SchematicsException, strings } from '@angular-devkit/schematics';
import pluralize from 'pluralize';
import { isReservedWord } from './collisions.js';

/** A field of a resource, with the code that the templates contain for it. */
export interface Field {
  readonly name: string;
  readonly optional: boolean;
  /** Whether no two rows may have the same value. */
  readonly unique: boolean;
  /** Whether clients can select rows by its value. */
  readonly filter: boolean;
  /** The decorator of the query parameter, if it is a filter. */
  readonly filterDecorator: string;
  /** The name of its column. */
  readonly column: string;
  /** The table that it references. */
  readonly references?: string;
  readonly isDateTime: boolean;
  /** The values of an enum. */
  readonly values: readonly string[];
  /** The constant that lists the values of an enum. */
  readonly valuesConstant: string;
  /** The decorator of its property in the DTO. */
  readonly decorator: string;
  /** The type of its property in the DTO. */
  readonly dtoType: string;
  /** The arguments of `@Column`. */
  readonly columnArguments: string;
  /** The type of its property in the entity. */
  readonly entityType: string;
  /** The column in the migration. */
  readonly migrationColumn: string;
  /** An expression that converts the property of an entity, appended to its name, to the DTO's. */
  readonly toDto: string;
  /** Expressions for the tests: a valid value, another valid value and an invalid one. */
  readonly sample: string;
  readonly otherSample: string;
  readonly invalid: string;
}

/** The part of a field that depends on its type. */
interface FieldType {
  readonly decorator: string;
  /** The options of the decorator besides `optional` and `description`. */
  readonly options: string;
  readonly dtoType: string;
  readonly columnType: string;
  readonly length?: number;
  readonly transformer?: string;
  readonly entityType?: string;
  readonly references?: string;
  readonly values?: readonly string[];
  readonly sample: string;
  readonly otherSample: string;
  readonly invalid: string;
  /** An expression for the tests: another value each time. Without it, the field cannot be unique. */
  readonly uniqueSample?: string;
}

/** What the user wrote about a field, and what its type needs of the resource. */
interface Definition {
  readonly name: string;
  readonly argument: string | undefined;
  readonly optional: boolean;
  /** Creates an error about the field. */
  readonly invalidField: (violation: string) => SchematicsException;
  readonly enumType: string;
  readonly valuesConstant: string;
  /** The table of the resource. */
  readonly table: string;
}

const SYNTAX = /^([a-z][A-Za-z0-9]*):([a-z-]+)(?:\((.*)\))?(\?)?((?::[a-z]+)*)$/;
/** PostgreSQL truncates longer names. */
const MAX_IDENTIFIER_LENGTH = 63;
/** In characters. */
const MAX_TEXT_LENGTH = 10_000;
const MAX_ENUM_VALUE_LENGTH = 64;
/** The types of fields that a client can select rows by. */
const FILTER_TYPES = new Set(['string', 'integer', 'boolean', 'enum', 'date', 'uuid', 'ref']);
const FIELD_TYPES =
  'string(min..max), text, integer, integer(min..max), number, decimal(precision,scale), boolean, enum(a,b), date, date-time, uuid, uri, ref(resource)';

/**
 * Parses fields in the form `name:type(arguments)?`, separated by spaces.
 *
 * @param table the table of the resource
 * @param item the class of the resource
 * @throws {SchematicsException} with the field and what is wrong with it
 */
export function parseFields(text: string, table: string, item: string): Field[] {
  const definitions = text.match(/[^\s(]+(\([^)]*\))?\S*/g) ?? [];
  if (definitions.length === 0) throw new SchematicsException('At least one field is required.');
  const fields = definitions.map((definition) => parseField(definition, table, item));
  const names = fields.map(({ name }) => name);
  const duplicate = names.find((name, index) => names.indexOf(name) !== index);
  if (duplicate !== undefined) throw new SchematicsException(`duplicate field: ${duplicate}`);
  return fields;
}

function parseField(definition: string, table: string, item: string): Field {
  const invalidField = (violation: string): SchematicsException =>
    new SchematicsException(`Invalid field ${definition}: ${violation}.`);
  const [, name, typeName, argument, mark, modifiers] = SYNTAX.exec(definition) ?? [];
  if (name === undefined || typeName === undefined)
    throw invalidField('expected name:type, such as age:integer?');
  if (name === 'id') throw invalidField('the service assigns the id');
  if (name === 'prototype' || name in Object.prototype)
    throw invalidField(`${name} is a reserved name`);
  const createType = fieldTypes[typeName];
  if (createType === undefined) throw invalidField(`unknown type, expected one of ${FIELD_TYPES}`);
  const enumType = `${item}${strings.classify(name)}`;
  const valuesConstant = strings.underscore(pluralize.plural(enumType)).toUpperCase();
  const optional = mark !== undefined;
  const type = createType({
    name,
    argument: argument?.trim(),
    optional,
    invalidField,
    enumType,
    valuesConstant,
    table,
  });
  const names = (modifiers ?? '').split(':').slice(1);
  const unknown = names.find((modifier) => modifier !== 'unique' && modifier !== 'filter');
  if (unknown !== undefined)
    throw invalidField(`unknown modifier ${unknown}, expected unique or filter`);
  const unique = names.includes('unique');
  const filter = names.includes('filter');
  if (filter && !FILTER_TYPES.has(typeName))
    throw invalidField(`only ${[...FILTER_TYPES].join(', ')} may be a filter`);
  if (unique && type.uniqueSample === undefined)
    throw invalidField(
      'only string with a maximum of 10 or more, integer without limits, and uuid may be unique',
    );
  const column = strings.underscore(name);
  for (const prefix of ['fk', 'ix', 'uq']) {
    const constraint = `${prefix}_${table}_${column}`;
    if (constraint.length > MAX_IDENTIFIER_LENGTH)
      throw invalidField(`the name ${constraint} exceeds ${MAX_IDENTIFIER_LENGTH} characters`);
  }
  const { columnType, length, transformer } = type;
  const isDateTime = typeName === 'date-time';
  const columnOptions = [
    ...(column === name ? [] : [`name: '${column}'`]),
    ...(length === undefined ? [] : [`length: ${length}`]),
    ...(optional ? ['nullable: true'] : []),
    ...(transformer === undefined ? [] : [`transformer: ${transformer}`]),
  ];
  const description = describeField(typeName, toWords(name), toWords(item));
  return {
    name,
    optional,
    unique,
    filter,
    filterDecorator: `@${type.decorator}({ ${type.options} optional: true, description: 'Selects by: ${toWords(name)}.' })`,
    column,
    isDateTime,
    values: type.values ?? [],
    valuesConstant,
    ...(type.references === undefined ? {} : { references: type.references }),
    decorator: `@${type.decorator}({ ${type.options} ${optional ? 'optional: true,' : ''} description: '${description}' })`,
    dtoType: type.dtoType,
    columnArguments: `'${columnType}'${columnOptions.length === 0 ? '' : `, { ${columnOptions.join(', ')} }`}`,
    entityType: `${type.entityType ?? type.dtoType}${optional ? ' | null' : ''}`,
    migrationColumn: `{ name: '${column}', type: '${columnType}'${length === undefined ? '' : `, length: '${length}'`}${optional ? ', isNullable: true' : ''} }`,
    toDto: isDateTime ? `${optional ? '?' : ''}.toISOString()` : optional ? ' ?? undefined' : '',
    sample: unique ? type.uniqueSample! : type.sample,
    otherSample: unique ? type.uniqueSample! : type.otherSample,
    invalid: type.invalid,
  };
}

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

const quote = (text: string): string => `'${text}'`;

const fieldTypes: Record<string, (definition: Definition) => FieldType> = {
  string: (definition) => {
    const [min, max] = parseRange(definition) ?? [1, 255];
    if (min < 0 || max < 1 || max > MAX_TEXT_LENGTH) {
      throw definition.invalidField(
        `expected a length from 0 to ${MAX_TEXT_LENGTH}, such as string(1..100)`,
      );
    }
    return createTextType('varchar', min, max);
  },
  text: ({ argument, invalidField }) => {
    if (argument !== undefined)
      throw invalidField('takes no argument; use string(min..max) to limit the length');
    return createTextType('text', 0, MAX_TEXT_LENGTH);
  },
  integer: (definition) => {
    const [min, max] = parseRange(definition) ?? [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];
    const sample = Math.min(Math.max(min, 1), max);
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
      invalid: '1.5',
      ...(definition.argument === undefined && { uniqueSample: 'nextNumber()' }),
    };
  },
  decimal: ({ argument, invalidField }) => {
    const [, precision, scale] = /^(\d{1,2}), *(\d{1,2})$/.exec(argument ?? '')?.map(Number) ?? [];
    if (
      precision === undefined ||
      scale === undefined ||
      precision > 38 ||
      scale > precision ||
      precision < 1
    )
      throw invalidField('expected precision and scale, such as decimal(10,2)');
    const example = scale === 0 ? '1' : `0.${'1'.padStart(scale, '0')}`;
    return {
      decorator: 'DecimalProperty',
      options: `precision: ${precision}, scale: ${scale}, example: '${example}',`,
      dtoType: 'string',
      columnType: 'varchar',
      // With a sign and a decimal point.
      length: precision + 3,
      sample: quote(example),
      otherSample: quote('0'),
      invalid: '1.5',
    };
  },
  date: (definition) => {
    rejectArgument(definition);
    return createFormatType('DateProperty', 10, '2026-11-01', '2024-02-29', '2026-02-30');
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
      invalid: `'1.5'`,
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
      invalid: '1',
    };
  },
  enum: ({ name, argument, invalidField, enumType, valuesConstant }) => {
    // The type of the enum would be called as the body of an update, or as the entity.
    if (name === 'patch' || name === 'entity') throw invalidField(`${name} is a reserved name`);
    const values = (argument ?? '').split(',').map((value) => value.trim());
    const isValid = (value: string): boolean =>
      /^[A-Za-z0-9][A-Za-z0-9_-]*$/.test(value) && value.length <= MAX_ENUM_VALUE_LENGTH;
    if (!values.every(isValid)) {
      throw invalidField('expected values of letters, digits, _ and -, such as enum(on,off)');
    }
    if (new Set(values).size !== values.length) throw invalidField('duplicate value');
    return {
      decorator: 'EnumProperty',
      options: `values: ${valuesConstant},`,
      dtoType: enumType,
      columnType: 'varchar',
      length: MAX_ENUM_VALUE_LENGTH,
      values,
      sample: quote(values[0]!),
      otherSample: quote(values.at(-1)!),
      invalid: quote(`not ${values[0]}`),
    };
  },
  'date-time': (definition) => {
    rejectArgument(definition);
    // The service has a variable for each date and time, besides these.
    if (isReservedWord(definition.name) || ['changes', 'rest', 'row'].includes(definition.name))
      throw definition.invalidField(`${definition.name} is a reserved name`);
    return {
      decorator: 'DateTimeProperty',
      options: '',
      dtoType: 'string',
      columnType: 'bigint',
      transformer: 'epochMillisTransformer',
      entityType: 'Date',
      sample: `'2026-11-01T12:00:00.000Z'`,
      otherSample: `'1969-07-20T20:17:40.000Z'`,
      invalid: `'2026-02-30T12:00:00Z'`,
    };
  },
  ref: ({ argument, invalidField, optional, table }) => {
    if (argument === undefined || !/^[a-z][a-z0-9-]*$/.test(argument))
      throw invalidField('expected the referenced resource, such as ref(categories)');
    const references = strings.underscore(argument);
    if (references === table && !optional) {
      throw invalidField(
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
      invalid: '0',
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
    invalid: quote(invalid),
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
    invalid: max > 200 ? `'x'.repeat(${max + 1})` : quote('x'.repeat(max + 1)),
    ...(columnType === 'varchar' &&
      max >= 10 && { uniqueSample: `String(nextNumber()).padStart(${Math.max(min, 1)}, '0')` }),
  };
}

function rejectArgument({ argument, invalidField }: Definition): void {
  if (argument !== undefined) throw invalidField('takes no argument');
}

function parseRange({ argument, invalidField }: Definition): [number, number] | undefined {
  if (argument === undefined) return undefined;
  const [, min, max] = /^(-?\d+)\.\.(-?\d+)$/.exec(argument) ?? [];
  const limits: [number, number] = [Number(min), Number(max)];
  if (!limits.every(Number.isSafeInteger) || limits[0] > limits[1]) {
    throw invalidField('expected integers min..max, such as (1..100)');
  }
  return limits;
}
