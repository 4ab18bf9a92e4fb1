/** Finds out what a contract stores: the objects that POST operations create. */
import type {
  DtoClass,
  ListOperation,
  Notes,
  Operation,
  Owner,
  Parameter,
  Property,
  Resource,
  Schema,
  Sent,
} from '../model.js';
import { getProperties, getProperty, getSent, getUnchecked } from '../model.js';
import {
  isIdentifier,
  isSameName,
  makeUnique,
  toBareName,
  toMemberName,
  toPascalCase,
  toPlural,
  toSingular,
  toSnakeCase,
} from '../names.js';
import { getParameters } from '../read/contract.js';
import { isCommand } from './commands.js';
import {
  findId,
  findKeyColumn,
  isOnlyId,
  isSameId,
  toColumns,
  toEntityProperty,
  toId,
  toKeyName,
} from './columns.js';
import { hasOnly, isAnyObject, toEnvelope, toSent, toShown } from './envelopes.js';
import { orStub, Stub } from './stub.js';

/** What is known while a module is planned. */
export interface Scope {
  readonly operations: readonly Operation[];
  readonly resources: readonly Resource[];
  /** The POST operations that store nothing: known after the resources. */
  readonly stubs?: ReadonlyMap<Operation, Stub>;
  /** The names of entities and tables that are used, to which those of resources are added. */
  readonly names: Set<string>;
  readonly tables: Set<string>;
  readonly notes: Notes;
}

/** Returns the resource that each POST operation creates, parents before what is below them, and the stubs. */
export function createResources(scope: Omit<Scope, 'resources'>): {
  readonly resources: readonly Resource[];
  readonly stubs: ReadonlyMap<Operation, Stub>;
} {
  const [resources, stubs]: [Resource[], Map<Operation, Stub>] = [[], new Map()];
  const hasOthers = ({ path }: Operation): boolean =>
    scope.operations.some(
      (each) => each.method !== 'post' && toCollection(each.path) === toCollection(path),
    );
  const creates = scope.operations
    .filter(({ method }) => method === 'post')
    .toSorted(
      (a, b) =>
        a.path.split('{').length - b.path.split('{').length ||
        // One that others read or change creates the resource, not a login that returns the same object.
        Number(hasOthers(b)) - Number(hasOthers(a)),
    );
  for (const operation of creates) {
    const resource = orStub(() => toResource({ ...scope, resources }, operation));
    if (resource instanceof Stub) stubs.set(operation, resource);
    else resources.push(resource);
  }
  return { resources, stubs };
}

