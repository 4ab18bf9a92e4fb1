/** Finds out how a list selects rows: its filters and its pages. */
import type {
  Column,
  Envelope,
  Filter,
  ListOperation,
  ListPaging,
  Operation,
  PageParameter,
  PagingProperties,
  PagingRole,
  Property,
  Resource,
  ResourceId,
  Schema,
} from '../model.js';
import { getProperties, getUnchecked, ID_SCHEMAS, isGiven } from '../model.js';
import { isSameName, toBareName } from '../names.js';
import { findColumn, isPartOf, noteMissing } from './columns.js';
import { getRole, isNext } from './envelopes.js';
import {
  endsWithParameter,
  findCause,
  findOwners,
  rejectParameter,
  renameOwners,
  type Scope,
  toCollection,
  toRows,
} from './resources.js';
import { toOrder } from './sorting.js';
import { Stub } from './stub.js';

/** Returns a list, or undefined if the operation does not return one. */
export function toList(scope: Scope, operation: Operation): ListOperation | undefined {
  const { resources, notes } = scope;
  const { path, parameters } = operation;
  const list = toRows(resources, operation);
  if (list === undefined) return undefined;
  const dto = list.rows.class;
  const listed = resources.filter(
    (each) =>
      each.dto === dto ||
      (dto !== undefined &&
        (toCollection(path) === each.collection || each.request === dto) &&
        isPartOf(dto, each)),
  );
  const resource = listed.find((each) => toCollection(path) === each.collection) ?? listed[0];
  if (dto === undefined || resource === undefined)
    throw new Stub(findCause(scope, path) ?? 'no operation creates the objects of the list');
  noteMissing(dto, resource, notes);
  if (endsWithParameter(path)) throw new Stub('a list of what a parameter selects is not standard');
  if (toCollection(path) !== resource.collection && listed.length > 1)
    throw new Stub('nothing says which of the objects it lists');
  const names = resource.columns.map(({ name }) => name);
  const owners =
    toCollection(path) === resource.collection
      ? renameOwners(resource, path)
      : findOwners(scope, operation, names);
  const foreign = owners.find(({ name }) => !names.includes(name));
  const [unchecked] = toCollection(path) === resource.collection ? [] : getUnchecked(owners);
  if (unchecked !== undefined)
    throw new Stub(`no operation creates what {${unchecked.parameter}} identifies`);
  if (foreign !== undefined) throw new Stub(`${resource.dto.publishedName} has no ${foreign.name}`);
  const query = parameters.filter((each) => each.in === 'query');
  const paging = getPaging(operation, resource, list.envelope);
  const envelope = list.envelope && checkEnvelope(operation, list.envelope, paging, resource.id);
  const order = toOrder(query, resource, paging);
  const used = new Set([paging.limit, paging.by?.name, order?.parameter, order?.direction]);
  const filters: Filter[] = [];
  for (const parameter of query) {
    if (used.has(parameter.name)) continue;
    const filter = toFilter(parameter, resource);
    if (filter !== undefined) filters.push(filter);
    else rejectParameter(parameter);
  }
  if (
    toCollection(path) !== resource.collection &&
    filters.length === 0 &&
    (query.some(({ name }) => !used.has(name)) || hasList(scope, resource, path))
  )
    throw new Stub('nothing says which of the objects it lists');
  return { kind: 'list', resource, dto, filters, paging, order, envelope, owners };
}

/** Checks that the list knows what its response requires of a page, and removes a next page that nothing selects. */
function checkEnvelope(
  { success, parameters }: Operation,
  envelope: Envelope,
  { limit, by }: ListPaging,
  { kind }: ResourceId,
): Envelope {
  const isGivenLimit =
    by !== undefined || parameters.some((each) => each.name === limit && isGiven(each));
  const idType = kind === 'integer' ? 'number' : 'string';
  const nextType =
    by && { after: idType, cursor: 'string', page: 'number', offset: 'number' }[by.role];
  const isKnown = (role: PagingRole, type: Schema['type'] = 'string'): boolean => {
    if (role === 'limit') return isGivenLimit;
    if (role === 'page' || role === 'offset') return by?.role === role;
    if (!isNext(role)) return true;
    if (nextType !== undefined) return (type === 'integer' ? 'number' : type) === nextType;
    return limit === undefined && role !== 'next';
  };
  const unknown: string[] = [];
  const check = (
    paging: PagingProperties,
    properties: readonly Property[],
    path: string,
  ): PagingProperties =>
    Object.fromEntries(
      Object.entries(paging).flatMap(([name, role]): [string, PagingProperties[string]][] => {
        const property = properties.find((each) => each.name === name)!;
        if (typeof role === 'object')
          return [[name, check(role, property.class!.properties, `${name}.`)]];
        // The last page would lack it.
        const isMissing = role === 'next' && property.required;
        const known = !isMissing && isKnown(role, property.type);
        if (property.required && !known)
          throw new Stub(`nothing says what ${path}${name} of the response is`);
        if (known || !isNext(role)) return [[name, role]];
        unknown.push(`${path}${name}`);
        return [];
      }),
    );
  const paging = check(envelope.paging, getProperties(success.schema!)!, '');
  return { ...envelope, paging, unknown: [...envelope.unknown, ...unknown] };
}

/** Whether the contract has a list of a resource at another path than this one, which is not below a resource. */
function hasList({ operations, resources }: Scope, { dto }: Resource, path: string): boolean {
  return operations.some(
    (each) =>
      each.method === 'get' &&
      each.path !== path &&
      !each.path.includes('{') &&
      toRows(resources, each)?.rows.class === dto,
  );
}

