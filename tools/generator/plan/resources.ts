/**
 * Finds out which operations of a contract store rows: those that create, list, read, replace, patch and delete one
 * kind of object. All others are stubs, each with a reason.
 */
import {
  accepts,
  getColumn,
  getProperty,
  getSent,
  isPartOf,
  noteMissing,
  publish,
  toColumns,
  toId,
  toJoin,
  UNKNOWN,
} from './columns.js';
import { getRole, hasOnly, toEnvelope, toSent, toShown } from './envelopes.js';
import { orStub, Stub } from './stub.js';
import type {
  Contract,
  CreateOperation,
  DtoClass,
  Filter,
  ItemOperation,
  Key,
  ListOperation,
  Module,
  Notes,
  Operation,
  Parameter,
  Parent,
  PlannedOperation,
  Property,
  Resource,
  ResourceId,
  Schema,
} from '../model.js';
import { isGiven } from '../model.js';
import {
  isIdentifier,
  makeUnique,
  toMemberName,
  toPascalCase,
  toPlural,
  toSingular,
  toSnakeCase,
} from '../names.js';

type ResourceOperation = ListOperation | CreateOperation | ItemOperation;

/** What is made of a contract: its classes as the service publishes them, and all differences in the notes. */
type Plan = Pick<Module, 'resources' | 'operations' | 'classes' | 'notes'>;

/**
 * Plans a module. The contract stays as it was read.
 *
 * @param tables the names of the tables that the service already has, without those of this module
 */
export function planModule(contract: Contract, tables: readonly string[] = []): Plan {
  return new Planner(contract, tables).plan();
}

class Planner {
  private readonly notes: Notes;
  private readonly resources: Resource[] = [];
  private readonly names = new Set<string>();
  private readonly tables: Set<string>;

  constructor(
    private readonly contract: Contract,
    tables: readonly string[],
  ) {
    this.tables = new Set(tables);
    this.notes = contract.notes.copy();
  }

  plan(): Plan {
    const stubs = new Map<Operation, Stub>();
    const { operations, classes } = this.contract;
    // Parents before what is below them.
    const creates = operations
      .filter(({ method }) => method === 'post')
      .toSorted((a, b) => a.path.split('{').length - b.path.split('{').length);
    for (const operation of creates) {
      const resource = orStub(() => this.toResource(operation));
      if (resource instanceof Stub) stubs.set(operation, resource);
      else this.resources.push(resource);
    }
    const found = new Map(
      operations.map((operation) => [
        operation,
        stubs.get(operation) ?? orStub(() => this.implement(operation)),
      ]),
    );
    const resources = getVisible(this.resources, [...found.values()]);
    for (const { create } of this.resources.filter((each) => !resources.includes(each)))
      found.set(create, new Stub('no operation shows what it would store'));
    const planned = [...found].map(([operation, each]) => this.toPlanned(operation, each));
    return { ...this.complete(resources, planned, classes), notes: this.notes };
  }

  /** Returns copies in which resources and classes have what all operations need. */
  private complete(
    ...[resources, operations, classes]: [
      readonly Resource[],
      readonly PlannedOperation[],
      readonly DtoClass[],
    ]
  ): Omit<Plan, 'notes'> {
    const copy = structuredClone({ resources, operations, classes });
    copy.operations.forEach(completeResource);
    for (const resource of copy.resources) {
      for (const column of resource.columns)
        column.join = toJoin(resource, column, this.names, this.tables);
      publish(resource, copy.operations);
    }
    return copy;
  }

  private toPlanned(operation: Operation, found: ResourceOperation | Stub): PlannedOperation {
    if (found instanceof Stub)
      return { ...operation, implementation: { kind: 'stub', reason: found.message } };
    const { body, operationId } = operation;
    if (body?.required === false) this.notes.add('the body is required.', operationId);
    for (const name of found.envelope?.unknown ?? [])
      this.notes.add(UNKNOWN, `${name} of the response of ${operationId}`);
    return {
      ...operation,
      body: body && { ...body, required: true },
      parameters: found.kind === 'list' ? this.limitPages(operation, found) : operation.parameters,
      implementation: found,
    };
  }

