/** What the table of a resource stores: its id, and columns for the properties of requests and responses. */
import { toRegExp } from '../../../src/platform/validation/scalar-violations.js';
import type {
  Column,
  DtoClass,
  Join,
  Notes,
  Owner,
  Parameter,
  PlannedOperation,
  Property,
  Resource,
  ResourceId,
  Schema,
} from '../model.js';
import {
  getColumn,
  getNested,
  getProperties,
  getProperty,
  getSent,
  ID_SCHEMAS,
  isGiven,
} from '../model.js';
import {
  isIdentifier,
  isSameName,
  makeUnique,
  splitWords,
  toCamelCase,
  toPascalCase,
  toPlural,
  toSingular,
  toSnakeCase,
} from '../names.js';
import { hasUnknownText } from '../texts.js';
import { accepts } from './accepts.js';
import { Stub } from './stub.js';

/** Names of properties that hold the time of the request that creates a row, or last changes it. */
const TIMESTAMP = /^(date|time)?_?(created|inserted|added)(_?(at|on|date|time))?$/i;
const CHANGE_TIME = /^(date|time|last)?_?(updated|modified|changed)(_?(at|on|date|time))?$/i;
const PASSWORD = /^(password|passwd|passphrase)$/i;

/** The note of a property that no operation gives a value. */
export const UNKNOWN = 'nothing says what it contains; it is not returned.';

/** The note of a property that has the value of a parameter in the path. */
export const PATH_COUNTS = 'that of the path counts; one in a request is ignored.';

/** The longest name of a column that PostgreSQL keeps, in bytes. */
const MAX_NAME_LENGTH = 63;

/** The longest text that both databases can index, in characters. */
const MAX_INDEXED_LENGTH = 500;

/** A resource before its columns are known. */
type Draft = Pick<Resource, 'request' | 'dto' | 'id' | 'owners'>;

/** Returns the column that a parameter names, in whatever style. */
export const findColumn = (resource: Resource, name: string): Column | undefined =>
  getColumn(resource, name) ?? resource.columns.find((column) => isSameName(column.name, name));

const isStored = (resource: Resource, name: string): boolean =>
  name === resource.id.property || getColumn(resource, name) !== undefined;

/** Returns the column with unique values that the parameter at the end of a path names. */
export const findKeyColumn = (resource: Resource, parameter: string): Column | undefined =>
  [findColumn(resource, parameter), findColumn(resource, splitWords(parameter).at(-1)!)].find(
    (each) => each?.unique,
  );

/**
 * The property of a class that may be the id of a resource: named as the parameter of the path, or as ids usually are.
 *
 * @param pathKey the parameter of the path that follows the collection: `tag_gid` may stand for `gid`
 * @param noun the singular of the collection
 */
export function findId(
  dto: DtoClass,
  pathKey: string | undefined,
  noun: string,
): Property | undefined {
  const last = splitWords(pathKey ?? '').at(-1) ?? '';
  const ids = ['id', '_id', `${dto.name}Id`, `${noun}Id`, 'uuid', 'uid', 'gid', 'pk'];
  const named = [pathKey, ...ids.filter((name) => isSameName(name, last))];
  // `{comment}` of `/comments` is the id, and not the text of the comment.
  const names = isSameName(noun, pathKey) ? [...ids, pathKey] : [...named, ...ids];
  return names
    .flatMap((name) => dto.properties.filter((each) => isSameName(each.name, name)))
    .find(isIdType);
}

/**
 * The property that clients choose and the path ends with, if it is not the id: `slug` for `{slug}`, `key` for
 * `{projectKey}`. Below a parent, that is an id, too, because another parent may have the same one.
 *
 * @param noun the singular of the collection
 */
export function toKeyName(
  { request, dto, owners }: Omit<Draft, 'id'>,
  pathKey: string | undefined,
  noun: string,
): string | undefined {
  const [last, ...others] = splitWords(pathKey ?? '').toReversed();
  const isPart = ({ name, type, required }: Property): boolean =>
    others.length > 0 && required && type === 'string' && isSameName(name, last);
  const sent = getSent(request);
  const key = sent.find(({ name }) => isSameName(name, pathKey)) ?? sent.find(isPart);
  if (key === undefined) return undefined;
  const isText = isSameName(noun, pathKey) && findId(dto, undefined, noun) !== undefined;
  const isId = isNamedId(key) && (owners.length === 0 || !key.required);
  return isText || isId ? undefined : key.name;
}

