/** Plans the module of a contract: what its operations store, and how each works. Those that do not store rows are stubs. */
import { UNSUPPORTED } from '../../../src/platform/resource/operation/unsupported.js';
import type {
  Contract,
  ListOperation,
  Module,
  Notes,
  Operation,
  PageParameter,
  Parameter,
  PlannedOperation,
  Resource,
  Schema,
} from '../model.js';
import { getParent, getProperty, isGiven, PAGE_SIZE } from '../model.js';
import {
  checkReferences,
  isOwner,
  isUnlimitedText,
  publish,
  type Tables,
  toJoin,
  UNKNOWN,
  withoutReference,
} from './columns.js';
import { UNSUPPORTED_HEADER } from '../read/contract.js';
import { isAnyObject } from './envelopes.js';
import { implement, type ResourceOperation, toCreate } from './operations.js';
import { removeDefaults } from './patches.js';
import { createResources, isShaping } from './resources.js';
import { orStub, Stub } from './stub.js';

/** What is made of a contract: its classes as the service publishes them, and all differences in the notes. */
type Plan = Pick<Module, 'resources' | 'operations' | 'classes' | 'notes'>;

/**
 * Plans a module. The contract stays as it was read.
 *
 * @param existing the tables that the service already has, without those of this module; references are not compared
 *   without them
 */
export function planModule(contract: Contract, existing?: Tables): Plan {
  const { operations, classes } = contract;
  const [names, tables, notes] = [
    new Set<string>(),
    new Set(existing?.keys()),
    contract.notes.copy(),
  ];
  const { resources, stubs } = createResources({ operations, names, tables, notes });
  const scope = { operations, resources, stubs, names, tables, notes };
  const found = new Map(
    operations.map((operation) => [
      operation,
      stubs.get(operation) ?? orStub(() => implement(scope, operation)),
    ]),
  );
  for (const resource of resources) if (!isTold(resource, found)) rejectUnknownId(resource, found);
  const visible = getVisible(resources, found);
  for (const { create } of resources.filter((each) => !visible.includes(each)))
    found.set(create, new Stub('no operation shows what it would store'));
  const planned = [...found].map(([operation, each]) => toPlanned(operation, each, notes));
  // Copies, to which resources and classes get what all operations need.
  const plan = structuredClone({ resources: visible, operations: planned, classes: [...classes] });
  const kinds = new Map([
    ...(existing ?? []),
    ...plan.resources.map(({ table, id }) => [table, id.kind] as const),
  ]);
  for (const resource of plan.resources)
    if (existing !== undefined) checkReferences(resource, kinds, notes);
  for (const resource of plan.resources)
    resource.sharesDto = plan.resources.some(
      (each) => each !== resource && each.dto === resource.dto,
    );
  plan.resources = sortResources(plan.resources, notes);
  for (const operation of plan.operations) {
    completeResource(operation, notes);
    requireEnvelope(operation, notes);
  }
  for (const resource of plan.resources) {
    for (const column of resource.columns) column.join = toJoin(resource, column, names, tables);
    publish(resource, plan.operations);
    noteParent(resource, plan, notes);
  }
  noteHidden(plan, notes);
  removeDefaults(plan.operations, plan.classes, notes);
  return { ...plan, notes };
}

/** Sorts resources so that each comes after those that it refers to. One that refers back has no foreign key, as noted. */
function sortResources(resources: readonly Resource[], notes: Notes): Resource[] {
  const sorted: Resource[] = [];
  const above: Resource[] = [];
  const visit = (resource: Resource): void => {
    if (sorted.includes(resource)) return;
    above.push(resource);
    for (const column of resource.columns) {
      const table = column.references ?? column.schema.items?.references;
      const other = resources.find((each) => each.table === table && each !== resource);
      if (other === undefined) continue;
      if (!above.includes(other)) visit(other);
      else {
        const { items } = column.schema;
        const place = `${resource.dto.publishedName}.${column.name}`;
        notes.add(`it does not refer to ${table}, which refers back to it.`, place);
        Object.assign(column, withoutReference(column));
        if (items)
          Object.assign(column, {
            schema: { ...column.schema, items: { ...items, references: undefined } },
          });
      }
    }
    above.pop();
    sorted.push(resource);
  };
  resources.forEach(visit);
  return sorted;
}

