/** Writes the service and the module of a contract: once, then they belong to the team. */
import type {
  Column,
  CreateOperation,
  DtoClass,
  Envelope,
  Implementation,
  ItemOperation,
  ListOperation,
  Module,
  Order,
  PageParameter,
  PagingProperties,
  PagingRole,
  PlannedOperation,
  Property,
  Resource,
  StubOperation,
} from '../model.js';
import { getParent, getSent, getUnchecked, isGiven, PAGE_SIZE } from '../model.js';
import { isOwner } from '../plan/columns.js';
import {
  makeUnique,
  toCamelCase,
  toKebabCase,
  toMemberName,
  toPascalCase,
  toPlural,
} from '../names.js';
import {
  type Argument,
  getApiClass,
  getArguments,
  getReturnType,
  returnsVersion,
  writeSignature,
} from './api-file.js';
import { getMigrationClass, getMigrationPath } from './entity-file.js';
import { getDeclarations, getEntities, type SourceFile, toFile } from './imports.js';
import { toDecided } from './samples.js';
import {
  access,
  call,
  code,
  type Code,
  comment,
  ifAny,
  literal,
  propertyName,
  spread,
} from './source.js';

/** A resource as one class of responses shows it. */
interface View {
  readonly resource: Resource;
  /** The class of a row: that of the response, or of the items of a list. */
  readonly dto: DtoClass;
  readonly envelope: Envelope | undefined;
  /** The property of the service. */
  readonly name: string;
}

/** Writes the operations of a resource, which a changed contract added, as a service of its own. */
export function writeResourceService(module: Module, resource: Resource): SourceFile {
  const operations = module.operations.filter(
    ({ implementation }) => implementation.kind !== 'stub' && implementation.resource === resource,
  );
  const parents = getParent(resource.owners)?.resource ?? [];
  return writeService({ ...module, operations, resources: [parents, resource].flat() }, resource);
}

/** @param only the resource that the service is for, by default all of them */
export function writeService(module: Module, only?: Resource): SourceFile {
  const { name: moduleName, operations, resources, source } = module;
  const views = getViews(module);
  const parameters = resources.map(
    (resource) =>
      `@InjectRepository(${resource.name}Entity) ${toRepositoryName(resource)}: Repository<${resource.name}Entity>`,
  );
  const fields = views.map(
    ({ name, resource, dto }) =>
      `private readonly ${name}: Resource<${resource.name}Entity, ${dto.name}>;`,
  );
  const constructor = `${fields.join('\n  ')}

  constructor(${[...parameters, 'kit: ResourceKit'].join(', ')}) {
    ${only === undefined ? 'super();' : ''}
    ${views.map(writeView).join('\n    ')}
  }

  `;
  const methods = operations.map((operation) => writeMethod(module, operation));
  const converters = new Set(views.map(writeConverter));
  const text = `${comment(`Implements the operations of ${source}.`)}
@Injectable()
export class ${toPascalCase(only?.table ?? moduleName)}Service ${only === undefined ? `extends ${getApiClass(moduleName)} ` : ''}{
  ${views.length === 0 ? '' : constructor}${methods.join('\n\n  ')}
}

${[...converters].join('\n\n')}
${operations.some(({ implementation }) => implementation.kind === 'stub') ? NOT_IMPLEMENTED : ''}`;
  const file = only === undefined ? moduleName : `${moduleName}-${toKebabCase(only.table)}`;
  return toFile(`src/modules/${moduleName}/${file}.service.ts`, text, getDeclarations(module));
}

const toRepositoryName = ({ name }: Resource): string => toMemberName(toCamelCase(toPlural(name)));

/** The property of the service that shows a resource as most operations do. */
function getBaseName({ operations }: Module, resource: Resource): string {
  const name = toRepositoryName(resource);
  return operations.some((operation) => operation.name === name) ? `${name}Resource` : name;
}

