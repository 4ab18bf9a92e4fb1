import { getResults, pets, readSchema, toDocument, toModule } from './excerpts.js';
import type { Implementation, Module, Resource } from '../model.js';

const getResource = ({ resources }: Module): Resource => resources[0]!;
const getList = ({ operations }: Module): Implementation | object => operations[0]!.implementation;

/** Toys, below a path. */
const toBelow = (path: string): Module =>
  toModule(
    pets({
      more: `
paths:
  ${path}:
    get: { responses: { 200: { description: OK, content: { application/json: { schema: { type: array, items: { $ref: '#/components/schemas/Toy' } } } } } } }
    post:
      requestBody: { required: true, content: { application/json: { schema: { $ref: '#/components/schemas/Toy' } } } }
      responses: { 201: { description: OK, content: { application/json: { schema: { $ref: '#/components/schemas/Toy' } } } } }
components:
  schemas:
    Toy: { type: object, required: [label], properties: { id: { type: integer, readOnly: true }, label: { type: string } } }`,
    }),
  );

/** One operation. */
const toOperation = (operation: string, method = 'post'): Module =>
  toModule(toDocument(`{ paths: { /things: { ${method}: ${operation} } } }`));
/** A POST with a body and a response. */
const post = (type: string, schema: string, response = schema, status = 201): string =>
  `{ requestBody: { content: { '${type}': { schema: ${schema} } } }, responses: { ${status}: { description: OK, content: { 'application/json': { schema: ${response} } } } } }`;

