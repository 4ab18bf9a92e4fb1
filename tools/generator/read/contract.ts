/** Reads what a module needs of an OpenAPI document: its operations and the classes that they use. */
import type { Body, Contract, LeftOut, Operation, Parameter, Schema, Success } from '../model.js';
import { METHODS, Notes } from '../model.js';
import { makeUnique, toCamelCase, toMemberName, toPascalCase, toSentence } from '../names.js';
import { entries, get, isObject, items, type Json, resolve, text } from './json.js';
import { findFormProblem, FORM_TYPE } from './forms.js';
import { clean, SchemaReader } from './schemas.js';

const JSON_TYPE = /^application\/([\w.-]+\+)?json(;|$)/i;
const MERGE_PATCH = 'application/merge-patch+json';
const ANY_JSON = /^(\*|application)\/\*$/;

/** The headers of requests that HTTP or the platform evaluates. */
const KNOWN_HEADERS: ReadonlySet<string> = new Set(
  'accept authorization content-type idempotency-key if-match if-none-match x-request-id'.split(
    ' ',
  ),
);
/** Those that describe a client or its trace: ignoring them changes nothing. */
const HARMLESS_HEADERS =
  /^(traceparent|tracestate|baggage|accept-language|user-agent|x-(correlation|trace|b3)[\w-]*)$/i;
/** Headers and query parameters with the credential of a client, which the bearer key replaces. */
const CREDENTIALS: Readonly<Record<string, RegExp>> = {
  header:
    /^((x-)?([a-z]+-)*(api|app|auth|access|account|security|server)[-_]?(key|token|secret)|token)$/i,
  query: /^((api|app|auth|access)[-_]?(key|token|secret)|[a-z]+_auth)$/i,
};
/** The headers of responses that the platform sends, if the contract has them. */
const SENT_HEADERS: ReadonlySet<string> = new Set(
  'location etag link retry-after ratelimit x-request-id'.split(' '),
);

export const UNSUPPORTED_HEADER = 'a request with the header gets 501.';

const SCALARS: ReadonlySet<unknown> = new Set(['string', 'integer', 'number', 'boolean']);

/** What the service already has. */
export interface Service {
  /** The routes of other modules that this one does not replace: see {@link toRoute}. */
  readonly routes: ReadonlySet<string>;
  /** Their paths, whose names of parameters those of this module with the same route get. */
  readonly paths: readonly string[];
  /** The names of the schemas that other modules publish. */
  readonly schemas: ReadonlySet<string>;
  /** The routes of other modules, by their operation ids. */
  readonly operationIds: ReadonlyMap<string, string>;
}

const NO_SERVICE: Service = {
  routes: new Set(),
  paths: [],
  schemas: new Set(),
  operationIds: new Map(),
};

/** A method and a path without the names of its parameters, by which two routes are the same. A slash at the end counts. */
export const toRoute = (method: string, path: string): string =>
  `${method} ${path.replaceAll(/\{[^}]*\}/g, '{}')}`;

/**
 * Reads the operations of a document.
 *
 * @param module the name of the module, which becomes the prefix of a schema that the service already has
 * @param prefix that paths get instead of `/v1`
 */
export function readContract(
  root: Json,
  module: string,
  service: Service = NO_SERVICE,
  prefix = '',
): Contract {
  return new ContractReader(root, module, service, prefix).read();
}

class ContractReader {
  private readonly notes = new Notes();
  private readonly leftOut: LeftOut[] = [];
  private readonly schemas: SchemaReader;
  private readonly names = new Set<string>();
  private readonly operationIds = new Set<string>();
  private readonly routes = new Map<string, string>();
  /** The first of the paths that differ only in the names of parameters, by what they have in common. */
  private readonly paths: Map<string, string>;

  constructor(
    private readonly root: Json,
    private readonly module: string,
    private readonly service: Service,
    private readonly prefix: string,
  ) {
    this.schemas = new SchemaReader(root, this.notes, toPascalCase(module), service.schemas);
    this.paths = new Map(service.paths.map((path) => [toRoute('', path), path]));
  }

