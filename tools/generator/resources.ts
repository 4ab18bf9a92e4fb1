/**
 * Finds out which operations of a contract store rows: those that create, list, read, replace, patch and delete one
 * kind of object. All others are stubs, each with a reason.
 */
import { isDeepStrictEqual } from 'node:util';
import type {
  Column,
  Contract,
  DtoClass,
  Envelope,
  Filter,
  Implementation,
  Join,
  Key,
  Module,
  Notes,
  Operation,
  Parameter,
  Parent,
  PlannedOperation,
  Property,
  Resource,
  ResourceId,
  Schema,
} from './model.js';
import { getParts } from './write/source.js';
import {
  isIdentifier,
  makeUnique,
  toCamelCase,
  toMemberName,
  toPascalCase,
  toPlural,
  toSingular,
  toSnakeCase,
} from './names.js';
import { toType } from './write/source.js';

/** Names of properties that hold the time of the request that creates a row, or last changes it. */
const TIMESTAMP = /^(date|time)?_?(created|inserted|added)(_?(at|on|date|time))?$/i;
const CHANGE_TIME = /^(date|time|last)?_?(updated|modified|changed)(_?(at|on|date|time))?$/i;
const PASSWORD = /^(password|passwd|passphrase)$/i;

/** The roles of query parameters and of the properties of lists, by their names in lower case without separators. */
const LIMIT_NAMES = new Set(['limit', 'perpage', 'pagesize', 'size']);
const ENVELOPE_ROLES: Readonly<Record<string, Envelope['paging'][string]>> = {
  total: 'total',
  totalcount: 'total',
  totalitems: 'total',
  totalelements: 'total',
  count: 'count',
  limit: 'limit',
  perpage: 'limit',
  pagesize: 'limit',
  size: 'limit',
  offset: 'offset',
  skip: 'offset',
  page: 'page',
  pagenumber: 'page',
  currentpage: 'page',
  pages: 'pages',
  totalpages: 'pages',
  pagecount: 'pages',
  next: 'next',
  hasmore: 'hasMore',
  hasnext: 'hasMore',
};

const toRole = (name: string): string => name.replaceAll(/[^A-Za-z]/g, '').toLowerCase();

const UNKNOWN = 'nothing says what it contains; it is not returned.';

/** What is made of a contract; its classes are as the service publishes them. */
type Plan = Pick<Module, 'classes' | 'resources' | 'operations'>;

/**
 * Plans a module, and adds its differences to the notes of the contract.
 *
 * @param tables the names of the tables that the service already has, without those of this module
 */
export function planModule(contract: Contract, tables: readonly string[] = []): Plan {
  return new Planner(contract, tables).plan();
}

/** A resource, and the operation that creates it. */
interface Draft {
  readonly create: Operation;
  /** `/pets`. */
  readonly collection: string;
  /** The class of the response, or, if there is none, of the request. */
  readonly dto: DtoClass;
  readonly request: DtoClass;
  readonly resource: Resource;
  readonly parent: Parent | undefined;
}

class Planner {
  private readonly notes: Notes;
  private drafts: Draft[] = [];
  /** Whether a class accepts the values of another, by their names. */
  private readonly accepted = new Map<string, boolean>();
  private readonly resourceNames = new Set<string>();
  private readonly tables: Set<string>;

  constructor(
    private readonly contract: Contract,
    tables: readonly string[],
  ) {
    this.tables = new Set(tables);
    this.notes = contract.notes;
  }

  plan(): Plan {
    const reasons = new Map<Operation, string>();
    // Parents before what is below them.
    const creates = this.contract.operations
      .filter(({ method }) => method === 'post')
      .toSorted((a, b) => a.path.split('{').length - b.path.split('{').length);
    for (const operation of creates) {
      const draft = this.toDraft(operation);
      if (typeof draft === 'string') reasons.set(operation, draft);
      else this.drafts.push(draft);
    }
    const found = new Map(
      this.contract.operations.map((operation) => [
        operation,
        reasons.get(operation) ?? this.implement(operation),
      ]),
    );
    this.dropInvisible(found);
    const operations = [...found].map(([operation, implementation]) =>
      this.toPlanned(operation, implementation),
    );
    const resources = this.drafts.map((draft) => this.finish(draft, operations));
    return {
      classes: this.contract.classes.map((dto) => this.toPublished(dto)),
      resources,
      operations,
    };
  }

