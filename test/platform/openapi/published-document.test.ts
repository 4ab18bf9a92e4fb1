import { randomUUID } from 'node:crypto';
import { Body, Controller, Get, Patch, Post, Put, Query } from '@nestjs/common';
import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import * as fc from 'fast-check';
import { MAX_ID } from '../../../src/platform/config/max-id.js';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import {
  Feature,
  IdempotencyKey,
  JsonBody,
  MergePatch,
  Operation,
  Property,
} from '../../../src/platform/index.js';
import { UNSUPPORTED } from '../../../src/platform/resource/operation/unsupported.js';
import { startApp } from '../support/app.js';
import { CagesModule } from '../support/cages.module.js';
import { type HttpResponse, jsonHeaders, sendRequest } from '../support/http-client.js';
import { type DocumentedOperation, getOperations } from '../support/routes.js';

class Leaf {
  @Property({ const: 'leaf' }) kind!: string;
  @Property({ type: 'integer', minimum: 0, maximum: 9, optional: true }) size?: number;
}
class Branch {
  @Property({ enum: ['branch', 'twig'] }) kind!: string;
  @Property({ type: 'array', items: { type: () => Leaf }, uniqueItems: true, maxItems: 2 })
  leaves!: Leaf[];
}
/** A DTO that occurs only in arrays. */
class Stem {
  @Property({ type: 'integer', optional: true }) height?: number;
}
const OPTIONAL = { optional: true } as const;
const TEXT = { type: 'string', maxLength: 3 } as const;
const OPTIONAL_TEXT = { ...TEXT, ...OPTIONAL };
const UNIQUE = { uniqueItems: true, ...OPTIONAL };
const AT_MOST_TWO = { maxProperties: 2, ...OPTIONAL };

/** A DTO with every keyword. */
class Edges {
  @Property({ type: 'integer', readOnly: true, optional: true }) id?: number;
  @Property({ type: 'string', minLength: 2, maxLength: 4 }) code!: string;
  @Property({ type: 'string', notBlank: true, maxLength: 3, optional: true }) name?: string;
  @Property({ type: 'string', pattern: '^[a-z]+\\d?$', minLength: 2, optional: true }) a?: string;
  @Property({ type: 'string', pattern: 'x', writeOnly: true, optional: true }) b?: string;
  @Property({ type: 'string', enum: ['one', 'two'], optional: true }) c?: string;
  @Property({ type: 'string', enum: ['one'], nullable: true, optional: true }) d?: string | null;
  @Property({ type: 'string', format: 'date', optional: true }) e?: string;
  @Property({ type: 'string', format: 'date-time', optional: true }) f?: string;
  @Property({ type: 'string', format: 'uuid', optional: true }) g?: string;
  @Property({ type: 'string', format: 'uri', maxLength: 30, optional: true }) h?: string;
  @Property({ type: 'string', format: 'email', maxLength: 20, optional: true }) i?: string;
  @Property({ type: 'string', format: 'byte', minLength: 4, optional: true }) j?: string;
  @Property({ type: 'string', format: 'decimal', optional: true }) k?: string;
  @Property({ type: 'string', format: 'hostname', nullable: true, default: 'a' }) l!: string | null;
  @Property({ type: 'integer', minimum: 1, maximum: 5, nullable: true, optional: true }) m?: number;
  @Property({ type: 'integer', exclusiveMinimum: 0, exclusiveMaximum: 9, optional: true })
  n?: number;
  @Property({ type: 'integer', format: 'int32', multipleOf: 5, optional: true }) o?: number;
  @Property({ type: 'integer', optional: true }) p?: number;
  @Property({ type: 'number', exclusiveMinimum: 0, maximum: 1.5, optional: true }) q?: number;
  @Property({ type: 'number', format: 'float', multipleOf: 0.25, optional: true }) r?: number;
  @Property({ type: 'boolean', optional: true }) s?: boolean;
  @Property({ type: 'array', items: TEXT, minItems: 1, maxItems: 3, ...UNIQUE }) t?: string[];
  @Property({ type: 'array', items: { type: 'string', format: 'uuid' }, ...UNIQUE }) x?: string[];
  @Property({ type: 'object', additionalProperties: TEXT, minProperties: 1, ...AT_MOST_TWO })
  u?: object;
  @Property({
    type: 'object',
    properties: { x: { type: 'number' }, y: OPTIONAL_TEXT },
    ...OPTIONAL,
  })
  v?: object;
  @Property({ type: () => Leaf, nullable: true, optional: true }) w?: Leaf | null;
  @Property({
    oneOf: [() => Leaf, () => Branch],
    discriminator: {
      propertyName: 'kind',
      mapping: { leaf: () => Leaf, branch: () => Branch, twig: () => Branch },
    },
    optional: true,
  })
  y?: Leaf | Branch;
  @Property({ optional: true }) z?: unknown;
}
class EdgesQuery {
  @Property({ type: 'integer', minimum: 1, maximum: 3, default: 2 }) limit!: number;
  @Property({ type: 'string', minLength: 1, maxLength: 3, optional: true }) text?: string;
  @Property({ type: 'number', exclusiveMaximum: 1, multipleOf: 0.5, optional: true }) half?: number;
  @Property({ type: 'boolean', optional: true }) flag?: boolean;
}

