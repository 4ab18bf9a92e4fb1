/** Writes `<module>.api.gen.ts`: the contract as code, which every run overwrites. */
import type { Body, DtoClass, Module, Parameter, PlannedOperation, Property } from '../model.js';
import { isGiven } from '../model.js';
import { makeUnique, toMemberName, toPascalCase } from '../names.js';
import { isItem } from '../plan/rule.js';
import { toType } from '../types.js';
import {
  access,
  call,
  code,
  comment,
  getClasses,
  ifAny,
  literal,
  propertyName,
  type SourceFile,
  toFile,
  toOptions,
} from './source.js';

export const getFolder = (module: string): string => `src/modules/${module}`;
export const getApiPath = (module: string): string => `${getFolder(module)}/${module}.api.gen.ts`;
export const getApiClass = (module: string): string => `${toPascalCase(module)}Api`;

/** A parameter of the method of an operation. */
export interface Argument {
  readonly role: 'path' | 'query' | 'body' | 'key';
  readonly name: string;
  readonly type: string;
  readonly isOptional?: boolean;
  readonly decorator: string;
  /** The parameter of the path. */
  readonly published?: string;
}

export function writeApi(module: Module): SourceFile {
  const { name, operations, source } = module;
  const queries = operations.flatMap((operation) => toQueryClass(operation) ?? []);
  const classes = sortClasses([...module.classes, ...queries]);
  const path = getApiPath(name);
  const ids = operations.map(({ operationId }) => literal(operationId)).join(' | ');
  const text = [
    ...classes.map((dto, index) => writeClass(dto, classes.slice(index + 1))),
    writeAbstractClass(module),
    `/** The ids by which \`DECORATORS\` adds to the operations. */\nexport type OperationId = ${ids};`,
    writeController(module),
  ].join('\n\n');
  const firstLine = `// Generated from ${source} by \`npm run generate\`. Do not edit: the next run overwrites it.`;
  const own = { DECORATORS: `${getFolder(name)}/${name}.decorators.js` };
  return { path, code: `${firstLine}\n\n${toFile(path, text, own).code}` };
}

/** Writes the file in which the team adds decorators to operations once; then it belongs to the team. */
export function writeDecorators({ name }: Module): SourceFile {
  const text = `/**
 * Decorators of generated operations, by operation id, which no run overwrites: \`Public()\`, \`RequireScope('read')\`,
 * \`Deprecated({ … })\`, \`UseGuards(…)\`.
 */
export const DECORATORS: Partial<Record<OperationId, readonly MethodDecorator[]>> = {};`;
  const path = `${getFolder(name)}/${name}.decorators.ts`;
  return toFile(path, text, { OperationId: `type:${getApiPath(name).replace(/ts$/, 'js')}` });
}

const getQuery = ({ parameters }: PlannedOperation): Parameter[] =>
  parameters.filter((each) => each.in === 'query');

/** Returns the class of the query parameters of an operation, if any are supported. */
function toQueryClass(operation: PlannedOperation): DtoClass | undefined {
  const name = `${toPascalCase(operation.name)}Query`;
  const properties = getQuery(operation)
    .filter(({ unsupported }) => unsupported === undefined)
    .map(({ in: _in, ...property }): Property => property);
  return properties.length === 0
    ? undefined
    : { name, publishedName: name, properties, unusable: [] };
}

/** Sorts classes by dependency; classes that contain one another keep any order. */
function sortClasses(classes: readonly DtoClass[]): DtoClass[] {
  const sorted = new Set<DtoClass>();
  const visited = new Set<DtoClass>();
  const visit = (dto: DtoClass): void => {
    if (visited.has(dto)) return;
    visited.add(dto);
    dto.properties.flatMap(getClasses).forEach(visit);
    if (classes.includes(dto)) sorted.add(dto);
  };
  classes.forEach(visit);
  return [...sorted];
}