  read(): Contract {
    const operations = entries(this.root['paths']).flatMap(([path, item]) =>
      this.readPath(
        `${this.prefix}${path.startsWith('/') ? path : `/${path}`}`,
        resolve(this.root, item),
      ),
    );
    for (const [name] of entries(this.root['webhooks']))
      this.leaveOut(`webhook ${name}`, 'the service sends no webhooks');
    this.noteDocument();
    const declared = new Map(
      items(this.root['tags']).map((tag) => [get(tag, 'name'), text(get(tag, 'description'))]),
    );
    const title = text(get(this.root['info'], 'title')) ?? 'A contract';
    const names = new Set(operations.flatMap(({ tags }) => tags));
    return {
      prefix: this.prefix,
      tags: [...names].map((name) => ({ name, description: declared.get(name) ?? title })),
      operations,
      classes: this.schemas.classes,
      leftOut: this.leftOut,
      notes: this.notes,
    };
  }

  private noteDocument(): void {
    const schemes = entries(get(get(this.root, 'components'), 'securitySchemes'));
    if (schemes.length > 0)
      this.notes.add(
        'Requests are authenticated with a bearer API key, not with the security schemes of the contract.',
      );
    const servers = items(this.root['servers']).map((server) => String(get(server, 'url')));
    if (this.prefix !== '')
      this.notes.add(`Paths are below ${this.prefix}, not below /v1 as the others of the service.`);
    else if (servers.some((url) => !/\/v1\/?$/.test(url)))
      this.notes.add(
        'Paths are below /v1, not below those of the servers of the contract: --prefix changes that.',
      );
  }

  private leaveOut(operation: string, reason: string): void {
    this.leftOut.push({ operation, reason });
  }

