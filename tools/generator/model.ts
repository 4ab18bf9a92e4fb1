/**
 * What the generator makes a module from. Both front ends, `from` (a contract) and `resource` (`--fields`), make one,
 * and the writers turn it into files.
 */

import type { Schema as PlatformSchema } from '../../src/platform/validation/schema.js';

export const METHODS = ['get', 'put', 'post', 'patch', 'delete'] as const;
export type Method = (typeof METHODS)[number];

/** What a schema of `@Property` contains besides keywords, of which the generator knows more or writes another form. */
type Written =
  | ('type' | 'enum' | 'const' | 'pattern' | 'optional' | 'items' | 'properties')
  | ('additionalProperties' | 'oneOf' | 'anyOf' | 'discriminator');

/** The schema that `@Property` takes, without references, 3.0's and 3.1's forms made one, before its classes are written. */
export interface Schema extends Omit<PlatformSchema, Written> {
  readonly type?: 'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object';
  /** The class of the object; then there is no `type`. */
  readonly class?: DtoClass;
  readonly enum?: readonly (string | number | boolean)[];
  readonly pattern?: string;
  readonly items?: Schema;
  /** The properties of an object without a class. */
  readonly properties?: readonly Property[];
  readonly additionalProperties?: Schema | true;
  /** Any one of the schemas. Without a discriminator, the value is accepted as it is. */
  readonly oneOf?: readonly Schema[];
  readonly discriminator?: Discriminator;
  /** Bytes: a body or a response that is not JSON. */
  readonly binary?: readonly string[];
  /** No two rows have the same value (`x-unique`). */
  readonly unique?: boolean;
  /** The service assigns the time of the request (`x-assigned: now`). */
  readonly assigned?: 'now' | undefined;
  /** The table whose id the value is (`x-references`). */
  readonly references?: string;
}

/** The properties of an object, with a class or without; undefined for other values. */
export const getProperties = ({
  class: dto,
  properties,
}: Schema): readonly Property[] | undefined => dto?.properties ?? properties;

/** A schema and those that it contains, as far as they are not those of a class; by default also those of the items of arrays. */
export function getParts(schema: Schema, hasItems = true): Schema[] {
  const { items, properties = [], additionalProperties, oneOf = [] } = schema;
  const values = additionalProperties === true ? undefined : additionalProperties;
  const parts = [hasItems ? items : undefined, ...properties, values, ...oneOf];
  return [schema, ...parts.flatMap((each) => (each === undefined ? [] : getParts(each, hasItems)))];
}

/** A schema and all that it contains, at any depth; by default also the items of arrays. */
export function getNested(schema: Schema, hasItems = true, seen = new Set<DtoClass>()): Schema[] {
  return getParts(schema, hasItems).flatMap((part) => {
    const properties =
      part.class === undefined || seen.has(part.class) ? [] : part.class.properties;
    if (part.class !== undefined) seen.add(part.class);
    return [part].concat(properties.flatMap((each) => getNested(each, hasItems, seen)));
  });
}

export interface Discriminator {
  readonly property: string;
  /** The class for each value of the property. */
  readonly mapping: Readonly<Record<string, DtoClass>>;
}

export interface Property extends Schema {
  /** As it is published. */
  readonly name: string;
  readonly required: boolean;
}

/** Whether an object always has a property, at least with its default. */
export const isGiven = ({ required, default: value }: Property): boolean =>
  required || value !== undefined;

/** A schema that becomes a class. */
export interface DtoClass {
  /** The name of the class. */
  readonly name: string;
  /** The name in the OpenAPI document. */
  readonly publishedName: string;
  readonly description: string | undefined;
  /** Set after it is created, because they may have the class itself. */
  properties: readonly Property[];
}

/** A property of a class, by its name. */
export const getProperty = (dto: DtoClass | undefined, name: string): Property | undefined =>
  dto?.properties.find((each) => each.name === name);