  /** Makes stubs of the operations that create what no response identifies. */
  private dropInvisible(found: Map<Operation, Implementation | string>): void {
    const used = new Set(
      [...found.values()].flatMap((each) =>
        typeof each === 'string' || each.kind === 'create' ? [] : each.resource,
      ),
    );
    const isVisible = ({ create, resource: { id, name } }: Draft): boolean =>
      used.has(name) || (id.property !== undefined && create.success.schema !== undefined);
    for (const { create } of this.drafts.filter((draft) => !isVisible(draft)))
      found.set(create, 'no operation shows what it would store');
    this.drafts = this.drafts.filter(isVisible);
  }

  private toPlanned(operation: Operation, found: Implementation | string): PlannedOperation {
    if (typeof found !== 'string') {
      const { body, operationId } = operation;
      if (body?.required === false) this.notes.add('the body is required.', operationId);
      return {
        ...operation,
        body: body && { ...body, required: true },
        parameters: this.limitPages(operation, found),
        implementation: found,
      };
    }
    // An empty body of bytes is a missing one.
    const body = operation.body && {
      ...operation.body,
      required: operation.body.required || operation.body.schema.binary !== undefined,
    };
    return { ...operation, body, implementation: { kind: 'stub', reason: found } };
  }

  /** Adds the limits that the parameters of pages lack. */
  private limitPages(
    { parameters, operationId }: Operation,
    implementation: Implementation,
  ): readonly Parameter[] {
    if (implementation.kind !== 'list') return parameters;
    const { limit, by } = implementation.paging;
    return parameters.map((parameter) => {
      const { name, in: place } = parameter;
      const isPaging = place === 'query' && (name === limit || (name === by && by !== 'after'));
      if (!isPaging) return parameter;
      const limits: Schema = PAGE_LIMITS[name === limit ? 'limit' : (by as 'page' | 'offset')];
      const limited = { ...limits, ...parameter };
      if (limited.maximum !== parameter.maximum)
        this.notes.add(`${name} is at most ${limited.maximum}.`, operationId);
      return limited;
    });
  }

  /** A class as the service publishes it: a password is never returned, and an indexed text has a limit. */
  private toPublished(dto: DtoClass): DtoClass {
    const draft = this.drafts.find(({ dto: own, request }) => own === dto || request === dto);
    if (draft === undefined) return dto;
    const properties = dto.properties.map((property): Property => {
      const column = getColumn(draft.resource, property.name);
      if (column?.hashed === true)
        return { ...property, required: property.required && dto !== draft.dto, writeOnly: true };
      return column?.unique === true && isUnlimitedText(property)
        ? { ...property, maxLength: MAX_INDEXED_LENGTH }
        : property;
    });
    return { ...dto, properties };
  }

