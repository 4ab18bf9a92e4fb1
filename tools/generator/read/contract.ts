/** Reads the operations of an OpenAPI document. */
import {
  type Body,
  type Contract,
  isScalar,
  type LeftOut,
  METHODS,
  type Method,
  Notes,
  type Operation,
  type Parameter,
  type Success,
} from '../model.js';
import {
  isUnusable,
  makeUnique,
  toCamelCase,
  toMemberName,
  toPascalCase,
  toSentence,
} from '../names.js';
import { entries, get, isObject, items, type Json, resolve, text } from './json.js';
import { clean, SchemaReader } from './schemas.js';

const JSON_TYPE = /^(application\/(merge-patch\+)?json|\*\/\*|application\/\*)\s*(;|$)/i;

/** The headers of responses that the platform sends. */
const SENT_HEADERS =
  /^(location|etag|link|retry-after|ratelimit(-policy)?|idempotency-replayed|x-request-id)$/i;

/** The request headers that HTTP or the platform evaluates. */
const KNOWN_HEADERS =
  /^(accept|authorization|content-type|idempotency-key|if-none-match|x-request-id)$/i;

/** The routes and names that other modules use. */
export interface Service {
  /** The routes of other modules: see {@link toRoute}. */
  readonly routes: ReadonlySet<string>;
  /** The names of the schemas that other modules publish. */
  readonly schemas: ReadonlySet<string>;
  /** The operation ids of other modules. */
  readonly operationIds: ReadonlySet<string>;
}

/** Returns a path without the names of its parameters. */
export const toPathKey = (path: string): string => path.replaceAll(/\{[^}]*\}/g, '{}');

export const toRoute = (method: string, path: string): string => `${method} ${toPathKey(path)}`;

/** Returns the names of the parameters in a path. */
export const getParameters = (path: string): string[] =>
  [...path.matchAll(/\{([^}]+)\}/g)].map(([, name]) => name!);

/** Returns the reason why the router does not support a path. */
function findPathProblem(path: string): string | undefined {
  const segment = path
    .replace(/\/$/, '')
    .split('/')
    .slice(1)
    .find((each) => !/^([\w.~@$&,;=-]+|\{[A-Za-z_]\w*\})$/.test(each));
  if (segment === undefined) return undefined;
  return segment === ''
    ? 'the router has no empty segments'
    : `the router has no segment ${segment}: only letters, digits and -._~@$&,;=, or one {parameter}`;
}

/** @param module the name of the module, the prefix of schemas and operation ids that the service already has */
export function readContract(root: Json, module: string, service: Service): Contract {
  return new ContractReader(root, module, service).read();
}

class ContractReader {
  private readonly notes = new Notes();
  private readonly leftOut: LeftOut[] = [];
  private readonly schemas: SchemaReader;
  private readonly names = new Set<string>();
  private readonly ids: Set<string>;
  /** The first of the paths that differ only in the names of parameters. */
  private readonly paths = new Map<string, string>();
  private readonly routes = new Map<string, string>();

  constructor(
    private readonly root: Json,
    private readonly module: string,
    private readonly service: Service,
  ) {
    this.schemas = new SchemaReader(root, this.notes, toPascalCase(module), service.schemas);
    this.ids = new Set([...service.operationIds].map((each) => each.toLowerCase()));
  }

  read(): Contract {
    const operations = entries(this.root['paths']).flatMap(([path, item]) =>
      this.readPath(path.startsWith('/') ? path : `/${path}`, item),
    );
    for (const [name] of entries(this.root['webhooks']))
      this.leftOut.push({ operation: `webhook ${name}`, reason: 'the service sends no webhooks' });
    if (String(this.root['openapi']).startsWith('3.2'))
      this.notes.add('OpenAPI 3.2 is read as 3.1: what only 3.2 has is left out.');
    const server = text(get(items(this.root['servers'])[0], 'url')) ?? '';
    const prefix = server.replace(/^(\w+:)?\/\/[^/]*/, '').replace(/\/$/, '');
    if (prefix !== '')
      this.notes.add(`the prefix of the service, such as /v1, replaces ${prefix}`, 'servers');
    const declared = new Map(
      items(this.root['tags']).map((tag) => [get(tag, 'name'), text(get(tag, 'description'))]),
    );
    const title = text(get(this.root['info'], 'title')) ?? 'A contract';
    const names = new Set(operations.flatMap(({ tags }) => tags));
    const tags = [...names].map((name) => ({ name, description: declared.get(name) ?? title }));
    const { classes } = this.schemas;
    return { operations, tags, classes, leftOut: this.leftOut, notes: this.notes };
  }

