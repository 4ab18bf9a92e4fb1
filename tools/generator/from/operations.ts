/** Writes the operations of a contract as methods of controllers, which return 501. */
import { strings } from '@angular-devkit/schematics';
import { type Classes, ERROR_CLASS, isObject, render, toWords } from './classes.js';
import {
  getParameters,
  isPublic,
  joinPointer,
  type Located,
  type Method,
  METHODS,
  type MediaType,
  normalizeSchema,
  type OpenApiDocument,
  type Operation,
  type Parameter,
  resolve,
  type Response,
} from '../../openapi/openapi.js';
import type { Implementation } from './resources.js';

/** An operation as a method of a controller. */
export interface GeneratedOperation {
  readonly id: string;
  /** Such as `GET`. */
  readonly method: string;
  /** Without the version, as in `pets/:petId`. */
  readonly path: string;
  readonly tag: string;
  readonly pointer: string;
  /** How it is implemented; without it, it is a stub. */
  readonly implementation: Implementation | undefined;
  /** The method without its tag, with the path relative to the first segment. */
  readonly text: string;
  /** A valid request, as an element of an array of the tests: method, path and body. */
  readonly sample: string;
}

const RESPONSE_DECORATORS: Record<string, string> = {
  200: 'ApiOkResponse',
  201: 'ApiCreatedResponse',
  202: 'ApiAcceptedResponse',
  204: 'ApiNoContentResponse',
  304: 'ApiNotModifiedResponse',
  400: 'ApiBadRequestResponse',
  403: 'ApiForbiddenResponse',
  404: 'ApiNotFoundResponse',
  409: 'ApiConflictResponse',
  412: 'ApiPreconditionFailedResponse',
};
/** The responses that the platform documents for every operation. */
const PLATFORM_RESPONSE = /^(401|429|5..|default)$/;
const BYTES = 'application/octet-stream';
/** In bytes, if the contract does not limit the body. */
const DEFAULT_BYTES = 1_000_000;

/** Writes every operation of a contract; the classes of bodies and parameters are added to `classes`. */
export function writeOperations(
  document: OpenApiDocument,
  classes: Classes,
  defaultTag: string,
  implementations: ReadonlyMap<string, Implementation>,
): GeneratedOperation[] {
  return Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method] !== undefined).map((method) =>
      new OperationWriter(document, classes, path, method, defaultTag, implementations).write(),
    ),
  );
}

class OperationWriter {
  private readonly operation: Operation;
  private readonly id: string;
  private readonly pointer: string;
  private readonly implementation: Implementation | undefined;
  private readonly prefix: string;
  private readonly decorators: string[] = [];
  private readonly parameters: string[] = [];
  private requestSample = '';
  /** The type that the method returns. */
  private result = 'void';

  constructor(
    private readonly document: OpenApiDocument,
    private readonly classes: Classes,
    private readonly path: string,
    private readonly method: Method,
    private readonly defaultTag: string,
    implementations: ReadonlyMap<string, Implementation>,
  ) {
    this.operation = document.paths![path]![method]!;
    this.id = this.operation.operationId!;
    this.pointer = joinPointer('#', 'paths', path, method);
    this.implementation = implementations.get(this.id);
    // A stub uses no parameter.
    this.prefix = this.implementation === undefined ? '_' : '';
  }

  write(): GeneratedOperation {
    const { summary, description, deprecated, tags } = this.operation;
    const path = this.path.slice(1).replaceAll(/\{(\w+)\}/g, ':$1');
    const [, ...rest] = path.split('/');
    this.decorators.push(
      `${strings.capitalize(this.method)}(${rest.length === 0 ? '' : `'${rest.join('/')}'`})`,
    );
    if (isPublic(this.document, this.operation)) this.decorators.push('Public()');
    this.decorators.push(
      `ApiOperation(${renderObject({
        operationId: render(this.id),
        summary: render(summary ?? strings.capitalize(toWords(this.id))),
        description: description === undefined ? undefined : render(description),
        deprecated: deprecated === true ? 'true' : undefined,
      })})`,
    );
    const samplePath = this.writeParameters();
    this.writeBody();
    this.writeResponses();
    const [prefix, body] = this.writeMethodBody();
    const method = this.method.toUpperCase();
    return {
      id: this.id,
      method,
      path,
      tag: tags?.[0] ?? this.defaultTag,
      pointer: this.pointer,
      implementation: this.implementation,
      sample: `['${method}', ${render(`/v1${samplePath}`)}${this.requestSample}]`,
      text: [
        ...this.decorators.map((decorator) => `@${decorator}`),
        `${prefix}${this.id}(${this.parameters.join(', ')}): Promise<${this.result}> {`,
        ...body,
        '}',
      ].join('\n'),
    };
  }