/** The names of parameters that are the id after which a page starts, and of those that are a cursor. */
const AFTER = /^(page)?(after(id)?|startingafter|sinceid)$/;
const CURSOR =
  /^((page|next|start)?cursor|(page|nextpage|next|continuation|pagination)token|(page)?after|next)$/;

/** What a description says of a parameter that is something else: a time, or the text of a search. */
const TIME = /\b(date|time|timestamp|epoch|iso.?8601|rfc.?3339)\b/i;

/** Names of parameters that select a page, whatever properties a resource has. */
const CERTAIN =
  /^(limit|offset|(items|results)?perpage|maxresults|page(size|limit|number|offset|cursor|token))$/;

/** Names that mean a limit only with a default. */
const VAGUE_LIMIT = /^(count|length|rows|results|top|max)$/;

/** Which of the query parameters select a page. */
function getPaging(
  { parameters, success }: Operation,
  resource: Resource,
  envelope: Envelope | undefined,
): ListPaging {
  const query = parameters.filter(
    (each) =>
      each.in === 'query' &&
      (CERTAIN.test(toBareName(each.name)) || findColumn(resource, each.name) === undefined),
  );
  const numbers = query.filter(({ type }) => type === 'integer' || type === 'number');
  const limit = numbers.find(
    ({ name, default: value }) =>
      getRole(name) === 'limit' || (value !== undefined && VAGUE_LIMIT.test(toBareName(name))),
  )?.name;
  return { limit, by: findAfter() ?? findCursor() ?? findNumber() };

  function findAfter(): PageParameter | undefined {
    const isInteger = resource.id.kind === 'integer';
    return toPageParameter(
      query.find(
        ({ name, type, format = 'uuid', description = '' }) =>
          AFTER.test(toBareName(name)) &&
          (type === 'string' && format === 'uuid' ? !isInteger : type === 'integer' && isInteger) &&
          !TIME.test(description),
      ),
      'after',
    );
  }

  /** A cursor, if the response tells that of the next page. */
  function findCursor(): PageParameter | undefined {
    const isTold = tellsNext(envelope?.paging);
    return toPageParameter(
      query.find(
        ({ name, type, format, enum: values, description = '' }) =>
          (CURSOR.test(toBareName(name)) || (name === 'token' && /\bnext\b/i.test(description))) &&
          type === 'string' &&
          (format ?? values) === undefined &&
          !TIME.test(description) &&
          (isTold || success.headers.includes('link') || /\blink\b.* header/i.test(description)),
      ),
      'cursor',
    );
  }

  function findNumber(): PageParameter | undefined {
    for (const role of ['page', 'offset'] as const) {
      const parameter = numbers.find(({ name }) => getRole(name) === role);
      if (parameter !== undefined) return toPageParameter(parameter, role);
    }
    return toPageParameter(numbers.find(isOffset), 'offset');
  }
}

/** Whether a property tells the next page, also in an object. */
const tellsNext = (paging: PagingProperties = {}): boolean =>
  Object.values(paging).some((role) => (typeof role === 'string' ? isNext(role) : tellsNext(role)));

/** Whether a parameter is an offset by its description. */
const isOffset = ({ name, description = '' }: Property): boolean =>
  name === 'start' && /\boffset\b/i.test(description);

const toPageParameter = (
  parameter: Property | undefined,
  role: PageParameter['role'],
): PageParameter | undefined =>
  parameter && {
    name: parameter.name,
    role,
    isFromZero: parameter.minimum === 0 || parameter.default === 0,
  };

/** What a description says of one text that has several values. */
const SEPARATED = /\b(comma|separated|delimited|csv)\b/i;

/** Returns the filter of a parameter, unless it selects rows by something else than a value of a column. */
function toFilter(parameter: Property, resource: Resource): Filter | undefined {
  const { name, type, description = '', items: compared = parameter } = parameter;
  const column = findColumn(resource, name) ?? findId(parameter, resource);
  if (column === undefined || column.hashed === true) return undefined;
  // A value that the contract does not name may be several.
  if (type === 'string' && compared.enum === undefined && SEPARATED.test(description))
    return undefined;
  if (canFilter(compared, column.schema)) return { parameter: name, column };
  const { items } = column.schema;
  if (items === undefined || compared.type !== 'string') return undefined;
  if (canFilter(compared, items) && items.format !== 'uuid')
    return { parameter: name, column, item: { property: undefined } };
  // What else would a text be compared with than the only text of an item?
  const [text, ...others] = (getProperties(items) ?? []).filter((each) => each.type === 'string');
  return text && others.length === 0 && canFilter(compared, text) && text.format !== 'uuid'
    ? { parameter: name, column, item: { property: text.name } }
    : undefined;
}

/** The id, if the parameter is named as it, or as several. */
function findId({ name, type }: Property, { id }: Resource): Column | undefined {
  if (id.property === undefined) return undefined;
  const isId =
    isSameName(name, id.property) || (type === 'array' && isSameName(name, `${id.property}s`));
  if (!isId) return undefined;
  const key = { property: 'id', column: 'id', nullable: false, unique: true, indexed: true };
  return { ...key, name: id.property, schema: ID_SCHEMAS[id.kind], references: undefined };
}

/** Whether rows can be selected by a value: a scalar, compared with a column that an index can have. */
const canFilter = (compared: Schema, { type, format }: Schema): boolean =>
  compared.type === type &&
  (type === 'integer' || type === 'boolean' || (type === 'string' && format !== 'date-time'));
