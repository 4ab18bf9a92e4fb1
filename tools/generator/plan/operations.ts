/** Plans how operations use the resources. What the rule in rule.ts does not cover becomes a stub, and the report says why. */
import {
  type Column,
  type Contract,
  type DtoClass,
  type Envelope,
  type Implementation,
  isScalar,
  type Module,
  type Operation,
  type Order,
  type PagingRole,
  type Parameter,
  type Paging,
  type PlannedOperation,
  type Property,
  type Resource,
  toPlace,
} from '../model.js';
import { isSameName, makeUnique, toBareName } from '../names.js';
import { getParameters } from '../read/contract.js';
import { findBodyProblem, isPassword, toTypeKey, widen } from './columns.js';
import {
  getItems,
  isItem,
  isSame,
  planResources,
  type Reasons,
  toCollection,
  unwrap,
} from './rule.js';

/** Thrown with the reason why an operation is a stub. */
class Stub extends Error {}

/**
 * @param taken the names of the tables of the platform and of other modules
 * @param schemas the names of the schemas that other modules publish
 */
export function plan(
  contract: Pick<Contract, 'operations' | 'classes' | 'notes'>,
  module: string,
  taken: readonly string[],
  schemas: ReadonlySet<string>,
): Pick<Module, 'operations' | 'resources' | 'classes'> {
  const reasons: Reasons = new Map();
  const resources = planResources(contract.operations, module, taken, reasons);
  const classes = [...contract.classes];
  const names = new Set(
    [...schemas, ...classes.map(({ name }) => name)].map((each) => each.toLowerCase()),
  );
  const used = contract.operations
    .flatMap(({ body, success }) => [body?.schema, success.schema])
    .flatMap((each) => Array.from(new Set([each?.class, unwrap(each)?.dto, getItems(each)?.dto])));
  /** Replaces the class of a body; if other operations use it, too, adds another class. */
  const replace = (
    dto: DtoClass,
    suffix: string,
    toClass: (name: string) => DtoClass,
  ): DtoClass => {
    const isShared = used.filter((each) => each === dto).length > 1;
    const patch = toClass(isShared ? makeUnique(`${dto.name}${suffix}`, names) : dto.name);
    if (isShared) classes.push(patch);
    else classes[classes.indexOf(dto)] = patch;
    return patch;
  };
  const operations = contract.operations.map((operation): PlannedOperation => {
    const reason = reasons.get(operation);
    const place = toPlace(operation);
    try {
      if (reason !== undefined) throw new Stub(reason);
      const implementation = planOperation(operation, resources, reasons);
      const changed = rewrite(operation, implementation);
      if (operation.body?.required === false)
        contract.notes.add('a request without its optional body gets 400', place);
      const { kind } = implementation;
      if (kind !== 'patch' && kind !== 'replace') return { ...changed, implementation };
      const { resource, sent } = implementation;
      const { dto, property } = sent!;
      const nulls = findNulls(dto, resource);
      if (nulls.length > 0)
        contract.notes.add(
          `null is invalid, because ${resource.shownBy} never shows it`,
          `${place} ${nulls.join(', ')}`,
        );
      else if (kind === 'replace') return { ...changed, implementation };
      const suffix = kind === 'patch' ? 'Patch' : 'Put';
      const patch = replace(dto, suffix, (name) => toChanges(dto, nulls, kind, name));
      const body = changed.body!;
      const toWrapper = (name: string): DtoClass => ({
        ...body.schema.class!,
        name,
        publishedName: name,
        properties: [{ ...body.schema.class!.properties[0]!, class: patch }],
      });
      const sentClass =
        property === undefined ? patch : replace(body.schema.class!, suffix, toWrapper);
      return {
        ...changed,
        body: { ...body, schema: { class: sentClass } },
        implementation: { ...implementation, sent: { property, dto: patch } },
      };
    } catch (error) {
      if (!(error instanceof Stub)) throw error;
      return { ...operation, implementation: { kind: 'stub', reason: error.message } };
    }
  });
  return { operations, resources, classes };
}

/** Returns the nullable properties of a body whose columns are not nullable. */
const findNulls = ({ properties }: DtoClass, { columns }: Resource): string[] => {
  const required = new Set(columns.filter(({ nullable }) => !nullable).map(({ name }) => name));
  return properties
    .filter(({ name, nullable }) => nullable === true && required.has(name))
    .map(({ name }) => name);
};

/** Returns the class of a body of `PUT` or `PATCH`: without null for the given properties and, for `PATCH`, defaults. */
function toChanges(
  dto: DtoClass,
  nulls: readonly string[],
  kind: 'patch' | 'replace',
  name: string,
): DtoClass {
  const properties = dto.properties.map((property): Property => ({
    ...property,
    default: kind === 'patch' ? undefined : property.default,
    nullable: nulls.includes(property.name) ? undefined : property.nullable,
  }));
  return { ...dto, name, publishedName: name, properties };
}

