/** The data that the stages of the generator pass on: read a contract, plan its resources, write files. */

export const METHODS = ['get', 'put', 'post', 'patch', 'delete'] as const;
export type Method = (typeof METHODS)[number];

/** Stops the run with the problems of a contract, one on each line. */
export class ContractError extends Error {
  constructor(problems: readonly string[]) {
    const more = problems.length > 10 ? [`… and ${problems.length - 10} more`] : [];
    super([...problems.slice(0, 10).map((each) => each.slice(0, 500)), ...more].join('\n'));
  }
}

/** A schema as `@Property` takes it, in which an object with properties is a class. */
export interface Schema {
  readonly type?: 'string' | 'integer' | 'number' | 'boolean' | 'array' | 'object';
  /** The class of an object with properties; then there is no `type`. */
  readonly class?: DtoClass;
  readonly format?: string;
  readonly enum?: readonly (string | number | boolean)[];
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly notBlank?: boolean;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf?: number;
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: boolean;
  readonly additionalProperties?: Schema | boolean;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  /** Published, but not validated. */
  readonly anyOf?: readonly Schema[];
  readonly nullable?: boolean;
  readonly default?: unknown;
  readonly readOnly?: boolean;
  readonly writeOnly?: boolean;
  readonly deprecated?: boolean;
  readonly description?: string;
  readonly example?: unknown;
  /** No two rows have the same value (`x-unique`). */
  readonly unique?: boolean;
  /** The table whose id the value is (`x-references`). */
  readonly references?: string;
}

export interface Property extends Schema {
  readonly name: string;
  readonly required: boolean;
}

/** A class of the generated code. */
export interface DtoClass {
  readonly name: string;
  /** The name in the OpenAPI document. */
  readonly publishedName: string;
  readonly description?: string | undefined;
  /** Filled after the class is created, because it may contain itself. */
  readonly properties: Property[];
  /** The properties that no class of JavaScript can have. */
  readonly unusable: { readonly name: string; readonly required: boolean }[];
}

export interface Parameter extends Property {
  readonly in: 'path' | 'query' | 'header' | 'cookie';
  /** The reason why requests cannot contain the parameter. */
  readonly unsupported?: string | undefined;
}

export interface Body {
  readonly schema: Schema;
  readonly required: boolean;
  readonly description?: string | undefined;
  readonly contentTypes: readonly string[];
}

export interface Success {
  readonly status: number;
  readonly description: string;
  /** The schema of a JSON response. */
  readonly schema?: Schema | undefined;
  /** The media types of a response that is not JSON. */
  readonly contentTypes?: readonly string[];
}

export interface Operation {
  readonly method: Method;
  readonly path: string;
  readonly operationId: string;
  /** The name of its method. */
  readonly name: string;
  readonly summary?: string | undefined;
  readonly description?: string | undefined;
  readonly deprecated: boolean;
  readonly tags: readonly string[];
  readonly isPublic: boolean;
  /** `x-resource: false`: a person implements it. */
  readonly isManual: boolean;
  readonly parameters: readonly Parameter[];
  readonly body?: Body | undefined;
  readonly success: Success;
  /** The descriptions of its other responses, by status. */
  readonly errors: Readonly<Record<string, string>>;
}

/** Returns an operation as messages name it, such as `GET /pets`. */
export const toPlace = ({ method, path }: Pick<Operation, 'method' | 'path'>): string =>
  `${method.toUpperCase()} ${path}`;

export interface LeftOut {
  readonly operation: string;
  readonly reason: string;
}

/** Differences from the contract, each with its places. */
export class Notes {
  private readonly places = new Map<string, Set<string>>();

  add(text: string, place = ''): void {
    this.places.set(text, (this.places.get(text) ?? new Set()).add(place));
  }

  toLines(): string[] {
    return [...this.places].map(([text, places]) => {
      const named = [...places].filter((each) => each !== '');
      const more = named.length > 3 ? ` and ${named.length - 3} more` : '';
      return named.length === 0 ? text : `${named.slice(0, 3).join(', ')}${more}: ${text}`;
    });
  }
}

export interface Contract {
  readonly operations: readonly Operation[];
  readonly classes: readonly DtoClass[];
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly leftOut: readonly LeftOut[];
  readonly notes: Notes;
}

export type IdKind = 'integer' | 'uuid' | 'text';

/** A parameter of a path above a resource: the id of a parent, which each row has. */
export interface Owner {
  readonly parameter: string;
  readonly resource: Resource;
  /** The property of the entity. */
  readonly property: string;
}