  /**
   * Whether TypeScript assigns each value of one schema to another, apart from null.
   *
   * @param isPatch whether the value is a merge patch, whose objects may lack properties
   */
  private accepts(to: Schema, from: Schema, isPatch = false): boolean {
    const [properties, others] = [this.getProperties(to), this.getProperties(from)];
    if (properties !== undefined && others !== undefined) {
      const key = `${to.class} ${from.class} ${isPatch}`;
      const isNamed = to.class !== undefined && from.class !== undefined;
      if (to.class === from.class && isNamed) return true;
      if (isNamed && this.accepted.has(key)) return this.accepted.get(key)!;
      // Classes may contain themselves.
      this.accepted.set(key, true);
      const hasCommon = properties.some(({ name }) => others.some((each) => each.name === name));
      const isEmpty = properties.length === 0 || others.length === 0;
      const isAccepted =
        (hasCommon || isEmpty) &&
        properties.every((property) => {
          const other = others.find(({ name }) => name === property.name);
          const isOptional = isPatch || !property.required;
          if (other === undefined) return isOptional;
          return (
            (other.required || isOptional) &&
            (other.nullable !== true || property.nullable === true || isPatch) &&
            this.accepts(property, other, isPatch)
          );
        });
      this.accepted.set(key, isAccepted);
      return isAccepted;
    }
    if (to.enum !== undefined)
      return from.enum?.every((value) => to.enum!.includes(value)) === true;
    if (to.items !== undefined && from.items !== undefined)
      return this.accepts(to.items, from.items);
    if (toType({ ...to, nullable: false }) === 'unknown') return true;
    return [to.type, from.type].every((type) => type === 'number' || type === 'integer')
      ? to.type === 'number' || from.type === 'integer'
      : to.type === from.type &&
          isDeepStrictEqual(
            [to.additionalProperties, to.oneOf, properties],
            [from.additionalProperties, from.oneOf, others],
          );
  }

  /** Whether a property of a response always has the value of a column. */
  private shows(property: Property, { schema, nullable, hashed }: Column): boolean {
    if (hashed === true) return !property.required;
    const isGiven = !nullable || !property.required || property.nullable === true;
    return isGiven && this.accepts(property, schema);
  }

  private getProperties(schema: Schema): readonly Property[] | undefined {
    return schema.properties ?? this.getClass(schema)?.properties;
  }

  private getClass(schema: Schema | undefined): DtoClass | undefined {
    return this.contract.classes.find(({ name }) => name === schema?.class);
  }

  /** Returns the resource that an operation creates, or why it creates none. */
  private toDraft(create: Operation): Draft | string {
    const { body, success, path } = create;
    if (create.unsupported !== undefined) return create.unsupported;
    if (/\}\/?$/.test(path)) return 'a POST to a single resource is not a standard operation';
    if (path === '/') return 'its path has no name';
    const request = this.getClass(body?.schema);
    if (body === undefined) return 'it has no body that could be stored';
    if (request === undefined) return 'the body is not an object with a name';
    const effectless = findQueryParameter(create);
    if (effectless !== undefined) return effectless;
    if (![200, 201, 204].includes(success.status))
      return `the status ${success.status} says more than that a row was stored`;
    const dto = success.schema === undefined ? request : this.getClass(success.schema);
    if (dto === undefined) return 'the response is not an object with a name';
    const other = this.drafts.find((draft) => draft.dto.name === dto.name);
    if (other !== undefined) return `${other.create.operationId} already creates such objects`;
    if (
      !request.properties.some(({ name, readOnly }) => readOnly !== true && getProperty(dto, name))
    )
      return 'the response has nothing of what the request contains';
    const parent = this.findParent(path);
    if (typeof parent === 'string') return parent;
    const pathKey = this.findPathKey(path);
    const id = this.findId(request, dto, pathKey);
    const columns = this.toColumns(request, dto, id, parent, pathKey);
    if (typeof columns === 'string') return columns;
    const noun = toSingular(
      path.split('/').findLast((segment) => /^[^{]/.test(segment)) ?? dto.name,
    );
    const name = makeUnique(toPascalCase(noun), this.resourceNames);
    const table = makeUnique(toSnakeCase(toPlural(noun)), this.tables);
    const resource = { name, table, dto: dto.name, id, columns, versioned: false };
    return { create, collection: path.replace(/\/$/, ''), dto, request, resource, parent };
  }