function toView(module: Module, { implementation, success }: PlannedOperation): View | undefined {
  if (implementation.kind === 'stub') return undefined;
  const { resource, dto = resource.dto } = implementation;
  const envelope = implementation.kind === 'list' ? implementation.envelope : undefined;
  const response = (envelope && success.schema?.class) ?? dto;
  const suffix = response === resource.dto ? '' : `As${response.name}`;
  return { resource, dto, envelope, name: `${getBaseName(module, resource)}${suffix}` };
}

/** The view by which what is below a resource requires it. */
const toBaseView = (module: Module, resource: Resource): View => ({
  resource,
  dto: resource.dto,
  envelope: undefined,
  name: getBaseName(module, resource),
});

/** The views that operations use, each once. */
function getViews(module: Module): View[] {
  const parents = module.operations.flatMap(({ implementation }) =>
    implementation.kind === 'stub' ? [] : (getParent(implementation.owners)?.resource ?? []),
  );
  const views = [
    ...parents.map((resource) => toBaseView(module, resource)),
    ...module.operations.flatMap((operation) => toView(module, operation) ?? []),
  ];
  const sorted = module.resources.flatMap((resource) =>
    views.filter((view) => view.resource === resource),
  );
  return [...new Map(sorted.map((view) => [view.name, view])).values()];
}

function writeView({ name, resource, dto, envelope }: View): string {
  const { columns } = resource;
  const renamed = columns.filter((column) => column.name !== column.property);
  const joins = columns.map(({ property, join }) => [property, join && code(`${join.name}Entity`)]);
  const options = {
    toBody: code(getConverterName(resource, dto)),
    paths: ifAny(Object.fromEntries(renamed.map((column) => [column.property, column.name]))),
    envelope: envelope && toEnvelope(envelope),
    joins: ifAny(Object.fromEntries(joins)),
    parent: getParent(resource.owners)?.property,
  };
  return `this.${name} = ${call('kit.resource', code(toRepositoryName(resource)), options)};`;
}

/** Rows of several resources may become one class. */
const getConverterName = ({ name, dto: own, sharesDto }: Resource, dto: DtoClass): string =>
  !sharesDto && (dto === own || dto.name.startsWith(name))
    ? `to${dto.name}`
    : `${toCamelCase(name)}To${dto.name}`;

/** What the properties beside the rows of a list tell, from what the kit knows of a page. */
const PAGING_VALUES: Readonly<Record<PagingRole, Code>> = {
  total: code('paging.total'),
  limit: code('paging.limit'),
  offset: code('paging.offset'),
  page: code('paging.page'),
  pages: code('paging.limit === undefined ? 1 : Math.ceil(paging.total / paging.limit)'),
  next: code('paging.next && Object.values(paging.next)[0]'),
  'next or null': code('paging.next ? Object.values(paging.next)[0] : null'),
  'next or empty': code("paging.next ? Object.values(paging.next)[0] : ''"),
  hasMore: code('paging.hasMore === true'),
};

function toEnvelope(envelope: Envelope): Code {
  const body = writeEnvelope(envelope, 'items');
  const parameters = body.includes('paging') ? '(items, paging)' : '(items)';
  return code(`${parameters} => (${body})`);
}

/** @param value the code of its content */
function writeEnvelope({ content, paging, constants }: Envelope, value?: string): string {
  return literal({
    ...constants,
    ...(content && value !== undefined && { [content.name]: code(value) }),
    ...toPagingValues(paging),
  });
}

const toPagingValues = (paging: PagingProperties): object =>
  Object.fromEntries(
    Object.entries(paging).map(([name, role]) => [
      name,
      typeof role === 'string' ? PAGING_VALUES[role] : toPagingValues(role),
    ]),
  );

