/** Writes the service and the module of a contract: once, then they belong to the team. */
import type {
  Column,
  DtoClass,
  Envelope,
  Implementation,
  ListOperation,
  Module,
  PlannedOperation,
  Resource,
  Stub,
} from '../model.js';
import { toCamelCase, toMemberName, toPascalCase, toPlural } from '../names.js';
import {
  type Argument,
  getApiClass,
  getArguments,
  getReturnType,
  writeSignature,
} from './api-file.js';
import { getMigrationClass, getMigrationPath } from './entity-file.js';
import { addImports, getDeclarations } from './imports.js';
import { access, comment, literal, object, propertyName, quote } from './source.js';

export const getServicePath = (module: string): string =>
  `src/modules/${module}/${module}.service.ts`;
export const getModulePath = (module: string): string =>
  `src/modules/${module}/${module}.module.ts`;

/** A resource as one class of responses shows it: the service has a property for each. */
interface View {
  readonly resource: Resource;
  readonly dto: DtoClass;
  /** Of a list that is an object. */
  readonly envelope: Envelope | undefined;
  /** The property of the service. */
  readonly name: string;
}

export function writeService(module: Module): string {
  const views = getViews(module);
  const methods = module.operations.map((operation) => writeMethod(module, views, operation));
  const repositories = [...new Set(views.map(({ resource }) => resource))];
  const parameters = repositories.map(
    ({ name }) =>
      `@InjectRepository(${name}Entity) ${toRepositoryName(name)}: Repository<${name}Entity>`,
  );
  const fields = views.map(
    ({ name, resource, dto }) =>
      `private readonly ${name}: Resource<${resource.name}Entity, ${dto.name}>;`,
  );
  const constructor =
    views.length === 0
      ? ''
      : `${fields.join('\n  ')}

  constructor(${[...parameters, `kit: ResourceKit`].join(', ')}) {
    super();
    ${views.map((view) => writeView(view)).join('\n    ')}
  }

  `;
  const code = `/** Implements the operations of ${module.source}. */
@Injectable()
export class ${toPascalCase(module.name)}Service extends ${getApiClass(module.name)} {
  ${constructor}${methods.join('\n\n  ')}
}

${[...new Map(views.map((view) => [`${view.resource.name} ${view.dto.name}`, view])).values()].map((view) => writeConverter(view)).join('\n\n')}
${module.operations.some(({ implementation }) => implementation.kind === 'stub') ? writeNotImplemented() : ''}`;
  return addImports(getServicePath(module.name), code, getDeclarations(module));
}

function writeView({ name, resource, dto, envelope }: View): string {
  const renamed = resource.columns.filter((column) => column.name !== column.property);
  const paths = Object.fromEntries(renamed.map((column) => [column.property, column.name]));
  const joins = resource.columns.flatMap(({ property, join }) =>
    join === undefined ? [] : [[property, `${join.name}Entity`] as const],
  );
  const options = object({
    toBody: `to${dto.name}`,
    paths: renamed.length === 0 ? undefined : literal(paths),
    envelope: envelope && writeEnvelope(envelope),
    joins: joins.length === 0 ? undefined : object(Object.fromEntries(joins)),
  });
  return `this.${name} = kit.resource(${toRepositoryName(resource.name)}, ${options});`;
}

/** What the properties beside the rows of a list tell, from what the kit knows of a page. */
const PAGING_VALUES: Readonly<Record<Envelope['paging'][string], string>> = {
  total: 'paging.total',
  count: 'items.length',
  limit: 'paging.limit',
  offset: 'paging.offset',
  page: 'paging.page',
  pages: 'Math.ceil(paging.total / (paging.limit ?? 1))',
  next: 'paging.next && Object.values(paging.next)[0]',
  hasMore: 'paging.next !== undefined',
};

function writeEnvelope({ items, paging }: Envelope): string {
  const others = Object.entries(paging).map(([name, role]) => [name, PAGING_VALUES[role]]);
  const parameters = others.some(([, code]) => code!.includes('paging'))
    ? '(items, paging)'
    : '(items)';
  return `${parameters} => (${object({ [items]: 'items', ...(Object.fromEntries(others) as Record<string, string>) })})`;
}

const toRepositoryName = (resource: string): string =>
  toMemberName(toCamelCase(toPlural(resource)));

/** One view for each way in which an operation shows a resource: as a class, and in which list. */
function getViews({ operations, resources }: Module): View[] {
  return resources.flatMap((resource) => {
    const views = new Map<string, View>();
    for (const { implementation } of operations) {
      if (implementation.kind === 'stub' || implementation.resource !== resource) continue;
      const name = getViewName(operations, resource, implementation);
      const { dto = resource.dto } = implementation;
      const envelope = implementation.kind === 'list' ? implementation.envelope : undefined;
      views.set(name, { resource, dto, envelope, name });
    }
    return [...views.values()];
  });
}

/** The name of the property for a resource: the service may have a method of that name. */
function getBaseName(operations: Module['operations'], { name }: Resource): string {
  const base = toRepositoryName(name);
  return operations.some((operation) => operation.name === base) ? `${base}Resource` : base;
}