  /** The parameter that follows a collection in the paths of the contract: `petId` of `/pets/{petId}`. */
  private findPathKey(collection: string): string | undefined {
    const prefix = `${collection.replace(/\/$/, '')}/`;
    const names = this.contract.operations.flatMap(({ path }) =>
      path.startsWith(prefix) ? (/^\{([^}]+)\}/.exec(path.slice(prefix.length))?.[1] ?? []) : [],
    );
    return names[0];
  }

  /** The resource that a path is below, undefined if it is below none, or why it cannot be. */
  private findParent(path: string): Parent | string | undefined {
    const [parameter, ...more] = [...path.replace(/\/\{[^}]+\}$/, '').matchAll(/\{([^}]+)\}/g)].map(
      ([, name]) => name!,
    );
    if (parameter === undefined) return undefined;
    if (more.length > 0) return 'it is below more than one parameter';
    const owner = this.drafts.find(({ collection }) =>
      path.startsWith(`${collection}/{${parameter}}/`),
    );
    if (owner === undefined) return `no operation creates what {${parameter}} identifies`;
    if (owner.resource.id.property === undefined) return `{${parameter}} is not an id`;
    const name = /^(id|version)$/i.test(parameter) ? `${owner.resource.name} id` : parameter;
    return { resource: owner.resource.name, parameter, property: toMemberName(name) };
  }

  /** The property that identifies a resource: named as the parameter of the path, or as ids usually are. */
  private findId(request: DtoClass, dto: DtoClass, pathKey: string | undefined): ResourceId {
    const names = [
      'id',
      '_id',
      `${toCamelCase(dto.name)}Id`,
      `${toSnakeCase(dto.name)}_id`,
      'uuid',
    ];
    const property = (pathKey === undefined ? names : [pathKey, ...names])
      .flatMap((name) => getProperty(dto, name) ?? [])
      .find((each) => isIdType(each) && (each.type === 'integer' || /id$/i.test(each.name)));
    if (property === undefined) return { property: undefined, kind: 'integer', by: 'service' };
    const { name, type, format } = property;
    const sent = getProperty(request, name);
    const isSent = sent !== undefined && sent.readOnly !== true;
    const by = isSent && sent.required ? 'client' : 'service';
    if (isSent && by === 'service')
      this.notes.add(
        'the service assigns it; one in a request is ignored.',
        `${request.publishedName}.${name}`,
      );
    if (type === 'integer') return { property: name, kind: 'integer', by };
    if (by === 'service' && format !== 'uuid')
      this.notes.add('the service assigns a UUID.', `${dto.publishedName}.${name}`);
    const kind = by === 'service' || format === 'uuid' ? 'uuid' : 'text';
    return { property: name, kind, by };
  }

  /** Returns the columns of a resource, or why it cannot be stored. */
  private toColumns(
    request: DtoClass,
    dto: DtoClass,
    id: ResourceId,
    parent: Parent | undefined,
    pathKey: string | undefined,
  ): Column[] | string {
    const columns: Column[] = [];
    for (const property of request.properties) {
      const { name, readOnly, type } = property;
      if (name === id.property || readOnly === true) continue;
      const place = `${request.publishedName}.${name}`;
      const hashed = type === 'string' && PASSWORD.test(name);
      if (hashed) this.notes.add('stored as a hash, and never returned.', place);
      const shown = getProperty(dto, name);
      const column = toColumn(property, pathKey);
      if (column.unique && isUnlimitedText(property))
        this.notes.add(`at most ${MAX_INDEXED_LENGTH} characters, because it is unique.`, place);
      const isShown = shown !== undefined && !hashed && this.shows(shown, column);
      if (shown !== undefined && !hashed && !isShown) {
        if (shown.required) return `${dto.publishedName}.${name} may differ from ${place}`;
        this.notes.add(
          'it is not what the request contains; it is not returned.',
          `${dto.publishedName}.${name}`,
        );
      }
      if ((property.references ?? getJoined(property)) === undefined && this.refers(property))
        this.notes.add('that its ids exist is not checked.', place);
      // The class of responses lacks it.
      const nullable = column.nullable || (hashed && request === dto);
      columns.push({ ...column, nullable, hashed, hidden: !isShown });
    }
    for (const property of dto.properties) {
      const { name, required, format } = property;
      const sent = getProperty(request, name);
      if ([id.property, parent?.property].includes(name)) continue;
      if (sent !== undefined && sent.readOnly !== true) continue;
      const assigned = getAssigned(property);
      const place = `${dto.publishedName}.${name}`;
      if (assigned !== undefined) columns.push({ ...toColumn(property), assigned });
      else if (required) return `nothing says what ${place} contains`;
      else this.notes.add(UNKNOWN, place);
      if (assigned === 'uuid' && format !== 'uuid')
        this.notes.add('nothing says what it contains; the service assigns a random text.', place);
    }
    const reason = parent && this.addParentColumn(columns, parent, dto);
    return reason ?? nameColumns(columns);
  }

  private addParentColumn(columns: Column[], parent: Parent, dto: DtoClass): string | undefined {
    const { id, table } = this.drafts.find(
      ({ resource }) => resource.name === parent.resource,
    )!.resource;
    const own = columns.findIndex(({ name }) => name === parent.property);
    const column = toColumn({ ...ID_SCHEMAS[id.kind], name: parent.property, required: true });
    const shown = getProperty(dto, parent.property);
    const hidden = shown === undefined || !this.shows(shown, column);
    if (hidden && shown?.required === true)
      return `${dto.publishedName}.${shown.name} is not its id`;
    const owned = { ...column, references: table, indexed: true, hidden };
    if (own === -1) columns.push(owned);
    else columns[own] = owned;
    return undefined;
  }

  /** Returns how an operation works on a resource, or why it is a stub. */
  private implement(operation: Operation): Implementation | string {
    if (operation.unsupported !== undefined) return operation.unsupported;
    const own = this.drafts.find(({ create }) => create === operation);
    if (own !== undefined) {
      const dto = this.getClass(operation.success.schema)?.name;
      const { resource, parent } = own;
      const location = dto === undefined ? undefined : this.toLocation(own);
      return { kind: 'create', resource: resource.name, dto, parent, location };
    }
    const list = operation.method === 'get' ? this.toList(operation) : undefined;
    return list ?? this.toItemOperation(operation);
  }

  /** The URL of a new resource, which the contract may have as a header. */
  private toLocation({ create, collection, resource }: Draft): string | undefined {
    const { property } = resource.id;
    if (!create.success.headers.includes('location') || property === undefined) return undefined;
    return `${collection.split('/').at(-1)}/{${property}}`;
  }

  /** Returns a list, why it is a stub, or undefined if the operation does not return a list. */
  private toList(operation: Operation): Implementation | string | undefined {
    const { schema } = operation.success;
    const envelope = this.toEnvelope(schema);
    const rows = schema?.type === 'array' ? schema.items : envelope?.rows;
    if (rows === undefined) return undefined;
    const shown = this.getClass(rows);
    const draft = this.drafts.find(
      (each) =>
        each.dto.name === rows.class ||
        ((operation.path === each.collection || each.request.name === rows.class) &&
          this.isPartOf(shown, each.resource)),
    );
    if (draft === undefined) return 'no operation creates the objects of the list';
    const { resource, dto } = draft;
    this.noteMissing(shown!, resource);
    if (operation.path.endsWith('}')) return 'a list of what a parameter selects is not standard';
    const parent = this.findParent(operation.path);
    if (typeof parent === 'string') return parent;
    if (parent !== undefined && getColumn(resource, parent.property) === undefined)
      return `${dto.publishedName} has no ${parent.property}`;
    const query = operation.parameters.filter((each) => each.in === 'query');
    const paging = getPaging(query, resource.id);
    const filters: Filter[] = [];
    for (const parameter of query) {
      if ([paging.limit, paging.by].includes(parameter.name)) continue;
      const column = getColumn(resource, parameter.name);
      if (column === undefined || column.hashed === true || !canFilter(parameter, column.schema))
        return `the query parameter ${parameter.name} has no known effect`;
      filters.push({ parameter: parameter.name, property: column.property });
    }
    return {
      kind: 'list',
      resource: resource.name,
      dto: shown!.name,
      filters,
      paging,
      envelope: envelope?.envelope,
      parent,
    };
  }

  /** Reads a list that is an object with one array and properties of paging. */
  private toEnvelope(
    schema: Schema | undefined,
  ): { readonly envelope: Envelope; readonly rows: Schema } | undefined {
    const properties = (schema && this.getProperties(schema)) ?? [];
    const [array, ...others] = properties.filter(({ type }) => type === 'array');
    const isResource = this.drafts.some(({ dto }) => dto.name === schema?.class);
    if (array?.items === undefined || others.length > 0 || isResource) return undefined;
    const paging: Record<string, Envelope['paging'][string]> = {};
    for (const { name, required } of properties) {
      if (name === array.name) continue;
      const role = ENVELOPE_ROLES[toRole(name)];
      if (role !== undefined) paging[name] = role;
      else if (required) return undefined;
      else this.notes.add(UNKNOWN, `${name} beside ${array.name}`);
    }
    return { envelope: { items: array.name, paging }, rows: array.items };
  }

  /** Returns an operation on one row, or why it is a stub. */
  private toItemOperation(operation: Operation): Implementation | string {
    const { method, path, success, body } = operation;
    const draft = this.drafts.find(
      ({ collection }) =>
        (path === collection && method === 'put') ||
        (path.startsWith(`${collection}/`) &&
          /^\{[^}]+\}$/.test(path.slice(collection.length + 1))),
    );
    if (draft === undefined || method === 'post')
      return 'it is none of the standard operations on what the contract creates';
    const kind = ({ get: 'read', put: 'replace', patch: 'patch', delete: 'delete' } as const)[
      method
    ];
    const effectless = findQueryParameter(operation);
    if (effectless !== undefined) return effectless;
    const shown = this.getClass(success.schema);
    if (success.schema !== undefined && !this.isPartOf(shown, draft.resource))
      return 'the response is another object than the resource';
    if (shown !== undefined) this.noteMissing(shown, draft.resource);
    if (kind === 'read' && success.schema === undefined) return 'the response has no body';
    const key = this.findKey(operation, draft);
    if (typeof key === 'string') return key;
    if (kind === 'replace' || kind === 'patch') {
      const request = this.getClass(body?.schema);
      if (request === undefined) return 'the body is not an object with a name';
      const { id, columns } = draft.resource;
      const stored = new Set([id.property, ...columns.map(({ name }) => name)]);
      const sent = request.properties.filter(({ readOnly }) => readOnly !== true);
      const unknown = sent.find(({ name }) => !stored.has(name));
      if (unknown !== undefined) return `the resource does not store ${unknown.name}`;
      for (const property of sent) {
        const { name, required, default: value } = property;
        const column = getColumn(draft.resource, name);
        if (column === undefined) continue;
        if (!this.accepts(column.schema, property, kind === 'patch'))
          return `the resource stores another ${name} than the body contains`;
        const isMissing = kind === 'replace' && !required && value === undefined;
        if (!column.nullable && (isMissing || property.nullable === true))
          return `the body may lack ${name}, which every resource has`;
      }
    }
    return { kind, resource: draft.resource.name, dto: shown?.name, key, parent: draft.parent };
  }

  /** What selects the row: the parameter that ends the path, or the id in the body of a PUT of the collection. */
  private findKey({ path, body }: Operation, { resource, dto, collection }: Draft): Key | string {
    const { property: id } = resource.id;
    if (path === collection) {
      const sent = id === undefined ? undefined : getProperty(this.getClass(body?.schema), id);
      if (sent === undefined) return 'nothing says which resource it replaces';
      return { property: 'id', name: sent.name, in: 'body' };
    }
    const name = /\{([^}]+)\}$/.exec(path)![1]!;
    const column = getColumn(resource, name);
    if (name !== id && column?.unique === true)
      return { property: column.property, name, in: 'path' };
    if (id === undefined) return `${dto.publishedName} has no property for {${name}}`;
    return { property: 'id', name, in: 'path' };
  }

  /** Whether a class shows rows of a resource: it has every required property, and half of the others. */
  private isPartOf(shown: DtoClass | undefined, resource: Resource): boolean {
    if (shown === undefined) return false;
    if (shown.name === resource.dto) return true;
    const stored = shown.properties.filter(({ name }) => isStored(resource, name));
    return (
      stored.length > 0 &&
      stored.length * 2 >= shown.properties.length &&
      shown.properties.every((property) => {
        const column = getColumn(resource, property.name);
        if (column === undefined) return !property.required || isStored(resource, property.name);
        return this.shows(property, column);
      })
    );
  }

  /** Notes the properties of a response that the resource does not have. */
  private noteMissing(shown: DtoClass, resource: Resource): void {
    for (const { name } of shown.properties)
      if (!isStored(resource, name)) this.notes.add(UNKNOWN, `${shown.publishedName}.${name}`);
  }

  /** Whether a value has ids of other resources. */
  private refers(schema: Schema, seen = new Set<string>()): boolean {
    return getParts(schema).some(({ references, class: name }) => {
      if (name === undefined || seen.has(name)) return references !== undefined;
      seen.add(name);
      return this.getClass({ class: name })!.properties.some((each) => this.refers(each, seen));
    });
  }

  private toJoin({ name, table, id }: Resource, { property, schema }: Column): Join | undefined {
    const references = getJoined(schema);
    if (references === undefined) return undefined;
    const noun = toSingular(property.replace(/(_i|I)ds?$/, ''));
    const own = { ...ID_SCHEMAS[id.kind], name: `${toCamelCase(name)}Id`, required: true };
    const other = { ...schema.items, name: `${toCamelCase(noun)}Id`, required: true };
    return {
      name: makeUnique(`${name}${toPascalCase(noun)}`, this.resourceNames),
      table: makeUnique(`${toSnakeCase(name)}_${toSnakeCase(toPlural(noun))}`, this.tables),
      columns: nameColumns([
        { ...toColumn(own), references: table, cascades: true },
        { ...toColumn(other), references, indexed: true },
      ]),
    };
  }

  /** Adds what operations need: the version for ETags, the indexes of filters, and the join entities of references. */
  private finish({ resource }: Draft, operations: readonly PlannedOperation[]): Resource {
    const own = operations.filter(
      ({ implementation }) =>
        implementation.kind !== 'stub' && implementation.resource === resource.name,
    );
    const filtered = new Set(
      own.flatMap(({ implementation }) =>
        implementation.kind === 'list'
          ? implementation.filters.map(({ property }) => property)
          : [],
      ),
    );
    return {
      ...resource,
      versioned: own.some(
        ({ ifMatch, success, implementation }) =>
          ifMatch !== undefined ||
          (implementation.kind !== 'list' && success.headers.includes('etag')),
      ),
      columns: resource.columns.map((column) => ({
        ...column,
        indexed: column.indexed || filtered.has(column.property) || column.references !== undefined,
        join: this.toJoin(resource, column),
      })),
    };
  }
}