function writeMethod(module: Module, operation: PlannedOperation): string {
  const { implementation, name, operationId } = operation;
  const args = getArguments(operation);
  const returnType = getReturnType(operation);
  if (implementation.kind === 'stub') {
    return `${comment(`Not implemented: ${implementation.reason}.`)}
  ${name}(${writeSignature(args, '_')}): ${returnType} {
    throw ${call('notImplemented', operationId)};
  }`;
  }
  const lines = writeStatements(module, operation, implementation, args);
  const isAsync = lines.some((line) => line.includes('await ') || line.includes('throw '));
  // All parameters of a query may only shape responses.
  const isUsed = (each: Argument): boolean =>
    each.role !== 'query' || lines.some((line) => line.includes('query'));
  const named = args.map((each) =>
    isUsed(each) ? each : Object.assign({}, each, { name: `_${each.name}` }),
  );
  return `${isAsync ? 'async ' : ''}${name}(${writeSignature(named)}): ${returnType} {
    ${lines.join('\n    ')}
  }`;
}

function writeStatements(
  module: Module,
  operation: PlannedOperation,
  implementation: Exclude<Implementation, StubOperation>,
  args: readonly Argument[],
): string[] {
  const { resource, owners, kind } = implementation;
  const method = `this.${toView(module, operation)!.name}.${kind}`;
  const find = (role: Argument['role'], published?: string): Code =>
    code(args.find((each) => each.role === role && each.published === published)!.name);
  const refusal = call('refuseQuery', code('query'), ...operation.refused);
  const lines = operation.refused.length > 0 ? [`${refusal};`] : [];
  const values = owners.map((each) => [each.property, find('path', each.parameter)] as const);
  const criteria: Record<string, Code> = Object.fromEntries(values);
  const require = (required: Resource, where: object): void => {
    lines.push(`await ${call(`this.${getBaseName(module, required)}.getRow`, where)};`);
  };
  const parent = getParent(owners)?.resource;
  // The foreign key alone does not tell what the parent is below itself.
  if (
    parent !== undefined &&
    (kind === 'list' || (kind === 'create' && parent.owners.length > 0))
  ) {
    const above = parent.owners.map(
      ({ property }, index) => [property, values[index]![1]] as const,
    );
    const [, id] = values[parent.owners.length]!;
    require(parent, { id, ...Object.fromEntries(above) });
  }
  if (kind === 'list' && getUnchecked(owners).length > 0) require(resource, criteria);
  if (kind === 'list')
    return [...lines, ...writeList(operation, implementation, method, find, criteria)];
  const { sent } = implementation;
  const body =
    sent?.property === undefined ? sent && find('body') : access(find('body'), sent.property);
  if (kind === 'create') {
    const row = toRow(resource, sent!.dto, body!, kind, criteria);
    const created = call(method, row.code, operation.isPublic ? undefined : find('key'));
    return [...lines, ...row.lines, ...writeReturn(operation, implementation, created)];
  }
  const { key } = implementation;
  const value = key.in === 'path' ? find('path', key.name) : access(body!, key.name);
  if (key.in === 'body') {
    const error = call('ApiError', 'VALIDATION_FAILED', `${key.name} is missing.`);
    lines.push(`if (${value.text} === undefined) throw new ${error};`);
  }
  criteria[key.property] = value;
  const where = { ...criteria, ...(operation.ifMatch && spread(find('ifMatch'))) };
  if (kind === 'read' || kind === 'delete')
    return [...lines, ...writeReturn(operation, implementation, call(method, where))];
  const row = toRow(resource, sent!.dto, body!, kind);
  const kept = kind === 'replace' ? ifAny(getKept(resource, sent!.dto)) : undefined;
  const changed = call(method, where, row.code, kept);
  return [...lines, ...row.lines, ...writeReturn(operation, implementation, changed)];
}

/** Writes what returns the result of a call: in its envelope, or not at all if the response has no body. */
function writeReturn(
  { success }: PlannedOperation,
  implementation: CreateOperation | ItemOperation,
  result: string,
): string[] {
  const { kind, resource, envelope } = implementation;
  if (success.schema === undefined) return [`await ${result};`];
  const isVersioned = returnsVersion(implementation);
  // The response of a PUT has no ETag.
  const body = kind === 'replace' && resource.versioned ? `(await ${result}).body` : undefined;
  if (envelope === undefined) return [`return ${body ?? result};`];
  if (isVersioned)
    return [
      `const result = await ${result};`,
      `return new Versioned(result.version, ${writeEnvelope(envelope, 'result.body')});`,
    ];
  return envelope.content === undefined
    ? [`await ${result};`, `return ${writeEnvelope(envelope)};`]
    : [`return ${writeEnvelope(envelope, body ?? `await ${result}`)};`];
}

