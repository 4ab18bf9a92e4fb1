/** Writes the service and the module file once; then they belong to the team. */
import type {
  Envelope,
  ImplementedOperation,
  Module,
  Order,
  Owner,
  PagingRole,
  PlannedOperation,
  Resource,
  Wrapped,
} from '../model.js';
import { isGiven } from '../model.js';
import { makeUnique, toKebabCase, toMemberName, toPascalCase } from '../names.js';
import { getStored } from '../plan/columns.js';
import { toType } from '../types.js';
import { getApiClass, getArguments, getFolder, getReturnType, writeSignature } from './api-file.js';
import {
  getDeclarations,
  getEntityType,
  getMigrationClass,
  getMigrationPath,
} from './entity-file.js';
import {
  access,
  call,
  code,
  type Code,
  comment,
  ifAny,
  literal,
  propertyName,
  type SourceFile,
  spread,
  toFile,
} from './source.js';

type ItemOperation = Exclude<ImplementedOperation, { kind: 'list' }>;
type ListOperation = Extract<ImplementedOperation, { kind: 'list' }>;

/** @param only the resource that a changed contract added, whose service is a file of its own */
export function writeService(module: Module, only?: Resource): SourceFile {
  const { name: moduleName, source } = module;
  const isOwn = ({ implementation: each }: PlannedOperation): boolean =>
    only === undefined || (each.kind !== 'stub' && each.resource === only);
  const operations = module.operations.filter(isOwn);
  const resources = module.resources.filter(
    (each) =>
      only === undefined || each === only || only.owners.some(({ resource }) => resource === each),
  );
  const views = [
    ...resources.map((resource) => ({
      resource,
      name: resource.members.rows,
      envelope: undefined,
    })),
    ...operations.flatMap(({ implementation: each }) =>
      each.kind === 'list' && each.envelope !== undefined
        ? [{ resource: each.resource, name: each.resource.members.list, envelope: each.envelope }]
        : [],
    ),
  ];
  const fields = views.map(
    ({ name, resource }) =>
      `private readonly ${name}: Resource<${resource.name}Entity, ${resource.dto.name}>;`,
  );
  const parameters = resources.map(
    (each) =>
      `@InjectRepository(${each.name}Entity) ${each.members.rows}: Repository<${each.name}Entity>`,
  );
  const constructor = `${fields.join('\n  ')}

  constructor(${[...parameters, 'kit: ResourceKit'].join(', ')}) {
    ${only === undefined ? 'super();' : ''}
    ${views.map((each) => `this.${each.name} = ${call('kit.resource', code(each.resource.members.rows), toViewOptions(each.resource, each.envelope))};`).join('\n    ')}
  }

  `;
  const methods = operations.map((operation) => writeMethod(operation));
  const hasStubs = operations.some(({ implementation }) => implementation.kind === 'stub');
  const text = `${comment(`Implements the operations of ${source}.`)}
@Injectable()
export class ${toPascalCase(only?.table ?? moduleName)}Service ${only === undefined ? `extends ${getApiClass(moduleName)} ` : ''}{
  ${views.length === 0 ? '' : constructor}${methods.join('\n\n  ')}
}

${resources.map(writeConverter).join('\n\n')}
${hasStubs ? NOT_IMPLEMENTED : ''}`;
  const file = only === undefined ? moduleName : `${moduleName}-${toKebabCase(only.table)}`;
  return toFile(`${getFolder(moduleName)}/${file}.service.ts`, text, getDeclarations(module));
}

function toViewOptions(resource: Resource, envelope: Envelope | undefined): object {
  const { columns, owners } = resource;
  const renamed = columns.filter(({ name, property }) => name !== undefined && name !== property);
  return {
    toBody: code(getConverter(resource)),
    paths: ifAny(Object.fromEntries(renamed.map(({ property, name }) => [property, name]))),
    parent: owners.at(-1)?.property,
    envelope:
      envelope &&
      code(
        `(items${JSON.stringify(envelope.paging) === '{}' ? '' : ', paging'}) => (${literal({ [envelope.items]: code('items'), ...toPagingValues(envelope.nullable, envelope.paging) })})`,
      ),
  };
}