  private readPath(path: string, value: unknown): Operation[] {
    const item = resolve(this.root, value);
    if (!isObject(item)) return [];
    const methods = [...METHODS, 'head', 'options', 'trace', 'query'] as const;
    return methods.flatMap((method) => {
      const operation = item[method];
      if (!isObject(operation)) return [];
      const place = `${method.toUpperCase()} ${path}`;
      const reason = this.findReason(method, path);
      if (reason !== undefined) this.leftOut.push({ operation: place, reason });
      if (reason !== undefined) return [];
      return [this.readOperation(method as Method, path, item, operation)];
    });
  }

  /** Returns the reason why an operation is left out. */
  private findReason(method: string, path: string): string | undefined {
    const problem = findPathProblem(path);
    if (problem !== undefined) return problem;
    if (!METHODS.includes(method as Method))
      return 'only GET, PUT, POST, PATCH and DELETE are generated';
    const route = toRoute(method, path);
    const other = this.routes.get(route);
    if (this.service.routes.has(route))
      return 'another module has it: remove that from src/features.ts, and run npm run openapi';
    if (other !== undefined) return `it is the same route as ${other}`;
    this.routes.set(route, path);
    return undefined;
  }

  private readOperation(method: Method, published: string, item: Json, operation: Json): Operation {
    const key = toPathKey(published);
    const path = this.paths.get(key) ?? published;
    this.paths.set(key, path);
    if (path !== published) this.notes.add(`its parameters have the names of ${path}`, published);
    const place = `${method.toUpperCase()} ${path}`;
    const derived = toCamelCase(`${method} ${path.replaceAll(/\{([^}]*)\}/g, 'by $1')}`);
    const id = this.toOperationId(text(operation['operationId']) ?? derived, place);
    const security = operation['security'] ?? this.root['security'];
    const isPublic =
      Array.isArray(security) &&
      (operation['security'] !== undefined || security.length > 0) &&
      (security.length === 0 ||
        security.some((each) => isObject(each) && Object.keys(each).length === 0));
    const tags = items(operation['tags']).map(String);
    const body = this.readBody(resolve(this.root, operation['requestBody']), id, place);
    if (operation['callbacks'] !== undefined) this.notes.add('no callbacks are sent', place);
    return {
      method,
      path,
      operationId: id,
      name: makeUnique(toMemberName(id), this.names),
      tags: tags.length > 0 ? tags : [this.module],
      summary: text(operation['summary']) ?? toSentence(id),
      description: text(operation['description']),
      deprecated: operation['deprecated'] === true,
      isPublic,
      isManual: operation['x-resource'] === false,
      parameters: this.readParameters(path, published, item, operation, place),
      body,
      success: this.readSuccess(method, operation, id, place),
      errors: this.readErrors(operation, isPublic),
    };
  }

  /** Returns the id of the contract, or, if another operation has it, one that starts with the module. */
  private toOperationId(id: string, place: string): string {
    const isUsed = this.ids.has(id.toLowerCase()) || id in Object.prototype;
    const unique = makeUnique(isUsed ? toCamelCase(`${this.module} ${id}`) : id, this.ids);
    if (isUsed)
      this.notes.add(`its operation id is ${unique}, because another operation has ${id}`, place);
    return unique;
  }

  private readParameters(
    path: string,
    published: string,
    item: Json,
    operation: Json,
    place: string,
  ): Parameter[] {
    const declared = [...items(item['parameters']), ...items(operation['parameters'])]
      .map((each) => resolve(this.root, each))
      .filter(isObject);
    // The parameter of an operation overrides that of its path.
    const byKey = new Map(
      declared.map((each) => [`${String(each['in'])} ${String(each['name'])}`, each]),
    );
    const names = getParameters(published);
    const inPath = getParameters(path).map((name, index): Parameter => {
      const parameter = byKey.get(`path ${names[index]}`) ?? {};
      const { required: _required, ...read } = this.readParameter(parameter, place);
      const schema = isScalar(read) ? read : { type: 'string' as const };
      return Object.assign({}, schema, { name, in: 'path' as const, required: true });
    });
    const read = [...byKey.values()].flatMap((each): Parameter[] => {
      if (each['in'] === 'path') {
        if (!names.includes(String(each['name'])))
          this.notes.add('the path lacks the parameter', `${place} {${String(each['name'])}}`);
        return [];
      }
      const isCondition = /^if-/i.test(String(each['name']));
      const isKnown = KNOWN_HEADERS.test(String(each['name']));
      if (each['in'] === 'header' && isKnown && (place.startsWith('GET') || !isCondition))
        return [];
      const parameter = this.readParameter(each, place);
      if (parameter.in !== 'query' && !parameter.required && !isCondition)
        this.notes.add('optional headers and cookies are ignored', parameter.name);
      return [parameter];
    });
    return [...inPath, ...read];
  }