class EdgesPatch extends MergePatch(Edges, ['d', 'm', 'u', 'v', 'w', 'y']) {}

@Controller('edges')
class EdgesController {
  @Post()
  @Operation({ operationId: 'createEdges', status: 201, response: 'Nothing.' })
  createEdges(@Body() _edges: Edges, @IdempotencyKey() _key?: IdempotencyKey): void {}

  @Put()
  @Operation({ operationId: 'replaceStems', response: 'Nothing.' })
  replaceStems(
    @JsonBody({ type: 'array', items: { type: () => Stem }, maxItems: 2 }) _stems: Stem[],
  ): void {}

  @Patch()
  @Operation({ operationId: 'updateEdges', response: 'Nothing.' })
  updateEdges(@Body() _patch: EdgesPatch): void {}

  @Get()
  @Operation({ operationId: 'listEdges', response: 'Nothing.' })
  listEdges(@Query() _query: EdgesQuery): void {}
}
@Feature({ tag: { name: 'edges', description: 'Edges.' }, controllers: [EdgesController] })
class EdgesModule {}

const app = await startApp({ features: [CategoriesModule, CagesModule, EdgesModule] });
afterAll(() => app.stop());
const document = await app.getDocument();

// oxlint-disable-next-line typescript/no-explicit-any -- the values of keywords
type Schema = Readonly<Record<string, any>>;

/** Follows a reference. */
const resolve = (schema: Schema): Schema =>
  schema['$ref'] === undefined
    ? schema
    : document.components!.schemas![schema['$ref'].split('/').at(-1)]!;

/** Converts a schema of OpenAPI 3.0 to JSON Schema. Ajv knows `nullable`. */
function toJsonSchema(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(toJsonSchema);
  if (typeof schema !== 'object' || schema === null) return schema;
  const entries = Object.entries(schema).map(([name, value]) => [name, toJsonSchema(value)]);
  const converted: Record<string, unknown> = Object.fromEntries(entries);
  // Requests do not have read-only properties.
  if (converted['readOnly'] === true) return false;
  const { required, properties } = converted as { required?: unknown; properties?: Schema };
  if (Array.isArray(required))
    converted['required'] = required.filter((name: string) => properties?.[name] !== false);
  for (const [flag, limit] of Object.entries({
    exclusiveMinimum: 'minimum',
    exclusiveMaximum: 'maximum',
  }))
    if (converted[flag] === true) {
      converted[flag] = converted[limit];
      delete converted[limit];
    }
  return converted;
}

const ajv = new Ajv({ strict: false, unicodeRegExp: true, logger: false });
addFormats.default(ajv);
// The service does not validate the format hostname, and a pattern describes byte.
for (const format of ['hostname', 'byte']) ajv.addFormat(format, true);
const components = toJsonSchema({ schemas: document.components!.schemas });
/** Texts that match each format, or nearly do. */
const FORMATS: Readonly<Record<string, string>> = {
  date: '2024-02-29 2023-02-29 2024-2-29 2024-02-29T00:00:00Z 0000-01-01 10000-01-01',
  'date-time':
    '2026-11-01T12:00:00Z 2016-12-31T23:59:60Z 0000-01-01T00:00:00+00:01 2026-11-01t12:00:00.5z 2026-02-29T00:00:00Z 2026-11-01T24:00:00Z 2026-11-01T12:00:00',
  uuid: '0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70 0190C8F5-7C6F-7D3A-9C5E-2F1A8B4D6E7G 0190c8f57c6f7d3a9c5e2f1a8b4d6e70',
  uri: 'http://a https://a.example/%20 http://a/%2 ftp://a http:/a HTTP://a http://a/b\\c mailto:a@b.co',
  email:
    'a@b.co a@b .a@b.co a..b@c.de a@b..co a@-b.co "a"@b.co a@[127.0.0.1] ä@b.co A@B.C0 a@b.co\n',
  byte: 'AAAA AAA= AA== AAA AA=A AA-_ AAAAA',
  decimal: '0 -0.50 00 1. .5 1e2 +1',
};
const CHARACTERS =
  '|\0| |\u0007|\uffff|\t|\n|\u0085|\u2028|\u200b|\u3164|\u00ad|\u0378|\ufeff|\ud800|é|🪀|x'.split(
    '|',
  );