  /** Adds what the parameters of pages lack. */
  private limitPages({ parameters, operationId }: Operation, list: ListOperation): Parameter[] {
    const { limit, by } = list.paging;
    return parameters.map((parameter) => {
      const { name } = parameter;
      const role = name === limit ? 'limit' : name === by?.name ? by.role : undefined;
      if (role === undefined || parameter.in === 'path') return parameter;
      const first = role === 'page' && by?.isFromZero === true ? { minimum: 0, default: 0 } : {};
      const limited = { ...PAGE_LIMITS[role], ...first, ...parameter };
      if (limited.maximum !== parameter.maximum)
        this.notes.add(`${name} is at most ${limited.maximum}.`, operationId);
      return limited;
    });
  }

  /** Returns the resource that an operation creates. */
  private toResource(create: Operation): Resource {
    const { body, success, path, unsupported } = create;
    if (unsupported !== undefined) throw new Stub(unsupported);
    if (/\}\/?$/.test(path))
      throw new Stub('a POST to a single resource is not a standard operation');
    if (path === '/') throw new Stub('its path has no name');
    if (body === undefined) throw new Stub('it has no body that could be stored');
    const request = toSent(body, (name) => hasOnly(success, name))?.dto;
    if (request === undefined) throw new Stub('the body is not an object with a name');
    rejectQuery(create);
    if (![200, 201, 204].includes(success.status))
      throw new Stub(`the status ${success.status} says more than that a row was stored`);
    const collection = path.replace(/\/$/, '');
    const shown = toShown(success, (dto) => isLike(dto, request));
    if (shown === undefined)
      throw new Stub(
        success.schema!.class === undefined
          ? 'the response is not an object with a name'
          : 'the response has nothing of what the request contains',
      );
    const dto = shown.dto ?? this.findShown(collection, request);
    const other = this.resources.find((each) => each.dto === dto);
    if (other !== undefined)
      throw new Stub(`${other.create.operationId} already creates such objects`);
    const parent = this.findParent(path);
    const pathKey = this.findPathKey(collection);
    const id = toId(request, dto, pathKey, this.notes);
    const columns = toColumns({ request, dto, id, parent }, pathKey, this.notes);
    const noun = toSingular(
      path.split('/').findLast((segment) => /^[^{]/.test(segment)) ?? dto.name,
    );
    const name = makeUnique(toPascalCase(noun), this.names);
    const table = makeUnique(toSnakeCase(toPlural(noun)), this.tables);
    return {
      name,
      table,
      create,
      request,
      dto,
      collection,
      parent,
      id,
      columns,
      versioned: false,
    };
  }

  /** The class that GET requests show of what a POST does not return, by default that of its body. */
  private findShown(collection: string, request: DtoClass): DtoClass {
    const isShown = (dto: DtoClass): boolean =>
      isLike(dto, request) && !this.resources.some((each) => each.dto === dto);
    const get = this.contract.operations.find(
      ({ method, path, success: { schema } }) =>
        method === 'get' && schema !== undefined && withoutKey(path) === collection,
    );
    const dto = get && (toShown(get.success, isShown)?.dto ?? this.toRows(get)?.rows.class);
    return dto !== undefined && isShown(dto) ? dto : request;
  }

