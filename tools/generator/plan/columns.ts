/** Plans the columns of a resource: their types and the sources of their values. */
import {
  type Column,
  type DtoClass,
  type Filling,
  isGiven,
  isScalar,
  type Property,
  type Resource,
  type Schema,
  type Wrapped,
} from '../model.js';
import {
  isIdentifier,
  isSameName,
  makeUnique,
  toBareName,
  toMemberName,
  toSnakeCase,
} from '../names.js';
import { isSameType } from '../types.js';

/** The longest name of a column: that of a constraint has the table, too, and at most 63 bytes on PostgreSQL. */
const MAX_NAME_LENGTH = 28;

/** System columns of PostgreSQL and SQLite, and the columns of the platform. */
const SYSTEM_COLUMNS = 'id version ctid xmin xmax cmin cmax tableoid oid rowid _rowid_'.split(' ');

/** Returns whether a property is a password, which is never stored. */
export const isPassword = ({ name, format }: Property): boolean =>
  format === 'password' || /^(password|passwd|pwd|passphrase)$/i.test(name);

/**
 * Returns the type of a schema, which a body and a response have to share: without null, limits, defaults and enums, and
 * with one type for all integers.
 */
export function toTypeKey(schema: Schema, seen: readonly DtoClass[] = []): string {
  const { type, class: dto, items, format = '', additionalProperties } = schema;
  if (dto !== undefined) {
    if (seen.includes(dto)) return 'itself';
    const properties = dto.properties.map(
      (each) => `${each.name}: ${toTypeKey(each, [...seen, dto])}`,
    );
    return `{${properties.toSorted().join(', ')}}`;
  }
  if (type === 'array') return `array of ${toTypeKey(items ?? {}, seen)}`;
  if (type === 'object' && typeof additionalProperties === 'object')
    return `map of ${toTypeKey(additionalProperties, seen)}`;
  if (type === 'string' && /^(date|date-time|uuid)$/.test(format)) return format;
  return type ?? 'any JSON value';
}

/** Returns the type of a schema in a sentence. */
export const describeType = (schema: Schema): string =>
  schema.class === undefined ? toTypeKey(schema).replace('string', 'text') : 'object';

/** Returns whether requests may contain a property. */
export const isSent = ({ readOnly, class: dto }: Property): boolean => {
  const inner = dto?.properties ?? [];
  return readOnly !== true && (inner.length === 0 || inner.some((each) => each.readOnly !== true));
};

/** Plans a column for each property of the response, and for each parent. */
export function planColumns({
  dto,
  id,
  owners,
}: Pick<Resource, 'dto' | 'id' | 'owners'>): Column[] {
  const columns = new Set(SYSTEM_COLUMNS);
  const properties = new Set(['id', 'version']);
  const toColumn = (property: string): string =>
    makeUnique(toSnakeCase(property).slice(0, MAX_NAME_LENGTH).replace(/_$/, ''), columns, '_');
  const ofParents = owners.map((owner): Column => {
    const { parameter, resource, property } = owner;
    const names = [parameter, `${resource.name}Id`, property];
    const shown = dto.properties.find(
      ({ name }) => name !== id.property && names.some((each) => isSameName(name, each)),
    );
    const { kind, length = 255 } = resource.id;
    const isNumber = kind === 'integer';
    const text = kind === 'uuid' ? { format: 'uuid' } : { maxLength: length };
    const isShown = shown !== undefined && (shown.type === 'string') !== isNumber;
    properties.add(property.toLowerCase());
    return {
      name: isShown ? shown.name : undefined,
      property,
      column: toColumn(property),
      schema: isNumber ? { type: 'integer' } : { type: 'string', ...text },
      isMixed: false,
      nullable: false,
      filling: 'owner',
      isFilter: false,
    };
  });
  const shown = dto.properties.filter(
    (each) =>
      each.name !== id.property &&
      !isPassword(each) &&
      each.writeOnly !== true &&
      !ofParents.some(({ name }) => name === each.name),
  );
  return [
    ...ofParents,
    ...shown.map((each): Column => {
      const { name, required: _required, ...schema } = each;
      const wanted =
        isIdentifier(name) && name.length <= 60 ? name : toMemberName(name).slice(0, 60);
      const isReserved = ['id', 'version'].includes(wanted);
      const property = makeUnique(isReserved ? `${wanted}Value` : wanted, properties);
      return {
        name,
        property,
        column: toColumn(name),
        schema,
        isMixed: false,
        nullable: !(isGiven(each) && schema.nullable !== true),
        filling: toFilling(each),
        isFilter: false,
      };
    }),
  ];
}

