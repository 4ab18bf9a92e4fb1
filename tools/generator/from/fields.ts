/** Converts the properties of a schema to the fields from which the templates of a resource are rendered. */
import { strings } from '@angular-devkit/schematics';
import type { Field } from '../resource/fields.js';
import { render } from './classes.js';
import type { NormalizedSchema } from '../../openapi/openapi.js';

/** A property of a resource, in its requests and responses. */
export interface ResourceProperty {
  readonly name: string;
  readonly schema: NormalizedSchema;
  /** The class that has the property. */
  readonly className: string;
  readonly isInRequests: boolean;
  readonly isInResponses: boolean;
  /** Whether requests may omit it, and it has no default. */
  readonly isOptional: boolean;
  /** Whether each response contains it. */
  readonly isAlwaysShown: boolean;
  readonly isUnique: boolean;
  readonly isFilter: boolean;
  /** Whether an update merges it with the stored object. */
  readonly isMerged: boolean;
  /** The table whose ids it contains. */
  readonly references: string | undefined;
  /** Whether it is the time at which the row was created. */
  readonly isNow: boolean;
  /** Values that the contract allows. */
  readonly sample: unknown;
  readonly otherSample: unknown;
}

interface ColumnType {
  readonly type: string;
  readonly length?: number;
  readonly transformer?: string;
}

/** In characters. A longer string of characters of 4 bytes would not fit into an index of PostgreSQL. */
const MAX_INDEXED_LENGTH = 500;
const MAX_VARCHAR_LENGTH = 10_000;

/** Returns the column of a value: JSON for arrays, objects and maps. */
function getColumnType({ type, format, enum: values, ...limits }: NormalizedSchema): ColumnType {
  const { minimum = Number.MIN_SAFE_INTEGER, maximum = Number.MAX_SAFE_INTEGER } = limits;
  switch (type) {
    case 'string': {
      const lengths: Record<string, number> = { date: 10, uuid: 36, uri: limits.maxLength ?? 2048 };
      const ownLength = values === undefined ? limits.maxLength : 64;
      if (format === 'date-time') return { type: 'bigint', transformer: 'epochMillisTransformer' };
      const length = lengths[format ?? ''] ?? ownLength;
      return length === undefined || length > MAX_VARCHAR_LENGTH
        ? { type: 'text' }
        : { type: 'varchar', length: Math.max(length, 1) };
    }
    case 'integer': {
      const fits32Bits = format === 'int32' || (minimum >= -(2 ** 31) && maximum < 2 ** 31);
      return fits32Bits
        ? { type: 'integer' }
        : { type: 'bigint', transformer: 'bigintTransformer' };
    }
    case 'number':
      return { type: 'double precision' };
    case 'boolean':
      return { type: 'boolean' };
    default:
      return { type: 'json' };
  }
}

/** Whether rows can be selected by the values of a schema: an index can contain them. */
export function isIndexable({ type, format, enum: values, maxLength }: NormalizedSchema): boolean {
  if (type === 'integer' || type === 'boolean' || values !== undefined) return true;
  if (type !== 'string') return false;
  return format === 'date' || format === 'uuid' || (maxLength ?? Infinity) <= MAX_INDEXED_LENGTH;
}

/** Whether the tests can create different values of a schema. */
export function canBeUnique(schema: NormalizedSchema): boolean {
  return isIndexable(schema) && getUniqueSample(schema) !== undefined;
}

function getUniqueSample(schema: NormalizedSchema): string | undefined {
  const { type, format, pattern, minLength = 1, maxLength = 0, minimum = 1, maximum } = schema;
  if (schema.enum !== undefined || pattern !== undefined) return undefined;
  if (format === 'uuid') return 'randomUUID()';
  if (type === 'integer' && minimum <= 1 && (maximum ?? Infinity) >= 1_000_000)
    return 'nextNumber()';
  return type === 'string' && format === undefined && maxLength >= 10
    ? `String(nextNumber()).padStart(${Math.max(minLength, 1)}, '0')`
    : undefined;
}

