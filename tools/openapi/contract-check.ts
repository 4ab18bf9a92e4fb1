/** Compares the OpenAPI document of the service with a published contract. */
import { isDeepStrictEqual } from 'node:util';
import {
  getParameters,
  type Header,
  isPublic,
  joinPointer,
  type Located,
  METHODS,
  type MediaType,
  type NormalizedSchema,
  normalizeSchema,
  type OpenApiDocument,
  type Operation,
  type Parameter,
  resolve,
  type Response,
  type SchemaOrReference,
} from './openapi.js';

/** The responses that the platform adds to operations: conditional and repeated requests, and errors of the platform. */
const ADDED_RESPONSE = /^(304|400|401|403|410|413|415|422|429|5..|default)$/;
/** Of these, those of a contract that the platform replaces with its own. */
const REPLACED_RESPONSE = /^(401|403|429|5..|5XX|default)$/;
/** The headers of responses and requests that the platform adds. */
const ADDED_HEADERS: ReadonlySet<string> = new Set([
  'deprecation',
  'etag',
  'idempotency-replayed',
  'link',
  'ratelimit',
  'ratelimit-policy',
  'retry-after',
  'sunset',
  'www-authenticate',
  'x-request-id',
]);
const ADDED_PARAMETERS: ReadonlySet<string> = new Set([
  'header idempotency-key',
  'header if-none-match',
]);

/** The keywords that describe a value and do not constrain it: the document may have more of them. */
const ANNOTATIONS = ['description', 'example'] as const;
const KEYWORDS = [
  'type',
  'nullable',
  'format',
  'default',
  'deprecated',
  'pattern',
  'minLength',
  'maxLength',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minItems',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
  'readOnly',
  'writeOnly',
] as const;
/** The values that a keyword has if it is missing. */
const DEFAULTS: Partial<Record<(typeof KEYWORDS)[number], unknown>> = {
  nullable: false,
  deprecated: false,
  minLength: 0,
  minItems: 0,
  minProperties: 0,
  exclusiveMinimum: false,
  exclusiveMaximum: false,
  uniqueItems: false,
  readOnly: false,
  writeOnly: false,
};

/**
 * Whether the platform adds a keyword with a value to each schema of a format, if it is missing in the
 * contract: JSON numbers are exact up to 2^53-1, a body and a date and time have a limited length, and a
 * URI is one of the web.
 */
const ADDED_KEYWORDS: Record<string, Partial<Record<string, (value: unknown) => boolean>>> = {
  int32: {
    format: () => true,
    minimum: (value) => value === -(2 ** 31),
    maximum: (value) => value === 2 ** 31 - 1,
  },
  int64: {
    format: () => true,
    minimum: (value) => value === Number.MIN_SAFE_INTEGER,
    maximum: (value) => value === Number.MAX_SAFE_INTEGER,
  },
  double: { format: () => true },
  'date-time': { maxLength: (value) => value === 64 },
  uri: {
    maxLength: (value) => value === 2048,
    pattern: (value) => String(value).startsWith('^https?:'),
  },
  binary: { maxLength: () => true },
};

/**
 * Lists the differences between a contract and the document of the service, each with the JSON pointer
 * of its place in the contract. The paths that only the service has are not compared, nor is what the
 * platform has in common for every operation: the servers, the scheme of authentication, the responses 401,
 * 403, 429, 5xx and default, the body of other errors if the contract has none, and the limits of a format.
 */
export function compareWithContract(
  contract: OpenApiDocument,
  document: OpenApiDocument,
): string[] {
  return new Comparison(contract, document).run();
}

class Comparison {
  private readonly differences = new Set<string>();
  /** The pairs of schemas that are compared, as schemas may be recursive. */
  private readonly compared = new WeakMap<SchemaOrReference, WeakSet<SchemaOrReference>>();

  constructor(
    private readonly contract: OpenApiDocument,
    private readonly document: OpenApiDocument,
  ) {}

