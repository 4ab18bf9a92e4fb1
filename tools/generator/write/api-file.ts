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
import { makeUnique, toMemberName, toPascalCase } from '../names.js';
import { addImports } from './imports.js';
import {
  comment,
  firstSentence,
  getClasses,
  literal,
  object,
  propertyName,
  quote,
  schemaLiteral,
  sortClasses,
  toType,
} from './source.js';

export const getApiPath = (module: string): string => `src/modules/${module}/${module}.api.gen.ts`;
export const getApiClass = (module: string): string => `${toPascalCase(module)}Api`;

/** A parameter of the method of an operation. */
export interface Argument {
  readonly name: string;
  readonly type: string;
  readonly isOptional: boolean;
  /** The code of its decorator. */
  readonly decorator: string;
  readonly role: 'path' | 'query' | 'body' | 'key' | 'ifMatch';
  /** The parameter of the path. */
  readonly published?: string;
}

export function writeApi(module: Module): string {
  const queries = module.operations.flatMap((operation) => toQueryClass(operation) ?? []);
  const classes = sortClasses([...module.classes, ...queries]);
  const code = [
    ...classes.map((dto, index) => writeClass(dto, classes.slice(index + 1))),
    writeAbstractClass(module),
    writeController(module),
  ].join('\n\n');
  const firstLine = `// Generated from ${module.source} by \`npm run generate\`. Do not edit: the next run overwrites it.`;
  return `${firstLine}\n\n${addImports(getApiPath(module.name), code)}`;
}

/** The class of the query parameters of an operation, if it has any. */
export function toQueryClass(operation: PlannedOperation): DtoClass | undefined {
  const properties = operation.parameters
    .filter((each) => each.in === 'query')
    .map(({ in: _in, ...property }) => property);
  const name = `${toPascalCase(operation.name)}Query`;
  return properties.length === 0
    ? undefined
    : { name, publishedName: name, description: undefined, properties };
}

function writeClass(dto: DtoClass, later: readonly DtoClass[]): string {
  const properties = dto.properties.map((property) => {
    const type = toType(property);
    // The metadata of a property would refer to a class that does not exist yet.
    const isLater =
      getClasses(property).some((each) => later.includes(each)) && property.type !== 'array';
    return `@Property(${schemaLiteral({ description: '', ...property })})
  ${propertyName(property.name)}${property.required || property.default !== undefined ? '!' : '?'}: ${isLater ? `Readonly<${type}>` : type};`;
  });
  const schema =
    dto.publishedName === dto.name && dto.description === undefined
      ? ''
      : `@ApiSchema(${object({
          name: dto.publishedName === dto.name ? undefined : quote(dto.publishedName),
          description: dto.description && quote(dto.description),
        })})\n`;
  return `${schema}export class ${dto.name} {\n  ${properties.join('\n\n  ')}\n}`;
}

function writeAbstractClass(module: Module): string {
  const { name, operations } = module;
  const methods = operations.map((operation) => {
    const text = operation.summary ?? operation.description ?? operation.operationId;
    return `${comment(firstSentence(text))}\n  abstract ${operation.name}(${writeSignature(getArguments(operation))}): ${getReturnType(operation)};`;
  });
  return `/** What ${toPascalCase(name)}Service implements: a method for each operation. */
export abstract class ${getApiClass(name)} {
  ${methods.join('\n\n  ')}
}`;
}

export const writeSignature = (args: readonly Argument[]): string =>
  args.map(({ name, type, isOptional }) => `${name}${isOptional ? '?' : ''}: ${type}`).join(', ');

/** The parameters of the method of an operation; what a request may lack comes last. */
export function getArguments(operation: PlannedOperation): Argument[] {
  const { body, implementation, ifMatch } = operation;
  const used = new Set<string>();
  const args: Argument[] = operation.parameters
    .filter((each) => each.in === 'path')
    .map((parameter) => {
      const argument = toPathArgument(operation, parameter);
      return Object.assign(argument, { name: makeUnique(argument.name, used) });
    });
  const add = (
    role: Argument['role'],
    name: string,
    type: string,
    decorator: string,
    isOptional = false,
  ): void => {
    args.push({ role, name: makeUnique(name, used), type, decorator, isOptional });
  };
  const query = toQueryClass(operation);
  if (query !== undefined) add('query', 'query', query.name, '@Query()');
  const options = ifMatch === 'required' ? '{ required: true }' : '';
  if (ifMatch !== undefined) add('ifMatch', 'ifMatch', 'VersionCriteria', `@IfMatch(${options})`);
  if (body !== undefined) {
    const { class: dto } = body.schema;
    const name = dto === undefined ? 'body' : toMemberName(dto.name);
    add('body', name, toType(body.schema), writeBodyDecorator(body), !body.required);
  }
  if (implementation.kind === 'create')
    add('key', 'key', 'IdempotencyKey', '@IdempotencyKey()', true);
  return args.toSorted((a, b) => Number(a.isOptional) - Number(b.isOptional));
}