/** Returns a value that a schema accepts. */
function toSample(reference: Schema): unknown {
  const schema = resolve(reference);
  const { type, enum: values, minItems = 0, minProperties = 0, minimum = 1 } = schema;
  const [branch] = getBranches(schema);
  if (branch !== undefined) return toSample(branch);
  if (schema['example'] !== undefined) return schema['example'];
  if (values !== undefined) return values[0];
  if (type === 'string') return 'text';
  if (type === 'integer' || type === 'number') return minimum;
  if (type === 'array') return Array.from({ length: minItems }, () => toSample(schema['items']));
  if (type !== 'object') return true;
  const names: string[] = schema['required'] ?? ['a', 'b'].slice(0, minProperties);
  const { properties = {}, additionalProperties } = schema;
  const entries = names.map((name) => [name, toSample(properties[name] ?? additionalProperties)]);
  return Object.fromEntries(entries);
}

const getBranches = ({ oneOf = [], anyOf = [], allOf = [] }: Schema): readonly Schema[] =>
  [oneOf, anyOf, allOf].flat();

/** Returns a value, valid or not, at the edge of a keyword of a schema or of an inner schema. */
function toEdge(g: fc.GeneratorValue, reference: Schema): unknown {
  const schema = resolve(reference);
  const { type, format, pattern, items, properties = {}, enum: values } = schema;
  const pick = <Value>(...choices: Value[]): Value => g(fc.constantFrom<Value[]>, ...choices);
  const around = (...limits: (number | undefined)[]): number =>
    pick(...limits.flatMap((limit = 1) => [limit - 1, limit, limit + 1]));
  const size = (noun: string): number =>
    Math.max(0, around(schema[`min${noun}`], schema[`max${noun}`]));
  const edges: (() => unknown)[] = getBranches(schema).map((each) => () => toEdge(g, each));
  if (values !== undefined) edges.push(() => pick(...values));
  if (type === 'string') {
    edges.push(
      () => pick('a', '1', '🪀').repeat(size('Length')),
      () => pick(...CHARACTERS) + pick('', String(toSample(schema))) + pick(...CHARACTERS),
    );
    if (format in FORMATS) edges.push(() => pick(...FORMATS[format]!.split(' ')));
    if (pattern !== undefined)
      edges.push(() => g(fc.stringMatching, new RegExp(pattern, 'u')) + pick('', ...CHARACTERS));
  }
  if (type === 'integer' || type === 'number') {
    const { minimum, maximum, multipleOf = 1 } = schema;
    edges.push(() => around(minimum, maximum, 0) + pick(0, multipleOf / 2, -multipleOf / 2));
  }
  if (type === 'array') {
    const sample = (): unknown => toSample(items);
    const edge = (): unknown => toEdge(g, items);
    edges.push(
      () => Array.from({ length: size('Items') }, pick(sample, edge)),
      () => [sample(), edge(), sample()].slice(pick(0, 1)),
    );
  }
  if (type === 'object') {
    const sample = toSample(schema) ?? {};
    const others: Schema = schema['additionalProperties'] || {};
    const change = (name: string): object => ({ ...sample, [name]: toEdge(g, properties[name]) });
    edges.push(
      ...Object.keys(properties).map((name) => () => change(name)),
      () => ({ ...sample, [pick('x', '', 'ä', 'constructor', '\0')]: toEdge(g, others) }),
      () => Object.fromEntries(Object.entries(sample).slice(1)),
      () => Object.assign({}, Array(size('Properties')).fill(toSample(others))),
    );
  }
  return pick(...edges, () => pick<unknown>(null, true, 0, 'text', [], {}))();
}