  run(): string[] {
    for (const [path, item] of Object.entries(this.contract.paths ?? {})) {
      const actualItem = this.document.paths?.[path] ?? {};
      for (const method of METHODS) {
        const pointer = joinPointer('#', 'paths', path, method);
        const [expected, actual] = [item[method], actualItem[method]];
        if (expected === undefined && actual !== undefined)
          this.report(pointer, 'is not in the contract');
        if (expected !== undefined && actual === undefined) this.report(pointer, 'is missing');
        if (expected === undefined || actual === undefined) continue;
        this.compareOperations(pointer, expected, actual);
        this.compareParameters(
          pointer,
          getParameters(this.contract, path, method),
          getParameters(this.document, path, method),
        );
      }
    }
    return [...this.differences].toSorted();
  }

  private report(pointer: string, text: string): void {
    this.differences.add(`${pointer}: ${text}`);
  }

  /** Reports a value that differs from the one in the contract. */
  private compareValues(pointer: string, expected: unknown, actual: unknown): void {
    if (isDeepStrictEqual(expected, actual)) return;
    this.report(pointer, `is ${format(actual)} instead of ${format(expected)}`);
  }

  /** Reports annotations of the contract that the document lacks or changes. */
  private compareAnnotations<Key extends string>(
    pointer: string,
    expected: Readonly<Partial<Record<Key, unknown>>>,
    actual: Readonly<Partial<Record<Key, unknown>>>,
    keys: readonly Key[],
  ): void {
    for (const key of keys) {
      if (expected[key] === undefined) continue;
      this.compareValues(joinPointer(pointer, key), expected[key], actual[key]);
    }
  }

  private compareOperations(pointer: string, expected: Operation, actual: Operation): void {
    this.compareValues(
      joinPointer(pointer, 'operationId'),
      expected.operationId,
      actual.operationId,
    );
    this.compareValues(
      joinPointer(pointer, 'deprecated'),
      expected.deprecated ?? false,
      actual.deprecated ?? false,
    );
    this.compareAnnotations(pointer, expected, actual, ['summary', 'tags']);
    // The service adds what `@Deprecated`, `@Stability` and `@RequireScope` declare.
    if (!actual.description?.startsWith(`${expected.description}\n\n`))
      this.compareAnnotations(pointer, expected, actual, ['description']);
    // Without a declaration, a contract leaves the authentication to the platform.
    if (isPublic(this.contract, expected) !== isPublic(this.document, actual)) {
      this.report(
        joinPointer(pointer, 'security'),
        isPublic(this.contract, expected) ? 'requires an API key' : 'requires no API key',
      );
    }
    this.compareBodies(pointer, expected, actual);
    this.compareResponses(pointer, expected, actual);
  }

  private compareParameters(
    operation: string,
    expected: readonly Located<Parameter>[],
    actual: readonly Located<Parameter>[],
  ): void {
    const others = new Map(actual.map((parameter) => [getKey(parameter.value), parameter]));
    for (const { value, pointer } of expected) {
      const other = others.get(getKey(value));
      others.delete(getKey(value));
      if (other === undefined)
        this.report(pointer, `the ${value.in} parameter ${value.name} is missing`);
      else {
        for (const key of ['style', 'explode'] as const)
          this.compareValues(
            joinPointer(pointer, key),
            value[key] ?? getStyle(value)[key],
            other.value[key] ?? getStyle(other.value)[key],
          );
        for (const key of ['required', 'deprecated'] as const)
          this.compareValues(
            joinPointer(pointer, key),
            value[key] ?? false,
            other.value[key] ?? false,
          );
        this.compareHeaders(pointer, value, other.value, value.in === 'path');
      }
    }
    for (const [key, { value }] of others) {
      if (ADDED_PARAMETERS.has(key)) continue;
      this.report(
        joinPointer(operation, 'parameters'),
        `the ${value.in} parameter ${value.name} is not in the contract`,
      );
    }
  }

  /** Compares what headers and parameters have in common. */
  private compareHeaders(
    pointer: string,
    expected: Header,
    actual: Header,
    isInPath = false,
  ): void {
    this.compareAnnotations(
      pointer,
      getAnnotations(this.contract, expected),
      getAnnotations(this.document, actual),
      ANNOTATIONS,
    );
    const kind = isInPath ? 'path parameter' : 'parameter';
    this.compareSchemas(joinPointer(pointer, 'schema'), expected.schema, actual.schema, kind);
  }