/** Removes the defaults of refused parameters, with which each request would get 501. */
const dropDefaults = (all: readonly Parameter[], refused: readonly string[]): Parameter[] =>
  all.map((each) =>
    refused.includes(each.name) ? Object.assign({}, each, { default: undefined }) : each,
  );

/** Returns an operation that requires its body, returns the class of its resource, and limits its paging parameters. */
function rewrite(operation: Operation, implementation: Implementation): Operation {
  if (implementation.kind === 'stub') return operation;
  const own = {
    ...operation,
    parameters: dropDefaults(operation.parameters, implementation.refused),
  };
  if (implementation.kind !== 'list') {
    const { body, success } = operation;
    const isObject = implementation.returns === 'object' && implementation.wrapper === undefined;
    return {
      ...own,
      // Without a body, or with null, there is nothing to store.
      body: body && { ...body, required: true, schema: { class: body.schema.class! } },
      success: isObject ? { ...success, schema: { class: implementation.resource.dto } } : success,
    };
  }
  const { paging, filters } = implementation;
  const parameters = Array.from(own.parameters, (each) => {
    if (each.in !== 'query' || filters.some(({ parameter }) => parameter === each.name))
      return each;
    const isLimit = each.name === paging?.limit;
    if (!isLimit && each.name !== paging?.parameter) return each;
    if (paging.by === 'after' && !isLimit) {
      const position = { ...each, default: undefined };
      return paging.isText
        ? { ...position, pattern: '^[1-9][0-9]{0,15}$', minLength: undefined, maxLength: undefined }
        : position;
    }
    const least = isLimit ? 1 : paging.by === 'page' ? paging.firstPage : 0;
    const minimum = Math.max(each.minimum ?? least, least);
    const fallback = isLimit ? Math.max(Math.min(20, each.maximum ?? 20), minimum) : minimum;
    return {
      ...each,
      type: 'integer' as const,
      format: undefined,
      minimum,
      default: each.required ? undefined : (each.default ?? fallback),
    };
  });
  return { ...operation, parameters };
}

function planOperation(
  operation: Operation,
  resources: readonly Resource[],
  reasons: Reasons,
): Implementation {
  const { method, path, body, parameters } = operation;
  if (operation.isManual) throw new Stub('x-resource says that a person implements it');
  if (path.split('/').includes('me'))
    throw new Stub('`me` is the caller, whom the service does not know');
  const hasKey = isItem(path);
  const resource = resources.find((each) => each.route === toCollection(path));
  if (resource === undefined) throw new Stub(explainMissing(path, reasons));
  if (hasKey !== (method !== 'post') && !(method === 'get' && !hasKey))
    throw new Stub('it is not one of the operations of a resource');
  const headers = parameters.filter((each) => each.in === 'header' || each.in === 'cookie');
  const condition = headers.find(({ name }) => PRECONDITIONS.test(name));
  if (condition !== undefined)
    throw new Stub(`\`${condition.name}\` needs a version column: see @IfMatch in the guide`);
  const header = headers.find((each) => each.required);
  if (header !== undefined) throw new Stub(`the ${header.in} \`${header.name}\` is required`);
  if (method === 'get' && !hasKey) return planList(operation, resource);
  const query = parameters.filter((each) => each.in === 'query');
  rejectRequired(query);
  const refused = query.map(({ name }) => name);
  const key = getParameters(path).at(-1)!;
  if (method === 'get' || method === 'delete') {
    if (body !== undefined) throw new Stub('it has a body');
    const kind = method === 'get' ? 'read' : 'delete';
    const response = planResponse(operation, resource);
    if (response.returns !== 'object' && (kind === 'read' || response.returns === 'id'))
      throw new Stub(
        `its response is not ${resource.dto.publishedName}${kind === 'read' ? '' : ' or nothing'}`,
      );
    return { kind, resource, key, refused, ...response };
  }
  const kind = ({ post: 'create', put: 'replace', patch: 'patch' } as const)[method];
  if (body === undefined) throw new Stub('it has no body');
  const sent = unwrap(body.schema);
  if (sent === undefined) throw new Stub('its body is not a JSON object with properties');
  const problem = findBodyProblem(resource, sent, kind);
  if (problem !== undefined) throw new Stub(problem);
  const response = planResponse(operation, resource);
  if (sent.property !== undefined) requireWrapper(body.schema.class!);
  widen(resource, sent);
  return { kind, resource, key, refused, sent, ...response };
}

/** Headers that protect changes by other clients (RFC 9110, section 13.1). */
const PRECONDITIONS = /^if-(match|none-match|unmodified-since)$/i;