  /** @returns the path of a valid request */
  private writeParameters(): string {
    const parameters = getParameters(this.document, this.path, this.method);
    const inPlace = (place: string): Located<Parameter>[] =>
      parameters.filter(({ value }) => value.in === place);
    const sampleOf = ({ value, pointer }: Located<Parameter>): unknown =>
      value.example ?? this.classes.getSample(value.schema!, pointer);
    const name = strings.classify(this.id);
    const [ids, others] = partition(inPlace('path'), (parameter) => this.isId(parameter));
    for (const { value } of ids) {
      const docs = renderObject({
        description: value.description === undefined ? undefined : render(value.description),
        example: value.example === undefined ? undefined : render(value.example),
      });
      this.parameters.push(
        `@IdParam('${value.name}'${docs === '{  }' ? '' : `, ${docs}`}) ${this.prefix}${value.name}: number`,
      );
    }
    if (others.length > 0) {
      this.classes.writeParameters(`${name}Params`, `The path parameters of ${this.id}.`, others);
      this.parameters.push(
        `@Param() ${this.implementation === undefined ? '_params' : `{ ${others.map(({ value }) => value.name).join(', ')} }`}: ${name}Params`,
      );
    }
    const query = inPlace('query');
    if (query.length > 0) {
      this.classes.writeParameters(`${name}Query`, `The query parameters of ${this.id}.`, query);
      this.parameters.push(
        `@Query() ${this.implementation === undefined ? '_query' : this.getQueryVariable()}: ${name}Query`,
      );
    }
    for (const { value, pointer } of inPlace('header')) this.writeHeader(value, pointer);
    const path = inPlace('path').reduce(
      (text, parameter) =>
        text.replace(`{${parameter.value.name}}`, encodeURIComponent(String(sampleOf(parameter)))),
      this.path,
    );
    const search = new URLSearchParams(
      query
        .filter(({ value }) => value.required === true)
        .flatMap((parameter) =>
          [sampleOf(parameter)]
            .flat()
            .map((text): [string, string] => [parameter.value.name, String(text)]),
        ),
    ).toString();
    return search === '' ? path : `${path}?${search}`;
  }

  /** Whether a path parameter is an id that the service assigned: anything else is not found. */
  private isId({ value, pointer }: Located<Parameter>): boolean {
    const { value: schema } = normalizeSchema(this.document, value.schema!, pointer);
    const { type, format, minimum = 1, maximum } = schema;
    return type === 'integer' && format === 'int64' && minimum <= 1 && maximum === undefined;
  }

  private writeHeader({ name, description, schema, example }: Parameter, pointer: string): void {
    this.decorators.push(
      `ApiHeader(${renderObject({
        name: render(name),
        description: description === undefined ? undefined : render(description),
        required: 'false',
        example: example === undefined ? undefined : render(example),
        schema: this.classes.renderSchema(schema!, joinPointer(pointer, 'schema')),
      })})`,
    );
    const variable = strings.camelize(name.toLowerCase().replaceAll(/\W+/g, '-'));
    this.parameters.push(`@Headers('${name}') _${variable}: string | undefined`);
  }