  private readParameter(parameter: Json, place: string): Parameter {
    const name = String(parameter['name']);
    const kind = parameter['in'] as Parameter['in'];
    const { nullable: _nullable, ...schema } = this.schemas.read(
      parameter['schema'] ?? { type: 'string' },
      `${place} ${name}`,
      `${place} ?${name}`,
    );
    const scalar = schema.type === 'array' ? schema.items : schema;
    const isOneText = schema.type === 'array' && parameter['explode'] === false;
    return clean({
      ...schema,
      description: text(parameter['description']) ?? schema.description,
      deprecated: parameter['deprecated'] === true ? true : schema.deprecated,
      name,
      in: kind,
      required: parameter['required'] === true,
      unsupported:
        isScalar(scalar ?? {}) &&
        !isOneText &&
        !isUnusable(name) &&
        parameter['content'] === undefined
          ? undefined
          : 'not a text',
    });
  }

  private readBody(body: unknown, id: string, place: string): Body | undefined {
    const contents = entries(get(body, 'content'));
    if (!isObject(body) || contents.length === 0) return undefined;
    const used = contents.find(([type]) => JSON_TYPE.test(type));
    const others = contents.filter(([type]) => !JSON_TYPE.test(type)).map(([type]) => type);
    if (used !== undefined && others.length > 0)
      this.notes.add(`bodies are JSON: one of ${others.join(', ')} gets 415`, place);
    return {
      schema:
        used === undefined
          ? {}
          : this.schemas.read(get(used[1], 'schema') ?? {}, `${toPascalCase(id)}Body`, place),
      required: body['required'] === true,
      description: text(body['description']),
      contentTypes: used === undefined ? others : [],
    };
  }

  private readSuccess(method: Method, operation: Json, id: string, place: string): Success {
    const responses = entries(operation['responses']);
    const [status = '', value] = responses.find(([each]) => /^2(\d\d|XX)$/i.test(each)) ?? [];
    const response = resolve(this.root, value);
    const contents = entries(get(response, 'content'));
    const used = contents.find(([type]) => JSON_TYPE.test(type));
    const fallback = method === 'post' ? 201 : method === 'delete' ? 204 : 200;
    const number = /^\d+$/.test(status) ? Number(status) : fallback;
    const isEmpty = number === 204 || number === 205;
    if (isEmpty && contents.length > 0)
      this.notes.add(`a ${number} has no body: its content is left out`, place);
    const names = Object.keys((get(response, 'headers') as object | undefined) ?? {});
    // The URL of what was created has its id, which an empty response lacks.
    const isSent = (name: string): boolean =>
      SENT_HEADERS.test(name) && (used !== undefined || !/^location$/i.test(name));
    for (const name of names.filter((each) => !isSent(each)))
      this.notes.add('headers of responses are not sent', name);
    return {
      status: number,
      description: text(get(response, 'description')) ?? 'Successful.',
      schema:
        used === undefined || isEmpty
          ? undefined
          : this.schemas.read(get(used[1], 'schema') ?? {}, `${toPascalCase(id)}Response`, place),
      ...(used === undefined &&
        contents.length > 0 &&
        !isEmpty && { contentTypes: contents.map(([type]) => type) }),
    };
  }

  private readErrors(operation: Json, isPublic: boolean): Record<string, string> {
    const errors = entries(operation['responses'])
      .filter(([status]) => /^4\d\d$/.test(status) && status !== '422')
      .map(([status, value]) => [
        status,
        text(get(resolve(this.root, value), 'description')) ?? 'The request is invalid.',
      ]);
    // The platform adds the errors of requests with a key.
    if (isPublic && errors.length === 0) return { 400: 'The request is invalid.' };
    return Object.fromEntries(errors) as Record<string, string>;
  }
}
