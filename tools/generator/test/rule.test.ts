import { planModule } from '../generator.js';
import { ContractError, type Module } from '../model.js';
import { readContract, type Service } from '../read/contract.js';
import { toLatest } from '../read/document.js';
import type { Json } from '../read/json.js';
import { formatReport } from '../report.js';
import { readResourceContract } from '../resource-contract.js';
import { writeApi } from '../write/api-file.js';

const NO_SERVICE: Service = { routes: new Set(), schemas: new Set(), operationIds: new Set() };

const json = (schema: Json): Json => ({ content: { 'application/json': { schema } } });
const object = (properties: Json, required: string[] = []): Json => ({
  type: 'object',
  properties,
  required,
});
const text = { type: 'string' };
const integer = { type: 'integer' };
const THING = object({ id: integer, name: text }, ['id', 'name']);

/** The parts of a contract with one resource. */
interface Parts {
  body?: Json;
  thing?: Json;
  /** The response to the POST, by default the thing; null if it is empty. */
  created?: Json | null;
  list?: Json;
  parameters?: Json[];
  paths?: Json;
  post?: Json;
  key?: string;
}

function toContract({
  body = object({ name: text }, ['name']),
  thing = THING,
  created = thing,
  list = { type: 'array', items: thing },
  parameters = [],
  paths = {},
  post = {},
  key = 'id',
}: Parts): Json {
  return {
    openapi: '3.1.0',
    info: { title: 'Things', version: '1' },
    paths: {
      '/things': {
        post: {
          requestBody: { required: true, ...json(body) },
          responses: { 201: { description: 'Ok', ...(created && json(created)) } },
          ...post,
        },
        get: { parameters, responses: { 200: { description: 'Ok', ...json(list) } } },
      },
      [`/things/{${key}}`]: { get: { responses: { 200: { description: 'Ok', ...json(thing) } } } },
      ...paths,
    },
  };
}

const planX = (root: Json, service = NO_SERVICE): Module =>
  planModule(root, { name: 'x', source: 'x' }, service, []);

/** Returns the results of operations, by operation. */
function report(root: Json): Record<string, string> {
  const lines = formatReport(planX(root))
    .split('\n')
    .filter((line) => /^(GET|POST|PUT|PATCH|DELETE) /.test(line));
  return Object.fromEntries(
    lines.map((line) => {
      const [, operation, result] = /^(\S+ \S+)\s+(.*)$/.exec(line)!;
      return [operation!, result!.replace(/: complete \w+ in x\.service\.ts$/, '')];
    }),
  );
}

describe('POST and GET of the same object', () => {
  it.each<[string, Parts]>([
    ['the same properties', {}],
    ['only the id', { created: object({ id: integer }) }],
    ['an empty response', { created: null }],
    [
      'wrapped',
      {
        body: object({ thing: object({ name: text }) }),
        thing: object({ thing: object({ id: integer, name: text }, ['id']) }),
        list: object({
          things: { type: 'array', items: object({ id: integer, name: text }, ['id']) },
        }),
      },
    ],
    [
      'an id of another name',
      { key: 'thingId', thing: object({ thing_id: text, name: text }, ['thing_id', 'name']) },
    ],
    [
      'a nullable type of the body',
      {
        body: object({ name: { type: ['string', 'null'], maxLength: 3 } }),
        thing: object({ id: integer, name: text }),
      },
    ],
    ['an allOf of one', { body: object({ name: { allOf: [text] } }, ['name']) }],
    [
      'a time',
      {
        thing: object(
          { id: integer, name: text, created_at: { type: 'string', format: 'date-time' } },
          ['id', 'name', 'created_at'],
        ),
      },
    ],
    [
      'a default',
      {
        thing: object({ id: integer, name: text, state: { type: 'string', default: 'new' } }, [
          'id',
          'name',
          'state',
        ]),
      },
    ],
  ])('make a resource: %s', (_name, parts) => {
    expect(report(toContract(parts))).toEqual({
      'POST /things': 'implemented',
      'GET /things': 'implemented',
      [`GET /things/{${parts.key ?? 'id'}}`]: 'implemented',
    });
  });

  it.each<[string, Parts]>([
    [
      'stub: `send` has no column',
      { body: object({ name: text, send: { type: 'boolean' } }, ['name']) },
    ],
    [
      'stub: `pin` has no column',
      { body: object({ name: text, pin: { ...text, writeOnly: true } }, ['name']) },
    ],
    [
      'stub: `password` is never stored',
      { body: object({ name: text, password: text }, ['name']) },
    ],
    [
      'stub: `secret` is never stored',
      { body: object({ name: text, secret: { ...text, format: 'password' } }, ['name']) },
    ],
    [
      'stub: `name` is integer, and text in GET /things/{id}',
      { body: object({ name: integer }, ['name']) },
    ],
    [
      'stub: `name` is date, and text in GET /things/{id}',
      { body: object({ name: { ...text, format: 'date' } }, ['name']) },
    ],
    ['stub: `name` gets no value', { body: object({ name: text }) }],
    [
      'stub: `total` gets no value',
      { thing: object({ id: integer, name: text, total: integer }, ['id', 'name', 'total']) },
    ],
    [
      'stub: `prototype` has no column, because the name has a meaning in each object of JavaScript',
      { body: object({ name: text, prototype: text }, ['name']) },
    ],
    ['stub: x-resource says that it makes no resource', { post: { 'x-resource': false } }],
    [
      'stub: its body is not a JSON object with properties',
      { body: { type: 'array', items: text } },
    ],
    ['stub: it has no body, so it creates nothing', { post: { requestBody: undefined } }],
    [
      'stub: GET /things and GET /things/{id} shows another object than it returns',
      { created: object({ job: text }) },
    ],
    [
      'stub: the header `X-Tenant` is required',
      { post: { parameters: [{ name: 'X-Tenant', in: 'header', required: true, schema: text }] } },
    ],
    [
      'stub: the query parameter `mode` is required',
      { post: { parameters: [{ name: 'mode', in: 'query', required: true, schema: text }] } },
    ],
  ])('are a %s', (result, { post, ...parts }) => {
    const root = toContract(parts);
    Object.assign(
      (root['paths'] as Record<string, Record<string, Json>>)['/things']!['post']!,
      post,
    );
    expect(report(root)['POST /things']).toBe(result);
  });
});