const getProperty = (dto: DtoClass | undefined, name: string): Property | undefined =>
  dto?.properties.find((each) => each.name === name);

const getColumn = ({ columns }: Resource, name: string): Column | undefined =>
  columns.find((column) => column.name === name);

const isStored = (resource: Resource, name: string): boolean =>
  name === resource.id.property || getColumn(resource, name) !== undefined;

/** Why an operation that uses no query parameters is a stub, if it has one. */
function findQueryParameter({ parameters }: Operation): string | undefined {
  const query = parameters.find((each) => each.in === 'query');
  return query && `the query parameter ${query.name} has no known effect`;
}

function toColumn(schema: Property, pathKey?: string): Column {
  const { name, required, nullable, default: value, unique, references } = schema;
  const property =
    isIdentifier(name) && !['id', 'version'].includes(name) ? name : `${toCamelCase(name)}Value`;
  return {
    name,
    property,
    column: toSnakeCase(property),
    schema,
    nullable: nullable === true || (!required && value === undefined),
    unique: unique === true || name === pathKey,
    references,
    indexed: false,
  };
}

/** Gives each column a name of its own, and each property of the entity: `petId` and `pet_id` have the same one. */
function nameColumns(columns: readonly Column[]): Column[] {
  const names = new Set(['id', 'version']);
  const properties = new Set(names);
  return columns.map((each) => {
    const column = makeUnique(each.column, names).slice(-MAX_NAME_LENGTH);
    return Object.assign({}, each, { column, property: makeUnique(each.property, properties) });
  });
}