function writeClass(dto: DtoClass, later: readonly DtoClass[]): string {
  const { name, publishedName, description } = dto;
  const properties = dto.properties.map((property) => {
    const type = toType(property);
    // Decorator metadata would refer to a class before its declaration.
    const isLater =
      getClasses(property).some((each) => each === dto || later.includes(each)) &&
      property.type !== 'array';
    const mark = isGiven(property) ? '!' : '?';
    return `${call('@Property', toOptions(property))}
  ${propertyName(property.name)}${mark}: ${isLater ? `Readonly<${type}>` : type};`;
  });
  const options = ifAny({ name: publishedName === name ? undefined : publishedName, description });
  return `${options === undefined ? '' : `${call('@ApiSchema', options)}\n`}export class ${name} {
  ${properties.join('\n\n  ')}
}`;
}

function writeAbstractClass({ name, operations }: Module): string {
  const methods = operations.map((operation) => {
    const { summary, operationId } = operation;
    const [sentence] = (summary ?? operationId).trim().split(/(?<=[.!?])\s|\n/);
    const signature = writeSignature(getArguments(operation));
    return `${comment(sentence!.slice(0, 200))}\n  abstract ${operation.name}(${signature}): ${getReturnType(operation)};`;
  });
  return `/** What ${toPascalCase(name)}Service implements: a method for each operation. */
export abstract class ${getApiClass(name)} {
  ${methods.join('\n\n  ')}
}`;
}

const writeParameter = ({ name, type, isOptional }: Argument): string =>
  `${name}${isOptional === true ? '?' : ''}: ${type}`;

/** @param prefix of names: `_` if they are not used */
export const writeSignature = (args: readonly Argument[], prefix = ''): string =>
  args.map((each) => `${prefix}${writeParameter(each)}`).join(', ');

/** Returns the parameters of the method of an operation, optional ones last. */
export function getArguments(operation: PlannedOperation): Argument[] {
  const { parameters, body, implementation } = operation;
  const query = toQueryClass(operation);
  // Completed stubs that create rows pass the key on.
  const hasKey = operation.method === 'post' && !operation.isPublic;
  const isBytes = body !== undefined && body.contentTypes.length > 0;
  const args: Argument[] = parameters
    .filter((each) => each.in === 'path')
    .map((each) => toPathArgument(operation, each));
  if (query !== undefined)
    args.push({ role: 'query', name: 'query', type: query.name, decorator: '@Query()' });
  if (body !== undefined)
    args.push({
      role: 'body',
      name: body.schema.class === undefined ? 'body' : toMemberName(body.schema.class.name),
      type: isBytes ? 'Buffer' : toType(body.schema),
      decorator: writeBodyDecorator(body, operation.method === 'patch'),
      isOptional: !body.required && implementation.kind === 'stub' && !isBytes,
    });
  if (hasKey) {
    const type = 'IdempotencyKey';
    args.push({ role: 'key', name: 'key', type, decorator: `@${type}()`, isOptional: true });
  }
  const used = new Set<string>();
  return args
    .map((each) => Object.assign({}, each, { name: makeUnique(each.name, used) }))
    .toSorted((a, b) => Number(a.isOptional ?? false) - Number(b.isOptional ?? false));
}

function writeBodyDecorator(body: Body, isPatch: boolean): string {
  const { schema, description, contentTypes } = body;
  if (contentTypes.length > 0)
    return call('@BinaryBody', { limit: code('1_000_000'), contentTypes });
  const options = ifAny({
    description,
    required: body.required ? undefined : false,
    mergePatch: isPatch ? true : undefined,
  });
  const isPlain =
    schema.class !== undefined && schema.nullable === undefined && options === undefined;
  return isPlain ? '@Body()' : call('@JsonBody', toOptions(schema), options);
}

function toPathArgument(operation: PlannedOperation, parameter: Parameter): Argument {
  const {
    name,
    description,
    in: _in,
    required: _required,
    default: _default,
    ...schema
  } = parameter;
  const { implementation } = operation;
  const resource = 'resource' in implementation ? implementation.resource : undefined;
  const owner = resource?.owners.find((each) => each.parameter === name)?.resource;
  const isKey =
    'key' in implementation && implementation.kind !== 'create' && implementation.key === name;
  const kind =
    (isKey ? resource : owner)?.id.kind ?? (schema.type === 'integer' ? 'integer' : 'text');
  return {
    role: 'path',
    name: toMemberName(name),
    type: kind === 'integer' ? 'number' : 'string',
    decorator: call('@IdParam', name, {
      type: kind === 'integer' ? undefined : kind,
      description,
      schema: toOptions(schema),
    }),
    published: name,
  };
}