function writeList(
  { parameters }: PlannedOperation,
  { filters, paging, order }: ListOperation,
  method: string,
  find: (role: 'query') => Code,
  above: Readonly<Record<string, Code>>,
): string[] {
  const selected = filters.map(({ parameter, column, item }) => {
    const value = access(find('query'), parameter);
    return [column.property, item ? code(call('anyItem', value, item.property)) : value] as const;
  });
  const criteria = ifAny({ ...above, ...Object.fromEntries(selected) });
  const whole = `return ${call(method, criteria)};`;
  if (paging.limit === undefined && paging.by === undefined) return [whole];
  const query = find('query');
  const limit = paging.limit === undefined ? code(`${PAGE_SIZE}`) : access(query, paging.limit);
  // Without a parameter that selects another page, there is no link to one.
  const by = paging.by === undefined ? { next: false } : toPageRequest(paging.by, query);
  const isOptional = parameters.some((each) => each.name === paging.limit && !isGiven(each));
  const sorted = order && { order: toSorted(order, parameters, query) };
  return [
    ...(isOptional ? [`if (${limit.text} === undefined) ${whole}`] : []),
    `return ${call(method.replace(/list$/, 'page'), { limit, ...by, ...sorted }, criteria)};`,
  ];
}

/** Writes the column that a request sorts by, the id if it names none, and whether it is descending. */
function toSorted(
  { parameter, columns, direction, descending }: Order,
  parameters: readonly Property[],
  query: Code,
): object {
  const value = access(query, parameter).text;
  const by = `(${literal(columns)} as const)[${value}]`;
  const isAlways = parameters.some((each) => each.name === parameter && isGiven(each));
  const comparisons = descending.map(
    (each) => `${access(query, direction).text} === ${literal(each)}`,
  );
  return {
    by: code(isAlways ? by : `${value} === undefined ? 'id' : ${by}`),
    isDescending: comparisons.length === 0 ? undefined : code(comparisons.join(' || ')),
  };
}

function toPageRequest({ name, role, isFromZero }: PageParameter, query: Code): object {
  return {
    [role]: access(query, name),
    firstPage: role === 'page' && isFromZero ? 0 : undefined,
    next: name === role ? undefined : name,
  };
}

/** A body as a row. */
interface Row {
  /** The statements before it. */
  readonly lines: readonly string[];
  readonly code: Code;
}

/** Makes a row of a body: without what the resource does not store, with what the service assigns. */
function toRow(
  { id, columns, owners }: Resource,
  request: DtoClass,
  body: Code,
  kind: 'create' | 'replace' | 'patch',
  above: Readonly<Record<string, Code>> = {},
): Row {
  const find = (name: string) => request.properties.find((each) => each.name === name);
  const removed: string[] = [];
  const added: Record<string, Code> = { ...above };
  const isId = kind === 'create' && id.by === 'client';
  if (id.property !== undefined && find(id.property) && !(isId && id.property === 'id')) {
    removed.push(id.property);
    if (isId) added['id'] = access(body, id.property);
  }
  removed.push(...getSent(request).flatMap(({ name }) => (isOwner(owners, name) ? name : [])));
  for (const column of columns.filter(({ name }) => !isOwner(owners, name))) {
    const { name, property, assigned } = column;
    const sent = find(name);
    if (sent && property !== name) removed.push(name);
    if (sent && column.hashed === true) added[property] = toHash(sent, access(body, name));
    else if (sent && property !== name) added[property] = access(body, name);
    if (assigned === 'now on changes' || (assigned !== undefined && kind === 'create'))
      added[property] = toAssigned(column);
  }
  if (removed.length === 0 && ifAny(added) === undefined) return { lines: [], code: body };
  const variables = new Set<string>();
  const unused = removed.map((name) => {
    const variable = makeUnique(`_${toMemberName(name)}`, variables);
    return variable === name ? `${name}, ` : `${propertyName(name)}: ${variable}, `;
  });
  return {
    // Not a spread of the body itself, which is an instance of a class.
    lines: [`const { ${unused.join('')}...row } = ${body.text};`],
    code: code(ifAny(added) === undefined ? 'row' : literal({ ...spread(code('row')), ...added })),
  };
}