/** Returns why no resource has the path of an operation. */
function explainMissing(path: string, reasons: Reasons): string {
  const [post, reason] =
    [...reasons].find(([each]) => toCollection(each.path) === toCollection(path)) ?? [];
  return post === undefined
    ? 'it is not one of the operations of a resource'
    : `POST ${post.path} makes no resource: ${reason}`;
}

/** Makes the property that wraps a body required. */
function requireWrapper({ properties }: DtoClass): void {
  const { nullable: _nullable, default: _default, ...wrapper } = properties[0]!;
  properties[0] = { ...wrapper, required: true };
}

/** Returns what a response contains: the object, only its id, or nothing. */
function planResponse(
  { success }: Operation,
  resource: Resource,
): { returns: 'object' | 'id' | 'nothing'; wrapper?: string | undefined } {
  if (success.contentTypes !== undefined) throw new Stub('its response is not JSON');
  if (success.schema === undefined) return { returns: 'nothing' };
  const shown = unwrap(success.schema);
  if (shown !== undefined && isSame(shown.dto, resource.dto)) {
    checkShown(resource);
    return { returns: 'object', wrapper: shown.property };
  }
  const { dto, property } = shown ?? {};
  if (dto?.properties.length === 1 && dto.properties[0]!.name === resource.id.property)
    return { returns: 'id', wrapper: property };
  throw new Stub(`its response is not ${resource.dto.publishedName}, its id, or nothing`);
}

/** Checks that all required properties of responses have values. */
function checkShown({ dto, id }: Resource): void {
  const missing =
    dto.unusable.find(({ required }) => required) ??
    dto.properties.find(
      (each) =>
        each.required && each.nullable !== true && each.name !== id.property && isPassword(each),
    );
  if (missing !== undefined) throw new Stub(`\`${missing.name}\` is required, and has no column`);
}

function rejectRequired(query: readonly Property[]): void {
  const required = query.find((each) => each.required);
  if (required !== undefined)
    throw new Stub(`the query parameter \`${required.name}\` is required`);
}

const LIMITS = new Set('limit size perpage pagesize'.split(' '));
const WAYS: Readonly<Record<Paging['by'], ReadonlySet<string>>> = {
  offset: new Set(['offset', 'skip']),
  page: new Set(['page']),
  after: new Set(['after', 'cursor', 'pagetoken']),
};
export const SORTS = new Set('sort sortby orderby'.split(' '));
const DIRECTIONS = new Set('order direction sortorder sortdirection'.split(' '));

function planList(operation: Operation, resource: Resource): Implementation {
  const shown = getItems(operation.success.schema);
  if (shown === undefined || !isSame(shown.dto, resource.dto))
    throw new Stub(`its response is not a list of ${resource.dto.publishedName}`);
  checkShown(resource);
  const query = operation.parameters.filter((each) => each.in === 'query');
  const paging = planPaging(query, resource);
  const order =
    paging === undefined || paging.by === 'after' ? undefined : planOrder(query, resource);
  const used = new Set([paging?.limit, paging?.parameter, order?.parameter, order?.direction]);
  const others = query.filter(({ name }) => !used.has(name));
  const filters = others
    .flatMap((parameter) => {
      const column = findFilter(parameter, resource);
      return column === undefined ? [] : [{ parameter: parameter.name, column }];
    })
    .filter(({ column }, index, all) => all.findIndex((each) => each.column === column) === index);
  const rest = others.filter(({ name }) => !filters.some(({ parameter }) => parameter === name));
  rejectRequired(rest);
  const envelope =
    shown.property === undefined
      ? undefined
      : planEnvelope(operation.success.schema!.class!, shown.property, paging, resource);
  for (const { column } of filters) column.isFilter = true;
  return {
    kind: 'list',
    resource,
    filters,
    paging,
    order,
    envelope,
    refused: rest.map(({ name }) => name),
  };
}

const isNumber = ({ type }: Property): boolean => type === 'integer' || type === 'number';

function planPaging(query: readonly Property[], { id }: Resource): Paging | undefined {
  const find = (names: ReadonlySet<string>, isType: (each: Property) => boolean) =>
    query.find((each) => names.has(toBareName(each.name)) && isType(each));
  const limit = find(LIMITS, isNumber);
  if (limit === undefined) return undefined;
  for (const by of ['offset', 'page', 'after'] as const) {
    const idType = id.kind === 'integer' ? isNumber : () => false;
    const parameter = find(
      WAYS[by],
      by === 'after' ? (each) => each.type === 'string' || idType(each) : isNumber,
    );
    if (parameter === undefined) continue;
    const first = parameter.default ?? parameter.minimum ?? 1;
    const isText = by === 'after' && parameter.type === 'string' && id.kind === 'integer';
    return {
      limit: limit.name,
      by,
      parameter: parameter.name,
      firstPage: first === 0 ? 0 : 1,
      isText,
    };
  }
  throw new Stub(`\`${limit.name}\` has no parameter for the next page`);
}