/** Messages that reject what OpenAPI 3.0 cannot express. */
const INEXPRESSIBLE: readonly RegExp[] = [
  /must not contain a lone surrogate/,
  // NUL in a property of any type, beside a pattern of a team, in a parameter without a schema, or in a name.
  /^(z.*|b|room|.*: a key) must not contain a NUL character/,
  // A name that JavaScript objects inherit.
  /unknown property (.*\.)?constructor/,
  // The host or the port of a URI that matches the pattern.
  /must be a URI/,
  // UUIDs in other cases, and objects that are equal with their defaults.
  /must not contain equal items/,
  // Leap seconds, and years that do not have four digits in UTC.
  /must be (a date and time|in the years)/,
  // A reference to a missing row.
  /must reference an existing resource/,
];

/** Returns the parameters of an operation, except those of its path, and the body. */
function getInputs({ parameters = [], requestBody }: DocumentedOperation['operation']): Schema[] {
  const [body] = Object.values<Schema>((requestBody as Schema | undefined)?.['content'] ?? {});
  const others = (parameters as Schema[]).filter((each) => each['in'] !== 'path');
  return body ? [...others, { in: 'body', required: true, schema: body['schema'] }] : others;
}

/** Returns the value that the service reads from an input. */
function toReceived({ in: kind, schema }: Schema, value: unknown): unknown {
  if (kind === 'body') return value;
  const text = String(value).toWellFormed();
  try {
    return schema.type === 'string' ? text : JSON.parse(text);
  } catch {
    return text;
  }
}

/** Sends a request with values for its inputs. */
function send(
  method: string,
  path: string,
  values: ReadonlyMap<Schema, unknown>,
): Promise<HttpResponse> {
  const getTexts = (kind: string): [string, string][] =>
    [...values].flatMap(([{ in: other, name }, value]) =>
      other === kind ? [[name, kind === 'body' ? JSON.stringify(value) : String(value)]] : [],
    );
  const target = path.replaceAll(/\{[^}]+\}/g, (name) =>
    name === '{toyId}' ? randomUUID() : String(MAX_ID),
  );
  const query = new URLSearchParams(getTexts('query')).toString();
  const headers = { ...jsonHeaders(app.key), ...Object.fromEntries(getTexts('header')) };
  const [body] = getTexts('body').map(([, json]) => ({ body: json }));
  return sendRequest(`${app.url}${target}?${query}`, { method, headers, ...body });
}

const READ_ONLY = ['toyId', 'seenBy'];

const operations = getOperations(document).filter(
  ({ operation }) => !JSON.stringify(operation.requestBody ?? '').includes('"binary"'),
);

const isSupported = ({ description }: Schema): boolean =>
  !String(description).endsWith(UNSUPPORTED);

describe.each(
  operations.flatMap(({ method, path, operation }) => {
    const inputs = getInputs(operation).filter(isSupported);
    const required = inputs.filter((each) => each['required'] === true);
    return inputs.map((input) => ({ method, path, input, required }));
  }),
)('$method $path', ({ method, path, input, required }) => {
  const { in: kind, name = '', schema } = input;

  it(`accepts exactly what the OpenAPI document describes: ${kind} ${name}`, async () => {
    const isValid = ajv.compile(Object.assign({ components }, toJsonSchema(schema)));
    const counts = { valid: 0, invalid: 0 };
    await fc.assert(
      fc.asyncProperty(fc.gen(), async (g) => {
        // The first value is valid: perhaps none of 50 edges is.
        const isFirst = counts.valid + counts.invalid === 0;
        const value = isFirst ? structuredClone(toSample(schema)) : toEdge(g, schema);
        fc.pre(kind !== 'header' || /^([!-~]([ -~]*[!-~])?)?$/.test(String(value)));
        // A PUT request may repeat the read-only properties of a row, but this row does not exist.
        if (method === 'PUT')
          for (const each of READ_ONLY) Reflect.deleteProperty(Object(value), each);
        const samples = required.map((each) => [each, toSample(each['schema'])] as const);
        const { status, text } = await send(method, path, new Map(samples).set(input, value));
        const valid = isValid(toReceived(input, value));
        counts[valid ? 'valid' : 'invalid']++;
        expect(status).toBeLessThan(500);
        const { message = '' } = status === 400 ? (JSON.parse(text) as Partial<Error>) : {};
        if (valid && INEXPRESSIBLE.some((each) => each.test(message))) return;
        const isAccepted = status !== 400 && status !== 431;
        expect({ status, message, valid }).toEqual({ status, message, valid: isAccepted });
      }),
      { numRuns: kind === 'body' ? 150 : 50, endOnFailure: true },
    );
    expect(counts.valid).toBeGreaterThan(0);
  });
});
