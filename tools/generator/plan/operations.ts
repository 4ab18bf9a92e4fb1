/** Finds out how an operation works on what is stored: it creates, lists, reads, replaces, patches or deletes rows. */
import type {
  CreateOperation,
  DtoClass,
  ItemOperation,
  Key,
  ListOperation,
  Notes,
  Operation,
  Resource,
} from '../model.js';
import { getColumn, getProperty, getSent, isGiven } from '../model.js';
import { isSameName, toSingular } from '../names.js';
import { getParameters } from '../read/contract.js';
import { accepts } from './accepts.js';
import { findKeyColumn, isOwner, isPartOf, noteMissing, PATH_COUNTS } from './columns.js';
import { toAcknowledgement, toSent, toShown } from './envelopes.js';
import { toList } from './lists.js';
import {
  endsWithParameter,
  findCause,
  rejectQuery,
  rejectUnsupported,
  renameOwners,
  toBodyOf,
  type Scope,
  toCollection,
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
  const column = parameter === undefined ? undefined : findKeyColumn(resource, parameter);
  const key = column?.name ?? id.property;
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
  const column = isSameName(parameter, id.property)
    ? undefined
    : findKeyColumn(resource, parameter);
  if (column?.hidden === true)
    throw new Stub(`${dto.publishedName} does not show ${column.name}, which {${parameter}} names`);
  if (column !== undefined) return { property: column.property, name: parameter, in: 'path' };
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