const query = (name: string, schema: Json = integer, others: Json = {}): Json => ({
  name,
  in: 'query',
  schema,
  ...others,
});

describe('a list', () => {
  it.each<[string, Json[]]>([
    ['implemented', [query('limit'), query('offset')]],
    ['implemented', [query('per_page'), query('page')]],
    ['implemented', [query('pageSize'), query('cursor', text)]],
    ['implemented', [query('name', text)]],
    ['implemented', [query('name', { type: 'array', items: text })]],
    ['implemented', [query('limit'), query('skip'), query('sort', { enum: ['name', 'id'] })]],
    ['implemented; a request with ?q gets 501', [query('q', text)]],
    ['implemented; a request with ?sort gets 501', [query('sort', { enum: ['name'] })]],
    ['stub: `limit` has no parameter for the next page', [query('limit')]],
    ['stub: the query parameter `q` is required', [query('q', text, { required: true })]],
  ])('is %s: %j', (result, parameters) => {
    expect(report(toContract({ parameters }))['GET /things']).toBe(result);
  });

  it.each<[string, Json]>([
    [
      'implemented',
      object({ data: { type: 'array', items: THING }, total: integer, note: text }, [
        'data',
        'total',
      ]),
    ],
    [
      'implemented',
      object(
        { data: { type: 'array', items: THING }, meta: object({ total: integer }, ['total']) },
        ['data', 'meta'],
      ),
    ],
    [
      'stub: `note` of the list gets no value',
      object({ data: { type: 'array', items: THING }, note: text }, ['data', 'note']),
    ],
    [
      'stub: its response is not a list of GetThingsByIdResponse',
      { type: 'array', items: object({ id: integer }) },
    ],
  ])('is %s, in an envelope', (result, list) => {
    expect(report(toContract({ list }))['GET /things']).toBe(result);
  });
});

describe('the report', () => {
  const name = { type: 'string', enum: ['a', 'b'] };
  const nested = (schema: Json): Json => object({ id: integer, name: object({ a: schema }) });
  const responses = { 201: { description: 'Ok', headers: { Location: { schema: text } } } };
  const requestBody = json(object({ name: text }, ['name']));
  const looser = 'bodies may contain what the schema of the response does not allow: POST /things';
  it.each<[string, Parts, string]>([
    ['looser values', { thing: object({ id: integer, name }, ['id', 'name']) }, looser],
    ['looser objects', { thing: nested({ ...text, maxLength: 5 }), body: nested(text) }, looser],
    ['an optional body', { post: { requestBody } }, 'POST /things: a request without its optional'],
    ['a Location without an id', { post: { responses } }, 'Location: headers of responses are not'],
  ])('names %s', (_name, parts, line) => {
    expect(formatReport(planX(toContract(parts)))).toContain(`Differs: ${line}`);
  });

  it('does not name bodies that responses allow', () => {
    const thing = nested({ ...text, maxLength: 5, pattern: '^a' });
    expect(formatReport(planX(toContract({ thing, body: thing })))).not.toContain(
      'bodies may contain',
    );
  });
});