const isNamedId = ({ name, type }: Property): boolean => type === 'integer' || /id$/i.test(name);

/** Whether a class has the id of a resource, and nothing else. */
export const isOnlyId = (dto: DtoClass, pathKey: string | undefined, noun: string): boolean =>
  dto.properties.length === 1 && findId(dto, pathKey, noun) !== undefined;

/** Whether a property is another one than the id, or accepts it. */
export const isSameId = (property: Property, { property: name, kind }: ResourceId): boolean =>
  property.name !== name ||
  (kind === 'integer' ? acceptsIds(property) : property.type === 'string');

/**
 * The id of a resource, by its place in the path and the response.
 *
 * @param parameter the one of the path that follows the collection
 * @param keyName the property that the path ends with, if it is not the id
 * @param noun the singular of the collection
 */
export function toId(
  { request, dto, owners }: Omit<Draft, 'id'>,
  parameter: Parameter | undefined,
  keyName: string | undefined,
  noun: string,
  notes: Notes,
): ResourceId {
  const pathKey = parameter?.name;
  const found = findId(dto, keyName === undefined ? pathKey : undefined, noun);
  // A text that clients send is a property with unique values, unless its name says that it is an id.
  const isChosen = getSent(request).some(({ name }) => name === found?.name);
  const isId = found !== undefined && found.name !== keyName && (isNamedId(found) || !isChosen);
  const property = isId ? found : undefined;
  if (property === undefined) return { property: undefined, kind: 'integer', by: 'service' };
  const { name, type, format } = property;
  const sent = getSent(request).find((each) => each.name === name);
  const by = sent?.required === true ? 'client' : 'service';
  if (sent !== undefined && by === 'service')
    notes.add(
      'the service assigns it; one in a request is ignored.',
      `${request.publishedName}.${name}`,
    );
  const place = `${dto.publishedName}.${name}`;
  // The path may have another property.
  const isOther =
    keyName !== undefined || dto.properties.some((each) => isSameName(each.name, pathKey));
  const isKey = isSameName(name, pathKey) || !isOther;
  const shown = parameter === undefined || !isKey ? [property] : [property, parameter];
  const isUuid = shown.every(acceptsUuids);
  if (by === 'service' && !isUuid && !shown.every(acceptsIds)) {
    const isEach = shown.every((each) => acceptsUuids(each) || acceptsIds(each));
    const expected = type === 'integer' ? 'any integer from 1' : 'a UUID of version 7';
    throw new Stub(`${place} is not ${isEach ? `what {${pathKey}} is` : expected}`);
  }
  if (by === 'client' && owners.length > 0)
    throw new Stub(`${place} may be the same below another {${owners.at(-1)!.parameter}}`);
  if (by === 'client' && type === 'string' && shown.some((each) => each.type === 'integer'))
    throw new Stub(`${place} is not an integer, as {${pathKey}} is`);
  if (type === 'integer') return { property: name, kind: 'integer', by };
  if (by === 'client') return { property: name, kind: format === 'uuid' ? 'uuid' : 'text', by };
  if (!isUuid) notes.add('the service assigns an integer, which is text in responses.', place);
  else if (format !== 'uuid') notes.add('the service assigns a UUID.', place);
  return { property: name, kind: isUuid ? 'uuid' : 'integer', by };
}

/** Whether ids that the database assigns are valid: 1, 2, 3 and so on, as numbers or as text. */
function acceptsIds({
  minimum = 1,
  maximum = MAX_INT32,
  multipleOf = 1,
  ...schema
}: Schema): boolean {
  if (schema.type === 'string')
    return /^(u?int\d*)?$/.test(schema.format ?? '') && acceptsTexts(schema, IDS);
  return (
    minimum <= 1 &&
    maximum >= MAX_INT32 &&
    multipleOf === 1 &&
    (schema.exclusiveMinimum ?? 0) < 1 &&
    (schema.exclusiveMaximum ?? Infinity) > MAX_INT32
  );
}

const MAX_INT32 = 2 ** 31 - 1;
const IDS = ['1', '20', String(MAX_INT32)];
const UUIDS = ['01890a5d-ac96-774b-bcce-b302099a8057', 'fedcba98-7654-7321-8abc-def012345678'];

/** Whether UUIDs of version 7 are valid. */
const acceptsUuids = (schema: Schema): boolean =>
  schema.type === 'string' &&
  /^(uuid7?|guid)?$/.test(schema.format ?? '') &&
  acceptsTexts(schema, UUIDS);

