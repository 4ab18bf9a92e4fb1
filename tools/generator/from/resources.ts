/** Recognises the resources of a contract: the operations that the platform can implement. */
import { isDeepStrictEqual } from 'node:util';
import { SchematicsException, strings } from '@angular-devkit/schematics';
import pluralize from 'pluralize';
import { findCollisions, isReservedWord, renameVariables } from '../resource/collisions.js';
import type { Field } from '../resource/fields.js';
import {
  createNames,
  type Names,
  type Operation as Kind,
  type Operations,
  readTemplates,
} from '../resource/resource.js';
import { type Classes, isObject } from './classes.js';
import { canBeUnique, createField, isIndexable, type ResourceProperty } from './fields.js';
import {
  getParameters,
  joinPointer,
  type Located,
  type Method,
  METHODS,
  type NormalizedSchema,
  normalizeSchema,
  type OpenApiDocument,
  type Operation,
  type Parameter,
  resolve,
  type Response,
  type SchemaOrReference,
} from '../../openapi/openapi.js';
import type { StorageFile } from './storage.js';

/** How an operation is implemented. */
export interface Implementation {
  readonly kind: Kind;
  readonly names: Names;
  /** The property that the path identifies a row by. */
  readonly key: Key;
  /** Whether the service filters its lists. */
  readonly hasFilters: boolean;
  /** The query parameters of a list. */
  readonly query: readonly string[];
  /** Whether the id of the row to replace is in the body. */
  readonly isIdInBody: boolean;
  readonly setsLocation: boolean;
  /** The statuses that the contract covers with its default response. */
  readonly addedErrors: readonly string[];
  /** The properties that no two resources may share. */
  readonly uniques: readonly string[];
}

export interface Key {
  readonly name: string;
  readonly type: string;
}

/** A resource whose rows a table contains. */
export interface Resource {
  readonly names: Names;
  /** The class of its representation, which is also its name. */
  readonly className: string;
  /** The classes of the bodies of requests. */
  readonly bodyClass: string;
  readonly patchClass: string;
  readonly key: Key;
  readonly has: Operations;
  /** Whether an operation lists a page, and whether one lists all rows. */
  readonly hasPages: boolean;
  readonly hasWholeList: boolean;
  readonly showsId: boolean;
  readonly properties: readonly ResourceProperty[];
  readonly fields: readonly Field[];
  /** The dates and times that an update may change. */
  readonly patched: readonly string[];
  readonly routes: readonly Route[];
  /** The tables that it references. */
  readonly references: readonly string[];
}

/** An implemented operation, for the tests. */
export interface Route extends Pick<
  Implementation,
  'kind' | 'query' | 'isIdInBody' | 'setsLocation'
> {
  readonly path: string;
  readonly id: string;
  readonly status: number;
  readonly returnsResource: boolean;
}

export interface RecognizedResources {
  readonly resources: readonly Resource[];
  /** By operation id. */
  readonly implementations: ReadonlyMap<string, Implementation>;
  /** Why operations are stubs, by operation id. */
  readonly reasons: ReadonlyMap<string, string>;
  /** The properties of schemas whose storage is undecided. */
  readonly undecided: ReadonlyMap<string, readonly string[]>;
}

/** An operation of a contract. */
interface Endpoint {
  readonly path: string;
  readonly method: Method;
  readonly operation: Operation;
  readonly id: string;
  readonly pointer: string;
  readonly parameters: readonly Located<Parameter>[];
}

/** The errors that each kind of operation may have, besides those of the platform; others stay stubs. */
const ERRORS: Record<Kind, readonly string[]> = {
  list: ['400', '404'],
  create: ['400', '409'],
  read: ['400', '404'],
  replace: ['400', '404', '409'],
  update: ['400', '404', '409', '415'],
  delete: ['400', '404', '409'],
};
const PLATFORM_ERROR = /^(304|401|403|413|415|429|5..|default)$/;
/** Headers with an API key of the contract's own; the platform has its own scheme. */
const KEY_HEADER = /^(x-)?api[-_]?key$/i;
const LIST_HEADERS = new Set(['etag', 'link']);
/** The variables of the templates that a key of the same name would hide. */
const VARIABLES = new Set(['changes', 'error', 'patch', 'rest', 'row', 'affected']);

