import { SchematicsException, strings } from '@angular-devkit/schematics';

/** A property of a resource, with what each template says of it. */
export interface Field {
  readonly name: string;
  readonly optional: boolean;
  /** The name of its column. */
  readonly column: string;
  /** The table that it refers to. */
  readonly references?: string;
  readonly isDateTime: boolean;
  /** The values of an enum. */
  readonly values: readonly string[];
  /** Its declaration in the DTO. */
  readonly decorator: string;
  readonly dtoType: string;
  /** The arguments of `@Column`, its type in the entity, and in a row of a query. */
  readonly columnArguments: string;
  readonly entityType: string;
  readonly rowType: string;
  /** The column of the migration. */
  readonly migration: string;
  /** An expression of what the client sees, from a row called `row`. */
  readonly fromRow: string;
  /** Expressions for the tests: a valid value, another one, and one that is refused. */
  readonly sample: string;
  readonly otherSample: string;
  readonly invalid: string;
}

/** What a kind of field has of its own. */
interface FieldType {
  readonly decorator: string;
  readonly rules: string;
  readonly dtoType: string;
  readonly columnType: string;
  readonly length?: number;
  readonly entityType?: string;
  readonly references?: string;
  readonly values?: readonly string[];
  readonly sample: string;
  readonly otherSample: string;
  readonly invalid: string;
}

const SYNTAX = /^([a-z][A-Za-z0-9]*):([a-z-]+)(?:\((.*)\))?(\?)?$/;
/** PostgreSQL cuts longer names off. */
const MAX_IDENTIFIER_LENGTH = 63;
/** Characters of a `text`, and of an enum's value. */
const MAX_TEXT_LENGTH = 10_000;
const MAX_ENUM_VALUE_LENGTH = 64;
const FIELD_TYPES =
  'string(min..max), text, integer, integer(min..max), number, boolean, enum(a,b), date-time, ref(resource)';

/**
 * Reads `name:kind(arguments)?`, separated by blanks.
 *
 * @param owner the table of the resource
 * @param item the class of the resource
 * @throws {SchematicsException} that says what is wrong with which field
 */
export function parseFields(text: string, owner: string, item: string): Field[] {
  const definitions = text.match(/[^\s(]+(\([^)]*\))?\S*/g) ?? [];
  if (definitions.length === 0) throw new SchematicsException('A resource needs a field at least.');
  const fields = definitions.map((definition) => parseField(definition, owner, item));
  const names = fields.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new SchematicsException(`The field ${twice} stands twice.`);
  return fields;
}