/** Notes the operations that delete a resource with others below it. */
function noteParent(
  { create }: Resource,
  { resources, operations }: Pick<Plan, 'resources' | 'operations'>,
  notes: Notes,
): void {
  const isParent = resources.some(
    ({ owners }) => getParent(owners)?.resource.create.path === create.path,
  );
  for (const { implementation: each, operationId } of operations)
    if (isParent && each.kind === 'delete' && each.resource.create.path === create.path)
      notes.add('409 RESOURCE_IN_USE while another resource is below it.', operationId);
}

/** Notes what requests store and no response has. */
function noteHidden(
  { resources, operations }: Pick<Plan, 'resources' | 'operations'>,
  notes: Notes,
): void {
  for (const resource of resources) {
    const { columns, request, owners } = resource;
    const shown = operations.flatMap(({ implementation: each }) =>
      each.kind !== 'stub' && each.resource === resource ? (each.dto?.properties ?? []) : [],
    );
    for (const { name, hidden, hashed, schema } of columns)
      if (hidden === true && hashed !== true && schema.writeOnly !== true && !isOwner(owners, name))
        if (!shown.some((each) => each.name === name))
          notes.add('it is stored, and no response shows it.', `${request.publishedName}.${name}`);
  }
}

/** Whether clients learn the id of a row: they choose it, or a response to a POST or a list has it. */
function isTold(
  { id, create }: Resource,
  found: ReadonlyMap<Operation, ResourceOperation | Stub>,
): boolean {
  const isShown = [...found.values()].some(
    (each) =>
      !(each instanceof Stub) &&
      (each.kind === 'list' || each.kind === 'create') &&
      each.resource.create === create &&
      id.property !== undefined &&
      getProperty(each.dto, id.property) !== undefined,
  );
  return id.by === 'client' || isShown;
}

/** Makes stubs of the operations on a row, and on what is below it, whose id no client knows. */
function rejectUnknownId(
  { create, collection }: Resource,
  found: Map<Operation, ResourceOperation | Stub>,
): void {
  for (const [operation, each] of found) {
    if (each instanceof Stub) continue;
    const isById = 'key' in each && each.key.property === 'id' && each.resource.create === create;
    if (isById || each.owners.some(({ resource }) => resource?.create === create))
      found.set(operation, new Stub(`no response tells the ids of ${collection}`));
  }
}

/** The resources that operations show: without those whose rows no response identifies. */
function getVisible(
  resources: readonly Resource[],
  found: ReadonlyMap<Operation, ResourceOperation | Stub>,
): Resource[] {
  const used = new Set(
    [...found.values()].flatMap((each) => {
      if (each instanceof Stub) return [];
      return [getParent(each.owners)?.resource, each.kind === 'create' ? undefined : each.resource];
    }),
  );
  return resources.filter(
    (each) =>
      used.has(each) ||
      (each.id.property !== undefined && toCreate(each, [...found.keys()]).dto !== undefined),
  );
}

function toPlanned(
  operation: Operation,
  found: ResourceOperation | Stub,
  notes: Notes,
): PlannedOperation {
  if (found instanceof Stub)
    return { ...operation, refused: [], implementation: { kind: 'stub', reason: found.message } };
  const { body, operationId, success } = operation;
  const { schema } = success;
  const isVague = found.kind !== 'list' && found.dto && schema && isAnyObject(schema);
  if (isVague)
    notes.add('the contract does not say what it returns; it returns the resource.', operationId);
  const evaluatesIfMatch = 'key' in found;
  if (operation.ifMatch === 'required' && !evaluatesIfMatch)
    return toPlanned(operation, new Stub('the header If-Match is required'), notes);
  const ignoresIfMatch = operation.ifMatch !== undefined && !evaluatesIfMatch;
  if (ignoresIfMatch) notes.add(UNSUPPORTED_HEADER, 'If-Match');
  if (body?.required === false) notes.add('the body is required.', operationId);
  if (found.kind === 'create' && operation.isPublic)
    notes.add('it has no Idempotency-Key, because its clients have no key.', operationId);
  const isLocated = 'location' in found && found.location !== undefined;
  if (found.kind === 'create' && success.headers.includes('location') && !isLocated)
    notes.add('it has no Location, because no operation is there.', operationId);
  for (const name of found.envelope?.unknown ?? [])
    notes.add(UNKNOWN, `${name} of the response of ${operationId}`);
  const used = found.kind === 'list' ? getUsed(found) : [];
  const others = operation.parameters.filter(
    (each) => each.in === 'query' && !used.includes(each.name),
  );
  for (const { name } of others.filter(isShaping)) notes.add('it is ignored.', `?${name}`);
  const refused = others.filter((each) => !isShaping(each)).map(({ name }) => name);
  for (const name of [...operation.unsupportedQuery.map((each) => each.name), ...refused])
    notes.add('a request with the query parameter gets 501.', `?${name}`);
  // One that is refused has no default, which every request would have.
  const parameters = operation.parameters.map((each) => {
    const { default: _default, ...parameter } = each;
    const text = [each.description, UNSUPPORTED];
    const description = text.filter((part) => part !== undefined).join('\n\n');
    return each.in === 'query' && refused.includes(each.name)
      ? { ...parameter, description }
      : each;
  });
  return {
    ...operation,
    refused,
    body: body && { ...body, required: true },
    success: isVague ? { ...success, schema: { class: found.dto } } : success,
    ifMatch: ignoresIfMatch ? undefined : operation.ifMatch,
    unsupportedHeaders: [...operation.unsupportedHeaders, ...(ignoresIfMatch ? ['If-Match'] : [])],
    parameters:
      found.kind === 'list' ? limitPages({ ...operation, parameters }, found, notes) : parameters,
    implementation: found,
  };
}