/** Creates the field of a property that is stored in a table. */
export function createField(property: ResourceProperty): Field {
  const { name, schema, className, isOptional, isInRequests, isInResponses, isUnique } = property;
  const column = strings.underscore(name);
  const { type, length, transformer } = getColumnType(schema);
  const isNullable = isOptional || schema.nullable === true;
  const options = [
    ...(column === name ? [] : [`name: '${column}'`]),
    ...(length === undefined ? [] : [`length: ${length}`]),
    ...(isNullable ? ['nullable: true'] : []),
    ...(transformer === undefined ? [] : [`transformer: ${transformer}`]),
  ];
  const isDateTime = schema.format === 'date-time';
  const value = isDateTime ? 'Date' : getValueType(schema, property, className);
  const toSample = (text: unknown): string => {
    if (property.references !== undefined)
      return `await insertRow(app.dataSource, '${property.references}')`;
    const unique = isUnique ? getUniqueSample(schema) : undefined;
    // As responses contain it.
    return unique ?? render(isDateTime ? new Date(String(text)).toISOString() : text);
  };
  return {
    name,
    optional: isNullable,
    nullable: schema.nullable === true,
    unique: isUnique,
    filter: property.isFilter,
    readOnly: !isInRequests,
    writeOnly: !isInResponses,
    default: property.isNow
      ? 'new Date()'
      : schema.default === undefined
        ? undefined
        : render(schema.default),
    expectedDefault: property.isNow ? 'expect.any(String)' : undefined,
    filterDecorator: '',
    decorator: '',
    dtoType: '',
    column,
    isDateTime,
    isMerged: property.isMerged,
    ...(property.references === undefined ? {} : { references: property.references }),
    columnArguments: `'${type}'${options.length === 0 ? '' : `, { ${options.join(', ')} }`}`,
    entityType: `${value}${isNullable ? ' | null' : ''}`,
    migrationColumn: `{ name: '${column}', type: '${type}'${length === undefined ? '' : `, length: '${length}'`}${isNullable ? ', isNullable: true' : ''} }`,
    toDto: getConversion(isDateTime, isNullable, property.isAlwaysShown),
    enums: [],
    classes: [],
    sample: toSample(property.sample),
    otherSample: toSample(property.otherSample),
    invalids: schema.type === 'object' ? [`'text'`, '[]'] : [`{ nested: true }`],
    merges: [],
  };
}

/** Returns the type of a value in a row: that of the DTO, unless it is a plain one. */
function getValueType(
  schema: NormalizedSchema,
  { name, isOptional }: ResourceProperty,
  className: string,
): string {
  const plain: Record<string, string> = { integer: 'number', number: 'number', boolean: 'boolean' };
  if (schema.type === 'string' && schema.enum === undefined) return 'string';
  const type = plain[schema.type ?? ''] ?? `${className}['${name}']`;
  return type.endsWith(']') && (isOptional || schema.nullable === true)
    ? `NonNullable<${type}>`
    : type;
}

function getConversion(isDateTime: boolean, isNullable: boolean, isAlwaysShown: boolean): string {
  const conversion = isDateTime ? `${isNullable ? '?' : ''}.toISOString()` : '';
  // A response that may omit the property omits it instead of null.
  if (!isNullable) return conversion;
  return isAlwaysShown
    ? `${conversion}${isDateTime ? ' ?? null' : ''}`
    : `${conversion}${isDateTime ? '' : ' ?? undefined'}`;
}

/**
 * Returns the statement of a migration that adds the column of a field to a table, in SQL of both databases.
 * The default, a string or a number, is the value of existing rows.
 */
export function renderAddColumn(table: string, field: Field, schema: NormalizedSchema): string {
  const { type, length } = getColumnType(schema);
  const literal = render(schema.default)?.replaceAll("'", "''").replaceAll(/^"|"$/g, "'");
  const constraint = field.optional ? '' : ` NOT NULL DEFAULT ${literal}`;
  return `ALTER TABLE "${table}" ADD COLUMN "${field.column}" ${type}${length === undefined ? '' : `(${length})`}${constraint}`;
}

/** Adds the default of a column that was added to a table. */
export function withDefault(field: Field): Field {
  if (field.optional || field.default === undefined) return field;
  const { columnArguments } = field;
  const option = `default: ${field.default}`;
  return {
    ...field,
    columnArguments: columnArguments.endsWith(' }')
      ? `${columnArguments.slice(0, -2)}, ${option} }`
      : `${columnArguments}, { ${option} }`,
  };
}