/** Returns the source of values for a column that requests do not contain. */
function toFilling(property: Property): Filling | undefined {
  const name = toBareName(property.name);
  if (property.format === 'date-time' && /^(created|inserted)(at|on)?$/.test(name)) return 'now';
  if (property.format === 'date-time' && /^(updated|modified)(at|on)?$/.test(name))
    return 'now on changes';
  return property.default === undefined || !isScalar(property) ? undefined : 'default';
}

/** Returns the properties of a body that are stored: all but the id and the ids of parents. */
export const getStored = (resource: Resource, { dto }: Wrapped): Property[] =>
  dto.properties.filter(
    (each) =>
      isSent(each) &&
      each.name !== resource.id.property &&
      !resource.columns.some(({ name, filling }) => name === each.name && filling === 'owner'),
  );

/**
 * Returns why a body cannot be stored; undefined if each of its properties has a column, and, if it creates a row, each
 * required column gets a value. Columns become as wide as the body.
 */
export function findBodyProblem(
  resource: Resource,
  sent: Wrapped,
  kind: 'create' | 'replace' | 'patch',
): string | undefined {
  const { columns, dto, shownBy, id } = resource;
  const [unusable] = sent.dto.unusable;
  if (unusable !== undefined)
    return `\`${unusable.name}\` has no column, because the name has a meaning in each object of JavaScript`;
  const stored = getStored(resource, sent);
  for (const property of stored) {
    const { name } = property;
    if (isPassword(property)) return `\`${name}\` is never stored`;
    const column = columns.find((each) => each.name === name);
    if (column === undefined) return `\`${name}\` has no column`;
    const [type, shown] = [property, column.schema].map((each) => toTypeKey(each));
    if (type !== shown)
      return `\`${name}\` is ${describeType(property)}, and ${describeType(column.schema)} in ${shownBy}`;
  }
  if (kind !== 'create') return undefined;
  const own = dto.properties.find(({ name }) => name === id.property);
  if (id.kind === 'text' && !id.byClient) return `\`${id.property}\` gets no value`;
  if (id.kind === 'uuid' && !id.byClient && own !== undefined && !canBeUuid(own))
    return `\`${own.name}\` gets no value`;
  for (const { name, nullable, filling } of columns) {
    const property = stored.find((each) => each.name === name);
    const isSentAlways = property !== undefined && isGiven(property) && property.nullable !== true;
    const isFilled = filling !== undefined && (property === undefined || filling === 'default');
    if (!nullable && !isSentAlways && !isFilled) return `\`${name}\` gets no value`;
  }
  return undefined;
}

/** Returns whether a schema accepts UUIDs that the service assigns. */
const canBeUuid = ({
  format,
  maxLength = 36,
  minLength = 0,
  pattern,
  enum: values,
}: Property): boolean =>
  (format === undefined || format === 'uuid') &&
  maxLength >= 36 &&
  minLength <= 36 &&
  (pattern === undefined || new RegExp(pattern).test('0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70')) &&
  values === undefined;

/** Makes the columns as wide as the properties of a body. */
export function widen(resource: Resource, sent: Wrapped): void {
  for (const property of getStored(resource, sent)) {
    const column = resource.columns.find(({ name }) => name === property.name)!;
    column.isMixed ||= !isSameType(column.schema, property);
    column.schema = toWider(column.schema, property);
  }
}

/** Returns the schema of a column for two of the same type. */
function toWider(a: Schema, b: Schema): Schema {
  const either = (
    key: 'maxLength' | 'maximum' | 'minimum',
    pick: (...values: number[]) => number,
  ): number | undefined =>
    a[key] === undefined || b[key] === undefined ? undefined : pick(a[key], b[key]);
  return {
    ...a,
    maxLength: either('maxLength', Math.max),
    maximum: either('maximum', Math.max),
    minimum: either('minimum', Math.min),
    format: a.format === b.format ? a.format : undefined,
    unique: a.unique ?? b.unique,
    references: a.references ?? b.references,
  };
}