const NEXT = 'Object.values(paging.next)[0]';
/** The values of the paging properties of an envelope. */
const PAGING_VALUES: Readonly<Record<PagingRole, string>> = {
  total: 'paging.total',
  limit: 'paging.limit',
  offset: 'paging.offset',
  page: 'paging.page',
  pages: 'Math.ceil(paging.total / (paging.limit ?? 1))',
  next: `paging.next && ${NEXT}`,
  hasMore: 'paging.hasMore === true',
};

const toPagingValues = (nullable: Envelope['nullable'], paging: Envelope['paging']): object =>
  Object.fromEntries(
    Object.entries(paging).map(([name, role]) => {
      if (typeof role !== 'string') return [name, toPagingValues(nullable, role)];
      const isNull = role === 'next' && nullable.has(name);
      return [name, code(isNull ? `paging.next ? ${NEXT} : null` : PAGING_VALUES[role])];
    }),
  );

const getConverter = ({ name }: Resource): string => `to${name}`;

function writeMethod(operation: PlannedOperation): string {
  const { implementation, name, operationId } = operation;
  const args = getArguments(operation);
  const returnType = getReturnType(operation);
  if (implementation.kind === 'stub')
    return `${comment(`Not implemented: ${implementation.reason}.`)}
  ${name}(${writeSignature(args, '_')}): ${returnType} {
    throw ${call('notImplemented', operationId)};
  }`;
  const lines = writeStatements(operation, implementation);
  const isAsync = lines.some((line) => line.includes('await '));
  const isUsed = (each: string): boolean =>
    lines.some((line) => new RegExp(`\\b${each}\\b`).test(line));
  const named = args.map((each) =>
    isUsed(each.name) ? each : Object.assign({}, each, { name: `_${each.name}` }),
  );
  return `${isAsync ? 'async ' : ''}${name}(${writeSignature(named)}): ${returnType} {
    ${lines.join('\n    ')}
  }`;
}

function writeStatements(
  operation: PlannedOperation,
  implementation: ImplementedOperation,
): string[] {
  const { resource, kind, refused } = implementation;
  const args = getArguments(operation);
  const find = (role: 'path' | 'query' | 'body' | 'key', published?: string): Code =>
    code(args.find((each) => each.role === role && each.published === published)!.name);
  const texts = operation.parameters
    .filter((each) => refused.includes(each.name) && each.unsupported === undefined)
    .map((each) => each.name);
  const lines = texts.length === 0 ? [] : [`${call('refuseQuery', find('query'), ...texts)};`];
  const toCriteria = (owners: readonly Owner[]): Record<string, Code> =>
    Object.fromEntries(
      owners.map(({ property, parameter }) => [property, find('path', parameter)]),
    );
  const criteria = toCriteria(resource.owners);
  const parent = resource.owners.at(-1);
  let rule: Code | undefined;
  // The foreign key does not check the parents of the parent.
  if (
    parent !== undefined &&
    (kind === 'list' || (kind === 'create' && parent.resource.owners.length > 0))
  ) {
    const where = { id: find('path', parent.parameter), ...toParentCriteria(resource, find) };
    const getRow = `this.${parent.resource.members.rows}.getRow`;
    if (kind === 'list') lines.push(`await ${call(getRow, where)};`);
    else rule = code(`(manager) => ${call(getRow, where, code('manager'))}`);
  }
  if (kind === 'list') return [...lines, ...writeList(implementation, criteria, find)];
  const method = `this.${resource.members.rows}.${kind}`;
  const sent = implementation.sent;
  const body =
    sent && (sent.property === undefined ? find('body') : access(find('body'), sent.property));
  if (kind === 'create') {
    const row = toRow(resource, sent!, body!, kind, criteria);
    const key = operation.isPublic ? rule && code('undefined') : find('key');
    const created = call(method, row.code, key, rule);
    return [...lines, ...row.lines, ...writeReturn(implementation, created)];
  }
  const where = { id: find('path', implementation.key), ...criteria };
  if (sent === undefined) return [...lines, ...writeReturn(implementation, call(method, where))];
  const row = toRow(resource, sent, body!, kind === 'replace' ? kind : 'patch');
  const kept = kind === 'replace' ? ifAny(getKept(resource, sent)) : undefined;
  return [
    ...lines,
    ...row.lines,
    ...writeReturn(implementation, call(method, where, row.code, kept)),
  ];
}