  private compareBodies(operation: string, expected: Operation, actual: Operation): void {
    const pointer = joinPointer(operation, 'requestBody');
    if (expected.requestBody === undefined || actual.requestBody === undefined) {
      if (expected.requestBody !== undefined) this.report(pointer, 'is missing');
      if (actual.requestBody !== undefined) this.report(pointer, 'is not in the contract');
      return;
    }
    const body = resolve(this.contract, expected.requestBody, pointer);
    const other = resolve(this.document, actual.requestBody, pointer).value;
    this.compareAnnotations(body.pointer, body.value, other, ['description']);
    this.compareValues(
      joinPointer(body.pointer, 'required'),
      body.value.required ?? false,
      other.required ?? false,
    );
    this.compareContents(joinPointer(body.pointer, 'content'), body.value.content, other.content);
  }

  private compareContents(
    pointer: string,
    expected: Readonly<Record<string, MediaType>>,
    actual: Readonly<Record<string, MediaType>>,
  ): void {
    for (const type of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
      const place = joinPointer(pointer, type);
      if (actual[type] === undefined) this.report(place, 'is missing');
      else if (expected[type] === undefined) this.report(place, 'is not in the contract');
      else {
        const [{ schema }, { schema: other }] = [expected[type], actual[type]];
        this.compareSchemas(joinPointer(place, 'schema'), schema, other);
      }
    }
  }

  private compareResponses(operation: string, expected: Operation, actual: Operation): void {
    const statuses = new Set([
      ...Object.keys(expected.responses),
      ...Object.keys(actual.responses),
    ]);
    for (const status of statuses) {
      const pointer = joinPointer(operation, 'responses', status);
      const [response, other] = [expected.responses[status], actual.responses[status]];
      if (response === undefined) {
        // The default of a contract covers every error that it does not name.
        const isDefault = status.startsWith('4') && 'default' in expected.responses;
        if (!ADDED_RESPONSE.test(status) && !isDefault)
          this.report(pointer, 'is not in the contract');
      } else if (REPLACED_RESPONSE.test(status)) continue;
      else if (other === undefined) this.report(pointer, 'is missing');
      else {
        const located = resolve(this.contract, response, pointer);
        this.compareResponse(located, resolve(this.document, other, pointer).value, status);
      }
    }
  }

  private compareResponse(
    { value, pointer }: Located<Response>,
    actual: Response,
    status: string,
  ): void {
    this.compareAnnotations(pointer, value, actual, ['description']);
    const headers = new Map(
      Object.entries(actual.headers ?? {}).map(([name, header]) => [name.toLowerCase(), header]),
    );
    for (const [name, header] of Object.entries(value.headers ?? {})) {
      const place = joinPointer(pointer, 'headers', name);
      const expected = resolve(this.contract, header, place);
      const other = headers.get(name.toLowerCase());
      headers.delete(name.toLowerCase());
      if (other === undefined) this.report(place, 'is missing');
      else {
        const { value: otherHeader } = resolve(this.document, other, place);
        this.compareHeaders(expected.pointer, expected.value, otherHeader);
      }
    }
    for (const name of headers.keys()) {
      if (!ADDED_HEADERS.has(name))
        this.report(joinPointer(pointer, 'headers', name), 'is not in the contract');
    }
    // Each error has the body of the platform, whether the contract says so or not.
    if (value.content === undefined && status.startsWith('4')) return;
    this.compareContents(
      joinPointer(pointer, 'content'),
      value.content ?? {},
      actual.content ?? {},
    );
  }