/** The properties that a replacement keeps: those that its body cannot have, or may lack although every row has them. */
const getKept = ({ columns, owners }: Resource, request: DtoClass): string[] =>
  columns
    .filter(({ name, nullable, assigned }) => {
      const sent = getSent(request).find((each) => each.name === name && !isOwner(owners, name));
      const mayLack = sent === undefined || (!nullable && !isGiven(sent));
      return mayLack && assigned !== 'now on changes';
    })
    .map(({ property }) => property);

function toHash(property: Property, { text }: Code): Code {
  const hash = `await hashPassword(${text})`;
  return code(isGiven(property) && property.nullable !== true ? hash : `${text} && (${hash})`);
}

function toAssigned({ assigned, schema }: Column): Code {
  if (assigned === 'default') return code(literal(schema.default));
  if (assigned === 'to decide')
    return code(`${literal(toDecided(schema))} /* To decide: the contract does not say. */`);
  return code(`new Date().toISOString()${assigned === 'today' ? '.slice(0, 10)' : ''}`);
}

function writeConverter({ resource, dto }: View): string {
  const body = dto.properties.map((property) => {
    const { name, type, required, nullable, writeOnly, default: fallback } = property;
    const isText = type === 'string' && resource.id.kind === 'integer';
    if (name === resource.id.property)
      return [name, code(isText ? 'String(row.id)' : 'row.id')] as const;
    const column = resource.columns.find((each) => each.name === name);
    // Requests have it.
    if (writeOnly === true && required) return [name, code('undefined as never')] as const;
    const isHidden = column?.hidden === true && dto === resource.dto;
    if (column === undefined || column.hashed === true || writeOnly === true || isHidden)
      return [name, required ? code('undefined') : toCode(fallback)] as const;
    const value = access(code('row'), column.property);
    const mayLack = column.nullable && !required && nullable !== true;
    return [name, mayLack ? code(`${value.text} ?? ${toCode(fallback).text}`) : value] as const;
  });
  return `/** Converts a row to what clients see. */
function ${getConverterName(resource, dto)}(row: ${resource.name}Entity): Complete<${dto.name}> {
  return ${literal(Object.fromEntries(body))};
}`;
}

/** The code of a default; what has none is missing. */
const toCode = (value: unknown): Code => code(value === undefined ? 'undefined' : literal(value));

const NOT_IMPLEMENTED = `
function notImplemented(operation: string): ApiError {
  return new ApiError('NOT_IMPLEMENTED', \`\${operation} is not implemented yet.\`);
}`;

/** @param timestamps those of the migrations */
export function writeModule(module: Module, timestamps: ReadonlyMap<Resource, number>): SourceFile {
  const { resources, name: moduleName, tags } = module;
  const name = toPascalCase(moduleName);
  const entities = getEntities(resources).map((each) => code(`${each}Entity`));
  const migrations = [...timestamps].map(([resource, timestamp]) => ({
    name: getMigrationClass(resource, timestamp),
    path: getMigrationPath(moduleName, resource, timestamp).replace(/ts$/, 'js'),
  }));
  const options = {
    tag: tags.length === 1 ? tags[0] : tags,
    entities: ifAny(entities),
    migrations: ifAny(migrations.map((each) => code(each.name))),
    controllers: [code(`${name}Controller`)],
    providers: [{ provide: code(`${name}Api`), useClass: code(`${name}Service`) }],
  };
  const text = `${call('@Feature', options)}\nexport class ${name}Module {}`;
  return toFile(`src/modules/${moduleName}/${moduleName}.module.ts`, text, {
    ...getDeclarations(module),
    ...Object.fromEntries(migrations.map((each) => [each.name, each.path])),
  });
}
