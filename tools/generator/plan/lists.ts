/** Finds out how a list selects rows: its filters and its pages. */
import type {
  Envelope,
  Filter,
  ListOperation,
  Operation,
  Property,
  Resource,
  ResourceId,
  Schema,
} from '../model.js';
import { getProperties, getUnchecked, isGiven } from '../model.js';
import { findColumn, isPartOf, noteMissing } from './columns.js';
import { getRole } from './envelopes.js';
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