  /** The parameter that follows a collection in the paths of the contract: `petId` of `/pets/{petId}`. */
  private findPathKey(collection: string): string | undefined {
    const prefix = `${collection}/`;
    const names = this.contract.operations.flatMap(({ path }) =>
      path.startsWith(prefix) ? (/^\{([^}]+)\}/.exec(path.slice(prefix.length))?.[1] ?? []) : [],
    );
    return names[0];
  }

  /** The resource that a path is below, undefined if it is below none. */
  private findParent(path: string): Parent | undefined {
    const [parameter, ...more] = [...withoutKey(path).matchAll(/\{([^}]+)\}/g)].map(
      ([, name]) => name!,
    );
    if (parameter === undefined) return undefined;
    if (more.length > 0) throw new Stub('it is below more than one parameter');
    const resource = this.resources.find(({ collection }) =>
      path.startsWith(`${collection}/{${parameter}}/`),
    );
    if (resource === undefined)
      throw new Stub(`no operation creates what {${parameter}} identifies`);
    if (resource.id.property === undefined) throw new Stub(`{${parameter}} is not an id`);
    const name = /^(id|version)$/i.test(parameter) ? `${resource.name} id` : parameter;
    return { resource, parameter, property: isIdentifier(name) ? name : toMemberName(name) };
  }

  /** Returns how an operation works on a resource. */
  private implement(operation: Operation): ResourceOperation {
    if (operation.unsupported !== undefined) throw new Stub(operation.unsupported);
    const own = this.resources.find(({ create }) => create === operation);
    if (own !== undefined) return toCreate(own);
    const list = operation.method === 'get' ? this.toList(operation) : undefined;
    return list ?? this.toItemOperation(operation);
  }

  /** Returns a list, or undefined if the operation does not return one. */
  private toList(operation: Operation): ListOperation | undefined {
    const { path, parameters } = operation;
    const list = this.toRows(operation);
    if (list === undefined) return undefined;
    const dto = list.rows.class;
    const resource =
      dto &&
      this.resources.find(
        (each) =>
          each.dto === dto ||
          ((path === each.collection || each.request === dto) && isPartOf(dto, each)),
      );
    if (dto === undefined || resource === undefined)
      throw new Stub('no operation creates the objects of the list');
    noteMissing(dto, resource, this.notes);
    if (path.endsWith('}')) throw new Stub('a list of what a parameter selects is not standard');
    const parent = this.findParent(path);
    if (parent !== undefined && getColumn(resource, parent.property) === undefined)
      throw new Stub(`${resource.dto.publishedName} has no ${parent.property}`);
    const query = parameters.filter((each) => each.in === 'query');
    const paging = getPaging(query, resource.id);
    const filters: Filter[] = [];
    for (const parameter of query) {
      if ([paging.limit, paging.by?.name].includes(parameter.name)) continue;
      const column = getColumn(resource, parameter.name);
      if (column === undefined || column.hashed === true || !canFilter(parameter, column.schema))
        throw new Stub(`the query parameter ${parameter.name} has no known effect`);
      filters.push({ parameter: parameter.name, column });
    }
    if (path !== resource.collection && filters.length === 0 && this.lists(resource, path))
      throw new Stub('nothing says which of the objects it lists');
    return { kind: 'list', resource, dto, filters, paging, envelope: list.envelope, parent };
  }

  /** Whether the contract has a list of a resource at another path than this one, which is not below a resource. */
  private lists({ dto }: Resource, path: string): boolean {
    return this.contract.operations.some(
      (each) =>
        each.method === 'get' &&
        each.path !== path &&
        !each.path.includes('{') &&
        this.toRows(each)?.rows.class === dto,
    );
  }

  /** Reads the rows of a list, which is an array, or an object with one; undefined if it is neither. */
  private toRows({
    success,
  }: Operation): (Pick<ListOperation, 'envelope'> & { readonly rows: Schema }) | undefined {
    const { schema } = success;
    if (schema?.type === 'array') return { rows: schema.items ?? {}, envelope: undefined };
    if (this.resources.some(({ dto }) => dto === schema?.class)) return undefined;
    const envelope = toEnvelope(success, ({ type }) => type === 'array');
    return envelope?.content && { rows: envelope.content.items ?? {}, envelope };
  }

  /** Returns an operation on one row. */
  private toItemOperation(operation: Operation): ItemOperation {
    const { method, path, success, body } = operation;
    const [, collection, parameter] = /^(.*?)(?:\/\{([^}]+)\})?$/s.exec(path)!;
    const resource = this.resources.find((each) => each.collection === collection);
    if (method === 'post' || (parameter === undefined && method !== 'put'))
      throw new Stub('it is none of the standard operations on what the contract creates');
    if (resource === undefined)
      throw new Stub(
        this.contract.operations.some((each) => each.method === 'post' && each.path === collection)
          ? `POST ${collection} is a stub, so that there is nothing stored`
          : `no operation creates what ${parameter === undefined ? 'it replaces' : `{${parameter}} identifies`}`,
      );
    const kind = ({ get: 'read', put: 'replace', patch: 'patch', delete: 'delete' } as const)[
      method
    ];
    rejectQuery(operation);
    const shown = toShown(success, (dto) => isPartOf(dto, resource));
    if (shown === undefined) throw new Stub('the response is another object than the resource');
    const { dto } = shown;
    if (dto !== undefined) noteMissing(dto, resource, this.notes);
    if (kind === 'read' && dto === undefined) throw new Stub('the response has no resource');
    const sent = body && toSent(body, (name) => getColumn(resource, name) === undefined);
    const key = findKey(resource, parameter, sent?.dto);
    if (kind === 'replace' || kind === 'patch') checkBody(resource, sent?.dto, kind, this.notes);
    return { kind, resource, ...shown, sent, key, parent: resource.parent };
  }
}