/** Returns the resource that an operation creates. */
function toResource(scope: Scope, create: Operation): Resource {
  const { resources, names, tables, notes } = scope;
  const { body, success, path } = create;
  rejectUnsupported(scope, create);
  if (endsWithParameter(path))
    throw new Stub('a POST to a single resource is not a standard operation');
  if (path === '/') throw new Stub('its path has no name');
  if (body === undefined) throw new Stub('it has no body that could be stored');
  const request = toBodyOf(create)?.dto;
  if (request === undefined) throw new Stub('the body is not an object with a name');
  rejectQuery(create);
  if (![200, 201, 204].includes(success.status))
    throw new Stub(`the status ${success.status} says more than that a row was stored`);
  const collection = toCollection(path);
  const parameter = findPathKey(scope, collection);
  const pathKey = parameter?.name;
  const noun = toSingular(path.split('/').findLast((segment) => /^[^{]/.test(segment))!);
  const identifies = (dto: DtoClass): boolean => isOnlyId(dto, pathKey, noun);
  const shown = toShown(success, (dto) => isLike(dto, request) || identifies(dto), request);
  if (shown === undefined)
    throw new Stub(
      success.schema!.class === undefined
        ? 'the response is not an object with a name'
        : 'the response has nothing of what the request contains',
    );
  const told = shown.dto && identifies(shown.dto) ? shown.dto : undefined;
  const isTold = told === shown.dto || isAnyObject(success.schema!);
  const dto = isTold ? findShown(scope, collection, request) : shown.dto!;
  const other = resources.find((each) => each.dto === dto);
  if (other !== undefined && !hasItem(scope, collection))
    throw new Stub(`POST ${other.create.path} creates such objects already`);
  const properties = [dto, request].flatMap((each) => each.properties.map(({ name }) => name));
  const owners = findOwners(scope, create, properties);
  const keyName = toKeyName({ request, dto, owners }, pathKey, noun);
  const id = toId({ request, dto: told ?? dto, owners }, parameter, keyName, noun, notes);
  if (dto.properties.some((each) => !isSameId(each, id)))
    throw new Stub(`${dto.publishedName}.${id.property} is another id than the response has`);
  const own = told && findId(dto, pathKey, noun)?.name;
  if (own !== undefined && id.property !== undefined && !getProperty(dto, id.property))
    throw new Stub(
      `${dto.publishedName}.${own} may differ from ${told!.publishedName}.${id.property}`,
    );
  const isSent = getSent(request).some(({ name }) => name === id.property);
  if (shown.dto === undefined && id.by === 'service' && isSent)
    throw new Stub(`nothing says who assigns ${request.publishedName}.${id.property}`);
  rejectCommand(scope, create, id.property);
  for (const owner of getUnchecked(owners)) notes.add(UNCHECKED, `{${owner.parameter}}`);
  const columns = toColumns({ request, dto, id, owners }, keyName, notes);
  const [above = ''] = path
    .split('/')
    .filter((segment) => /^[^{]/.test(segment))
    .slice(-2);
  const named = names.has(toPascalCase(noun).toLowerCase()) ? `${toSingular(above)} ${noun}` : noun;
  const name = makeUnique(toPascalCase(named), names);
  const table = makeUnique(toSnakeCase(toPlural(named)), tables);
  return {
    name,
    table,
    create,
    request,
    dto,
    sharesDto: false,
    collection,
    owners,
    id,
    columns,
    versioned: false,
  };
}

const UNCHECKED =
  'any value is accepted; a list or a read of one without rows is 404. It is no border: each key reads and changes the rows of all.';

/** Rejects a POST that may do something else than store what other operations work on. */
function rejectCommand({ operations }: Scope, create: Operation, id: string | undefined): void {
  const { isResource, path } = create;
  if (isResource === false) throw new Stub('x-resource: false says that nothing is stored');
  if (isResource === true) return;
  if (isCommand(path))
    throw new Stub('its path ends with a command: x-resource: true stores its body');
  const isChanged = operations.some(
    (each) =>
      ['put', 'patch', 'delete'].includes(each.method) &&
      toCollection(each.path) === toCollection(path) &&
      (endsWithParameter(each.path) ||
        (each.method === 'put' && id !== undefined && getProperty(each.body?.schema.class, id))),
  );
  if (!isChanged)
    throw new Stub(
      'nothing replaces, patches or deletes what it would store: x-resource: true stores it',
    );
}

/**
 * Returns the class that the body of a POST has the properties of a resource in: that of its only property, if the response
 * has the same one, or has what is in it.
 */
export const toBodyOf = ({ body, success }: Operation): Sent | undefined =>
  body &&
  toSent(
    body,
    (name, dto) =>
      hasOnly(success, name) ||
      (getProperty(success.schema?.class, name) === undefined &&
        toShown(success, (each) => isLike(each, dto))?.dto !== undefined),
  );

/** Whether a path has operations on one resource of a collection. */
const hasItem = ({ operations }: Scope, collection: string): boolean =>
  operations.some(
    ({ method, path }) =>
      method !== 'post' && endsWithParameter(path) && toCollection(path) === collection,
  );

/** The class that GET requests show of what a POST does not return, by default that of its body. */
function findShown(scope: Scope, collection: string, request: DtoClass): DtoClass {
  const { operations, resources } = scope;
  const isShown = (dto: DtoClass): boolean =>
    isLike(dto, request) &&
    (!resources.some((each) => each.dto === dto) || hasItem(scope, collection));
  const get = operations.find(
    ({ method, path, success: { schema } }) =>
      method === 'get' && schema !== undefined && toCollection(path) === collection,
  );
  const dto = get && (toShown(get.success, isShown)?.dto ?? toRows(resources, get)?.rows.class);
  return dto !== undefined && isShown(dto) ? dto : request;
}

/**
 * The parameter that follows a collection in the paths of the contract: `petId` of `/pets/{petId}`. It is an integer if any of
 * these paths has one there.
 */
function findPathKey({ operations }: Scope, collection: string): Parameter | undefined {
  const length = collection.split('/').length;
  const found = operations
    .filter(({ path }) => {
      const segments = path.split('/');
      return (
        segments[length]?.startsWith('{') === true &&
        toCollection(segments.slice(0, length + 1).join('/')) === collection
      );
    })
    .flatMap(({ path, parameters }) => {
      const [, name] = /^\{([^}]+)\}$/.exec(path.split('/')[length]!) ?? [];
      return parameters.find((each) => each.in === 'path' && each.name === name) ?? [];
    });
  const integer = found.find(({ type }) => type === 'integer');
  return found[0] && { ...(integer ?? found[0]), name: found[0].name };
}

/**
 * What the parameters in the path of a collection are: the id of the parent, which is the nearest resource above it; what
 * that is below itself; or a value that no operation creates or shows, such as a tenant.
 *
 * @param properties of the resource at the path, which may have the values
 */
export function findOwners(
  { operations, resources }: Pick<Scope, 'operations' | 'resources'>,
  { path, parameters }: Pick<Operation, 'path' | 'parameters'>,
  properties: readonly string[],
): Owner[] {
  const segments = withoutItem(path).split('/');
  const above = segments.flatMap((segment, index) => {
    const parameter = /^\{([^}]+)\}$/.exec(segment)?.[1];
    const item = segments.slice(0, index + 1).join('/');
    return parameter === undefined ? [] : [{ parameter, item, noun: segments[index - 1]! }];
  });
  if (above.length < getParameters(withoutItem(path)).length)
    throw new Stub('a segment of its path has more than a parameter');
  const parent = above
    .flatMap(
      ({ item }) => resources.find(({ collection }) => collection === toCollection(item)) ?? [],
    )
    .at(-1);
  return above.map(({ parameter, item, noun }, index) => {
    const resource = toCollection(item) === parent?.collection ? parent : undefined;
    const isAboveParent = parent !== undefined && index < parent.owners.length;
    if (resource !== undefined && !isIdOf(resource, parameter))
      throw new Stub(`{${parameter}} is not an id`);
    const isKnown = operations.some((each) => toCollection(each.path).split('/').at(-1) === noun);
    if (resource === undefined && !isAboveParent && isKnown)
      throw new Stub(`no operation creates what {${parameter}} identifies`);
    const isVague = /^(id|version)$/i.test(parameter);
    const own = isVague ? `${resource?.name ?? toSingular(noun)} id` : parameter;
    const name =
      properties.find((each) => isSameName(each, own)) ??
      (isIdentifier(own) ? own : toMemberName(own));
    const { type, format } = parameters.find((each) => each.name === parameter)!;
    const ownKind = type === 'integer' ? type : format === 'uuid' ? format : 'text';
    const { kind } = resource?.id ?? parent?.owners[index] ?? { kind: ownKind };
    return { parameter, name, property: toEntityProperty(name), kind, resource };
  });
}