describe('a schema of a contract', () => {
  it.each<[yaml: string, schema: object, note?: string]>([
    ['{ type: string, format: email }', { type: 'string', format: 'email' }],
    [
      '{ type: string, format: phone }',
      { type: 'string', format: 'phone' },
      'The format phone is published, and not validated.',
    ],
    [
      '{ type: number, minimum: 0, multipleOf: 0.5 }',
      { type: 'number', minimum: 0, multipleOf: 0.5 },
    ],
    [
      '{ type: integer, exclusiveMinimum: 0, exclusiveMaximum: 9 }',
      { type: 'integer', exclusiveMinimum: 0, exclusiveMaximum: 9 },
    ],
    ['{ type: [string, "null"], maxLength: 5 }', { type: 'string', maxLength: 5, nullable: true }],
    ['{ oneOf: [{ type: integer }, { type: "null" }] }', { type: 'integer', nullable: true }],
    ['{ const: dog }', { type: 'string', enum: ['dog'] }],
    ['{ enum: [1, 2] }', { type: 'integer', enum: [1, 2] }],
    ['{ enum: [a, null] }', { type: 'string', enum: ['a'], nullable: true }],
    ['{ type: object }', { type: 'object', additionalProperties: true }],
    [
      '{ additionalProperties: { type: integer } }',
      { type: 'object', additionalProperties: { type: 'integer' } },
    ],
    [
      '{ properties: { a: { type: string } }, required: [a] }',
      { type: 'object', properties: [{ name: 'a', required: true, type: 'string' }] },
    ],
    [
      '{ type: array, items: { type: array, items: { type: boolean } } }',
      { type: 'array', items: { type: 'array', items: { type: 'boolean' } } },
    ],
    ['{ allOf: [{ type: string }, { maxLength: 3 }] }', { type: 'string', maxLength: 3 }],
    ['{}', {}],
    [
      '{ type: [string, integer] }',
      {},
      'Pet.value: any value is accepted, not only string or integer.',
    ],
    [
      '{ type: array, items: { type: integer, x-references: tags } }',
      { type: 'array', items: { type: 'integer', references: 'tags' } },
      'Pet.value: that the items exist in tags is not checked.',
    ],
    ['true', {}],
    ['{ type: string, examples: [a, b] }', { type: 'string', example: 'a' }],
    [
      '{ type: string, not: { const: a } }',
      { type: 'string' },
      'Pet.value: not: published by the contract, not validated.',
    ],
    [
      '{ type: string, pattern: "(?i)a" }',
      { type: 'string', pattern: '(?i)a' },
      'Pet.value: the pattern is not one of JavaScript, and not validated.',
    ],
    [
      '{ anyOf: [{ type: string }, { type: integer }] }',
      { oneOf: [{ type: 'string' }, { type: 'integer' }] },
      'Pet.value: the alternatives of oneOf and anyOf are accepted as they are, without a discriminator.',
    ],
    ['{ $ref: "#/components/schemas/Pet" }', { class: 'Pet' }],
  ])('%s is read as %j in OpenAPI 3.1', (...[yaml, schema, note]) => {
    const read = readSchema(yaml, '3.1.0');
    expect(read.schema).toEqual(schema);
    expect(read.notes).toEqual(note === undefined ? [] : [note]);
  });

  it.each([
    ['{ type: string, nullable: true }', { type: 'string', nullable: true }],
    [
      '{ type: number, minimum: 0, exclusiveMinimum: true }',
      { type: 'number', exclusiveMinimum: 0 },
    ],
    ['{ type: number, maximum: 9, exclusiveMaximum: false }', { type: 'number', maximum: 9 }],
  ])('%s is read as %j in OpenAPI 3.0', (yaml, schema) =>
    expect(readSchema(yaml, '3.0.3').schema).toEqual(schema),
  );

  it('with a discriminator keeps its classes by the values of the property', () => {
    const more = `
      components:
        schemas:
          Cat: { type: object, required: [kind], properties: { kind: { type: string } } }
          Dog: { type: object, required: [kind], properties: { kind: { type: string } } }`;
    const animal = `{ oneOf: [{ $ref: '#/components/schemas/Cat' }, { $ref: '#/components/schemas/Dog' }],
      discriminator: { propertyName: kind, mapping: { cat: '#/components/schemas/Cat' } } }`;
    const { classes } = toModule(
      pets({ properties: `{ name: { type: string }, animal: ${animal} }`, more }),
    );
    expect(classes.find(({ name }) => name === 'Pet')!.properties[1]).toMatchObject({
      oneOf: [{ class: 'Cat' }, { class: 'Dog' }],
      discriminator: { property: 'kind', mapping: { cat: 'Cat', Dog: 'Dog' } },
    });
  });

  it('may contain itself', () => {
    const node = `{ name: { type: string }, children: { type: array, items: { $ref: '#/components/schemas/Pet' } } }`;
    expect(toModule(pets({ properties: node })).classes).toHaveLength(1);
    const loop = { a: { $ref: '#/components/schemas/b' }, b: { $ref: '#/components/schemas/a' } };
    const document = pets({ properties: `{ name: { $ref: '#/components/schemas/a' } }` });
    Object.assign((document['components'] as { schemas: object }).schemas, loop);
    expect(toModule(document).classes[0]!.properties).toEqual([{ name: 'name', required: true }]);
  });
});