/** The path of a resource without the parameter that it ends with: that of its collection. */
const withoutKey = (path: string): string => path.replace(/\/\{[^}]+\}$/, '');

/** Whether a class has something of what a request contains. */
const isLike = (dto: DtoClass, request: DtoClass): boolean =>
  getSent(request).some(({ name }) => getProperty(dto, name));

function toCreate(resource: Resource): CreateOperation {
  const { create, collection, id, parent } = resource;
  const { success } = create;
  const { dto, envelope } = toShown(success, (each) => each === resource.dto)!;
  const sent = toSent(create.body!, (name) => hasOnly(success, name))!;
  const isLocated =
    dto !== undefined && id.property !== undefined && success.headers.includes('location');
  const path = [envelope?.content?.name, id.property]
    .filter((name) => name !== undefined)
    .join('.');
  const location = isLocated ? `${collection.split('/').at(-1)}/{${path}}` : undefined;
  return { kind: 'create', resource, dto, envelope, sent, parent, location };
}

/** The resources that operations show: without those whose rows no response identifies. */
function getVisible(
  resources: readonly Resource[],
  found: readonly (ResourceOperation | Stub)[],
): Resource[] {
  const used = new Set(
    found.flatMap((each) => {
      if (each instanceof Stub) return [];
      return [each.parent?.resource, each.kind === 'create' ? undefined : each.resource];
    }),
  );
  return resources.filter(
    (each) =>
      used.has(each) || (each.id.property !== undefined && toCreate(each).dto !== undefined),
  );
}

/** Adds to a resource what an operation needs: a version for an ETag, and an index for each filter. */
function completeResource({ implementation, ifMatch, success }: PlannedOperation): void {
  if (implementation.kind === 'stub') return;
  const isList = implementation.kind === 'list';
  if (ifMatch !== undefined || (!isList && success.headers.includes('etag')))
    implementation.resource.versioned = true;
  if (isList) for (const { column } of implementation.filters) column.indexed = true;
}

/** What selects the row: the parameter that ends the path, or the id in the body of a PUT of the collection. */
function findKey(
  { id, dto, ...resource }: Resource,
  parameter: string | undefined,
  request: DtoClass | undefined,
): Key {
  if (parameter === undefined) {
    const sent = id.property === undefined ? undefined : getProperty(request, id.property);
    if (sent === undefined) throw new Stub('nothing says which resource it replaces');
    return { property: 'id', name: sent.name, in: 'body' };
  }
  const column = resource.columns.find(({ name }) => name === parameter);
  if (parameter !== id.property && column?.unique === true)
    return { property: column.property, name: parameter, in: 'path' };
  if (id.property === undefined)
    throw new Stub(`${dto.publishedName} has no property for {${parameter}}`);
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
  const sent = getSent(request).filter(({ name }) => name !== resource.id.property);
  const unknown = sent.find(({ name }) => getColumn(resource, name) === undefined);
  if (unknown !== undefined) throw new Stub(`the resource does not store ${unknown.name}`);
  const other = sent.find(
    (each) => !accepts(getColumn(resource, each.name)!.schema, each, kind === 'patch'),
  );
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

/** Rejects the query parameters of an operation that uses none. */
function rejectQuery({ parameters }: Operation): void {
  const query = parameters.find((each) => each.in === 'query');
  if (query !== undefined) throw new Stub(`the query parameter ${query.name} has no known effect`);
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

/** The limits of parameters of pages: without them, a request could read a whole table at once. And the first page. */
const PAGE_LIMITS: Readonly<Record<'limit' | 'page' | 'offset' | 'after', Schema>> = {
  limit: { minimum: 1, maximum: 1_000 },
  page: { minimum: 1, default: 1 },
  offset: { minimum: 0, default: 0 },
  after: {},
};

/** Whether rows can be selected by a parameter: a scalar, compared with a column that an index can have. */
function canFilter(parameter: Schema, { type, format }: Schema): boolean {
  const { items: compared = parameter } = parameter;
  if (type === undefined || compared.type !== type) return false;
  return type === 'integer' || type === 'boolean' || (type === 'string' && format !== 'date-time');
}
