/** Finds out how an operation works on what is stored: it creates, lists, reads, replaces, patches or deletes rows. */
import type {
  CreateOperation,
  DtoClass,
  Envelope,
  Filter,
  ItemOperation,
  Key,
  ListOperation,
  Notes,
  Operation,
  Owner,
  Property,
  Resource,
  ResourceId,
  Schema,
} from '../model.js';
import { getColumn, getProperties, getProperty, getSent, getUnchecked, isGiven } from '../model.js';
import { isSameName, toSingular } from '../names.js';
import { getParameters } from '../read/contract.js';
import { accepts } from './accepts.js';
import { findColumn, isOwner, isPartOf, noteMissing, PATH_COUNTS } from './columns.js';
import { getRole, toAcknowledgement, toSent, toShown } from './envelopes.js';
import {
  endsWithParameter,
  findOwners,
  rejectParameter,
  rejectQuery,
  rejectUnsupported,
  toBodyOf,
  type Scope,
  toCollection,
  toRows,
} from './resources.js';
import { Stub } from './stub.js';

export type ResourceOperation = ListOperation | CreateOperation | ItemOperation;

/** Returns how an operation works on a resource. */
export function implement(scope: Scope, operation: Operation): ResourceOperation {
  rejectUnsupported(scope, operation);
  const own = scope.resources.find(({ create }) => create === operation);
  if (own !== undefined) return toCreate(own, scope.operations);
  const list = operation.method === 'get' ? toList(scope, operation) : undefined;
  return list ?? toItemOperation(scope, operation);
}

export function toCreate(resource: Resource, operations: readonly Operation[]): CreateOperation {
  const { create, collection, id, owners } = resource;
  const { success } = create;
  const { dto, envelope } = (toShown(success, (each) => each === resource.dto, resource.dto) ??
    toShown(success, (each) => isPartOf(each, resource)))!;
  const sent = toBodyOf(create)!;
  const item = operations.find(
    (each) => toCollection(each.path) === collection && endsWithParameter(each.path),
  );
  const parameter = item && /\{([^}]+)\}\/?$/.exec(item.path)![1]!;
  const column = parameter === undefined ? undefined : findColumn(resource, parameter);
  const key = column?.unique === true ? column.name : id.property;
  const isLocated =
    dto !== undefined &&
    key !== undefined &&
    item !== undefined &&
    success.headers.includes('location');
  const path = [envelope?.content?.name, key].filter((name) => name !== undefined).join('.');
  // Relative to the path of the POST request; the paths of resources may end with a slash, too.
  const base = create.path.endsWith('/') ? '' : `${collection.split('/').at(-1)}/`;
  const location = isLocated ? `${base}{${path}}${item.path.endsWith('/') ? '/' : ''}` : undefined;
  return { kind: 'create', resource, dto, envelope, sent, owners, location };
}

/** Returns a list, or undefined if the operation does not return one. */
function toList(scope: Scope, operation: Operation): ListOperation | undefined {
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
  const paging = getPaging(query, resource.id);
  checkPaging(operation, list.envelope, paging);
  const filters: Filter[] = [];
  for (const parameter of query) {
    if ([paging.limit, paging.by?.name].includes(parameter.name)) continue;
    const column = findColumn(resource, parameter.name);
    if (column !== undefined && column.hashed !== true && canFilter(parameter, column.schema))
      filters.push({ parameter: parameter.name, column });
    else rejectParameter(parameter);
  }
  if (
    toCollection(path) !== resource.collection &&
    filters.length === 0 &&
    (query.some((each) => each.name !== paging.limit && each.name !== paging.by?.name) ||
      hasList(scope, resource, path))
  )
    throw new Stub('nothing says which of the objects it lists');
  return { kind: 'list', resource, dto, filters, paging, envelope: list.envelope, owners };
}

/** Checks that the list knows what its response requires of a page. */
function checkPaging(
  { success, parameters }: Operation,
  envelope: Envelope | undefined,
  { limit, by }: ListOperation['paging'],
): void {
  const isGivenLimit = parameters.some((each) => each.name === limit && isGiven(each));
  for (const property of getProperties(success.schema ?? {}) ?? []) {
    const role = envelope?.paging[property.name];
    const isKnown =
      role === 'limit'
        ? isGivenLimit
        : role === 'page' || role === 'offset'
          ? isGivenLimit && by?.role === role
          : role !== 'next';
    const isText = role === 'next' && property.type === 'string' && by?.role !== 'after';
    if (role !== undefined && (isText || (property.required && !isKnown)))
      throw new Stub(`nothing says what ${property.name} of the response is`);
  }
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

/** Why the POST of a collection stores nothing that another operation of it could show; undefined if there is none. */
function findCause({ operations, stubs }: Scope, path: string): string | undefined {
  const post = operations.find(
    (each) =>
      each.method === 'post' &&
      toCollection(`${each.path.replace(/\/$/, '')}/{id}`) === toCollection(path),
  );
  const reason = post && stubs?.get(post)?.message;
  if (post === undefined || reason !== undefined)
    return post && `POST ${post.path} stores nothing: ${reason}`;
  return `POST ${post.path} creates other objects`;
}

/** Returns an operation on one row. */
function toItemOperation(scope: Scope, operation: Operation): ItemOperation {
  const { resources, notes } = scope;
  const { method, path, success, body } = operation;
  const collection = toCollection(path);
  const parameter = /\{([^}]+)\}\/?$/.exec(path)?.[1];
  const resource = resources.find((each) => each.collection === collection);
  if (method === 'post' || (parameter === undefined && method !== 'put'))
    throw new Stub('it is none of the standard operations on what the contract creates');
  if (resource === undefined)
    throw new Stub(
      findCause(scope, path) ??
        `no operation creates what ${parameter === undefined ? 'it replaces' : `{${parameter}} identifies`}`,
    );
  const kind = ({ get: 'read', put: 'replace', patch: 'patch', delete: 'delete' } as const)[method];
  rejectQuery(operation);
  const shown =
    toShown(
      success,
      (dto) => isPartOf(dto, resource),
      kind === 'delete' ? undefined : resource.dto,
    ) ?? (kind === 'delete' ? toAcknowledgement(success) : undefined);
  if (shown === undefined) throw new Stub('the response is another object than the resource');
  const { dto } = shown;
  if (dto !== undefined) noteMissing(dto, resource, notes);
  if (kind === 'read' && dto === undefined) throw new Stub('the response has no resource');
  const sent = body && toSent(body, (name) => getColumn(resource, name) === undefined);
  const key = findKey(resource, operation, sent?.dto);
  if (kind === 'replace' || kind === 'patch') checkBody(resource, sent?.dto, kind, notes);
  return { kind, resource, ...shown, sent, key, owners: renameOwners(resource, path) };
}