function getViewName(
  operations: Module['operations'],
  resource: Resource,
  implementation: Exclude<Implementation, Stub>,
): string {
  const base = getBaseName(operations, resource);
  const { dto = resource.dto } = implementation;
  const shown = dto === resource.dto ? base : `${base}As${dto.name}`;
  return implementation.kind === 'list' && implementation.envelope !== undefined
    ? `${shown}List`
    : shown;
}

function writeMethod(module: Module, views: readonly View[], operation: PlannedOperation): string {
  const { implementation, name } = operation;
  const args = getArguments(operation);
  const returnType = getReturnType(operation);
  if (implementation.kind === 'stub') {
    const signature = writeSignature(args.map((each) => ({ ...each, name: `_${each.name}` })));
    return `/** Not implemented: ${implementation.reason}. */
  ${name}(${signature}): ${returnType} {
    throw notImplemented(${quote(operation.operationId)});
  }`;
  }
  const signature = writeSignature(args);
  const view = views.find(
    (each) => each.name === getViewName(module.operations, implementation.resource, implementation),
  )!;
  const lines = writeBody(operation, implementation, view, args, views);
  const isAsync = lines.some((line) => line.includes('await ') || line.includes('throw '));
  return `${isAsync ? 'async ' : ''}${name}(${signature}): ${isAsync ? toPromise(returnType) : returnType} {
    ${lines.join('\n    ')}
  }`;
}

/** An asynchronous method returns only the promise of the two that its abstract one allows. */
const toPromise = (type: string): string =>
  type.split(' | ').find((each) => each.startsWith('Promise')) ?? type;

function writeBody(
  operation: PlannedOperation,
  implementation: Exclude<Implementation, Stub>,
  { name: view, resource }: View,
  args: readonly Argument[],
  views: readonly View[],
): string[] {
  const find = (role: Argument['role']): string | undefined =>
    args.find((each) => each.role === role)?.name;
  const lines: string[] = [];
  const { parent } = implementation;
  const criteria: Record<string, string> = {};
  if (parent !== undefined) {
    const parameter = args.find(({ published }) => published === parent.parameter)!.name;
    criteria[parent.property] = parameter;
    const owner = views.find((each) => each.resource === parent.resource)!;
    if (implementation.kind === 'list' || implementation.kind === 'create')
      lines.push(`await this.${owner.name}.require({ id: ${parameter} });`);
  }
  if (implementation.kind === 'list') {
    return [...lines, ...writeList(operation, implementation, view, find('query'), criteria)];
  }
  const body = find('body');
  if (implementation.kind === 'create') {
    const row = writeRow(resource, operation, body!, criteria);
    lines.push(
      ...row.lines,
      `${returnsBody(operation) ? 'return' : 'await'} this.${view}.create(${row.code}, ${find('key')});`,
    );
    return lines;
  }
  const { key, kind } = implementation;
  if (key.in === 'path')
    criteria[key.property] = args.find(({ published }) => published === key.name)!.name;
  else {
    const value = access(body!, key.name);
    lines.push(
      `if (${value} === undefined) throw new ApiError('VALIDATION_FAILED', ${quote(`${key.name} is missing.`)});`,
    );
    criteria[key.property] = value;
  }
  const ifMatch = find('ifMatch');
  const selected = object({ ...criteria });
  const where = ifMatch === undefined ? selected : selected.replace(/ \}$/, `, ...${ifMatch} }`);
  const change = body === undefined ? undefined : writeRow(resource, operation, body, {}, kind);
  lines.push(...(change?.lines ?? []));
  const kept = kind === 'replace' && change!.kept.length > 0 ? `<${change!.kept.join(' | ')}>` : '';
  const call = `this.${view}.${kind}${kept}(${[where, change?.code].filter((each) => each !== undefined).join(', ')})`;
  if (returnsBody(operation) && kind === 'replace' && resource.versioned)
    lines.push(`return (await ${call}).body;`);
  else lines.push(`${returnsBody(operation) ? 'return' : 'await'} ${call};`);
  return lines;
}

const returnsBody = ({ success }: PlannedOperation): boolean => success.schema !== undefined;

function writeList(
  operation: PlannedOperation,
  { filters, paging }: ListOperation,
  view: string,
  query: string | undefined,
  criteria: Readonly<Record<string, string>>,
): string[] {
  const filter = object({
    ...criteria,
    ...Object.fromEntries(
      filters.map(({ parameter, column }) => [column.property, access(query!, parameter)]),
    ),
  });
  const filterArgument = filter === '{}' ? [] : [filter];
  const whole = `return this.${view}.list(${filterArgument.join()});`;
  if (paging.limit === undefined) return [whole];
  const limit = access(query!, paging.limit);
  const page = object({
    limit,
    // Without a parameter that selects another page, there is no link to one.
    ...(paging.by === undefined ? { next: 'false' } : { [paging.by]: access(query!, paging.by) }),
  });
  const isOptional = operation.parameters.some(
    ({ name, required, default: value }) =>
      name === paging.limit && !required && value === undefined,
  );
  return [
    ...(isOptional ? [`if (${limit} === undefined) ${whole}`] : []),
    `return this.${view}.page(${[page, ...filterArgument].join(', ')});`,
  ];
}