function parseField(definition: string, owner: string, item: string): Field {
  const problem = (what: string): SchematicsException =>
    new SchematicsException(`The field ${definition} ${what}.`);
  const [, name, typeName, argument, mark] = SYNTAX.exec(definition) ?? [];
  if (name === undefined || typeName === undefined)
    throw problem('is not name:kind, as in age:integer?');
  if (name === 'id') throw problem('is there already: the service assigns the id');
  if (name === 'prototype' || name in Object.prototype)
    throw problem('has a name that JavaScript uses');
  const make = fieldTypes[typeName];
  if (make === undefined) throw problem(`has no kind that there is: ${FIELD_TYPES}`);
  const words = strings.decamelize(name).replaceAll('_', ' ');
  const enumType = `${item}${strings.classify(name)}`;
  const kind = make({ argument: argument?.trim(), problem, enumType, owner });
  const optional = mark !== undefined;
  const column = strings.underscore(name);
  const isDateTime = typeName === 'date-time';
  for (const constraint of [`fk_${owner}_${column}`, `ix_${owner}_${column}`]) {
    if (constraint.length > MAX_IDENTIFIER_LENGTH)
      throw problem(`makes a name longer than ${MAX_IDENTIFIER_LENGTH}: ${constraint}`);
  }
  const { columnType, length } = kind;
  const columnOptions = [
    ...(column === name ? [] : [`name: '${column}'`]),
    ...(length === undefined ? [] : [`length: ${length}`]),
    ...(optional ? ['nullable: true'] : []),
    ...(columnType === 'bigint' ? ['transformer: wholeNumber'] : []),
  ];
  const orNull = optional ? ' | null' : '';
  const entityType = kind.entityType ?? kind.dtoType;
  const owners = strings.decamelize(item).replaceAll('_', ' ');
  const description =
    descriptions[typeName]?.(words) ?? `${strings.capitalize(words)} of the ${owners}.`;
  return {
    name,
    optional,
    column,
    isDateTime,
    values: kind.values ?? [],
    ...(kind.references === undefined ? {} : { references: kind.references }),
    decorator: `@${kind.decorator}({ ${kind.rules} ${optional ? 'optional: true,' : ''} description: '${description}' })`,
    dtoType: kind.dtoType,
    columnArguments: `'${columnType}'${columnOptions.length === 0 ? '' : `, { ${columnOptions.join(', ')} }`}`,
    entityType: entityType + orNull,
    rowType: (rowTypes[columnType] ?? entityType) + orNull,
    migration: `{ name: '${column}', type: '${columnType}'${length === undefined ? '' : `, length: '${length}'`}${optional ? ', isNullable: true' : ''} }`,
    fromRow: fromRow(`row.${name}`, columnType, isDateTime, optional),
    sample: kind.sample,
    otherSample: kind.otherSample,
    invalid: kind.invalid,
  };
}

/** What the document says of a property, where "… of the pet." would read badly. */
const descriptions: Record<string, (words: string) => string> = {
  boolean: (words) => `Whether it is so: ${words}.`,
  'date-time': (words) => `Point in time: ${words}.`,
  ref: (words) => `${strings.capitalize(words.replace(/ id$/, ''))} that it refers to, by id.`,
};

/** What the databases give where it is not what the entity says: PostgreSQL's driver a bigint as text, SQLite a boolean as 0 or 1. */
const rowTypes: Record<string, string> = { bigint: 'number | string', boolean: 'boolean | number' };

function fromRow(
  value: string,
  columnType: string,
  isDateTime: boolean,
  optional: boolean,
): string {
  const converted = isDateTime
    ? `new Date(Number(${value})).toISOString()`
    : columnType === 'bigint'
      ? `Number(${value})`
      : columnType === 'boolean'
        ? `Boolean(${value})`
        : undefined;
  if (!optional) return converted ?? value;
  return converted === undefined
    ? `${value} ?? undefined`
    : `${value} === null ? undefined : ${converted}`;
}

interface Definition {
  readonly argument: string | undefined;
  readonly problem: (what: string) => SchematicsException;
  readonly enumType: string;
  readonly owner: string;
}

const quote = (text: string): string => `'${text}'`;