/** The owners of a resource, with the names of the parameters of another path of it. */
function renameOwners({ owners }: Resource, path: string): Owner[] {
  const names = getParameters(path);
  return owners.map((owner, index) => ({ ...owner, parameter: names[index]! }));
}

/** What selects the row: the parameter that ends the path, or the id in the body of a PUT of the collection. */
function findKey(
  resource: Resource,
  { path, parameters }: Operation,
  request: DtoClass | undefined,
): Key {
  const { id, dto, collection } = resource;
  const parameter = endsWithParameter(path) ? getParameters(path).at(-1) : undefined;
  if (parameter === undefined) {
    const sent = id.property === undefined ? undefined : getProperty(request, id.property);
    if (sent === undefined || (sent.type === 'integer') !== (id.kind === 'integer'))
      throw new Stub('nothing says which resource it replaces');
    return { property: 'id', name: sent.name, in: 'body' };
  }
  const column = isSameName(parameter, id.property) ? undefined : findColumn(resource, parameter);
  if (column?.unique === true) return { property: column.property, name: parameter, in: 'path' };
  if (id.property === undefined)
    throw new Stub(`${dto.publishedName} has no property for {${parameter}}`);
  const type = parameters.find(({ name }) => name === parameter)?.type;
  const isId =
    /(id|pk)$|^id[A-Z_]/i.test(parameter) ||
    isSameName(parameter, id.property) ||
    isSameName(toSingular(parameter), toSingular(collection.split('/').at(-1)!)) ||
    (type === 'integer' && id.kind === 'integer');
  if (!isId) throw new Stub(`{${parameter}} is not an id`);
  return { property: 'id', name: parameter, in: 'path' };
}

/** Checks that a body can change a row. */
function checkBody(
  resource: Resource,
  request: DtoClass | undefined,
  kind: 'replace' | 'patch',
  notes: Notes,
): void {
  if (request === undefined) throw new Stub('the body is not an object with a name');
  const { id, owners } = resource;
  for (const { name } of request.properties.filter((each) => isOwner(owners, each.name)))
    notes.add(PATH_COUNTS, `${request.publishedName}.${name}`);
  const sent = getSent(request).filter(
    ({ name }) => name !== id.property && !isOwner(owners, name),
  );
  const unknown = sent.find(({ name }) => getColumn(resource, name) === undefined);
  if (unknown !== undefined) throw new Stub(`the resource does not store ${unknown.name}`);
  const isPatch = kind === 'patch';
  const other = sent.find((each) => {
    const { schema, hidden } = getColumn(resource, each.name)!;
    const shown = hidden === true ? undefined : getProperty(resource.dto, each.name);
    return !accepts(schema, each, isPatch) || (shown && !accepts(shown, each, isPatch, true));
  });
  if (other !== undefined)
    throw new Stub(`the resource stores another ${other.name} than the body contains`);
  for (const property of sent.filter(({ name }) => !getColumn(resource, name)!.nullable)) {
    const place = `${request.publishedName}.${property.name}`;
    if (kind === 'replace' && !isGiven(property))
      notes.add('a PUT request without it keeps its value.', place);
    if (property.nullable === true)
      notes.add('null is rejected, as every resource has a value.', place);
  }
}

/** Which of the query parameters select a page. */
function getPaging(query: readonly Property[], id: ResourceId): ListOperation['paging'] {
  const integers = query.filter(({ type }) => type === 'integer');
  const limit = integers.find(({ name }) => getRole(name) === 'limit')?.name;
  if (limit === undefined) return {};
  const idType = id.kind === 'integer' ? 'integer' : 'string';
  if (query.some(({ name, type }) => name === 'after' && type === idType))
    return { limit, by: { name: 'after', role: 'after', isFromZero: false } };
  for (const role of ['page', 'offset'] as const) {
    const parameter = integers.find(({ name }) => getRole(name) === role);
    if (parameter === undefined) continue;
    const { name, minimum, default: value } = parameter;
    return { limit, by: { name, role, isFromZero: minimum === 0 || value === 0 } };
  }
  return { limit };
}

/** Whether rows can be selected by a parameter: a scalar, compared with a column that an index can have. */
function canFilter(parameter: Schema, { type, format }: Schema): boolean {
  const { items: compared = parameter } = parameter;
  if (type === undefined || compared.type !== type) return false;
  return type === 'integer' || type === 'boolean' || (type === 'string' && format !== 'date-time');
}