function writeBodyDecorator({ schema, description, isMergePatch, required }: Body): string {
  if (schema.binary !== undefined)
    return `@BinaryBody({ limit: 1_000_000, contentTypes: ${literal(schema.binary)} })`;
  const options = object({
    description: description && quote(description),
    required: required ? undefined : 'false',
    mergePatch: isMergePatch ? 'true' : undefined,
  });
  const { example: _example, ...own } = schema;
  if (own.class !== undefined && own.nullable === undefined && options === '{}') return `@Body()`;
  return `@JsonBody(${schemaLiteral(own)}${options === '{}' ? '' : `, ${options}`})`;
}

function toPathArgument(operation: PlannedOperation, parameter: Parameter): Argument {
  const { name, description, example, in: _in, required: _required, ...schema } = parameter;
  const kind = getIdKind(operation, parameter);
  return {
    name: toMemberName(name),
    type: kind === 'integer' ? 'number' : 'string',
    isOptional: false,
    decorator: `@IdParam(${quote(name)}, ${object({
      type: kind === 'integer' ? undefined : quote(kind),
      description: description && quote(description),
      schema: schemaLiteral({ ...schema, ...(example !== undefined && { example }) }),
    })})`,
    role: 'path',
    published: name,
  };
}

/** What the text of a parameter of the path becomes: the id of a resource, or what its schema says. */
function getIdKind(
  { implementation }: PlannedOperation,
  { name, type }: Parameter,
): ResourceId['kind'] {
  if (implementation.kind !== 'stub' && implementation.parent?.parameter === name)
    return implementation.parent.resource.id.kind;
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
const returnsVersion = (implementation: Implementation): boolean =>
  ['create', 'read', 'patch'].includes(implementation.kind) &&
  'resource' in implementation &&
  implementation.resource.versioned;

function writeController(module: Module): string {
  const methods = sortRoutes(module.operations).map((operation) => {
    const args = getArguments(operation);
    const parameters = args.map(
      (each) => `${each.decorator} ${each.name}${each.isOptional ? '?' : ''}: ${each.type}`,
    );
    return [
      `@${toPascalCase(operation.method)}(${quote(toRoute(operation.path))})`,
      operation.isPublic ? `@Public()` : '',
      operation.success.schema !== undefined && returnsVersion(operation.implementation)
        ? `@ReturnsEtag()`
        : '',
      `@Operation(${writeDocs(operation)})`,
      `${operation.name}(${parameters.join(', ')}): ${getReturnType(operation)} {
        return this.api.${operation.name}(${args.map(({ name }) => name).join(', ')});
      }`,
    ]
      .filter((line) => line !== '')
      .join('\n  ');
  });
  return `@Controller()
export class ${toPascalCase(module.name)}Controller {
  constructor(private readonly api: ${getApiClass(module.name)}) {}

  ${methods.join('\n\n  ')}
}`;
}

/** The path of a route in Express: `/pets/{petId}` is `pets/:petId`. */
const toRoute = (path: string): string =>
  path
    .slice(1)
    .replaceAll(/[()[\]?+!*:]/g, '\\$&')
    .replaceAll(/\{([^}]+)\}/g, (_match, name: string) =>
      /^\w+$/.test(name) ? `:${name}` : `:${JSON.stringify(name)}`,
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

function writeDocs(operation: PlannedOperation): string {
  const { operationId, summary, description, deprecated, success, implementation, errors, tags } =
    operation;
  const reason = implementation.kind === 'stub' ? `Not implemented yet: returns 501.` : undefined;
  const text = [description, reason].filter((each) => each !== undefined).join('\n\n');
  return object({
    operationId: quote(operationId),
    tags: tags.length === 0 ? undefined : literal(tags),
    summary: summary && quote(summary),
    description: text === '' ? undefined : quote(text),
    deprecated: deprecated ? 'true' : undefined,
    status: success.status === 200 ? undefined : String(success.status),
    returns: writeReturns(success.schema),
    contentTypes: success.schema?.binary && literal(success.schema.binary),
    response: quote(success.description),
    list:
      implementation.kind === 'list'
        ? quote(implementation.paging.by === undefined ? 'whole' : 'pages')
        : undefined,
    location:
      'location' in implementation && implementation.location !== undefined
        ? quote(implementation.location)
        : undefined,
    notImplemented: implementation.kind === 'stub' ? 'true' : undefined,
    errors: Object.keys(errors).length === 0 ? undefined : literal(errors),
  });
}

function writeReturns(schema: Schema | undefined): string | undefined {
  if (schema === undefined || schema.binary !== undefined) return undefined;
  const { example: _example, ...own } = schema;
  return schemaLiteral(own);
}
