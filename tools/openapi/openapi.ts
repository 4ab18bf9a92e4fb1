/** The parts of an OpenAPI document, and how they refer to each other. */

export const METHODS = ['get', 'put', 'post', 'patch', 'delete'] as const;
export type Method = (typeof METHODS)[number];

export interface Reference {
  readonly $ref: string;
}

/** A schema, with the keywords of OpenAPI 3.0 and 3.1. */
export interface Schema {
  readonly type?: string | readonly string[];
  readonly nullable?: boolean;
  readonly format?: string;
  readonly description?: string;
  readonly example?: unknown;
  readonly examples?: readonly unknown[];
  readonly default?: unknown;
  readonly deprecated?: boolean;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number | boolean;
  readonly exclusiveMaximum?: number | boolean;
  readonly multipleOf?: number;
  readonly items?: SchemaOrReference;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: boolean;
  readonly properties?: Readonly<Record<string, SchemaOrReference>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | SchemaOrReference;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly readOnly?: boolean;
  readonly writeOnly?: boolean;
  readonly allOf?: readonly SchemaOrReference[];
  readonly anyOf?: readonly SchemaOrReference[];
  readonly oneOf?: readonly SchemaOrReference[];
}

/** In OpenAPI 3.1, a reference may have other keywords beside it. */
export type SchemaOrReference = Schema & Partial<Reference>;

export interface MediaType {
  readonly schema?: SchemaOrReference;
}

export interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly description?: string;
  readonly required?: boolean;
  readonly deprecated?: boolean;
  readonly style?: string;
  readonly explode?: boolean;
  readonly example?: unknown;
  readonly schema?: SchemaOrReference;
}

export type Header = Omit<Parameter, 'name' | 'in'>;

export interface RequestBody {
  readonly description?: string;
  readonly required?: boolean;
  readonly content: Readonly<Record<string, MediaType>>;
}

export interface Response {
  readonly description: string;
  readonly headers?: Readonly<Record<string, Header | Reference>>;
  readonly content?: Readonly<Record<string, MediaType>>;
}

export interface Operation {
  readonly operationId?: string;
  readonly summary?: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  readonly deprecated?: boolean;
  readonly security?: readonly object[];
  readonly parameters?: readonly (Parameter | Reference)[];
  readonly requestBody?: RequestBody | Reference;
  readonly responses: Readonly<Record<string, Response | Reference>>;
}

export type PathItem = Readonly<Partial<Record<Method, Operation>>> & {
  readonly parameters?: readonly (Parameter | Reference)[];
};

export interface OpenApiDocument {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string };
  readonly tags?: readonly { readonly name: string; readonly description?: string }[];
  readonly security?: readonly object[];
  readonly paths?: Readonly<Record<string, PathItem>>;
  readonly components?: { readonly schemas?: Readonly<Record<string, SchemaOrReference>> };
}

/** Returns the JSON pointer of a property of the value at another pointer (RFC 6901). */
export const joinPointer = (pointer: string, ...keys: (string | number)[]): string =>
  [pointer, ...keys.map((key) => String(key).replaceAll('~', '~0').replaceAll('/', '~1'))].join(
    '/',
  );

/** A value of a document, with its JSON pointer. */
export interface Located<Value> {
  readonly value: Value;
  readonly pointer: string;
}