/** Returns the criteria that select a parent below its own parents. */
function toParentCriteria(
  { owners }: Resource,
  find: (role: 'path', published: string) => Code,
): Record<string, Code> {
  const parent = owners.at(-1)!.resource;
  return Object.fromEntries(
    parent.owners.map(({ property }, index) => [property, find('path', owners[index]!.parameter)]),
  );
}

/** Writes the statements that return the object, its id, or nothing. */
function writeReturn({ returns, wrapper, resource }: ItemOperation, result: string): string[] {
  if (returns === 'nothing') return [`await ${result};`];
  if (returns === 'object' && wrapper === undefined) return [`return ${result};`];
  const id = resource.id.property!;
  const isId = returns === 'id';
  const lines = isId ? [`const result = await ${result};`] : [];
  const content = isId
    ? code(literal({ [id]: access(code('result'), id) }))
    : code(`await ${result}`);
  return [
    ...lines,
    `return ${wrapper === undefined ? content.text : literal({ [wrapper]: content })};`,
  ];
}

function writeList(
  { resource, filters, paging, order, envelope }: ListOperation,
  above: Readonly<Record<string, Code>>,
  find: (role: 'query') => Code,
): string[] {
  const member = envelope === undefined ? resource.members.rows : resource.members.list;
  const selected = filters.map(({ parameter, column }): [string, Code] => [
    column.property,
    access(find('query'), parameter),
  ]);
  const criteria = ifAny({ ...above, ...Object.fromEntries(selected) });
  if (paging === undefined) return [`return ${call(`this.${member}.list`, criteria)};`];
  const query = find('query');
  const value = access(query, paging.parameter);
  const page = {
    limit: access(query, paging.limit),
    [paging.by]: paging.isText
      ? code(`${value.text} === undefined ? undefined : Number(${value.text})`)
      : value,
    firstPage: paging.by === 'page' && paging.firstPage === 0 ? 0 : undefined,
    next: paging.parameter === paging.by ? undefined : paging.parameter,
    ...(order && { order: toOrder(order, query) }),
  };
  return [`return ${call(`this.${member}.page`, page, criteria)};`];
}

/** Writes the column and the direction of sorting, which is by id by default. */
function toOrder({ parameter, columns, direction, descending }: Order, query: Code): object {
  const value = access(query, parameter).text;
  return {
    by: code(`${value} === undefined ? 'id' : (${literal(columns)} as const)[${value}]`),
    isDescending:
      direction === undefined || descending === undefined
        ? undefined
        : code(`${access(query, direction).text} === ${literal(descending)}`),
  };
}

/** Writes the conversion of a body to a row: without ignored properties, with the values that the service assigns. */
function toRow(
  resource: Resource,
  sent: Wrapped,
  body: Code,
  kind: 'create' | 'replace' | 'patch',
  above: Readonly<Record<string, Code>> = {},
): { lines: string[]; code: Code } {
  const { id, columns } = resource;
  const stored = getStored(resource, sent);
  const find = (name: string | undefined) => stored.find((each) => each.name === name);
  const added: Record<string, Code> = { ...above };
  const removed = new Set(
    sent.dto.properties.filter((each) => !stored.includes(each)).map(({ name }) => name),
  );
  if (kind === 'create' && id.byClient) {
    if (id.property === 'id') removed.delete('id');
    else added['id'] = access(body, id.property!);
  }
  for (const column of columns.filter(({ filling }) => filling !== 'owner')) {
    const { name, property, filling, schema, nullable } = column;
    const own = find(name);
    const needsDefault =
      kind !== 'patch' &&
      filling === 'default' &&
      own !== undefined &&
      (!isGiven(own) || (own.nullable === true && !nullable));
    if (own !== undefined && (property !== name || needsDefault)) {
      removed.add(own.name);
      const value = access(body, own.name);
      const orDefault = nullable
        ? `${value.text} === undefined ? ${literal(schema.default)} : ${value.text}`
        : `${value.text} ?? ${literal(schema.default)}`;
      added[property] = needsDefault ? code(orDefault) : value;
    } else if (own === undefined && filling !== undefined) {
      const isTime = filling !== 'default' && (kind === 'create' || filling === 'now on changes');
      if (isTime) added[property] = code('new Date().toISOString()');
      else if (filling === 'default' && kind === 'create')
        added[property] = code(literal(schema.default));
    }
  }
  if (removed.size === 0 && ifAny(added) === undefined) return { lines: [], code: body };
  const variables = new Set(['row', ...Object.keys(added)]);
  const unused = [...removed].map(
    (name) => `${propertyName(name)}: ${makeUnique(`_${toMemberName(name)}`, variables)}, `,
  );
  return {
    // The linter rejects the spread of a class instance, which the body is.
    lines: [`const { ${unused.join('')}...row } = ${body.text};`],
    code: code(ifAny(added) === undefined ? 'row' : literal({ ...spread(code('row')), ...added })),
  };
}