/** Writes the row that a body becomes: without what the resource does not store, with what the service assigns. */
function writeRow(
  resource: Resource,
  operation: PlannedOperation,
  body: string,
  parent: Readonly<Record<string, string>>,
  kind: 'create' | 'replace' | 'patch' | 'read' | 'delete' = 'create',
): { readonly lines: readonly string[]; readonly code: string; readonly kept: readonly string[] } {
  const request = operation.body!.schema.class!;
  const has = (name: string): boolean => request.properties.some((each) => each.name === name);
  const lines: string[] = [];
  const added: Record<string, string> = { ...parent };
  const { id } = resource;
  const removed: string[] = [];
  for (const column of resource.columns) {
    const value = access(body, column.name);
    if (column.hashed === true && has(column.name))
      added[column.property] = writeHash(column, value);
    else if (column.property !== column.name && has(column.name)) added[column.property] = value;
    if (column.property !== column.name && has(column.name)) removed.push(column.name);
    if (
      column.assigned === 'now on changes' ||
      (column.assigned !== undefined && kind === 'create')
    )
      added[column.property] = writeAssigned(column);
  }
  if (kind === 'create' && id.by === 'client' && id.property !== 'id' && id.property !== undefined)
    added['id'] = access(body, id.property);
  const isSent =
    id.property !== undefined &&
    has(id.property) &&
    !(kind === 'create' && id.by === 'client' && id.property === 'id');
  if (isSent) removed.unshift(id.property);
  const isSpread = Object.keys(added).length > 0;
  const names = removed.map((name) => `${propertyName(name)}: _${toMemberName(name)}`);
  // Not a spread of the body itself, which is an instance of a class.
  const isCopied = names.length > 0 || isSpread;
  if (isCopied) lines.push(`const { ${[...names, '...row'].join(', ')} } = ${body};`);
  const source = isCopied ? 'row' : body;
  const more = object(added);
  const kept = resource.columns
    .filter(({ name, property, nullable }) => !nullable && !has(name) && !(property in added))
    .map(({ property }) => quote(property));
  return { lines, kept, code: more === '{}' ? source : more.replace(/^\{ /, `{ ...${source}, `) };
}

const writeHash = ({ nullable }: Column, value: string): string => {
  const hash = `await hashPassword(${value})`;
  return nullable ? `${value} && (${hash})` : hash;
};

function writeAssigned({ assigned, schema }: Column): string {
  if (assigned === 'default') return literal(schema.default);
  if (assigned?.startsWith('now') === true) return 'new Date().toISOString()';
  if (assigned === 'today') return 'new Date().toISOString().slice(0, 10)';
  return `randomUUID()`;
}

function writeConverter({ resource, dto }: View): string {
  const properties = dto.properties.map(({ name, required, nullable }): [string, string] => {
    if (name === resource.id.property) return [name, 'row.id'];
    const column = resource.columns.find((each) => each.name === name);
    const isHidden = column?.hidden === true && dto === resource.dto;
    if (column === undefined || column.hashed === true || isHidden) return [name, 'undefined'];
    const value = access('row', column.property);
    return [
      name,
      column.nullable && !required && nullable !== true ? `${value} ?? undefined` : value,
    ];
  });
  return `${comment('Converts a row to what clients see.')}
function to${dto.name}(row: ${resource.name}Entity): Complete<${dto.name}> {
  return ${object(Object.fromEntries(properties))};
}`;
}

const writeNotImplemented = (): string => `
function notImplemented(operation: string): ApiError {
  return new ApiError('NOT_IMPLEMENTED', \`\${operation} is not implemented yet.\`);
}`;

export function writeModule(module: Module, timestamps: ReadonlyMap<string, number>): string {
  const name = toPascalCase(module.name);
  const entities = module.resources
    .flatMap((resource) => [resource, ...resource.columns.flatMap(({ join }) => join ?? [])])
    .map((each) => `${each.name}Entity`);
  const migrations = module.resources.map((resource) => {
    const timestamp = timestamps.get(resource.name)!;
    const path = getMigrationPath(module.name, resource, timestamp).replace(/ts$/, 'js');
    return [getMigrationClass(resource, timestamp), path] as const;
  });
  const tags = module.tags.map(literal);
  const code = `@Feature(${object({
    tag: tags.length === 1 ? tags[0] : `[${tags.join(', ')}]`,
    entities: entities.length === 0 ? undefined : `[${entities.join(', ')}]`,
    migrations:
      migrations.length === 0 ? undefined : `[${migrations.map(([each]) => each).join(', ')}]`,
    controllers: `[${name}Controller]`,
    providers: `[{ provide: ${name}Api, useClass: ${name}Service }]`,
  })})
export class ${name}Module {}`;
  const own = { ...getDeclarations(module), ...Object.fromEntries(migrations) };
  return addImports(getModulePath(module.name), code, own);
}