/** Why an operation, or a resource, is not implemented. */
class Unsupported extends Error {}

/** Recognises the resources of a contract, in the order in which their tables can be created. */
export function recognizeResources(
  document: OpenApiDocument,
  classes: Classes,
  storage: StorageFile,
  module: string,
): RecognizedResources {
  return new Recognizer(document, classes, storage, module).run();
}

class Recognizer {
  private readonly endpoints: readonly Endpoint[];
  private readonly reasons = new Map<string, string>();
  private readonly undecided = new Map<string, string[]>();
  private readonly implementations = new Map<string, Implementation>();

  constructor(
    private readonly document: OpenApiDocument,
    private readonly classes: Classes,
    private readonly storage: StorageFile,
    private readonly module: string,
  ) {
    this.endpoints = Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
      METHODS.filter((method) => item[method] !== undefined).map((method) => ({
        path,
        method,
        operation: item[method]!,
        id: item[method]!.operationId!,
        pointer: joinPointer('#', 'paths', path, method),
        parameters: getParameters(document, path, method),
      })),
    );
  }

  run(): RecognizedResources {
    const resources: Resource[] = [];
    const schemas = new Map<string, Set<string>>();
    for (const create of this.endpoints) {
      const schema = create.method === 'post' ? this.getResult(create) : undefined;
      if (schema?.name === undefined) continue;
      const found = this.endpoints.flatMap((endpoint) => {
        const kind = this.getKind(endpoint, create, schema.name!);
        return kind === undefined ? [] : { endpoint, kind };
      });
      // A POST that returns a schema may also be an action: only what can be read is a resource.
      if (!found.some(({ kind }) => kind === 'read' || kind === 'list')) continue;
      try {
        if (/[{}]/.test(create.path))
          throw new Unsupported('a resource below a parameter is not supported');
        if (resources.some(({ className }) => className === schema.name))
          throw new Unsupported(`${schema.name} is the schema of another resource`);
        schemas.set(schema.name, new Set(schema.properties.keys()));
        const resource = this.recognize(schema, found);
        for (const { name } of resource.properties) schemas.get(schema.name)!.add(name);
        resources.push(resource);
      } catch (error) {
        if (!(error instanceof Unsupported)) throw error;
        for (const { endpoint } of found) this.reasons.set(endpoint.id, error.message);
      }
    }
    this.storage.checkUsed(schemas);
    for (const { id } of this.endpoints) {
      if (!this.implementations.has(id) && !this.reasons.has(id))
        this.reasons.set(id, 'it is not an operation on a resource that the generator knows');
    }
    return {
      resources: sortByReferences(resources),
      implementations: this.implementations,
      reasons: this.reasons,
      undecided: this.undecided,
    };
  }

  /** Returns what an operation does with the resource that another one creates, by its method and path. */
  private getKind(endpoint: Endpoint, create: Endpoint, name: string): Kind | undefined {
    if (endpoint === create) return 'create';
    const { path, method } = endpoint;
    const isItem =
      path.startsWith(`${create.path}/`) && /^\{\w+\}$/.test(path.slice(create.path.length + 1));
    const result = this.getResult(endpoint);
    if (isItem) {
      if (method === 'get') return result?.name === name ? 'read' : undefined;
      return ({ put: 'replace', patch: 'update', delete: 'delete' } as const)[
        method as 'put' | 'patch' | 'delete'
      ];
    }
    if (path === create.path && method === 'put') return 'replace';
    const isBelow = path === create.path || path.startsWith(`${create.path}/`);
    // Below the collection, such as /pets/findByStatus, it needs parameters that say what it selects.
    const isFixed =
      isBelow &&
      !path.slice(create.path.length).includes('{') &&
      (path === create.path || getFilters(endpoint).length > 0);
    return isFixed && method === 'get' && this.getItems(endpoint)?.name === name
      ? 'list'
      : undefined;
  }

  private recognize(
    schema: NormalizedSchema,
    found: readonly { readonly endpoint: Endpoint; readonly kind: Kind }[],
  ): Resource {
    const className = schema.name!;
    const create = found.find(({ kind }) => kind === 'create')!.endpoint;
    const body = this.getBody(create)!;
    if (body.value === undefined) throw new Unsupported('its body is not an object');
    const names = this.createNames(className);
    const key = this.getKey(found, schema, create.path);
    const update = found.find(({ kind }) => kind === 'update')?.endpoint;
    const patch = update === undefined ? undefined : this.getBody(update);
    const filters = new Set(
      found
        .filter(({ kind }) => kind === 'list')
        .flatMap(({ endpoint }) => getQuery(endpoint).map(({ value }) => value.name)),
    );
    const context = { className, bodyClass: body.name, key, filters, patch: patch?.value };
    const properties = this.createProperties(schema, body.value, context);
    const undecided = properties.filter(
      ({ name }) => this.storage.get(className, name)?.kind === 'undecided',
    );
    if (undecided.length > 0) {
      this.undecided.set(
        className,
        undecided.map(({ name }) => name),
      );
      const list = undecided.map(({ name }) => name).join(', ');
      throw new Unsupported(
        `decide how ${list} of ${className} is stored in ${this.module}.storage.yaml, and run the generator again`,
      );
    }
    const accepted = found.filter(({ endpoint, kind }) => {
      try {
        const implementation = this.implement(endpoint, kind, {
          names,
          key,
          schema,
          body: body.value!,
          properties,
        });
        this.implementations.set(endpoint.id, implementation);
        return true;
      } catch (error) {
        if (!(error instanceof Unsupported) || kind === 'create') {
          // Nothing can be implemented without it.
          for (const other of found) this.implementations.delete(other.endpoint.id);
          throw error;
        }
        this.reasons.set(endpoint.id, error.message);
        return false;
      }
    });
    return this.createResource(context, names, properties, schema, accepted, patch?.name);
  }

  private createResource(
    { className, bodyClass, key, patch }: Context,
    names: Names,
    properties: readonly ResourceProperty[],
    schema: NormalizedSchema,
    accepted: readonly { readonly endpoint: Endpoint; readonly kind: Kind }[],
    patchClass = bodyClass,
  ): Resource {
    const kinds = new Set(accepted.map(({ kind }) => kind));
    const implementations = accepted.map(({ endpoint }) => this.implementations.get(endpoint.id)!);
    const lists = implementations.filter(({ kind }) => kind === 'list');
    const used = new Set(implementations.flatMap(({ query }) => query));
    const hasFilters = properties.some(({ name }) => used.has(name));
    for (const { endpoint } of accepted)
      this.implementations.set(endpoint.id, {
        ...this.implementations.get(endpoint.id)!,
        hasFilters,
      });
    const final = properties.map((property) => ({
      ...property,
      isFilter: used.has(property.name),
      isMerged: property.isMerged && kinds.has('update'),
    }));
    return {
      names,
      className,
      bodyClass,
      patchClass,
      key,
      hasPages: lists.some(({ query }) => query.includes('limit')),
      hasWholeList: lists.some(({ query }) => !query.includes('limit')),
      showsId: schema.properties.has('id'),
      has: Object.fromEntries(
        (['list', 'create', 'read', 'replace', 'update', 'delete'] as const).map((kind) => [
          kind,
          kinds.has(kind),
        ]),
      ) as Operations,
      properties: final,
      fields: final.map((property) => createField(property)),
      patched: [...(patch?.properties.keys() ?? [])],
      references: final.flatMap(({ references }) => references ?? []),
      routes: accepted.map(({ endpoint, kind }) => ({
        kind,
        id: endpoint.id,
        path: endpoint.path,
        status: Number(getSuccess(endpoint)![0]),
        returnsResource: this.getResult(endpoint) !== undefined,
        query: this.implementations.get(endpoint.id)!.query,
        isIdInBody: this.implementations.get(endpoint.id)!.isIdInBody,
        setsLocation: this.implementations.get(endpoint.id)!.setsLocation,
      })),
    };
  }

  private createNames(className: string): Names {
    try {
      const singular = strings.dasherize(className);
      const name = `${this.module}/${pluralize.plural(singular)}`;
      const templates = readTemplates();
      const names = renameVariables(createNames({ name, singular }), templates);
      const [collision] = templates.flatMap((template) => findCollisions(template, names));
      if (collision !== undefined || names.Item !== className)
        throw new Unsupported(`${className} cannot be the name of a resource`);
      return names;
    } catch (error) {
      if (error instanceof SchematicsException) throw new Unsupported(error.message);
      throw error;
    }
  }

  /** Returns the property that the paths of single resources identify them by. */
  private getKey(
    found: readonly { readonly endpoint: Endpoint }[],
    schema: NormalizedSchema,
    collection: string,
  ): Key {
    const id = schema.properties.get('id');
    if (id !== undefined) {
      const { type, format } = this.normalize(id);
      if (type !== 'integer' || format === 'int32')
        throw new Unsupported('the service assigns ids of the type integer and the format int64');
    }
    const parameter = found
      .filter(({ endpoint }) => endpoint.path !== collection)
      .flatMap(({ endpoint }) => endpoint.parameters)
      .find(({ value }) => value.in === 'path');
    const {
      type,
      format,
      minimum = 1,
      maximum,
    } = parameter === undefined
      ? { type: 'integer', format: 'int64' }
      : this.normalize({
          value: parameter.value.schema!,
          pointer: joinPointer(parameter.pointer, 'schema'),
        });
    if (type === 'integer' && format === 'int64' && minimum <= 1 && maximum === undefined)
      return { name: 'id', type: 'number' };
    const { name } = parameter!.value;
    const property = schema.properties.get(name);
    if (property === undefined || this.normalize(property).type !== type)
      throw new Unsupported(`the path parameter ${name} is neither an id nor a property`);
    if (VARIABLES.has(name) || isReservedWord(name))
      throw new Unsupported(`${name} cannot be the name of a variable`);
    return { name, type: type === 'integer' ? 'number' : 'string' };
  }

  private createProperties(
    schema: NormalizedSchema,
    body: NormalizedSchema,
    context: Context,
  ): ResourceProperty[] {
    const names = new Set([...schema.properties.keys(), ...body.properties.keys()]);
    names.delete('id');
    if (names.size === 0) throw new Unsupported('it has no properties');
    return [...names].map((name) => this.createProperty(name, schema, body, context));
  }

  private createProperty(
    name: string,
    resource: NormalizedSchema,
    body: NormalizedSchema,
    { className, bodyClass, key, filters, patch }: Context,
  ): ResourceProperty {
    const [shown, sent] = [resource.properties.get(name), body.properties.get(name)];
    const located = (sent ?? shown)!;
    const schema = this.normalize(located);
    if (shown !== undefined && sent !== undefined && !this.isSame(shown, sent))
      throw new Unsupported(`${name} differs in requests and responses`);
    if (name === 'version') throw new Unsupported('the column version has another meaning');
    const isInRequests = sent !== undefined && schema.readOnly !== true;
    const isInResponses = shown !== undefined && schema.writeOnly !== true;
    const isRequired = body.required?.includes(name) === true;
    const isAlwaysShown =
      resource.required?.includes(name) === true || schema.default !== undefined;
    const storage = this.storage.get(className, name);
    const isNow = storage?.kind === 'now';
    if (isNow && (isInRequests || schema.format !== 'date-time'))
      throw new Unsupported(`only a read-only date-time can be stored as now: ${name}`);
    let isOptional = isInRequests
      ? !isRequired && schema.default === undefined
      : schema.default === undefined && !isNow;
    if (!isInRequests && isOptional && schema.format === 'date-time' && storage === undefined)
      this.storage.ask(className, name);
    const decision = this.storage.get(className, name);
    if (isId(schema) && /[a-z]Id$/.test(name)) this.storage.ask(className, name);
    const references = decision?.kind === 'references' ? decision.table : undefined;
    if (references !== undefined && schema.type === 'array')
      throw new Unsupported(
        `${name} cannot reference ${references}: store the array as column, without foreign keys, or write a resource for the references`,
      );
    if (references !== undefined && !isId(schema))
      throw new Unsupported(`${name} is not an id of the format int64`);
    if (decision?.kind === 'undecided') isOptional = !isAlwaysShown;
    else if (isOptional && isInResponses && isAlwaysShown && schema.nullable !== true)
      throw new Unsupported(`${name} is in each response, but a request may omit it`);
    const isUnique = name === key.name || decision?.kind === 'unique';
    if (isUnique && !canBeUnique(schema))
      throw new Unsupported(
        `${name} cannot be unique: it needs a maxLength from 10 to 500, and no pattern`,
      );
    const change = patch?.properties.get(name);
    return {
      name,
      schema,
      className: shown === undefined ? bodyClass : className,
      isInRequests,
      isInResponses,
      isOptional,
      isAlwaysShown,
      isUnique,
      isFilter: filters.has(name),
      isMerged: schema.type === 'object' && change !== undefined,
      references,
      isNow,
      sample: this.classes.getSample(located.value, located.pointer, { full: true }),
      otherSample: this.classes.getSample(located.value, located.pointer, {
        full: true,
        other: true,
      }),
    };
  }

  /** @throws {Unsupported} if the contract does not publish what the platform does */
  private implement(
    endpoint: Endpoint,
    kind: Kind,
    { names, key, schema, body, properties }: Candidate,
  ): Implementation {
    const { operation, parameters } = endpoint;
    const query = getQuery(endpoint).map(({ value }) => value.name);
    const isIdInBody = kind === 'replace' && !endpoint.path.endsWith('}');
    if (key.name === 'id' && !schema.properties.has('id') && endpoint.path.endsWith('}'))
      throw new Unsupported('the resource does not show its id');
    if (kind === 'list') this.checkQuery(endpoint, properties);
    else if (query.length > 0) throw new Unsupported(`the query parameter ${query[0]} is unknown`);
    const header = parameters.find(
      ({ value }) => value.in === 'header' && !KEY_HEADER.test(value.name),
    );
    if (header !== undefined)
      throw new Unsupported(`the header ${header.value.name} of the request is unknown`);
    const own = this.getBody(endpoint);
    if (kind === 'replace' && (own?.value === undefined || !this.isSameBody(own.value, body)))
      throw new Unsupported('its body is not that of the create request');
    if (isIdInBody && !(key.name === 'id' && body.properties.has('id')))
      throw new Unsupported('neither its path nor its body has the id');
    if (kind === 'update') this.checkPatch(own?.value, properties);
    if (kind === 'delete' && own !== undefined) throw new Unsupported('it has a body');
    const setsLocation = this.checkSuccess(endpoint, kind, schema, key);
    const uniques = properties
      .filter(({ isUnique, isInRequests }) => isUnique && isInRequests)
      .map(({ name }) => name);
    const canConflict =
      uniques.length > 0 && (kind === 'create' || kind === 'replace' || kind === 'update');
    const needed = [
      ...(kind === 'list' || kind === 'create' ? [] : ['404']),
      ...(canConflict || (kind === 'delete' && this.isReferenced(names.table)) ? ['409'] : []),
    ];
    const addedErrors = needed.filter((status) => !(status in operation.responses));
    if (addedErrors.length > 0 && !('default' in operation.responses))
      throw new Unsupported(`it needs a response ${addedErrors[0]}, or default`);
    const unknown = Object.keys(operation.responses).find(
      (status) =>
        !status.startsWith('2') && !PLATFORM_ERROR.test(status) && !ERRORS[kind].includes(status),
    );
    if (unknown !== undefined)
      throw new Unsupported(`the reason of the response ${unknown} is unknown`);
    return {
      kind,
      names,
      key,
      hasFilters: false,
      query,
      isIdInBody,
      setsLocation,
      addedErrors,
      uniques,
    };
  }

  /** Whether the storage file has a reference to a table. */
  private isReferenced(table: string): boolean {
    return Object.entries(this.document.components?.schemas ?? {}).some(([name, schema]) =>
      [...normalizeSchema(this.document, schema, name).value.properties.keys()].some((property) => {
        const storage = this.storage.get(name, property);
        return storage?.kind === 'references' && storage.table === table;
      }),
    );
  }

  private checkQuery(endpoint: Endpoint, properties: readonly ResourceProperty[]): void {
    const query = getQuery(endpoint);
    const names = new Set(query.map(({ value }) => value.name));
    if (names.has('limit') !== names.has('after'))
      throw new Unsupported('a page needs both limit and after');
    for (const { value, pointer } of query) {
      const schema = this.normalize({
        value: value.schema!,
        pointer: joinPointer(pointer, 'schema'),
      });
      const { type, format, minimum = 0 } = schema;
      if (value.name === 'limit' || value.name === 'after') {
        if (type !== 'integer' || (value.name === 'limit' && minimum < 1))
          throw new Unsupported(`${value.name} is not a positive integer`);
        if (value.name === 'limit' && schema.default === undefined && value.required !== true)
          throw new Unsupported('limit has no default');
        continue;
      }
      const property = properties.find(({ name }) => name === value.name)?.schema;
      if (property === undefined || schema.nullable === true)
        throw new Unsupported(`the query parameter ${value.name} is not a property`);
      if (!isIndexable(property) || property.format === 'date-time')
        throw new Unsupported(
          `rows cannot be selected by ${value.name}: only by scalars, and by strings with a maxLength of up to 500`,
        );
      const isSame = property.type === type && property.format === format;
      const values = new Set(property.enum ?? schema.enum);
      if (
        !isSame ||
        schema.enum?.every((item) => values.has(item)) === false ||
        (property.enum !== undefined && schema.enum === undefined)
      )
        throw new Unsupported(
          `the query parameter ${value.name} has another type than the property`,
        );
    }
  }

  private checkPatch(
    patch: NormalizedSchema | undefined,
    properties: readonly ResourceProperty[],
  ): void {
    if (patch === undefined) throw new Unsupported('its body is not an object');
    for (const [name, located] of patch.properties) {
      const property = properties.find((candidate) => candidate.name === name);
      const schema = this.normalize(located);
      if (property?.isInRequests !== true)
        throw new Unsupported(`${name} of its body is not a property that clients can set`);
      if (!hasSameValues(schema, property.schema))
        throw new Unsupported(`${name} of its body has another type than the property`);
      if (schema.default !== undefined)
        throw new Unsupported(`${name} of its body has a default, which would replace the value`);
      if (property.isMerged && properties.some(isCleared))
        throw new Unsupported(`it merges ${name}, and a required property may be null`);
      if (schema.nullable === true && !property.isOptional && property.schema.nullable !== true)
        throw new Unsupported(`${name} of its body may be null, but the property may not`);
    }
  }

  /** @returns whether the response has a Location */
  private checkSuccess(
    endpoint: Endpoint,
    kind: Kind,
    schema: NormalizedSchema,
    key: Key,
  ): boolean {
    const [status, response] = getSuccess(endpoint) ?? [];
    if (status === undefined || response === undefined) throw new Unsupported('it has no success');
    const { value } = resolve<Response>(this.document, response, endpoint.pointer);
    const result = this.getResult(endpoint);
    if (kind !== 'list') {
      const isEmpty = value.content === undefined;
      const mayBeEmpty = kind === 'replace' || kind === 'update' || kind === 'delete';
      if (!(isEmpty && mayBeEmpty) && (kind === 'delete' || result?.name !== schema.name))
        throw new Unsupported('its response is not the resource');
    }
    const headers = Object.keys(value.headers ?? {}).map((name) => name.toLowerCase());
    const isLocation = (name: string): boolean =>
      kind === 'create' && key.name === 'id' && name === 'location';
    const unknown = headers.find(
      (name) => !isLocation(name) && !(kind === 'list' && LIST_HEADERS.has(name)),
    );
    if (unknown !== undefined)
      throw new Unsupported(`the header ${unknown} of its response is unknown`);
    return headers.some(isLocation);
  }

  private normalize({ value, pointer }: Located<SchemaOrReference>): NormalizedSchema {
    return normalizeSchema(this.document, value, pointer).value;
  }

  private isSame(a: Located<SchemaOrReference>, b: Located<SchemaOrReference>): boolean {
    return a.value === b.value || isDeepStrictEqual(this.normalize(a), this.normalize(b));
  }

  private isSameBody(a: NormalizedSchema, b: NormalizedSchema): boolean {
    return a.name === undefined ? isDeepStrictEqual(a, b) : a.name === b.name;
  }

  /** Returns the JSON body of a request, and its class; without a schema if it is not an object. */
  private getBody({ operation, pointer, id }: Endpoint): RequestObject | undefined {
    if (operation.requestBody === undefined) return undefined;
    const place = joinPointer(pointer, 'requestBody');
    const body = resolve(this.document, operation.requestBody, place);
    const [[type, { schema }] = ['', {}]] = Object.entries(body.value.content);
    const name = `${strings.classify(id)}Body`;
    if (!type.endsWith('json') || schema === undefined) return { name, value: undefined };
    const value = this.normalize({
      value: schema,
      pointer: joinPointer(body.pointer, 'content', type, 'schema'),
    });
    return isObject(value) ? { name: value.name ?? name, value } : { name, value: undefined };
  }

  /** Returns the schema of a successful response, if it is an object of the contract. */
  private getResult(endpoint: Endpoint): NormalizedSchema | undefined {
    const schema = this.getContent(endpoint);
    return schema !== undefined && isObject(schema) && schema.name !== undefined
      ? schema
      : undefined;
  }

  /** Returns the schema of the items of a successful response, if it is an array. */
  private getItems(endpoint: Endpoint): NormalizedSchema | undefined {
    const { type, items } = this.getContent(endpoint) ?? {};
    return type === 'array' && items !== undefined
      ? this.normalize({ value: items, pointer: endpoint.pointer })
      : undefined;
  }

  private getContent(endpoint: Endpoint): NormalizedSchema | undefined {
    const [, response] = getSuccess(endpoint) ?? [];
    if (response === undefined) return undefined;
    const { value, pointer } = resolve<Response>(this.document, response, endpoint.pointer);
    const schema = value.content?.['application/json']?.schema;
    return schema === undefined ? undefined : this.normalize({ value: schema, pointer });
  }
}