  private writeBody(): void {
    if (this.operation.requestBody === undefined) return;
    const place = joinPointer(this.pointer, 'requestBody');
    const { value, pointer } = resolve(this.document, this.operation.requestBody, place);
    const types = Object.keys(value.content);
    const [type, { schema }] = Object.entries(value.content)[0] as [string, Required<MediaType>];
    if (type === BYTES) {
      const { maxLength = DEFAULT_BYTES } = schema;
      this.parameters.push(`@BinaryBody({ limit: ${maxLength} }) _body: Buffer`);
      this.requestSample = `, Buffer.from('example')`;
      return;
    }
    const schemaPointer = joinPointer(pointer, 'content', type, 'schema');
    const name = this.classes.getClass(schema, schemaPointer, `${strings.classify(this.id)}Body`);
    if (types.join() !== 'application/json')
      this.decorators.push(`ApiConsumes(${types.map((name_) => `'${name_}'`).join(', ')})`);
    if (value.description !== undefined)
      this.decorators.push(`ApiBody({ type: ${name}, description: ${render(value.description)} })`);
    this.parameters.push(`@Body() ${this.prefix}${this.getBodyVariable()}: ${name}`);
    this.requestSample = `, ${render(this.classes.getSample(schema, schemaPointer))}`;
    if (!('400' in this.operation.responses)) {
      this.decorators.push(
        `ApiBadRequestResponse({ type: ${ERROR_CLASS}, description: 'Required fields are missing or values are invalid.' })`,
      );
    }
  }

  private getQueryVariable(): string {
    const { query } = this.implementation!;
    const pages = query.filter((name) => name === 'limit' || name === 'after');
    if (pages.length === 0) return 'filters';
    return pages.length === query.length ? 'page' : '{ limit, after, ...filters }';
  }

  private getBodyVariable(): string {
    if (this.implementation === undefined) return 'body';
    return this.implementation.kind === 'update' ? 'patch' : this.implementation.names.item;
  }

  /** @returns what precedes the name of the method, and its statements */
  private writeMethodBody(): [prefix: string, statements: string[]] {
    const { implementation, parameters, result } = this;
    if (implementation === undefined)
      return ['', [`throw new ApiError('NOT_IMPLEMENTED', 'Not implemented.');`]];
    const { kind, names, key, setsLocation } = implementation;
    const service = `this.${names.items}`;
    if (kind === 'list') {
      this.result = 'CachedJsonResponse';
      return ['async ', [`return ${service}.${this.getListCall(implementation)};`]];
    }
    const body = this.getBodyVariable();
    if (kind === 'create') {
      parameters.push('@IdempotencyKey() key: IdempotencyKey | undefined');
      const call = `${service}.create(${body}, key)`;
      if (setsLocation) this.decorators.push(`ReturnsLocation('${this.path.split('/').at(-1)}')`);
      return ['', [`return ${call};`]];
    }
    const variable = this.path.endsWith('}')
      ? /\{(\w+)\}$/.exec(this.path)![1]!
      : `${body}.${key.name}`;
    const check = implementation.isIdInBody
      ? [
          `if (${variable} === undefined) throw new ApiError('VALIDATION_FAILED', '${key.name} is missing.');`,
        ]
      : [];
    const call = `${service}.${kind}(${[variable, ...(kind === 'replace' || kind === 'update' ? [body] : [])].join(', ')})`;
    const isVoid = result === 'void' && kind !== 'delete';
    const prefix = isVoid || check.length > 0 ? 'async ' : '';
    return [prefix, [...check, `${isVoid ? 'await' : 'return'} ${call};`]];
  }

  private getListCall({ hasFilters, query }: Implementation): string {
    const hasOwnFilters = query.some((name) => name !== 'limit' && name !== 'after');
    const filters = hasOwnFilters ? 'filters' : '{}';
    if (!query.includes('limit')) return hasFilters ? `list(${filters})` : 'list()';
    const page = hasOwnFilters ? '{ limit, after }' : this.getQueryVariable();
    return hasFilters ? `listPage(${page}, ${filters})` : `listPage(${page})`;
  }