/** The names of the query parameters that a list evaluates. */
const getUsed = ({ filters, paging, order }: ListOperation): (string | undefined)[] => [
  paging.limit,
  paging.by?.name,
  order?.parameter,
  order?.direction,
  ...filters.map(({ parameter }) => parameter),
];

/** Adds what the parameters of pages lack. */
function limitPages(
  { parameters, operationId }: Operation,
  list: ListOperation,
  notes: Notes,
): Parameter[] {
  const { limit, by } = list.paging;
  if (by !== undefined && limit === undefined)
    notes.add(`a page has ${PAGE_SIZE} rows, because nothing says how many.`, operationId);
  return parameters.map((parameter) => {
    const { name } = parameter;
    const role = name === limit ? 'limit' : name === by?.name ? by.role : undefined;
    if (role === undefined || parameter.in === 'path') return parameter;
    const first = role === 'page' && by?.isFromZero === true ? { minimum: 0, default: 0 } : {};
    const type = parameter.type === 'number' ? 'integer' : parameter.type;
    const limited = { ...PAGE_LIMITS[role], ...first, ...parameter, type };
    if (limited.maximum !== parameter.maximum)
      notes.add(`${name} is at most ${limited.maximum}.`, operationId);
    if (type !== parameter.type) notes.add(`${name} is an integer.`, operationId);
    if (role !== 'limit' || by === undefined || isGiven(limited)) return limited;
    const { minimum = 1, maximum = PAGE_SIZE } = limited;
    const size = Math.max(Math.min(PAGE_SIZE, maximum), minimum);
    notes.add(`${name} is ${size} by default.`, operationId);
    return { ...limited, default: size };
  });
}

/** The limits of parameters of pages: without them, a request could read a whole table at once. And the first page. */
const PAGE_LIMITS: Readonly<Record<'limit' | PageParameter['role'], Schema>> = {
  limit: { minimum: 1, maximum: 1_000 },
  page: { minimum: 1, default: 1 },
  offset: { minimum: 0, default: 0 },
  after: {},
  cursor: {},
};

/** Requires the property of a body that has the resource: without it, there is nothing to store. */
function requireEnvelope({ body, implementation }: PlannedOperation, notes: Notes): void {
  const property = 'sent' in implementation ? implementation.sent?.property : undefined;
  const dto = body?.schema.class;
  if (property === undefined || dto?.properties[0]?.required !== false) return;
  dto.properties = dto.properties.map((each) => ({ ...each, required: true }));
  notes.add('it is required.', `${dto.publishedName}.${property}`);
}

/** Adds to a resource what an operation needs: a version for an ETag, and an index for each filter. */
function completeResource(
  { implementation, ifMatch, success, operationId }: PlannedOperation,
  notes: Notes,
): void {
  if (implementation.kind === 'stub') return;
  const isList = implementation.kind === 'list';
  if (ifMatch !== undefined || (!isList && success.headers.includes('etag')))
    implementation.resource.versioned = true;
  if (!isList) return;
  if (implementation.order !== undefined)
    notes.add(
      'sorting has no index, and texts are sorted by their bytes: Z before a.',
      operationId,
    );
  for (const { column, parameter, item } of implementation.filters) {
    const reason = item ? 'it is in an array' : 'its text has no limit';
    column.indexed ||= item === undefined && !isUnlimitedText(column.schema);
    if (!column.indexed)
      notes.add(`the filter ${parameter} has no index, because ${reason}.`, operationId);
  }
}