  private readPath(published: string, item: unknown): Operation[] {
    if (!isObject(item)) return [];
    // OpenAPI allows only one of those that differ in the names of parameters.
    const path = this.paths.get(toRoute('', published)) ?? published;
    this.paths.set(toRoute('', path), path);
    if (path !== published) this.notes.add(`its parameters have the names of ${path}.`, published);
    const names = new Map(
      getParameters(published).map((name, i) => [name, getParameters(path)[i]!]),
    );
    for (const method of ['head', 'options', 'trace', 'query'])
      if (item[method] !== undefined)
        this.leaveOut(
          `${method.toUpperCase()} ${path}`,
          'only GET, PUT, POST, PATCH and DELETE are generated',
        );
    return METHODS.flatMap((method) => {
      const operation = resolve(this.root, item[method]);
      if (!isObject(operation)) return [];
      const name = `${method.toUpperCase()} ${published}`;
      const route = toRoute(method, path);
      const other = this.routes.get(route);
      if (this.service.routes.has(route))
        this.leaveOut(name, 'another module of the service has it');
      else if (/[?#]/.test(path)) this.leaveOut(name, 'a path has neither a query nor a fragment');
      else if (/\}\{/.test(path)) this.leaveOut(name, 'no text separates its parameters');
      else if (other !== undefined) this.leaveOut(name, `it is the same route as ${other}`);
      else {
        this.routes.set(route, name);
        const declared = [...items(item['parameters']), ...items(operation['parameters'])]
          .map((each) => resolve(this.root, each))
          .filter(isObject)
          .map((each) =>
            each['in'] === 'path'
              ? Object.assign({}, each, { name: names.get(String(each['name'])) })
              : each,
          );
        const different = [...names].find(([from, to]) => !isSameParameter(from, to));
        const problems = different
          ? [`{${different[0]}} is not {${different[1]}} of the same path`]
          : [];
        return [this.readOperation(method, path, operation, declared, problems)];
      }
      return [];
    });
  }

  private readOperation(
    method: Operation['method'],
    path: string,
    operation: Json,
    declared: readonly Json[],
    problems: string[],
  ): Operation {
    const place = `${method.toUpperCase()} ${path}`;
    const own = path.slice(this.prefix.length);
    const derived = toCamelCase(`${method} ${own.replaceAll(/\{([^}]*)\}/g, 'by $1')}`);
    const operationId = this.toOperationId(
      text(operation['operationId']) ?? derived,
      toRoute(method, path),
      place,
    );
    const isPublic = Array.isArray(operation['security']) && operation['security'].length === 0;
    if (!isPublic && items(operation['security'] ?? this.root['security']).length === 0)
      this.notes.add(
        'it requires a key, although the contract does not say so: security: [] makes it public.',
        place,
      );
    // An operation's own parameter overrides that of its path.
    const byKey = new Map(
      declared.map((each) => [`${String(each['in'])} ${String(each['name']).toLowerCase()}`, each]),
    );
    const unsupportedQuery: Parameter[] = [];
    const parameters = this.readParameters(
      path,
      [...byKey.values()],
      place,
      problems,
      unsupportedQuery,
    );
    const ifMatch = byKey.get('header if-match');
    const body = this.readBody(
      resolve(this.root, operation['requestBody']),
      operationId,
      place,
      problems,
    );
    if (body !== undefined && ['get', 'delete'].includes(method))
      problems.push(`a ${method.toUpperCase()} request has no body`);
    const success = this.readSuccess(method, operation, operationId, place);
    if (success.schema?.binary !== undefined)
      problems.push(`the response is ${success.schema.binary.join(', ')}`);
    if (operation['callbacks'] !== undefined) this.notes.add('no callbacks are sent.', place);
    if (operation['servers'] !== undefined) this.notes.add('its servers are ignored.', place);
    return {
      method,
      path,
      operationId,
      name: makeUnique(toMemberName(operationId), this.names),
      tags:
        items(operation['tags']).length > 0 ? items(operation['tags']).map(String) : [this.module],
      summary: text(operation['summary']) ?? toSentence(operationId),
      description: text(operation['description']),
      deprecated: operation['deprecated'] === true,
      isPublic,
      parameters,
      body,
      ifMatch: ifMatch && (ifMatch['required'] === true ? 'required' : 'optional'),
      success,
      errors: this.readErrors(operation, isPublic),
      isResource: toFlag(operation['x-resource']),
      unsupportedHeaders: [...byKey.values()]
        .filter(
          (each, _index, all) =>
            each['required'] !== true && isUnsupported(each) && !this.isCredential(each, all),
        )
        .map((each) => String(each['name'])),
      unsupportedQuery,
      unsupported: problems[0],
    };
  }

  /** Returns the operation id of the contract, or, if another operation has it, one that starts with the module. */
  private toOperationId(id: string, route: string, place: string): string {
    const isUsed = (each: string): boolean =>
      each in Object.prototype ||
      this.operationIds.has(each) ||
      (this.service.operationIds.get(each) ?? route) !== route;
    let unique = id;
    for (let number = 1; isUsed(unique); number++)
      unique = `${toCamelCase(`${this.module} ${id}`)}${number === 1 ? '' : number}`;
    const owner = id in Object.prototype ? 'every object of JavaScript' : 'another operation';
    if (unique !== id)
      this.notes.add(`the operation id is ${unique}, because ${owner} has ${id}.`, place);
    this.operationIds.add(unique);
    return unique;
  }

  private readParameters(
    path: string,
    declared: readonly Json[],
    place: string,
    problems: string[],
    unsupported: Parameter[],
  ): Parameter[] {
    const parameters: Parameter[] = [];
    for (const name of getParameters(path)) {
      const parameter = declared.find((each) => each['in'] === 'path' && each['name'] === name);
      const schema = this.readParameterSchema(parameter ?? {}, `${place} {${name}}`);
      const { description } = schema;
      const scalar = SCALARS.has(schema.type) ? schema : ({ type: 'string', description } as const);
      parameters.push({ ...scalar, name, in: 'path', required: true });
    }
    for (const parameter of declared) {
      const name = String(parameter['name']);
      const required = parameter['required'] === true;
      const kind = String(parameter['in']);
      if (this.isCredential(parameter, declared))
        this.notes.add(`the ${kind === 'query' ? 'query parameter' : kind} is ignored.`, name);
      else if (kind === 'query') {
        const schema = this.readParameterSchema(parameter, `${place} ?${name}`);
        const item = schema.type === 'array' ? schema.items : schema;
        const isScalar = SCALARS.has(item?.type) && parameter['content'] === undefined;
        const isOneText = schema.type === 'array' && parameter['explode'] === false;
        const { description } = schema;
        if (isScalar && !isOneText) parameters.push({ ...schema, name, in: 'query', required });
        else if (!required)
          unsupported.push(clean({ description, name, in: 'query' as const, required }));
        else if (isOneText)
          problems.push(`the query parameter ${name} is one text with several items`);
        else
          problems.push(
            `the query parameter ${name} is neither text nor a number nor a list of them`,
          );
      } else if (required && (isUnknown(parameter) || kind === 'cookie'))
        problems.push(`the ${kind} ${name} is required`);
      else if (isUnsupported(parameter)) this.notes.add(UNSUPPORTED_HEADER, name);
      else if (isUnknown(parameter) || kind === 'cookie')
        this.notes.add(`the ${kind} is ignored.`, name);
    }
    return parameters;
  }

  /**
   * Whether a parameter has the key of a client, or the id of one beside its secret: a bearer key replaces it.
   *
   * @param all the parameters of the operation
   */
  private isCredential({ name, in: kind }: Json, all: readonly Json[]): boolean {
    const [own, pattern] = [String(name).toLowerCase(), CREDENTIALS[String(kind)]];
    if (pattern === undefined || KNOWN_HEADERS.has(own)) return false;
    const schemes = entries(get(get(this.root, 'components'), 'securitySchemes'));
    const isDeclared = schemes.some(
      ([, each]) => get(each, 'in') === kind && String(get(each, 'name')).toLowerCase() === own,
    );
    const prefix = /^(.*(api|app)[-_]?)id$/.exec(own)?.[1];
    const isOfSecret = all.some((each) => {
      const other = String(each['name']).toLowerCase();
      return each['in'] === kind && other.startsWith(prefix ?? ' ') && pattern.test(other);
    });
    return isDeclared || isOfSecret || pattern.test(own);
  }

  private readParameterSchema(parameter: Json, place: string): Schema {
    const own = this.schemas.read(parameter['schema'] ?? { type: 'string' }, place);
    const schema = this.schemas.toId(String(parameter['name']), own);
    return clean({
      ...schema,
      // A text of a URL is never null.
      nullable: undefined,
      description: text(parameter['description']) ?? schema.description,
      example: getExample(this.root, parameter) ?? schema.example,
      deprecated: parameter['deprecated'] === true || schema.deprecated,
    });
  }

  private readBody(body: unknown, id: string, place: string, problems: string[]): Body | undefined {
    const contents = entries(get(body, 'content'));
    if (!isObject(body) || contents.length === 0) return undefined;
    const isMergePatch = contents.some(([type]) => type === MERGE_PATCH);
    const description = text(body['description']);
    const used = findJson(contents) ?? contents.find(([type]) => FORM_TYPE.test(type));
    const schema = this.readContent(
      contents,
      used,
      `${toPascalCase(id)}Request`,
      `the body of ${place}`,
    )!;
    const isForm = used !== undefined && FORM_TYPE.test(used[0]);
    const problem = isForm ? findFormProblem(schema, get(used[1], 'encoding')) : undefined;
    if (problem !== undefined) problems.push(problem);
    if (schema.binary !== undefined) problems.push(`the body is ${schema.binary.join(' or ')}`);
    // An empty body of bytes is a missing one, and that of a form is one without fields.
    const required = body['required'] === true || isForm || schema.binary !== undefined;
    return { schema, required, description, isMergePatch, isForm };
  }

  /**
   * Reads the used content of a body or a response, or the types of its bytes; undefined if it has no content.
   *
   * @param used JSON or a form
   */
  private readContent(
    contents: readonly [string, unknown][],
    used: readonly [string, unknown] | undefined,
    name: string,
    place: string,
  ): Schema | undefined {
    if (contents.length === 0) return undefined;
    const types = contents.map(([type]) => type);
    if (used === undefined) return { binary: types };
    const [type, media] = used;
    const isForm = FORM_TYPE.test(type);
    const others = types.filter((each) => each !== type && each !== MERGE_PATCH).join(' or ');
    if (others !== '')
      this.notes.add(`Bodies are ${isForm ? 'forms' : 'JSON'} alone, not ${others}.`);
    if (!isForm && !/^application\/(merge-patch\+)?json/.test(type))
      this.notes.add(`The media type of bodies is application/json, not ${type}.`);
    const schema = this.schemas.readBody(get(media, 'schema'), name, place);
    return clean({ ...schema, example: getExample(this.root, media) ?? schema.example });
  }

  private readSuccess(
    method: Operation['method'],
    operation: Json,
    id: string,
    place: string,
  ): Success {
    const responses = entries(operation['responses']);
    // Keys that are numbers come first, in their order.
    const [status = '', value] = responses.find(([each]) => /^2(\d\d|XX)$/i.test(each)) ?? [];
    if (value === undefined && !responses.some(([each]) => each === 'default'))
      this.notes.add('the contract has no successful response; it has no body.', place);
    const response = resolve(this.root, value);
    const contents = entries(get(response, 'content'));
    const headers = Object.keys(get(response, 'headers') ?? {});
    for (const header of headers)
      if (
        !SENT_HEADERS.has(header.toLowerCase()) ||
        (method === 'put' && header.toLowerCase() === 'etag')
      )
        this.notes.add('the response header is not sent.', header);
    const fallback = method === 'post' ? 201 : 200;
    return {
      status: /^\d+$/.test(status) ? Number(status) : fallback,
      description: text(get(response, 'description')) ?? 'Successful.',
      schema: this.readContent(
        contents,
        findJson(contents),
        `${toPascalCase(id)}Response`,
        `the response of ${place}`,
      ),
      headers: headers.map((header) => header.toLowerCase()),
    };
  }

  private readErrors(operation: Json, isPublic: boolean): Record<number, string> {
    const errors: Record<number, string> = {};
    for (const [status, value] of entries(operation['responses'])) {
      const response = resolve(this.root, value);
      // The service has that of a repeated Idempotency-Key.
      if (status === '422') this.notes.add('Invalid requests get 400, not 422.');
      else if (/^4\d\d$/.test(status))
        errors[Number(status)] = text(get(response, 'description')) ?? 'The request is invalid.';
      if (/^([45]..|default)$/i.test(status) && get(response, 'content') !== undefined)
        this.notes.add(
          'Errors have the body {code, message, status} as application/json, not that of the contract.',
        );
    }
    // The platform adds those of requests with a key.
    if (isPublic && Object.keys(errors).length === 0) return { 400: 'The request is invalid.' };
    return errors;
  }
}

/** The JSON of a body or a response. */
const findJson = (contents: readonly [string, unknown][]): [string, unknown] | undefined =>
  contents.find(([type]) => JSON_TYPE.test(type) && !type.includes('json-patch')) ??
  contents.find(([type]) => ANY_JSON.test(type));

/** Whether a parameter is a header that neither HTTP nor the platform evaluates. */
const isUnknown = ({ in: kind, name }: Json): boolean =>
  kind === 'header' && !KNOWN_HEADERS.has(String(name).toLowerCase());

/** Whether a header may have a meaning, such as selecting a tenant. */
const isUnsupported = (parameter: Json): boolean =>
  isUnknown(parameter) && !HARMLESS_HEADERS.test(String(parameter['name']));

/** The names of the parameters in a path. */
export const getParameters = (path: string): string[] =>
  [...path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => name!);

/** Whether two parameters at the same place may identify the same: both are ids, or their names differ in style. */
const isSameParameter = (a: string, b: string): boolean =>
  toCamelCase(a) === toCamelCase(b) || [a, b].every((name) => /(^|[_-])(uu)?id$|I[dD]$/.test(name));

const toFlag = (value: unknown): boolean | undefined =>
  typeof value === 'boolean' ? value : undefined;

/** The example of a parameter or a media type, or the first one of several. */
function getExample(root: Json, value: unknown): unknown {
  const [named] = entries(get(value, 'examples'));
  return get(value, 'example') ?? (named && get(resolve(root, named[1]), 'value'));
}