/** The properties that requests have. */
export const getSent = ({ properties }: DtoClass): readonly Property[] =>
  properties.filter(({ readOnly }) => readOnly !== true);

export interface Parameter extends Property {
  readonly in: 'path' | 'query';
}

export interface Operation {
  readonly method: Method;
  /** As in the contract: `/pets/{petId}`. */
  readonly path: string;
  /** As it is published. */
  readonly operationId: string;
  /** The name of the method. */
  readonly name: string;
  readonly tags: readonly string[];
  readonly summary: string | undefined;
  readonly description: string | undefined;
  readonly deprecated: boolean;
  readonly isPublic: boolean;
  readonly parameters: readonly Parameter[];
  readonly body: Body | undefined;
  readonly ifMatch: 'optional' | 'required' | undefined;
  readonly success: Success;
  /** The descriptions of the errors that the contract names, by status. */
  readonly errors: Readonly<Record<number, string>>;
  /** Whether it stores its body, if the contract says so (`x-resource`). */
  readonly isResource: boolean | undefined;
  /** The optional headers that it does not evaluate: a request with one gets 501. */
  readonly unsupportedHeaders: readonly string[];
  /** The optional query parameters that no class can have, such as `filter[name]`: a request with one gets 501. */
  readonly unsupportedQuery: readonly Parameter[];
  /** Why it can only be a stub, whatever the others are. */
  readonly unsupported: string | undefined;
}

export interface Body {
  readonly schema: Schema;
  readonly required: boolean;
  readonly description: string | undefined;
  readonly isMergePatch: boolean;
  /** Whether it is a form instead of JSON. */
  readonly isForm: boolean;
}

export interface Success {
  readonly status: number;
  readonly description: string;
  readonly schema: Schema | undefined;
  /** The names of the headers that the contract declares. */
  readonly headers: readonly string[];
}

/** A contract, without what the generator does not use. */
export interface Contract {
  /** Of all paths, instead of `/v1`: `/api/v2`, or an empty text. */
  readonly prefix: string;
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly operations: readonly Operation[];
  readonly classes: readonly DtoClass[];
  /** What is not made at all: an operation or a webhook, and why. */
  readonly leftOut: readonly LeftOut[];
  readonly notes: Notes;
}

/** How the module differs from the contract: sentences, with the places that each is true of. */
export class Notes {
  private readonly places = new Map<string, Set<string>>();

  /** @param place an operation, a schema or a property; without it, the sentence is true of the whole contract */
  add(text: string, place?: string): void {
    const places = this.places.get(text) ?? new Set();
    this.places.set(text, place === undefined ? places : places.add(place));
  }

  copy(): Notes {
    const copy = new Notes();
    for (const [text, places] of this.places) copy.places.set(text, new Set(places));
    return copy;
  }

  entries(): [text: string, places: readonly string[]][] {
    return [...this.places].map(([text, places]) => [text, [...places]]);
  }
}

export interface LeftOut {
  readonly operation: string;
  readonly reason: string;
}

/** What is stored in one table. */
export interface Resource {
  /** The class of the entity, without `Entity`: `SpecialEvent`. */
  readonly name: string;
  /** `special_events`. */
  readonly table: string;
  /** The operation that creates it, and the class of its body. */
  readonly create: Operation;
  readonly request: DtoClass;
  /** The class that clients see: that of the response, or, if there is none, of the request. */
  readonly dto: DtoClass;
  /** Whether clients see another resource as the same class. */
  sharesDto: boolean;
  /** The path of the operation that creates it, without names of parameters and a slash at the end: `/pets/{}/toys`. */
  readonly collection: string;
  /** What is in the path of the collection, from left to right. */
  readonly owners: readonly Owner[];
  readonly id: ResourceId;
  readonly columns: readonly Column[];
  /** Whether it has an ETag, which If-Match is compared with: known after its operations. */
  versioned: boolean;
}

