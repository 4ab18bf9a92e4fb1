/** Writes `<module>.api.gen.ts`: the contract as code, which every run overwrites. */
import type {
  Body,
  DtoClass,
  Implementation,
  Module,
  Parameter,
  PlannedOperation,
  ResourceId,
  Schema,
} from '../model.js';
import { isGiven } from '../model.js';
import { makeUnique, toMemberName, toPascalCase } from '../names.js';
import { addImports, type SourceFile, toFile } from './imports.js';
import {
  access,
  call,
  code,
  comment,
  getClasses,
  ifAny,
  literal,
  propertyName,
  sortClasses,
  toOptions,
  toType,
} from './source.js';

export const getApiClass = (module: string): string => `${toPascalCase(module)}Api`;

/** A parameter of the method of an operation. */
export interface Argument {
  readonly name: string;
  readonly type: string;
  readonly isOptional?: boolean;
  /** The code of its decorator. */
  readonly decorator: string;
  readonly role: 'path' | 'query' | 'body' | 'key' | 'ifMatch';
  /** The parameter of the path. */
  readonly published?: string;
}

export function writeApi(module: Module): SourceFile {
  const queries = module.operations.flatMap((operation) => toQueryClass(operation) ?? []);
  const classes = sortClasses([...module.classes, ...queries]);
  const path = `src/modules/${module.name}/${module.name}.api.gen.ts`;
  const text = [
    ...classes.map((dto, index) => writeClass(dto, classes.slice(index + 1))),
    writeAbstractClass(module),
    `/** The ids by which \`DECORATORS\` adds to the operations. */
export type OperationId = ${module.operations.map(({ operationId }) => literal(operationId)).join(' | ')};`,
    writeController(module),
  ].join('\n\n');
  const firstLine = `// Generated from ${module.source} by \`npm run generate\`. Do not edit: the next run overwrites it.`;
  const own = { DECORATORS: getDecoratorsPath(module.name).replace(/ts$/, 'js') };
  return { path, code: `${firstLine}\n\n${addImports(path, text, own)}` };
}

const getDecoratorsPath = (module: string): string =>
  `src/modules/${module}/${module}.decorators.ts`;

/** Writes the table of what a team adds to the generated operations: once, then it belongs to the team. */
export function writeDecorators({ name }: Module): SourceFile {
  const text = `/**
 * Decorators of generated operations, by operation id, which no run overwrites: \`Public()\`, \`RequireScope('read')\`,
 * \`Deprecated({ … })\`, \`UseGuards(…)\`.
 */
export const DECORATORS: Partial<Record<OperationId, readonly MethodDecorator[]>> = {};`;
  const path = getDecoratorsPath(name);
  return toFile(path, text, { OperationId: `type src/modules/${name}/${name}.api.gen.js` });
}

/** The class of the query parameters of an operation, if it has any. */
function toQueryClass(operation: PlannedOperation): DtoClass | undefined {
  const properties = operation.parameters
    .filter((each) => each.in === 'query')
    .map(({ in: _in, ...property }) => property);
  const name = `${toPascalCase(operation.name)}Query`;
  return properties.length === 0
    ? undefined
    : { name, publishedName: name, description: undefined, properties };
}

function writeClass(dto: DtoClass, later: readonly DtoClass[]): string {
  const { name, publishedName, description } = dto;
  const properties = dto.properties.map((property) => {
    const type = toType(property);
    // The metadata of a property would refer to a class that does not exist yet.
    const isLater =
      getClasses(property).some((each) => later.includes(each)) && property.type !== 'array';
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
    const { summary, description, operationId } = operation;
    const text = getFirstSentence(summary ?? description ?? operationId);
    const signature = writeSignature(getArguments(operation));
    return `${comment(text)}\n  abstract ${operation.name}(${signature}): ${getReturnType(operation)};`;
  });
  return `/** What ${toPascalCase(name)}Service implements: a method for each operation. */
export abstract class ${getApiClass(name)} {
  ${methods.join('\n\n  ')}
}`;
}

const getFirstSentence = (text: string): string =>
  text
    .trim()
    .split(/(?<=[.!?])\s|\n/)[0]!
    .slice(0, 200);

const writeParameter = ({ name, type, isOptional }: Argument): string =>
  `${name}${isOptional === true ? '?' : ''}: ${type}`;