/** The longest name of a column that PostgreSQL keeps, in bytes. */
const MAX_NAME_LENGTH = 63;

/** The longest text that both databases can index, in characters. */
const MAX_INDEXED_LENGTH = 500;

const isUnlimitedText = ({ type, format, enum: values, maxLength = Infinity }: Schema): boolean =>
  type === 'string' &&
  values === undefined &&
  !['date', 'date-time', 'uuid'].includes(format!) &&
  maxLength > MAX_INDEXED_LENGTH;

/** The table that the ids in an array refer to. */
const getJoined = ({ type, items }: Schema): string | undefined =>
  type === 'array' ? items?.references : undefined;

/** The values of references to resources. */
const ID_SCHEMAS: Readonly<Record<ResourceId['kind'], Schema>> = {
  integer: { type: 'integer', format: 'int64' },
  uuid: { type: 'string', format: 'uuid' },
  text: { type: 'string', maxLength: 255 },
};

const isIdType = ({ type, enum: values }: Schema): boolean =>
  (type === 'integer' || type === 'string') && values === undefined;

/** What the service can assign to a property that only responses have. */
function getAssigned(property: Property): Column['assigned'] {
  const {
    name,
    type,
    format,
    default: value,
    required,
    nullable,
    pattern,
    enum: values,
  } = property;
  if (value !== undefined) return 'default';
  if (type !== 'string' || values !== undefined || pattern !== undefined) return undefined;
  const isNeeded = required && nullable !== true;
  if (format === 'date-time') {
    if (CHANGE_TIME.test(name)) return 'now on changes';
    return isNeeded || TIMESTAMP.test(name) ? 'now' : undefined;
  }
  if (format === 'date') return isNeeded || TIMESTAMP.test(name) ? 'today' : undefined;
  return isNeeded && (format === undefined || format === 'uuid') ? 'uuid' : undefined;
}