/** The table that a column refers to, or each item of its array. */
export const getReferenced = ({ references, join }: Column): string | undefined =>
  references ?? join?.columns[1]!.references;

/** A column of a resource, by the name of its property. */
export const getColumn = ({ columns }: Resource, name: string): Column | undefined =>
  columns.find((column) => column.name === name);

/** A table whose primary key is the id of a row and an id that the row refers to. */
export interface Join {
  /** The class of the entity, without `Entity`: `PetTag`. */
  readonly name: string;
  /** `pet_tags`. */
  readonly table: string;
  readonly columns: readonly Column[];
}

export interface ResourceId {
  /** Its name in the DTO; undefined if clients do not see it. */
  readonly property: string | undefined;
  readonly kind: 'integer' | 'uuid' | 'text';
  /** Who chooses it. */
  readonly by: 'service' | 'client';
}

/** Ids, and the values of references to them. */
export const ID_SCHEMAS: Readonly<Record<ResourceId['kind'], Schema>> = {
  integer: { type: 'integer', format: 'int64', minimum: 1, maximum: Number.MAX_SAFE_INTEGER },
  uuid: { type: 'string', format: 'uuid' },
  text: { type: 'string', maxLength: 255 },
};

/** A column, with the properties that it stores. */
export interface Column {
  /** In the DTOs. */
  readonly name: string;
  /** In the entity: the same, unless that is not a name of TypeScript, or the entity has another property of that name. */
  readonly property: string;
  readonly column: string;
  readonly schema: Schema;
  readonly nullable: boolean;
  readonly unique: boolean;
  /** Whether the path of a resource ends with it: it is unique below the same parent. */
  readonly isKey?: boolean;
  readonly references: string | undefined;
  /** Whether it has an index: known after the filters of lists. */
  indexed: boolean;
  /** The row is deleted with the one that it refers to. */
  readonly cascades?: boolean;
  /** The references of an array of ids, which the column has as JSON. */
  join?: Join | undefined;
  /** A value that the request does not have: the time of the request, also of each change, or one that the team decides. */
  readonly assigned?: 'now' | 'now on changes' | 'today' | 'default' | 'to decide' | undefined;
  /** It is stored as a hash, and never returned. */
  readonly hashed?: boolean;
  /** It is not in the DTO of responses. */
  readonly hidden?: boolean;
}

/** How an operation works. */
export type Implementation = StubOperation | ListOperation | CreateOperation | ItemOperation;

/** An operation that only returns 501. */
export interface StubOperation {
  readonly kind: 'stub';
  readonly reason: string;
}

/** How a response shows a resource. */
export interface Shown {
  /** The class of the resource in the response, or of each row; undefined if it has none. */
  readonly dto: DtoClass | undefined;
  /** Undefined if the resource is the response, or the rows are. */
  readonly envelope: Envelope | undefined;
}

/** How a body contains the properties of a resource. */
export interface Sent {
  readonly dto: DtoClass;
  /** The property of the body that has them, undefined if they are its own. */
  readonly property: string | undefined;
}

interface OperationOnResource extends Shown {
  readonly resource: Resource;
  readonly owners: readonly Owner[];
}

export interface ListOperation extends OperationOnResource {
  readonly kind: 'list';
  readonly filters: readonly Filter[];
  readonly paging: ListPaging;
  /** How the parameters sort it; undefined if it is in the order of the ids. */
  readonly order: Order | undefined;
}

/** The query parameters that sort a list: by a column, and in which direction. */
export interface Order {
  readonly parameter: string;
  /** The properties of the entity, by the values of the parameter. */
  readonly columns: Readonly<Record<string, string>>;
  /** The parameter of the direction, which may be the same, and its values that mean descending. */
  readonly direction: string;
  readonly descending: readonly string[];
}