/** Whether times are valid as they are returned: in UTC, with milliseconds. */
const acceptsTimes = (schema: Schema): boolean =>
  schema.format !== 'date-time' || acceptsTexts(schema, TIMES);

const TIMES = ['2026-11-01T12:00:00.000Z', '1999-12-31T23:59:59.999Z'];

const acceptsTexts = (
  { pattern = '', minLength = 0, maxLength = Infinity }: Schema,
  texts: readonly string[],
): boolean =>
  texts.every(
    (each) => each.length >= minLength && each.length <= maxLength && toRegExp(pattern).test(each),
  );

const isIdType = ({ type, enum: values }: Schema): boolean =>
  (type === 'integer' || type === 'string') && values === undefined;

/**
 * Returns the columns of a resource.
 *
 * @throws {Stub} if it cannot be stored
 */
export function toColumns(
  { request, dto, id, owners }: Draft,
  keyName: string | undefined,
  notes: Notes,
): Column[] {
  const columns = owners.map((owner) => toOwnerColumn(owner, dto));
  const sent = getSent(request).filter(({ name }) => name !== id.property);
  for (const property of sent) {
    const { name, type } = property;
    const place = `${request.publishedName}.${name}`;
    if (isOwner(owners, name)) {
      notes.add(PATH_COUNTS, place);
      continue;
    }
    if (hasUnknownText(property)) {
      if (isGiven(property)) throw new Stub(`no text is known that ${place} accepts`);
      notes.add('no text is known that it accepts; it is not tested.', place);
    }
    const hashed = type === 'string' && PASSWORD.test(name);
    if (hashed) notes.add('stored as a hash, and never returned.', place);
    const shown = getProperty(dto, name);
    const column = toColumn(property, keyName);
    if (column.unique && isUnlimitedText(property))
      notes.add(`at most ${MAX_INDEXED_LENGTH} characters, because it is unique.`, place);
    const isSecret = hashed || isWriteOnly(property) || isWriteOnly(shown);
    const isShown = shown !== undefined && !isSecret && shows(shown, column);
    if (isShown) rejectUnknown(shown, property, `${dto.publishedName}.${name}`);
    if (isShown && getNested(shown).some(isWriteOnly))
      throw new Stub(`${dto.publishedName}.${name} has what is never returned`);
    if (shown !== undefined && !isSecret && !isShown) {
      if (shown.required) throw new Stub(`${dto.publishedName}.${name} may differ from ${place}`);
      notes.add(
        'it is not what the request contains; it is not returned.',
        `${dto.publishedName}.${name}`,
      );
    }
    if ((property.references ?? getJoined(property)) === undefined && refers(property))
      notes.add('that its ids exist is not checked.', place);
    // The class of responses lacks it.
    const nullable = column.nullable || (hashed && request === dto);
    columns.push({ ...column, nullable, hashed, hidden: !isShown });
  }
  for (const shown of dto.properties) {
    const { name, required, default: value, enum: values = [] } = shown;
    // A constant.
    const property =
      values.length === 1 && required ? { ...shown, default: value ?? values[0] } : shown;
    if (name === id.property || isOwner(owners, name)) continue;
    if (isWriteOnly(shown) || sent.some((each) => each.name === name)) continue;
    const assigned = getAssigned(property);
    const place = `${dto.publishedName}.${name}`;
    if (assigned !== undefined || required) columns.push({ ...toColumn(property), assigned });
    if (assigned === 'to decide' && !canDecide(property))
      throw new Stub(`nothing says what ${place} contains`);
    if (assigned === undefined)
      notes.add(required ? 'nothing says what it contains; it is null.' : UNKNOWN, place);
  }
  return nameColumns(columns);
}

/** Rejects an object within a value that requests have without its id, or without what a response requires. */
function rejectUnknown(shown: Schema, sent: Schema, place: string): void {
  const [parts, sentParts] = [shown, sent].map((schema) =>
    getNested(schema).flatMap((part) => getProperties(part) ?? []),
  ) as [Property[], Property[]];
  const isSent = ({ name }: Property): boolean =>
    sentParts.some((each) => each.name === name && each.readOnly !== true);
  const unknown = [...parts, ...sentParts].find(
    (each) =>
      (each.readOnly === true && each.required) ||
      (/^_?(uu)?id$|(Id|ID|_id)$/.test(each.name) && !isSent(each)),
  );
  if (unknown !== undefined)
    throw new Stub(`${place} has ${unknown.name}, which only the service knows`);
}