  /**
   * @param kind a parameter is described itself, instead of its schema; a path parameter that cannot be an id
   *   is not found, so the limits of ids change nothing
   */
  private compareSchemas(
    pointer: string,
    expected: SchemaOrReference | undefined,
    actual: SchemaOrReference | undefined,
    kind: 'value' | 'parameter' | 'path parameter' = 'value',
  ): void {
    if (expected === undefined || actual === undefined) {
      if (expected !== actual) this.compareValues(pointer, expected, actual);
      return;
    }
    const others = this.compared.get(expected) ?? new WeakSet();
    if (others.has(actual)) return;
    this.compared.set(expected, others.add(actual));
    const { value: contract, pointer: place } = normalizeSchema(this.contract, expected, pointer);
    const { value: schema } = normalizeSchema(this.document, actual, pointer);
    if (contract.name !== undefined && schema.name !== undefined && contract.name !== schema.name) {
      this.report(pointer, `is the schema ${schema.name} instead of ${contract.name}`);
      return;
    }
    if (kind === 'value') this.compareAnnotations(place, contract, schema, ANNOTATIONS);
    for (const keyword of KEYWORDS) {
      const value = getKeyword(contract, keyword);
      const other = getKeyword(schema, keyword);
      if (
        value === undefined &&
        (isAdded(schema, keyword) || (kind === 'path parameter' && keyword.endsWith('imum')))
      )
        continue;
      this.compareValues(joinPointer(place, keyword), value, other);
    }
    for (const keyword of ['enum', 'required'] as const)
      this.compareValues(
        joinPointer(place, keyword),
        toSet(contract[keyword]),
        toSet(schema[keyword]),
      );
    for (const keyword of ['oneOf', 'anyOf'] as const) {
      const [alternatives, actuals] = [contract[keyword] ?? [], schema[keyword] ?? []];
      this.compareValues(
        joinPointer(place, keyword, 'length'),
        alternatives.length,
        actuals.length,
      );
      for (const [index, alternative] of alternatives.entries())
        this.compareSchemas(
          joinPointer(place, keyword, index),
          alternative,
          actuals[index] ?? alternative,
        );
    }
    this.compareProperties(place, contract, schema);
    if (contract.items !== undefined || schema.items !== undefined)
      this.compareSchemas(joinPointer(place, 'items'), contract.items, schema.items);
    const [values, actualValues] = [getValues(contract), getValues(schema)];
    if (values !== undefined || actualValues !== undefined)
      this.compareSchemas(joinPointer(place, 'additionalProperties'), values, actualValues);
  }

  private compareProperties(
    pointer: string,
    expected: NormalizedSchema,
    actual: NormalizedSchema,
  ): void {
    for (const [name, { value, pointer: place }] of expected.properties) {
      const property = actual.properties.get(name)?.value;
      if (property === undefined) this.report(place, 'is missing');
      else this.compareSchemas(place, value, property);
    }
    for (const name of actual.properties.keys()) {
      if (!expected.properties.has(name))
        this.report(joinPointer(pointer, 'properties', name), 'is not in the contract');
    }
  }
}

/** The name of a parameter; those of headers are case-insensitive. */
const getKey = ({ in: place, name }: Parameter): string =>
  `${place} ${place === 'header' ? name.toLowerCase() : name}`;

const isAdded = (schema: NormalizedSchema, keyword: (typeof KEYWORDS)[number]): boolean =>
  ADDED_KEYWORDS[schema.format ?? '']?.[keyword]?.(schema[keyword]) ?? false;

/** Returns the value of a keyword, in one form for values that mean the same. */
function getKeyword(schema: NormalizedSchema, keyword: (typeof KEYWORDS)[number]): unknown {
  const value = schema[keyword] ?? DEFAULTS[keyword];
  // A RegExp escapes slashes.
  return keyword === 'pattern' ? schema.pattern?.replaceAll('\\/', '/') : value;
}

/** Returns what describes a parameter or a header: itself or its schema. */
function getAnnotations(
  document: OpenApiDocument,
  { schema, description, example }: Header,
): Pick<Header, (typeof ANNOTATIONS)[number]> {
  const { value } = normalizeSchema(document, schema ?? {}, '');
  return { description: description ?? value.description, example: example ?? value.example };
}

/** The schema of the values of a map. A document that closes an object says the same as one that does not. */
const getValues = ({ additionalProperties }: NormalizedSchema): SchemaOrReference | undefined =>
  typeof additionalProperties === 'object' ? additionalProperties : undefined;

/** How a parameter is serialized if it does not say so. */
const getStyle = ({ in: place }: Parameter): Pick<Required<Parameter>, 'style' | 'explode'> =>
  place === 'query' || place === 'cookie'
    ? { style: 'form', explode: true }
    : { style: 'simple', explode: false };

/** In one order, as the order of these keywords means nothing. */
const toSet = (values: readonly unknown[] = []): unknown[] =>
  values.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));

const format = (value: unknown): string =>
  value === undefined ? 'missing' : (JSON.stringify(value)?.slice(0, 200) ?? 'missing');