const fieldTypes: Record<string, (definition: Definition) => FieldType> = {
  string: (definition) => {
    const [min, max] = range(definition) ?? [1, 255];
    if (min < 0 || max < 1 || max > MAX_TEXT_LENGTH) {
      throw definition.problem(
        `must be 0..1 to ${MAX_TEXT_LENGTH} characters long, as in string(1..100)`,
      );
    }
    return textKind('varchar', min, max);
  },
  text: ({ argument, problem }) => {
    if (argument !== undefined)
      throw problem('takes no argument: it is a string(min..max) where it is limited');
    return textKind('text', 0, MAX_TEXT_LENGTH);
  },
  integer: (definition) => {
    const [min, max] = range(definition) ?? [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER];
    const sample = Math.min(Math.max(min, 1), max);
    return {
      decorator: 'Integer',
      rules: `minimum: ${min}, maximum: ${max}, example: ${sample},`,
      dtoType: 'number',
      columnType: min >= -(2 ** 31) && max < 2 ** 31 ? 'integer' : 'bigint',
      sample: `${sample}`,
      otherSample: `${max}`,
      invalid: '1.5',
    };
  },
  number: (definition) => {
    refuseArgument(definition);
    return {
      decorator: 'Decimal',
      rules: 'example: 1.5,',
      dtoType: 'number',
      columnType: 'double precision',
      sample: '1.5',
      otherSample: '-0.25',
      invalid: `'1.5'`,
    };
  },
  boolean: (definition) => {
    refuseArgument(definition);
    return {
      decorator: 'Flag',
      rules: '',
      dtoType: 'boolean',
      columnType: 'boolean',
      sample: 'true',
      otherSample: 'false',
      invalid: '1',
    };
  },
  enum: ({ argument, problem, enumType }) => {
    const values = (argument ?? '').split(',').map((value) => value.trim());
    if (
      values.some(
        (value) =>
          !/^[A-Za-z0-9][A-Za-z0-9_-]*$/.test(value) || value.length > MAX_ENUM_VALUE_LENGTH,
      )
    ) {
      throw problem('needs its values, of letters, digits, _ and -, as in enum(on,off)');
    }
    if (new Set(values).size !== values.length) throw problem('has a value twice');
    return {
      decorator: 'Choice',
      rules: `values: ${getEnumConstantName(enumType)},`,
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
    refuseArgument(definition);
    return {
      decorator: 'DateTime',
      rules: '',
      dtoType: 'string',
      columnType: 'bigint',
      entityType: 'number',
      sample: `'2026-11-01T12:00:00.000Z'`,
      otherSample: `'1969-07-20T20:17:40.000Z'`,
      invalid: `'2026-02-30T12:00:00Z'`,
    };
  },
  ref: ({ argument, problem, owner }) => {
    if (argument === undefined || !/^[a-z][a-z0-9-]*$/.test(argument)) {
      throw problem('needs the resource that it refers to, as in ref(categories)');
    }
    const references = strings.underscore(argument);
    // The copy to PostgreSQL moves the rows of a table in id order, not in the order of their references.
    if (references === owner) throw problem('refers to its own resource, which is not supported');
    return {
      decorator: 'Id',
      rules: '',
      dtoType: 'number',
      columnType: 'bigint',
      references,
      sample: `await givenRow(app.dataSource, '${references}')`,
      otherSample: `await givenRow(app.dataSource, '${references}')`,
      invalid: '0',
    };
  },
};

function textKind(columnType: string, min: number, max: number): FieldType {
  const sample = 'example'.padEnd(min, '.').slice(0, max);
  return {
    decorator: 'Text',
    rules: `${min > 0 ? `minLength: ${min}, ` : ''}maxLength: ${max},${min > 0 ? ' notBlank: true,' : ''} example: '${sample}',`,
    dtoType: 'string',
    columnType,
    ...(columnType === 'varchar' ? { length: max } : {}),
    sample: quote(sample),
    otherSample: quote('🐶'.repeat(Math.min(max, Math.max(min, 1)))),
    invalid: max > 200 ? `'x'.repeat(${max + 1})` : quote('x'.repeat(max + 1)),
  };
}

/** The name of the list of an enum's values, from that of its type. */
export function getEnumConstantName(enumType: string): string {
  return strings.underscore(enumType).toUpperCase();
}

function refuseArgument({ argument, problem }: Definition): void {
  if (argument !== undefined) throw problem('takes no argument');
}

function range({ argument, problem }: Definition): [number, number] | undefined {
  if (argument === undefined) return undefined;
  const [, min, max] = /^(-?\d+)\.\.(-?\d+)$/.exec(argument) ?? [];
  const limits: [number, number] = [Number(min), Number(max)];
  if (!limits.every(Number.isSafeInteger) || limits[0] > limits[1]) {
    throw problem('needs whole numbers from..to, as in (1..100)');
  }
  return limits;
}