/** @param prefix of names: `_` if they are not used */
export const writeSignature = (args: readonly Argument[], prefix = ''): string =>
  args.map((each) => `${prefix}${writeParameter(each)}`).join(', ');

/** The parameters of the method of an operation; what a request may lack comes last. */
export function getArguments(operation: PlannedOperation): Argument[] {
  const { parameters, body, implementation, ifMatch } = operation;
  const path = parameters.filter((each) => each.in === 'path');
  const query = toQueryClass(operation);
  const options = ifMatch === 'required' ? { required: true } : undefined;
  const args: readonly (Argument | undefined)[] = [
    ...path.map((parameter) => toPathArgument(operation, parameter)),
    query && { role: 'query', name: 'query', type: query.name, decorator: '@Query()' },
    ifMatch && {
      role: 'ifMatch',
      name: 'ifMatch',
      type: 'VersionCriteria',
      decorator: call('@IfMatch', options),
    },
    body && {
      role: 'body',
      name: body.schema.class === undefined ? 'body' : toMemberName(body.schema.class.name),
      type: toType(body.schema),
      decorator: writeBodyDecorator(body, implementation.kind === 'replace'),
      isOptional: !body.required,
    },
    implementation.kind === 'create' && !operation.isPublic
      ? {
          role: 'key',
          name: 'key',
          type: 'IdempotencyKey',
          decorator: '@IdempotencyKey()',
          isOptional: true,
        }
      : undefined,
  ];
  const used = new Set<string>();
  return args
    .flatMap((each) => each ?? [])
    .map((each) => Object.assign(each, { name: makeUnique(each.name, used) }))
    .toSorted((a, b) => Number(a.isOptional ?? false) - Number(b.isOptional ?? false));
}

/** @param isReplacement whether the body may repeat read-only properties */
function writeBodyDecorator(
  { schema, description, isMergePatch, isForm, required }: Body,
  isReplacement: boolean,
): string {
  if (schema.binary !== undefined)
    return call('@BinaryBody', { limit: code('1_000_000'), contentTypes: schema.binary });
  const options = ifAny({
    description,
    required: required ? undefined : false,
    mergePatch: isMergePatch && !isForm ? true : undefined,
    repeatsReadOnly:
      isReplacement && schema.class?.properties.some(({ readOnly }) => readOnly === true)
        ? true
        : undefined,
  });
  const { example: _example, ...own } = schema;
  if (isForm) return call('@FormBody', toOptions(own), options);
  const isPlain = own.class !== undefined && own.nullable === undefined && options === undefined;
  return isPlain ? '@Body()' : call('@JsonBody', toOptions(own), options);
}

function toPathArgument(operation: PlannedOperation, parameter: Parameter): Argument {
  const { name, description, example, in: _in, required: _required, ...schema } = parameter;
  const kind = getIdKind(operation, parameter);
  return {
    role: 'path',
    name: toMemberName(name),
    type: kind === 'integer' ? 'number' : 'string',
    decorator: call('@IdParam', name, {
      type: kind === 'integer' ? undefined : kind,
      description,
      schema: toOptions({ ...schema, ...(example !== undefined && { example }) }),
    }),
    published: name,
  };
}

/** What the text of a parameter of the path becomes: the id of a resource, or what its schema says. */
function getIdKind(
  { implementation }: PlannedOperation,
  { name, type }: Parameter,
): ResourceId['kind'] {
  const owners = implementation.kind === 'stub' ? [] : implementation.owners;
  const owner = owners.find(({ parameter }) => parameter === name);
  if (owner !== undefined) return owner.kind;
  if (
    'key' in implementation &&
    implementation.key.name === name &&
    implementation.key.property === 'id'
  )
    return implementation.resource.id.kind;
  return type === 'integer' ? 'integer' : 'text';
}

/** The type of what the method of an operation returns. */
export function getReturnType({ success, implementation }: PlannedOperation): string {
  if (implementation.kind === 'list') return `Promise<CachedJsonResponse>`;
  const { schema } = success;
  if (schema === undefined) return 'Promise<void>';
  if (schema.binary !== undefined) return `Promise<StreamableFile>`;
  const type = toType(schema);
  return returnsVersion(implementation) ? `Promise<Versioned<${type}>>` : `Promise<${type}>`;
}