/** Returns the properties that `PUT` keeps: the body cannot contain them, or may omit them although they are never null. */
const getKept = (resource: Resource, sent: Wrapped): string[] => {
  const stored = getStored(resource, sent);
  return resource.columns
    .filter(({ name, nullable, filling }) => {
      const own = stored.find((each) => each.name === name);
      return (
        (own === undefined || (!nullable && !isGiven(own) && filling !== 'default')) &&
        (filling !== 'now on changes' || own !== undefined)
      );
    })
    .map(({ property }) => property);
};

function writeConverter(resource: Resource): string {
  const { name: resourceName, dto, id, columns } = resource;
  const body = dto.properties.map((property) => {
    const { name, type, required, nullable } = property;
    if (name === id.property)
      return [name, code(type === 'string' && id.kind === 'integer' ? 'String(row.id)' : 'row.id')];
    const column = columns.find((each) => each.name === name);
    if (column === undefined)
      return [
        name,
        code(nullable === true ? 'null' : required ? 'undefined as never' : 'undefined'),
      ];
    const value = access(code('row'), column.property);
    const text = column.nullable && nullable !== true ? `${value.text} ?? undefined` : value.text;
    // Without required properties, any value but null is assignable, and the linter rejects a cast.
    const isAssignable =
      text !== value.text && (property.class?.properties.every((each) => !isGiven(each)) ?? false);
    const isOther =
      column.isMixed &&
      !isAssignable &&
      getEntityType({ ...column, nullable: false }) !== toType({ ...property, nullable: false });
    return [name, code(isOther ? `(${text}) as ${dto.name}[${literal(name)}]` : text)];
  });
  return `/** Converts a row to what clients see. */
function ${getConverter(resource)}(row: ${resourceName}Entity): Complete<${dto.name}> {
  return ${literal(Object.fromEntries(body))};
}`;
}

const NOT_IMPLEMENTED = `
function notImplemented(operation: string): ApiError {
  return new ApiError('NOT_IMPLEMENTED', \`\${operation} is not implemented yet.\`);
}`;

/** @param timestamps those of the migrations */
export function writeModule(module: Module, timestamps: ReadonlyMap<Resource, number>): SourceFile {
  const { resources, name: moduleName, tags } = module;
  const name = toPascalCase(moduleName);
  const migrations = [...timestamps].map(([resource, timestamp]) => ({
    name: getMigrationClass(resource, timestamp),
    path: getMigrationPath(moduleName, resource, timestamp).replace(/ts$/, 'js'),
  }));
  const options = {
    tag: tags.length === 1 ? tags[0] : tags,
    entities: ifAny(resources.map((each) => code(`${each.name}Entity`))),
    migrations: ifAny(migrations.map((each) => code(each.name))),
    controllers: [code(`${name}Controller`)],
    providers: [{ provide: code(`${name}Api`), useClass: code(`${name}Service`) }],
  };
  const text = `${call('@Feature', options)}\nexport class ${name}Module {}`;
  return toFile(`${getFolder(moduleName)}/${moduleName}.module.ts`, text, {
    ...getDeclarations(module),
    ...Object.fromEntries(migrations.map((each) => [each.name, each.path])),
  });
}