describe('the list of a contract', () => {
  const LIMIT = '{ name: limit, in: query, schema: { type: integer } }';
  const PROPERTIES =
    '{ id: { type: integer, readOnly: true }, name: { type: string }, sold: { type: boolean }, tags: { type: array, items: { type: string } }, at: { type: string, format: date-time } }';
  it.each([
    ['nothing', '[]', { paging: {}, filters: [] }],
    ['limit', `[${LIMIT}]`, { paging: { limit: 'limit' } }],
    [
      'limit and after',
      `[${LIMIT}, { name: after, in: query, schema: { type: integer } }]`,
      { paging: { limit: 'limit', by: 'after' } },
    ],
    [
      'per_page and page',
      `[{ name: per_page, in: query, schema: { type: integer } }, { name: page, in: query, schema: { type: integer } }]`,
      { paging: { limit: 'per_page', by: 'page' } },
    ],
    [
      'limit and offset',
      `[${LIMIT}, { name: offset, in: query, schema: { type: integer } }]`,
      { paging: { limit: 'limit', by: 'offset' } },
    ],
    [
      'a property',
      '[{ name: sold, in: query, schema: { type: boolean } }]',
      { filters: [{ parameter: 'sold', property: 'sold' }] },
    ],
    [
      'several values of a property',
      '[{ name: name, in: query, schema: { type: array, items: { type: string } } }]',
      { filters: [{ parameter: 'name', property: 'name' }] },
    ],
    [
      'a header that HTTP knows',
      '[{ name: If-None-Match, in: header, schema: { type: string } }]',
      { paging: {}, filters: [] },
    ],
  ])('with %s selects rows', (_name, parameters, expected) =>
    expect(getList(toModule(pets({ properties: PROPERTIES, parameters })))).toMatchObject({
      kind: 'list',
      ...expected,
    }),
  );

  it.each([
    [
      'sort',
      '{ name: sort, in: query, schema: { type: string } }',
      'the query parameter sort has no known effect',
    ],
    [
      'page without limit',
      '{ name: page, in: query, schema: { type: integer } }',
      'the query parameter page has no known effect',
    ],
    [
      'another type',
      '{ name: sold, in: query, schema: { type: string } }',
      'the query parameter sold has no known effect',
    ],
    [
      'a property that is an array',
      '{ name: tags, in: query, schema: { type: array, items: { type: string } } }',
      'the query parameter tags has no known effect',
    ],
    [
      'an object',
      '{ name: filter, in: query, style: deepObject, schema: { type: object } }',
      'the query parameter filter is neither text nor a number nor a list of them',
    ],
    [
      'a joined array',
      '{ name: name, in: query, explode: false, schema: { type: array, items: { type: string } } }',
      'the query parameter name is one text with several items',
    ],
    [
      'a required header',
      '{ name: X-Region, in: header, required: true, schema: { type: string } }',
      'the header X-Region is required',
    ],
    [
      'a required cookie',
      '{ name: session, in: cookie, required: true, schema: { type: string } }',
      'the cookie session is required',
    ],
  ])('with %s is a stub that names it', (_name, parameter, reason) =>
    expect(
      getList(toModule(pets({ properties: PROPERTIES, parameters: `[${parameter}]` }))),
    ).toEqual({ kind: 'stub', reason }),
  );

  const PET = { $ref: '#/components/schemas/Pet' };
  it.each([
    [
      'an object with paging',
      {
        data: { type: 'array', items: PET },
        total: { type: 'integer' },
        has_more: { type: 'boolean' },
      },
      [],
      { envelope: { items: 'data', paging: { total: 'total', has_more: 'hasMore' } } },
    ],
    [
      'an object with optional others',
      { items: { type: 'array', items: PET }, meta: { type: 'object' } },
      [],
      { envelope: { items: 'items', paging: {} } },
    ],
    [
      'an object with required others',
      { items: { type: 'array', items: PET }, meta: { type: 'object' } },
      ['meta'],
      { kind: 'stub' },
    ],
    [
      'an object with two arrays',
      { items: { type: 'array', items: PET }, others: { type: 'array', items: PET } },
      [],
      { kind: 'stub' },
    ],
  ])(
    'that is %s has the rows in its array, if that is all',
    (_name, properties, required, expected) =>
      expect(
        getList(toModule(pets({ list: { type: 'object', properties, required } }))),
      ).toMatchObject(expected),
  );

  it('has limits, which the report notes', () => {
    const module = toModule(pets({ parameters: `[${LIMIT}]` }));
    expect(module.operations[0]!.parameters).toMatchObject([{ minimum: 1, maximum: 1_000 }]);
    expect(module.notes).toContain('listPets: limit is at most 1000.');
  });
});