/** Whether a response has an ETag. That of a PUT does not: the row is not exactly what was sent (RFC 9110, section 9.3.4). */
export const returnsVersion = (implementation: Implementation): boolean =>
  ['create', 'read', 'patch'].includes(implementation.kind) &&
  'resource' in implementation &&
  implementation.resource.versioned;

function writeController({ name: module, operations, prefix }: Module): string {
  const methods = sortRoutes(operations).map((operation) => {
    const { method, path, name, isPublic, success, implementation, operationId } = operation;
    const args = getArguments(operation);
    const parameters = args.map((each) => `${each.decorator} ${writeParameter(each)}`);
    const hasEtag = success.schema !== undefined && returnsVersion(implementation);
    return [
      call(`@${toPascalCase(method)}`, toRoute(path)),
      ...(isPublic ? ['@Public()'] : []),
      call('@applyDecorators', code(`...(${access(code('DECORATORS'), operationId).text} ?? [])`)),
      ...(hasEtag ? ['@ReturnsEtag()'] : []),
      call('@Operation', toDocs(operation)),
      `${name}(${parameters.join(', ')}): ${getReturnType(operation)} {
        return this.api.${name}(${args.map((each) => each.name).join(', ')});
      }`,
    ].join('\n  ');
  });
  // Another version than the default one, and not a number.
  const options = prefix === '' ? '' : '{ version: VERSION_NEUTRAL }';
  return `@Controller(${options})
export class ${toPascalCase(module)}Controller {
  constructor(private readonly api: ${getApiClass(module)}) {}

  ${methods.join('\n\n  ')}
}`;
}

/** The path of a route in Express: `/pets/{petId}` is `pets/:petId`. Nest removes one slash at the end, and only one. */
export const toRoute = (path: string): string =>
  path
    .replace(/\/$/, '//')
    .replace(/^\/(?!\/)/, '')
    .replaceAll(/[()[\]?+!*:]/g, '\\$&')
    .replaceAll(/\{([^}]+)\}(?=(\w?))/g, (_match, name: string, next: string) =>
      /^\w+$/.test(name) && next === '' ? `:${name}` : `:${JSON.stringify(name)}`,
    );

/** Routes in the order in which they are tried: a fixed segment before a parameter. */
const sortRoutes = (operations: readonly PlannedOperation[]): PlannedOperation[] =>
  operations.toSorted((a, b) => {
    const [left, right] = [a.path.split('/'), b.path.split('/')];
    const index = left.findIndex(
      (segment, i) => segment.startsWith('{') !== (right[i] ?? segment).startsWith('{'),
    );
    return index === -1 ? 0 : left[index]!.startsWith('{') ? 1 : -1;
  });

/** The options of `@Operation`. */
function toDocs(operation: PlannedOperation): object {
  const { operationId, summary, description, deprecated, success, implementation, errors, tags } =
    operation;
  const isStub = implementation.kind === 'stub';
  const text = [description, isStub ? 'Not implemented yet: returns 501.' : undefined];
  return {
    operationId,
    tags: ifAny(tags),
    summary,
    description: ifAny(text) && text.filter((each) => each !== undefined).join('\n\n'),
    deprecated: deprecated ? true : undefined,
    status: success.status === 200 ? undefined : success.status,
    returns: toReturns(success.schema),
    contentTypes: success.schema?.binary,
    response: success.description,
    list:
      implementation.kind === 'list'
        ? implementation.paging.by === undefined
          ? 'whole'
          : 'pages'
        : undefined,
    location: 'location' in implementation ? implementation.location : undefined,
    notImplemented: isStub ? true : undefined,
    unsupportedHeaders: isStub ? undefined : ifAny(operation.unsupportedHeaders),
    unsupportedQuery: ifAny(
      Object.fromEntries(
        operation.unsupportedQuery.map(({ name, in: _in, required: _required, ...schema }) => [
          name,
          toOptions(schema),
        ]),
      ),
    ),
    errors: ifAny(errors),
  };
}

function toReturns(schema: Schema | undefined): object | undefined {
  if (schema === undefined || schema.binary !== undefined) return undefined;
  const { example: _example, ...own } = schema;
  return toOptions(own);
}