/** Follows a reference within a document. A keyword beside it overrides the referenced one. */
export function resolve<Value extends object>(
  document: OpenApiDocument,
  value: Value | Reference,
  pointer: string,
): Located<Value> {
  if (!('$ref' in value) || typeof value.$ref !== 'string') {
    return { value: value as Value, pointer };
  }
  const { $ref, ...siblings } = value;
  const target = $ref
    .slice(2)
    .split('/')
    .map((key) => decodeURIComponent(key).replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce<unknown>((parent, key) => (parent as Record<string, unknown>)[key], document);
  const resolved = resolve(document, target as Value | Reference, $ref);
  return { value: { ...resolved.value, ...siblings }, pointer: resolved.pointer };
}

/** A schema in one form for both versions of OpenAPI. */
export interface NormalizedSchema extends Omit<
  Schema,
  'type' | 'const' | 'examples' | 'exclusiveMinimum' | 'exclusiveMaximum' | 'allOf' | 'properties'
> {
  readonly type: string | undefined;
  /** The name of the component that it is, if it is one. */
  readonly name: string | undefined;
  readonly exclusiveMinimum?: boolean;
  readonly exclusiveMaximum?: boolean;
  /** With the properties of `allOf`. */
  readonly properties: ReadonlyMap<string, Located<SchemaOrReference>>;
}

/**
 * Resolves a schema: follows references, merges `allOf`, and converts the keywords of OpenAPI 3.1 to
 * those of 3.0.
 */
export function normalizeSchema(
  document: OpenApiDocument,
  schema: SchemaOrReference,
  pointer: string,
): Located<NormalizedSchema> {
  const target = resolve(document, schema as Schema | Reference, pointer);
  const { allOf = [], anyOf, properties = {}, ...own } = target.value;
  // An object or null is a reference in `anyOf` with null, or, in OpenAPI 3.0, `allOf`.
  const alternatives = anyOf?.filter((alternative) => !isNull(alternative));
  const isNullable = alternatives !== undefined && alternatives.length < anyOf!.length;
  const parts = [...allOf, ...(isNullable ? alternatives : [])].map((part, index) =>
    normalizeSchema(document, part, joinPointer(target.pointer, 'allOf', index)),
  );
  const isAlias = parts.length === 1 && own.type !== 'object' && own.required === undefined;
  const name =
    getComponentName(schema.$ref) ?? (isAlias ? (parts[0]!.value.name ?? undefined) : undefined);
  const types = [own.type ?? []].flat().filter((type) => type !== 'null');
  const {
    type: _type,
    const: constant,
    examples,
    exclusiveMinimum,
    exclusiveMaximum,
    ...rest
  } = own;
  const inherited = Object.assign(
    {},
    ...parts.map(({ value }) => value),
  ) as Partial<NormalizedSchema>;
  // A composition is not described by its parts.
  if (!isAlias)
    for (const key of ['description', 'example'] as const) Reflect.deleteProperty(inherited, key);
  const merged = { ...inherited, ...rest };
  const type =
    types[0] ?? inherited.type ?? (Object.keys(properties).length > 0 ? 'object' : undefined);
  return {
    pointer: isAlias ? parts[0]!.pointer : target.pointer,
    value: {
      ...merged,
      ...limit('minimum', 'exclusiveMinimum', exclusiveMinimum),
      ...limit('maximum', 'exclusiveMaximum', exclusiveMaximum),
      type,
      name,
      ...(constant === undefined ? {} : { enum: [constant] }),
      ...(merged.enum === undefined ? {} : { enum: merged.enum.filter((item) => item !== null) }),
      ...(examples?.[0] === undefined ? {} : { example: examples[0] }),
      ...(isNullable || types.length < [own.type ?? []].flat().length ? { nullable: true } : {}),
      ...(isNullable || anyOf === undefined ? {} : { anyOf }),
      required: [
        ...new Set([
          ...parts.flatMap(({ value }) => value.required ?? []),
          ...(own.required ?? []),
        ]),
      ],
      properties: new Map([
        ...parts.flatMap(({ value }) => Array.from(value.properties)),
        ...Object.entries(properties).map(
          ([key, value]) =>
            [key, { value, pointer: joinPointer(target.pointer, 'properties', key) }] as const,
        ),
      ]),
    },
  };
}

const isNull = ({ type, nullable, enum: values }: SchemaOrReference): boolean =>
  type === 'null' || (nullable === true && values?.length === 1 && values[0] === null);

export const getComponentName = (reference: string | undefined): string | undefined =>
  reference === undefined ? undefined : /^#\/components\/schemas\/([^/]+)$/.exec(reference)?.[1];

/** Converts an exclusive limit to the form of OpenAPI 3.0, in which it is a flag. */
function limit(name: string, exclusive: string, value: number | boolean | undefined): object {
  if (value === undefined) return {};
  return typeof value === 'number' ? { [name]: value, [exclusive]: true } : { [exclusive]: value };
}

/** Returns the parameters of an operation: its own ones override those of its path. */
export function getParameters(
  document: OpenApiDocument,
  path: string,
  method: Method,
): Located<Parameter>[] {
  const item = document.paths![path]!;
  const pointer = joinPointer('#', 'paths', path);
  const parameters = new Map<string, Located<Parameter>>();
  for (const [list, base] of [
    [item.parameters, pointer],
    [item[method]!.parameters, joinPointer(pointer, method)],
  ] as const) {
    for (const [index, parameter] of (list ?? []).entries()) {
      const located = resolve(document, parameter, joinPointer(base, 'parameters', index));
      parameters.set(`${located.value.in} ${located.value.name}`, located);
    }
  }
  return [...parameters.values()];
}

/** Whether an operation needs no API key: it, or the whole document, declares that explicitly. */
export const isPublic = (document: OpenApiDocument, { security }: Operation): boolean =>
  (security ?? document.security)?.length === 0;