describe('the id of a contract', () => {
  it.each([
    [
      'an integer of the service',
      '{ id: { type: integer, readOnly: true }, name: { type: string } }',
      ['name'],
      '{petId}',
      { property: 'id', kind: 'integer', by: 'service' },
    ],
    [
      'an integer of the client',
      '{ id: { type: integer }, name: { type: string } }',
      ['id', 'name'],
      '{petId}',
      { property: 'id', kind: 'integer', by: 'client' },
    ],
    [
      'a UUID of the service',
      '{ id: { type: string, format: uuid, readOnly: true }, name: { type: string } }',
      ['name'],
      '{petId}',
      { property: 'id', kind: 'uuid', by: 'service' },
    ],
    [
      'a UUID of the client',
      '{ id: { type: string, format: uuid }, name: { type: string } }',
      ['id'],
      '{id}',
      { property: 'id', kind: 'uuid', by: 'client' },
    ],
    [
      'a text of the client',
      '{ id: { type: string }, name: { type: string } }',
      ['id'],
      '{id}',
      { property: 'id', kind: 'text', by: 'client' },
    ],
    [
      'named as in the path',
      '{ petNumber: { type: integer, readOnly: true }, name: { type: string } }',
      ['name'],
      '{petNumber}',
      { property: 'petNumber', kind: 'integer', by: 'service' },
    ],
    [
      'named after the resource',
      '{ pet_id: { type: integer, readOnly: true }, name: { type: string } }',
      ['name'],
      '{petId}',
      { property: 'pet_id', kind: 'integer', by: 'service' },
    ],
    [
      'none',
      '{ name: { type: string } }',
      ['name'],
      '{name}',
      { property: undefined, kind: 'integer', by: 'service' },
    ],
  ])('may be %s', (_name, properties, required, item, id) =>
    expect(getResource(toModule(pets({ properties, required, item }))).id).toEqual(id),
  );

  it.each([
    [
      '{ id: { type: integer }, name: { type: string } }',
      'Pet.id: the service assigns it; one in a request is ignored.',
    ],
    [
      '{ id: { type: string, readOnly: true }, name: { type: string } }',
      'Pet.id: the service assigns a UUID.',
    ],
  ])('of %s is noted', (properties, note) =>
    expect(toModule(pets({ properties })).notes).toContain(note),
  );

  it('may be another unique text in a path', () => {
    const module = toModule(pets({ item: '{name}' }));
    expect(getResource(module).columns).toMatchObject([{ property: 'name', unique: true }]);
    expect(module.operations.at(-1)!.implementation).toMatchObject({
      kind: 'read',
      key: { property: 'name' },
    });
    expect(module.notes).toContain('Pet.name: at most 500 characters, because it is unique.');
  });
});

describe('a resource below a parameter', () => {
  it('filters by it, and has a foreign key to its parent', () => {
    const { operations, resources } = toBelow('/pets/{petId}/toys');
    const parent = { resource: 'Pet', parameter: 'petId', property: 'petId' };
    expect(operations.filter(({ path }) => path.endsWith('/toys'))).toMatchObject([
      { implementation: { kind: 'list', parent } },
      { implementation: { kind: 'create', parent } },
    ]);
    expect(resources[1]!.columns.at(-1)).toMatchObject({
      property: 'petId',
      references: 'pets',
      hidden: true,
    });
  });

  it.each([
    ['/shops/{shopId}/toys', 'no operation creates what {shopId} identifies'],
    ['/shops/{shopId}/pets/{petId}/toys', 'it is below more than one parameter'],
  ])('is a stub at %s', (path, reason) =>
    expect(getResults(toBelow(path))).toMatchObject({ [`POST ${path}`]: reason }),
  );
});