/** Whether a parameter has the id of a resource, and not another property with unique values, such as `{username}`. */
const isIdOf = (resource: Resource, parameter: string): boolean =>
  resource.id.property !== undefined &&
  (isSameName(parameter, resource.id.property) || findKeyColumn(resource, parameter) === undefined);

/** Reads the rows of a list, which is an array, or an object with one; undefined if it is neither. */
export function toRows(
  resources: readonly Resource[],
  { success }: Operation,
): (Pick<ListOperation, 'envelope'> & { readonly rows: Schema }) | undefined {
  const { schema } = success;
  if (schema?.type === 'array') return { rows: schema.items ?? {}, envelope: undefined };
  if (resources.some(({ dto }) => dto === schema?.class)) return undefined;
  const arrays = (getProperties(schema ?? {}) ?? []).filter(({ type }) => type === 'array');
  const ofResources = arrays.filter(({ items }) =>
    resources.some((each) => items?.class !== undefined && each.dto === items.class),
  );
  const rows = ofResources.length > 0 ? ofResources : arrays;
  const envelope = toEnvelope(success, ({ name }) => rows.some((each) => each.name === name));
  return envelope?.content && { rows: envelope.content.items ?? {}, envelope };
}

/** The segments of paths that mean the client itself. */
const CALLER =
  /^(me|my|self|myself|current|account|my[-_A-Z].*|current[-_]?([Uu]ser|[Aa]ccount|[Mm]ember))$/;

/** Rejects what no resource can do. */
export function rejectUnsupported(
  { operations }: Pick<Scope, 'operations'>,
  { unsupported, path }: Operation,
): void {
  if (unsupported !== undefined) throw new Stub(unsupported);
  const hasUsers = operations.some((each) => each.path.split('/').includes('users'));
  const segments = path.split('/');
  // Beside `users`, `user` is the client itself.
  if (segments.some((each) => CALLER.test(each) || (hasUsers && each === 'user')))
    throw new Stub('it is about the caller, and rows belong to no client');
}

/** The names of the query parameters that only shape a response, which may have more than is asked for. */
const SHAPING = /^(fields|optfields|pretty|optpretty|prettyprint|lang)$/;

export const isShaping = ({ name }: Property): boolean => SHAPING.test(toBareName(name));

/** Rejects a query parameter whose effect is not known, unless a request without it is complete. */
export function rejectParameter(parameter: Property): void {
  const { required, default: value = false, name } = parameter;
  if (required ? !isShaping(parameter) : value !== false && value !== '')
    throw new Stub(`the query parameter ${name} has no known effect`);
}

/** Rejects the query parameters of an operation that uses none. */
export const rejectQuery = ({ parameters }: Operation): void =>
  parameters.filter((each) => each.in === 'query').forEach(rejectParameter);

export const endsWithParameter = (path: string): boolean => /\}\/?$/.test(path);

/** The path of a collection, also from that of a resource in it, without a slash at the end. */
export const withoutItem = (path: string): string => path.replace(/(\/\{[^}]+\})?\/?$/, '');

/** What two paths of a collection have in common, whatever they name its parameters. */
export const toCollection = (path: string): string =>
  withoutItem(path).replaceAll(/\{[^}]+\}/g, '{}');

/** Whether a class has something of what a request contains. */
const isLike = (dto: DtoClass, request: DtoClass): boolean =>
  getSent(request).some(({ name }) => getProperty(dto, name));

/** The owners of a resource, with the names of the parameters of another path of it. */
export function renameOwners({ owners }: Resource, path: string): Owner[] {
  const names = getParameters(path);
  return owners.map((owner, index) => ({ ...owner, parameter: names[index]! }));
}

/** Why the POST of a collection stores nothing that another operation of it could show; undefined if there is none. */
export function findCause({ operations, stubs }: Scope, path: string): string | undefined {
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