  private writeResponses(): void {
    const responses = Object.entries(this.operation.responses);
    const success = responses.find(([status]) => status.startsWith('2'))?.[0];
    const defaultStatus = this.method === 'post' ? '201' : '200';
    if (success !== undefined && success !== defaultStatus)
      this.decorators.splice(1, 0, `HttpCode(${success})`);
    for (const [status, response] of responses) {
      if (PLATFORM_RESPONSE.test(status)) continue;
      const place = joinPointer(this.pointer, 'responses', status);
      const { value, pointer } = resolve(this.document, response, place);
      const decorator = RESPONSE_DECORATORS[status];
      const options = renderObject({
        status: decorator === undefined ? status : undefined,
        ...(status.startsWith('4')
          ? { type: ERROR_CLASS }
          : this.renderContent(value, pointer, status === success)),
        description: render(value.description),
        headers: this.renderHeaders(value, pointer),
      });
      this.decorators.push(`${decorator ?? 'ApiResponse'}(${options})`);
    }
    const { kind, addedErrors = [], query = [], uniques = [], names } = this.implementation ?? {};
    for (const status of addedErrors)
      this.decorators.push(
        `${RESPONSE_DECORATORS[status]!}({ type: ${ERROR_CLASS}, description: ${render(describeError(status, names!.noun, kind === 'delete' ? [] : uniques))} })`,
      );
    if (kind === 'list')
      this.decorators.push(`ApiListHeaders(${query.includes('limit') ? '{ pages: true }' : ''})`);
  }

  /** Returns the options of a response that declare its body. */
  private renderContent(
    { content }: Response,
    pointer: string,
    isResult: boolean,
  ): Record<string, string> {
    const schema = content?.['application/json']?.schema;
    if (schema === undefined) return {};
    const place = joinPointer(pointer, 'content', 'application/json', 'schema');
    const defaultName = `${strings.classify(this.id)}Response`;
    const { value } = normalizeSchema(this.document, schema, place);
    if (isObject(value)) {
      const name = this.classes.getClass(schema, place, defaultName);
      if (isResult) this.result = name;
      return { type: name };
    }
    const items =
      value.type === 'array'
        ? normalizeSchema(this.document, value.items!, place).value
        : undefined;
    if (items === undefined || !isObject(items)) {
      if (isResult) this.result = 'unknown';
      return { schema: this.classes.renderSchema(schema, place) };
    }
    const name = this.classes.getClass(
      value.items!,
      joinPointer(place, 'items'),
      `${defaultName}Item`,
    );
    if (isResult) this.result = `${name}[]`;
    const {
      items: _items,
      name: _name,
      properties: _properties,
      required: _required,
      ...rest
    } = value;
    if (Object.keys(rest).length === 1) return { type: `[${name}]` };
    this.decorators.push(`ApiExtraModels(${name})`);
    const keywords = Object.entries(rest).map(([key, item]) => `${key}: ${render(item)}`);
    return { schema: `{ ${keywords.join(', ')}, items: { $ref: getSchemaPath(${name}) } }` };
  }

  private renderHeaders({ headers }: Response, pointer: string): string | undefined {
    if (headers === undefined) return undefined;
    const entries = Object.entries(headers).map(([name, header]) => {
      const { value, pointer: place } = resolve(
        this.document,
        header,
        joinPointer(pointer, 'headers', name),
      );
      return `${render(name)}: ${renderObject({
        description: value.description === undefined ? undefined : render(value.description),
        example: value.example === undefined ? undefined : render(value.example),
        schema: this.classes.renderSchema(value.schema!, joinPointer(place, 'schema')),
      })}`;
    });
    return `{ ${entries.join(', ')} }`;
  }
}

function describeError(status: string, noun: string, uniques: readonly string[]): string {
  if (status === '404') return `The ${noun} does not exist.`;
  return uniques.length === 0
    ? 'Another resource refers to it.'
    : `Another ${noun} has the same ${uniques.join(' or ')}.`;
}

const renderObject = (properties: Readonly<Record<string, string | undefined>>): string =>
  `{ ${Object.entries(properties)
    .filter(([, text]) => text !== undefined)
    .map(([name, text]) => `${name}: ${text}`)
    .join(', ')} }`;

function partition<Item>(items: readonly Item[], holds: (item: Item) => boolean): [Item[], Item[]] {
  return [items.filter(holds), items.filter((item) => !holds(item))];
}