describe('an operation that the generator cannot implement', () => {
  const BODY = '{ type: object, required: [name], properties: { name: { type: string } } }';
  it.each([
    [
      'an upload',
      post('multipart/form-data', '{ type: object }'),
      'the body is multipart/form-data',
    ],
    [
      'bytes',
      post('application/octet-stream', '{ type: string, format: binary }'),
      'the body is application/octet-stream',
    ],
    [
      'an array as body',
      post('application/json', `{ type: array, items: ${BODY} }`),
      'the body is not an object with a name',
    ],
    [
      'no body',
      '{ responses: { 200: { description: OK } } }',
      'it has no body that could be stored',
    ],
    [
      'status 202',
      post('application/json', BODY, BODY, 202),
      'the status 202 says more than that a row was stored',
    ],
    [
      'another response',
      post(
        'application/json',
        BODY,
        '{ type: object, properties: { accepted: { type: boolean } } }',
      ),
      'the response has nothing of what the request contains',
    ],
    [
      'a response with a property that no request sets',
      post(
        'application/json',
        BODY,
        '{ type: object, required: [name, price], properties: { name: { type: string }, price: { type: number } } }',
      ),
      'nothing says what PostThingsResponse.price contains',
    ],
  ])('is a stub for %s', (_name, operation, reason) =>
    expect(getResults(toOperation(operation))).toEqual({ 'POST /things': reason }),
  );

  it.each([
    [
      'an image',
      '{ responses: { 200: { description: OK, content: { image/png: {} } } } }',
      'the response is image/png',
    ],
    [
      'a body',
      `{ requestBody: { content: { application/json: { schema: ${BODY} } } }, responses: {} }`,
      'a GET request has no body',
    ],
    [
      'no resource',
      '{ responses: { 200: { description: OK } } }',
      'it is none of the standard operations on what the contract creates',
    ],
  ])('is a stub for a GET with %s', (_name, operation, reason) =>
    expect(getResults(toOperation(operation, 'get'))).toEqual({ 'GET /things': reason }),
  );

  it.each([
    [
      'HEAD',
      `{ paths: { /things: { head: {} } } }`,
      { 'HEAD /things': 'left out: only GET, PUT, POST, PATCH and DELETE are generated' },
    ],
    [
      'a webhook',
      `{ webhooks: { petSold: { post: {} } } }`,
      { 'webhook petSold': 'left out: the service sends no webhooks' },
    ],
    [
      'the same route twice',
      `{ paths: { '/a/{x}': { get: { operationId: a } }, '/a/{y}': { get: { operationId: b } } } }`,
      {
        'GET /a/{x}': 'it is none of the standard operations on what the contract creates',
        'GET /a/{y}': 'left out: it is the same route as GET /a/{x}',
      },
    ],
  ])('is left out: %s', (_name, yaml, results) =>
    expect(getResults(toModule(toDocument(yaml)))).toEqual(results),
  );

  it('is left out if the service implements it already', () => {
    const service = {
      routes: new Set(['get /pets/{}']),
      schemas: new Set(['Pet']),
      operationIds: new Map([['createPet', 'post /cages']]),
    };
    const module = toModule(pets(), service);
    expect(getResults(module)['GET /pets/{petId}']).toBe(
      'left out: the service already implements it',
    );
    // The service publishes another schema and another operation of these names.
    expect(module.operations[1]).toMatchObject({ operationId: 'zooCreatePet' });
    expect(module.notes).toContain(
      'POST /pets: the operation id is zooCreatePet, because another operation has createPet.',
    );
    expect(module.classes).toMatchObject([{ name: 'ZooPet', publishedName: 'ZooPet' }]);
  });
});

describe('the notes of a contract', () => {
  it.each([
    [
      'components: { securitySchemes: { oauth: { type: oauth2 } } }',
      'Requests are authenticated with a bearer API key, not with the security schemes of the contract.',
    ],
    [
      'servers: [{ url: https://example.com/api/v3 }]',
      'Paths are below /v1, not below those of the servers of the contract.',
    ],
    ['paths: { /a: { get: { callbacks: {} } } }', 'GET /a: no callbacks are sent.'],
    [
      'paths: { /a: { get: { parameters: [{ name: X-Trace, in: header }] } } }',
      'GET /a: the header X-Trace is ignored.',
    ],
    [
      'paths: { /a: { get: { responses: { 200: { headers: { x-next: {} } } } } } }',
      'GET /a: the response header x-next is not sent.',
    ],
    [
      'paths: { /a: { get: { responses: { 200: { content: { application/json: {}, application/xml: {} } } } } } }',
      'Bodies are JSON alone, not application/xml.',
    ],
    [
      'paths: { /a: { get: { responses: { default: { content: { application/problem+json: {} } } } } } }',
      'Errors have the body {code, message, status} as application/json, not that of the contract.',
    ],
  ])('tell what differs for %s', (yaml, note) =>
    expect(toModule(toDocument(yaml)).notes).toContain(note),
  );

  it('tell that a password is stored as a hash', () => {
    const module = toModule(
      pets({ properties: '{ name: { type: string }, password: { type: string } }' }),
    );
    expect(module.notes).toContain('Pet.password: stored as a hash, and never returned.');
    expect(module.classes[0]!.properties[1]).toMatchObject({ writeOnly: true, required: false });
  });
});