/** The source of a column's value that a request does not contain: the path, the time, or a constant. */
export type Filling = 'owner' | 'now' | 'now on changes' | 'default';

export interface Column {
  /** The published name; undefined if no response shows it. */
  readonly name: string | undefined;
  /** The property of the entity. */
  readonly property: string;
  /** The name in the database. */
  readonly column: string;
  /** The schema of the property in all bodies: where their limits differ, the widest. */
  schema: Schema;
  /** Whether the TypeScript types of bodies and responses differ. */
  isMixed: boolean;
  readonly nullable: boolean;
  filling: Filling | undefined;
  /** Whether a list selects rows by it. */
  isFilter: boolean;
}

/** A resource, which a `POST` and a `GET` of the same object make. */
export interface Resource {
  /** The name of the class of the rows, without `Entity`. */
  readonly name: string;
  readonly table: string;
  /** The properties of the service that have its operations, and those of its lists in an envelope: no method has their names. */
  readonly members: { readonly rows: string; readonly list: string };
  readonly dto: DtoClass;
  /** `GET /things/{x}`, or `GET /things`, as messages name it. */
  readonly shownBy: string;
  /** The route of the collection, with `{}` for parameters and without a slash at the end. */
  readonly route: string;
  readonly id: {
    readonly property: string | undefined;
    readonly kind: IdKind;
    byClient: boolean;
    readonly length: number | undefined;
  };
  readonly columns: Column[];
  readonly owners: readonly Owner[];
}

/** A body, a response or the items of a list, which may be in a property of an object. */
export interface Wrapped {
  readonly property?: string | undefined;
  readonly dto: DtoClass;
}

/** The meaning of a paging property of an envelope. */
export type PagingRole = 'total' | 'limit' | 'offset' | 'page' | 'pages' | 'next' | 'hasMore';
export interface Envelope {
  readonly items: string;
  readonly paging: { readonly [name: string]: PagingRole | Envelope['paging'] };
  /** The properties that are null without a next page. */
  readonly nullable: ReadonlySet<string>;
  /** The properties that lists never have. */
  readonly missing: readonly string[];
}

export interface Paging {
  readonly limit: string;
  readonly by: 'offset' | 'page' | 'after';
  /** The parameter that selects another page. */
  readonly parameter: string;
  readonly firstPage: 0 | 1;
  /** Whether the parameter is a text although ids are numbers. */
  readonly isText: boolean;
}

export interface Order {
  readonly parameter: string;
  /** The properties of the entity by the values of the parameter. */
  readonly columns: Readonly<Record<string, string>>;
  readonly direction?: string | undefined;
  /** The value of `direction` that sorts in descending order. */
  readonly descending?: string | undefined;
}

interface Implemented {
  readonly resource: Resource;
  /** Parameters with which a request gets 501. */
  readonly refused: readonly string[];
}

export type Implementation =
  | { readonly kind: 'stub'; readonly reason: string }
  | (Implemented & {
      readonly kind: 'list';
      readonly filters: readonly { readonly parameter: string; readonly column: Column }[];
      readonly paging?: Paging | undefined;
      readonly order?: Order | undefined;
      readonly envelope?: Envelope | undefined;
    })
  | (Implemented & {
      readonly kind: 'create' | 'read' | 'replace' | 'patch' | 'delete';
      readonly sent?: Wrapped | undefined;
      /** The content of the response. */
      readonly returns: 'object' | 'id' | 'nothing';
      readonly wrapper?: string | undefined;
      /** The parameter that has the id. */
      readonly key: string;
    });

export type ImplementedOperation = Exclude<Implementation, { kind: 'stub' }>;

export interface PlannedOperation extends Operation {
  readonly implementation: Implementation;
  /** Whether a person has completed the stub. */
  readonly isCompleted?: boolean;
  /** The reason why an operation is not implemented after the contract changed. */
  readonly todo?: string | undefined;
}

export interface Module extends Omit<Contract, 'operations'> {
  readonly name: string;
  /** The name of the contract. */
  readonly source: string;
  readonly operations: readonly PlannedOperation[];
  readonly resources: readonly Resource[];
}

/** Returns whether validated requests and responses always have a property. */
export const isGiven = ({ required, default: value }: Property): boolean =>
  required || value !== undefined;

export const isScalar = ({ type }: Schema): boolean =>
  type !== undefined && type !== 'array' && type !== 'object';