/** Whether a property has the value of a parameter in the path. */
export const isOwner = (owners: readonly Owner[], name: string): boolean =>
  owners.some((owner) => isSameName(name, owner.name));

/** Returns the column of a parameter in the path. */
function toOwnerColumn({ name, kind, resource }: Owner, dto: DtoClass): Column {
  const reference = { ...ID_SCHEMAS[kind], name, required: true };
  const column = { ...toColumn({ ...reference, references: resource?.table }), indexed: true };
  const shown = getProperty(dto, name);
  const hidden = shown === undefined || !shows(shown, column);
  if (hidden && shown?.required === true)
    throw new Stub(`${dto.publishedName}.${name} is not its id`);
  return { ...column, hidden };
}

export const toEntityProperty = (name: string): string =>
  isIdentifier(name) && !['id', 'version'].includes(name) ? name : `${toCamelCase(name)}Value`;

function toColumn(schema: Property, keyName?: string): Column {
  const { name, nullable, unique, references } = schema;
  const property = toEntityProperty(name);
  return {
    name,
    property,
    column: toSnakeCase(property),
    schema,
    nullable: nullable === true || !isGiven(schema),
    unique: unique === true || name === keyName,
    isKey: name === keyName,
    references,
    indexed: references !== undefined,
  };
}

/** Gives each column a name of its own, and each property of the entity: `petId` and `pet_id` have the same one. */
function nameColumns(columns: readonly Column[]): Column[] {
  const names = new Set(['id', 'version']);
  const properties = new Set(names);
  return columns.map((each) => {
    const column = makeUnique(each.column, names).slice(-MAX_NAME_LENGTH);
    return Object.assign({}, each, { column, property: makeUnique(each.property, properties) });
  });
}

/** What the service assigns to a property that only responses have; undefined if it may be missing or null. */
function getAssigned(property: Property): Column['assigned'] {
  const { name, format, required, nullable, assigned } = property;
  if (property.default !== undefined) return 'default';
  const isCreated = assigned === 'now' || TIMESTAMP.test(name);
  const isTime = format === 'date-time' && acceptsTimes(property);
  if (isTime && CHANGE_TIME.test(name)) return 'now on changes';
  if (isTime && isCreated) return 'now';
  if (format === 'date' && isCreated) return 'today';
  return required && nullable !== true ? 'to decide' : undefined;
}

/** References, credentials, hashes, URLs, states and times, whose values are never invented. */
const NEVER_INVENTED =
  /_(tokens?|secrets?|password|credentials?|hash|digest|signature|checksum|keys?|urls?|uris?|href|links?|status|state|owner|author)_|_(ids?|uuids?|by|at|on|date|time|timestamp)_$/;

/** Whether a service may return a value until its team decides: one that refers to nothing, and proves nothing. */
function canDecide({ name, type, format, references, minItems = 0 }: Property): boolean {
  if (references !== undefined || NEVER_INVENTED.test(`_${toSnakeCase(name)}_`)) return false;
  if (type === 'array') return minItems === 0;
  if (type === 'string') return format === undefined;
  return ['integer', 'number', 'boolean'].includes(type!);
}

/** The table that the ids in an array refer to. */
const getJoined = ({ type, items }: Schema): string | undefined =>
  type === 'array' ? items?.references : undefined;

/**
 * Returns the join entity of a column, if it has an array of references.
 *
 * @param names those of entities that exist
 * @param tables those of tables that exist
 */
export function toJoin(
  { name, table, id }: Resource,
  { property, schema }: Column,
  names: Set<string>,
  tables: Set<string>,
): Join | undefined {
  if (getJoined(schema) === undefined) return undefined;
  const noun = toSingular(property.replace(/(_i|I)ds?$/, ''));
  const own = { ...ID_SCHEMAS[id.kind], name: `${toCamelCase(name)}Id`, required: true };
  const other = { ...schema.items, name: `${toCamelCase(noun)}Id`, required: true };
  return {
    name: makeUnique(`${name}${toPascalCase(noun)}`, names),
    table: makeUnique(`${toSnakeCase(name)}_${toSnakeCase(toPlural(noun))}`, tables),
    columns: nameColumns([
      { ...toColumn(own), references: table, cascades: true },
      toColumn(other),
    ]),
  };
}