/** Plans sorting by an enum of properties. */
function planOrder(query: readonly Property[], { columns, id }: Resource): Order | undefined {
  const sort = query.find((each) => SORTS.has(toBareName(each.name)) && each.enum !== undefined);
  const properties = sort?.enum?.map((value) => {
    if (value === id.property) return [value, 'id'] as const;
    const column = columns.find(({ name, schema }) => name === value && isScalar(schema));
    return column && ([value, column.property] as const);
  });
  if (sort === undefined || properties === undefined || properties.includes(undefined))
    return undefined;
  const direction = query.find(
    (each) =>
      DIRECTIONS.has(toBareName(each.name)) &&
      each.enum?.every((value) => /^(asc|desc)$/i.test(String(value))),
  );
  return {
    parameter: sort.name,
    columns: Object.fromEntries(properties as [string, string][]),
    direction: direction?.name,
    descending: direction?.enum?.map(String).find((value) => /desc/i.test(value)),
  };
}

/** Returns the column with the name and type of a query parameter, which may be an array of values. */
function findFilter(
  parameter: Property & { unsupported?: string | undefined },
  { columns }: Resource,
): Column | undefined {
  if (parameter.unsupported !== undefined) return undefined;
  // A parent in the path is not selected again.
  const own = columns.filter(({ filling }) => filling !== 'owner');
  const column =
    own.find(({ name }) => name === parameter.name) ??
    own.find(({ name }) => name !== undefined && isSameName(name, parameter.name));
  const value = parameter.type === 'array' ? parameter.items! : parameter;
  return column !== undefined &&
    isScalar(column.schema) &&
    toTypeKey(value) === toTypeKey(column.schema)
    ? column
    : undefined;
}

/** The names of paging properties of an envelope, in lower case without separators. */
const ROLES: Readonly<Record<PagingRole, string>> = {
  total: 'total totalcount totalitems totalelements totalresults count',
  limit: 'limit size perpage pagesize',
  offset: 'offset skip',
  page: 'page number pagenumber currentpage',
  pages: 'pages totalpages pagecount lastpage',
  next: 'next nextpage nextcursor nexttoken nextpagetoken nextoffset cursor after',
  hasMore: 'hasmore hasnext hasnextpage',
};

function planEnvelope(
  dto: DtoClass,
  items: string,
  paging: Paging | undefined,
  resource: Resource,
): Envelope {
  const nullable = new Set<string>();
  const toRole = (property: Property): PagingRole | undefined => {
    const { name, type, format } = property;
    const role = (Object.keys(ROLES) as PagingRole[]).find((each) =>
      ROLES[each].split(' ').includes(toBareName(name)),
    );
    const isCount = isNumber(property);
    if (role === undefined) return undefined;
    if (role === 'hasMore') return type === 'boolean' ? role : undefined;
    if (role === 'next') {
      const isPosition = paging?.by === 'after';
      const idType =
        resource.id.kind === 'integer' && !(paging?.isText ?? false)
          ? isCount
          : type === 'string' && format === undefined;
      // On the last page, a required property that is not nullable would have no value.
      if (property.required && property.nullable !== true) return undefined;
      if (!(isPosition ? idType : paging !== undefined && isCount)) return undefined;
      if (property.nullable === true) nullable.add(name);
      return role;
    }
    if (!isCount) return undefined;
    const isKnown = {
      total: true,
      pages: paging !== undefined,
      limit: paging !== undefined,
      offset: paging?.by === 'offset',
      page: paging?.by === 'page',
    }[role];
    return isKnown ? role : undefined;
  };
  const missing: string[] = [];
  const fill = (properties: readonly Property[], above = ''): Envelope['paging'] => {
    const filled: Record<string, PagingRole | Envelope['paging']> = {};
    for (const property of properties.filter(({ name }) => above !== '' || name !== items)) {
      const role = toRole(property);
      const inner = above === '' ? fillInner(property) : undefined;
      if (role !== undefined) filled[property.name] = role;
      else if (inner !== undefined && Object.keys(inner).length > 0) filled[property.name] = inner;
      else if (property.required) throw new Stub(`\`${property.name}\` of the list gets no value`);
      else if (inner === undefined) missing.push(`${above}${property.name}`);
    }
    return filled;
  };
  /** Returns undefined for an optional object with a required property that has no value. */
  const fillInner = (property: Property): Envelope['paging'] | undefined => {
    if (property.class === undefined) return undefined;
    try {
      return fill(property.class.properties, `${property.name}.`);
    } catch (error) {
      if (property.required || !(error instanceof Stub)) throw error;
      return undefined;
    }
  };
  return { items, paging: fill(dto.properties), nullable, missing };
}