/** Returns the return type of the method of an operation. */
export function getReturnType({ success, implementation }: PlannedOperation): string {
  if (implementation.kind === 'list') return 'Promise<CachedJsonResponse>';
  if (success.contentTypes !== undefined) return 'Promise<StreamableFile>';
  return success.schema === undefined ? 'Promise<void>' : `Promise<${toType(success.schema)}>`;
}

function writeController({ name: module, operations }: Module): string {
  const methods = sortRoutes(operations).map((operation) => {
    const { method, path, name, isPublic, operationId } = operation;
    const args = getArguments(operation);
    const parameters = args.map((each) => `${each.decorator} ${writeParameter(each)}`);
    return [
      call(`@${toPascalCase(method)}`, toExpressPath(path)),
      ...(isPublic ? ['@Public()'] : []),
      call('@applyDecorators', code(`...(${access(code('DECORATORS'), operationId).text} ?? [])`)),
      call('@Operation', toDocs(operation)),
      `${name}(${parameters.join(', ')}): ${getReturnType(operation)} {
        return this.api.${name}(${args.map((each) => each.name).join(', ')});
      }`,
    ].join('\n  ');
  });
  return `@Controller()
export class ${toPascalCase(module)}Controller {
  constructor(private readonly api: ${getApiClass(module)}) {}

  ${methods.join('\n\n  ')}
}`;
}

/** Returns the Express path of `/pets/{petId}`: `pets/:petId`. A trailing slash is doubled, because Nest removes one. */
const toExpressPath = (path: string): string =>
  path
    .replace(/\/$/, '//')
    .replace(/^\//, '')
    .replaceAll(/\{(\w+)\}/g, ':$1');

/** Sorts routes, fixed segments before parameters, because Express uses the first match. */
const sortRoutes = (operations: readonly PlannedOperation[]): PlannedOperation[] =>
  operations.toSorted((a, b) => {
    const [left, right] = [a.path.split('/'), b.path.split('/')];
    const index = left.findIndex(
      (segment, i) => segment.startsWith('{') !== (right[i] ?? segment).startsWith('{'),
    );
    return index === -1 ? 0 : left[index]!.startsWith('{') ? 1 : -1;
  });

/** Returns the options of `@Operation`. */
function toDocs(operation: PlannedOperation): object {
  const { operationId, summary, description, deprecated, success, implementation, errors, tags } =
    operation;
  const isStub = implementation.kind === 'stub' && operation.isCompleted !== true;
  const text = [description, isStub ? 'Not implemented yet: returns 501.' : undefined].filter(
    (each) => each !== undefined,
  );
  const list = 'paging' in implementation && implementation.paging ? 'pages' : 'whole';
  const unsupported = getQuery(operation).filter((each) => each.unsupported !== undefined);
  return {
    operationId,
    tags,
    summary,
    description: text.length === 0 ? undefined : text.join('\n\n'),
    deprecated: deprecated ? true : undefined,
    status: success.status === 200 ? undefined : success.status,
    returns: success.schema && toOptions(success.schema),
    contentTypes: success.contentTypes,
    response: success.description,
    list: implementation.kind === 'list' ? list : undefined,
    location: toLocation(operation),
    notImplemented: isStub ? true : undefined,
    unsupportedQuery: ifAny(
      Object.fromEntries(
        unsupported.map(({ name, description: purpose }) => [name, { description: purpose }]),
      ),
    ),
    errors: ifAny(errors),
  };
}

/** Returns the template of the created resource's URL, relative to that of the request. */
function toLocation({ implementation, path, success }: PlannedOperation): string | undefined {
  if (implementation.kind !== 'create' || success.schema === undefined) return undefined;
  const { resource, wrapper } = implementation;
  const id = resource.id.property;
  const isReachable = isItem(resource.shownBy);
  if (!isReachable || id === undefined || !/^\w+$/.test(id + (wrapper ?? ''))) return undefined;
  const own = `{${wrapper === undefined ? '' : `${wrapper}.`}${id}}`;
  const relative = `${own}${resource.shownBy.endsWith('/') ? '/' : ''}`;
  return path.endsWith('/') ? relative : `${path.split('/').at(-1)}/${relative}`;
}