/** What is known of tables: the kinds of their ids, and of resources that are not created yet. */
export type Tables = ReadonlyMap<string, ResourceId['kind']>;

/** Removes the references of a resource to missing tables, or to ids of another type, and notes them. */
export function checkReferences(resource: Resource, tables: Tables, notes: Notes): void {
  const check = (schema: Schema, place: string): boolean => {
    const { references, type, format } = schema;
    if (references === undefined) return true;
    const kind = tables.get(references);
    const own = type !== 'string' ? type : format === 'uuid' ? 'uuid' : 'text';
    if (kind === own) return true;
    const reason =
      kind === undefined ? `there is no table ${references}` : `its ids are ${kind}, not ${own}`;
    notes.add(`it does not refer to ${references}: ${reason}.`, place);
    return false;
  };
  for (const column of resource.columns) {
    if (isOwner(resource.owners, column.name)) continue;
    const { schema } = column;
    const place = `${resource.dto.publishedName}.${column.name}`;
    const { items } = schema;
    if (!check(schema, place)) Object.assign(column, withoutReference(column));
    if (items !== undefined && !check(items, place))
      Object.assign(column, { schema: { ...schema, items: { ...items, references: undefined } } });
  }
}

export const withoutReference = (column: Column): Column => ({
  ...column,
  references: undefined,
  indexed: false,
  schema: { ...column.schema, references: undefined },
});

/** Whether a value has ids of other resources. */
const refers = (schema: Schema): boolean =>
  getNested(schema).some(({ references }) => references !== undefined);

const isWriteOnly = (schema: Schema | undefined): boolean => schema?.writeOnly === true;

/** Makes the classes of a resource those that the service publishes. */
export function publish(resource: Resource, operations: readonly PlannedOperation[]): void {
  const classes = new Set([resource.dto]);
  const changing = new Set<DtoClass>();
  for (const { implementation } of operations) {
    if (!('sent' in implementation) || implementation.resource !== resource) continue;
    if (implementation.sent === undefined) continue;
    classes.add(implementation.sent.dto);
    if (implementation.kind !== 'create') changing.add(implementation.sent.dto);
  }
  for (const dto of classes)
    dto.properties = dto.properties.map((property) =>
      toPublished(property, dto, resource, changing.has(dto)),
    );
}

/** A password is never returned, an indexed text has a limit, and no change makes null of what every row has. */
function toPublished(
  property: Property,
  dto: DtoClass,
  resource: Resource,
  isChange: boolean,
): Property {
  const column = getColumn(resource, property.name);
  if (column?.hashed === true)
    return { ...property, required: property.required && dto !== resource.dto, writeOnly: true };
  const { nullable: _nullable, ...rest } = property;
  const hasValue = isChange && column?.nullable === false && property.readOnly !== true;
  const published = hasValue ? rest : property;
  return column?.unique === true && isUnlimitedText(property)
    ? { ...published, maxLength: MAX_INDEXED_LENGTH }
    : published;
}

export const isUnlimitedText = ({
  type,
  format,
  enum: values,
  maxLength = Infinity,
}: Schema): boolean =>
  type === 'string' &&
  values === undefined &&
  !['date', 'date-time', 'uuid'].includes(format!) &&
  maxLength > MAX_INDEXED_LENGTH;

/** Whether a property of a response always has the value of a column. */
function shows(property: Property, { schema, nullable, hashed }: Column): boolean {
  if (hashed === true) return !property.required;
  const acceptsNull = !nullable || !property.required || property.nullable === true;
  return acceptsNull && acceptsTimes(property) && accepts(property, schema, false, true);
}

/** Whether a class shows rows of a resource: it has every required property, and half of the others. */
export function isPartOf(shown: DtoClass, resource: Resource): boolean {
  if (shown === resource.dto) return true;
  const stored = shown.properties.filter(({ name }) => isStored(resource, name));
  return (
    stored.length > 0 &&
    stored.length * 2 >= shown.properties.length &&
    shown.properties.every((property) => {
      const column = getColumn(resource, property.name);
      if (!isSameId(property, resource.id)) return false;
      if (column === undefined) return !property.required || isStored(resource, property.name);
      return shows(property, column);
    })
  );
}

/** Notes the properties of a response that the resource does not have. */
export function noteMissing(shown: DtoClass, resource: Resource, notes: Notes): void {
  for (const { name } of shown.properties)
    if (!isStored(resource, name)) notes.add(UNKNOWN, `${shown.publishedName}.${name}`);
}