describe('paths', () => {
  it.each([
    ['/a/{b', 'the router has no segment {b'],
    ['/a/b}', 'the router has no segment b}'],
    ['/a/{b+}', 'the router has no segment {b+}'],
    ['/a/{b:int}', 'the router has no segment {b:int}'],
    ['/a/{1}', 'the router has no segment {1}'],
    ['/a//b', 'the router has no empty segments'],
    ['/a?b=c', 'the router has no segment a?b=c'],
  ])('%s is left out, and the others are not', (path, reason) => {
    const root = toContract({
      paths: { [path]: { get: { responses: { 204: { description: 'Ok' } } } } },
    });
    const { leftOut, operations } = readContract(root, 'x', NO_SERVICE);
    expect(leftOut[0]?.reason).toContain(reason);
    expect(operations).toHaveLength(3);
  });

  it('of a PUT without a body are stubs', () => {
    const put = { put: { responses: { 200: { description: 'Ok' } } } };
    const paths = { '/things/{name}': put };
    expect(report(toContract({ paths }))['PUT /things/{id}']).toBe('stub: it has no body');
  });

  it('with me are stubs', () => {
    const me = { get: { responses: { 200: { description: 'Ok', ...json(THING) } } } };
    expect(report(toContract({ paths: { '/users/me': me } }))['GET /users/me']).toMatch(
      /^stub: `me`/,
    );
  });
});

describe('the code', () => {
  const $ref = '#/components/schemas/Envelope';
  const responses = { 200: { description: 'Ok', ...json({ $ref }) } };
  const envelope = {
    ...toContract({
      paths: {
        '/things/{id}': { get: { responses }, patch: { requestBody: json({ $ref }), responses } },
      },
    }),
    components: { schemas: { Envelope: object({ thing: THING }, ['thing']) } },
  };
  it.each<[string, Json, string]>([
    [
      'publishes a query parameter that no class can have',
      toContract({ parameters: [query('constructor', text), query('__proto__', text)] }),
      'unsupportedQuery: { constructor: {}, ["__proto__"]: {} }',
    ],
    [
      'requires the property that wraps a body',
      toContract({ body: object({ thing: object({ name: text }, ['name']) }) }),
      'thing!: PostThingsBodyThing;',
    ],
    [
      'requires a body',
      toContract({ post: { requestBody: json(object({ name: text }, ['name'])) } }),
      '@Body() postThingsBody',
    ],
    [
      'returns to a PATCH what others return, although its body is another class',
      envelope,
      'export class Envelope {\n  @Property({ type: () => EnvelopeThing })\n  thing!: EnvelopeThing;',
    ],
    [
      'passes the Idempotency-Key to the stub of a POST',
      toContract({ post: { 'x-resource': false } }),
      '@IdempotencyKey() key?: IdempotencyKey',
    ],
  ])('%s', (_name, root, code) => {
    expect(writeApi(planX(root)).code).toContain(code);
  });
});

it('a class that the plan adds has no name of a schema of another module', () => {
  const schemas = { Thing: object({ id: { ...integer, readOnly: true }, name: text }) };
  const $ref = '#/components/schemas/Thing';
  const patch = { requestBody: json({ $ref }), responses: { 204: { description: 'Ok' } } };
  const get = { responses: { 200: { description: 'Ok', ...json({ $ref }) } } };
  const root = toContract({ body: { $ref }, paths: { '/things/{id}': { get, patch } } });
  const service = { ...NO_SERVICE, schemas: new Set(['ThingPatch']) };
  const { classes } = planX({ ...root, components: { schemas } }, service);
  expect(classes.map(({ name }) => name)).toContain('ThingPatch2');
});

describe('a document', () => {
  it('of Swagger 2.0 is refused with the command that converts it', () => {
    expect(() => toLatest('a.yaml', { swagger: '2.0' })).toThrow(
      'npx --yes swagger2openapi@7 a.yaml',
    );
    expect(() => toLatest('a.yaml', { openapi: '4.0.0' })).toThrow(ContractError);
  });

  it('of OpenAPI 3.0 is read as 3.1', () => {
    const nullable = { type: 'string', nullable: true };
    const root = {
      openapi: '3.0.3',
      info: {},
      paths: {},
      components: { schemas: { A: nullable } },
    };
    expect(toLatest('a', root)).toMatchObject({
      components: { schemas: { A: { type: ['string', 'null'] } } },
    });
  });

  it('keeps the pattern of a UUID, which is too short to block the service', () => {
    const pattern = '[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}';
    const name = { type: 'string', format: 'uuid', pattern };
    const root = toContract({ body: object({ name }), thing: object({ id: integer, name }) });
    expect(formatReport(planX(root))).not.toContain('pattern is left out');
  });

  it('with an enum of another type is reported', () => {
    const name = { type: 'string', enum: [1.1, 2] };
    const root = toContract({ body: object({ name }, ['name']) });
    expect(formatReport(planX(root))).toContain(
      'its enum has values that are not of the type string',
    );
  });

  it('of a resource by its name has all operations, and all are implemented', async () => {
    expect(Object.values(report(await readResourceContract('store-suppliers')))).toEqual(
      Array.from({ length: 6 }, () => 'implemented'),
    );
  });
});