/** The parameters that select a page: the maximum number of rows, and which page; empty for a whole list. */
export interface ListPaging {
  readonly limit?: string | undefined;
  readonly by?: PageParameter | undefined;
}

/** The number of rows of a page, unless the contract or a request says another one. */
export const PAGE_SIZE = 100;

/** The query parameter that selects a page. */
export interface PageParameter {
  readonly name: string;
  readonly role: 'after' | 'cursor' | 'page' | 'offset';
  /** The number of the first page is 0. */
  readonly isFromZero: boolean;
}

export interface CreateOperation extends OperationOnResource {
  readonly kind: 'create';
  readonly sent: Sent;
  /** The URL of a new resource, with the property of its key: `pets/{id}`. */
  readonly location: string | undefined;
}

/** An operation on one row. */
export interface ItemOperation extends OperationOnResource {
  readonly kind: 'read' | 'replace' | 'patch' | 'delete';
  readonly sent: Sent | undefined;
  readonly key: Key;
}

/** What selects the one row of an operation. */
export interface Key {
  /** The property of the entity: `id`, or another unique one. */
  readonly property: string;
  /** The parameter of the path, or the property of the body. */
  readonly name: string;
  readonly in: 'path' | 'body';
}

/** A query parameter that selects rows by a column. */
export interface Filter {
  readonly parameter: string;
  readonly column: Column;
  /** The column is an array, of which an item has the text, or has it in a property. */
  readonly item?: { readonly property: string | undefined } | undefined;
}

/** A parameter in the path of a collection: each row has its value in a column. */
export interface Owner {
  readonly parameter: string;
  /** The names of that column in the DTOs and in the entity. */
  readonly name: string;
  readonly property: string;
  readonly kind: ResourceId['kind'];
  /** The parent, whose id the value is; undefined if it is the id of something above the parent, or of nothing. */
  readonly resource: Resource | undefined;
}

/** The owner that is the parent of a resource, undefined if it has none. */
export const getParent = (
  owners: readonly Owner[],
): (Owner & { readonly resource: Resource }) | undefined =>
  owners.find((each): each is Owner & { resource: Resource } => each.resource !== undefined);

/** The owners that nothing creates, such as a tenant: any value is accepted. */
export function getUnchecked(owners: readonly Owner[]): readonly Owner[] {
  const above = getParent(owners)?.resource.owners.length ?? 0;
  return owners.filter(({ resource }, index) => resource === undefined && index >= above);
}

/** A response that is an object with the resource, or with the rows of a list, in one property. */
export interface Envelope {
  /** That property; undefined if the response only says that the operation succeeded. */
  readonly content: Property | undefined;
  /** The properties that tell something about the rows. */
  readonly paging: PagingProperties;
  /** The properties that always have the same value. */
  readonly constants: Readonly<Record<string, unknown>>;
  /** The optional properties that nothing is known of. */
  readonly unknown: readonly string[];
}

/** What a property tells about the rows of a list. The last page has no next one, or null or an empty text for it. */
export type PagingRole =
  | ('total' | 'limit' | 'offset' | 'page' | 'pages' | 'hasMore')
  | ('next' | 'next or null' | 'next or empty');

/** The roles of properties, by their names; those in an object, such as `meta`, are one level deeper. */
export interface PagingProperties {
  readonly [name: string]: PagingRole | PagingProperties;
}

export interface PlannedOperation extends Operation {
  /** The names of optional query parameters without a known effect, for which the service returns 501. */
  readonly refused: readonly string[];
  readonly implementation: Implementation;
}

/** Everything that the writers need: a contract, with what is made of it. */
export interface Module extends Contract {
  /** Its folder: `pets`. */
  readonly name: string;
  /** What it was generated from, for the first line of the generated file. */
  readonly source: string;
  /** The path of the contract, which the test of the module reads. */
  readonly file?: string | undefined;
  readonly resources: readonly Resource[];
  readonly operations: readonly PlannedOperation[];
}