interface Context {
  readonly className: string;
  readonly bodyClass: string;
  readonly key: Key;
  readonly filters: ReadonlySet<string>;
  readonly patch: NormalizedSchema | undefined;
}

interface Candidate {
  readonly names: Names;
  readonly key: Key;
  readonly schema: NormalizedSchema;
  readonly body: NormalizedSchema;
  readonly properties: readonly ResourceProperty[];
}

interface RequestObject {
  readonly name: string;
  readonly value: NormalizedSchema | undefined;
}

const getQuery = ({ parameters }: Endpoint): Located<Parameter>[] =>
  parameters.filter(({ value }) => value.in === 'query');

/** Returns the names of the query parameters besides those of a page. */
const getFilters = (endpoint: Endpoint): string[] =>
  getQuery(endpoint)
    .map(({ value }) => value.name)
    .filter((name) => name !== 'limit' && name !== 'after');

/** Returns the only successful response of an operation, with its status. */
function getSuccess({ operation }: Endpoint): [string, Response] | undefined {
  const found = Object.entries(operation.responses).filter(([status]) => status.startsWith('2'));
  return found.length === 1 ? (found[0] as [string, Response]) : undefined;
}

/** Whether the stored value may be null, and no request may omit it: a merge patch would remove it. */
const isCleared = ({ isInRequests, isOptional, schema }: ResourceProperty): boolean =>
  isInRequests && !isOptional && schema.nullable === true;

/** Whether a value is an id of another resource. */
const isId = ({ type, format }: NormalizedSchema): boolean =>
  type === 'integer' && format !== 'int32';

/** Whether two schemas allow the same values, besides null. */
function hasSameValues(a: NormalizedSchema, b: NormalizedSchema): boolean {
  const keys = ['name', 'type', 'format', 'enum', 'items', 'additionalProperties'] as const;
  return keys.every((key) => isDeepStrictEqual(a[key], b[key]));
}

/** Sorts resources so that each follows those that it references. */
function sortByReferences(resources: readonly Resource[]): Resource[] {
  const sorted = new Set<Resource>();
  const visit = (resource: Resource, path: readonly Resource[]): void => {
    if (path.includes(resource)) return;
    for (const table of resource.references) {
      const target = resources.find(({ names }) => names.table === table);
      if (target !== undefined && target !== resource) visit(target, [...path, resource]);
    }
    sorted.add(resource);
  };
  for (const resource of resources) visit(resource, []);
  return [...sorted];
}