type Paging = Extract<Implementation, { kind: 'list' }>['paging'];

/** Which of the query parameters select a page. */
function getPaging(query: readonly Property[], id: ResourceId): Paging {
  const integers = query.filter(({ type }) => type === 'integer');
  const limit = integers.find(({ name }) => LIMIT_NAMES.has(toRole(name)))?.name;
  if (limit === undefined) return {};
  const idType = id.kind === 'integer' ? 'integer' : 'string';
  if (query.some(({ name, type }) => name === 'after' && type === idType))
    return { limit, by: 'after' };
  const by = (['page', 'offset'] as const).find((name) =>
    integers.some((each) => each.name === name),
  );
  return { limit, ...(by && { by }) };
}

/** The limits of parameters of pages: without them, a request could read a whole table at once. */
const PAGE_LIMITS = {
  limit: { minimum: 1, maximum: 1_000 },
  page: { minimum: 1 },
  offset: { minimum: 0 },
};

/** Whether rows can be selected by a parameter: a scalar, compared with a column that an index can have. */
function canFilter(parameter: Schema, { type, format }: Schema): boolean {
  const compared = parameter.type === 'array' ? parameter.items : parameter;
  if (type === undefined || compared?.type !== type) return false;
  return type === 'integer' || type === 'boolean' || (type === 'string' && format !== 'date-time');
}
