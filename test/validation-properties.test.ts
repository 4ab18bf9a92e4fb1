import type { OpenAPIObject } from '@nestjs/swagger';
import type { Response, Test } from 'supertest';
import {
  ArrayProperty,
  DecimalProperty,
  IntegerProperty,
  MapProperty,
  ObjectProperty,
  StringProperty,
} from '../src/platform/resource/property.decorators.js';
import { startApp, type TestApp } from './support/app.js';
import { KitsModule } from './support/kits.module.js';
import { matchers } from './support/matchers.js';

expect.extend(matchers);

let app: TestApp;
let document: OpenAPIObject;
beforeAll(async () => {
  app = await startApp({ features: [KitsModule] });
  document = (await app.http().get('/openapi.json')).body as OpenAPIObject;
});
afterAll(() => app.stop());

const send = (method: 'get' | 'post' | 'patch', path = ''): Test =>
  app.http()[method](`/v1/kits${path}`).auth(app.key, { type: 'bearer' });
const create = (body: unknown): Test => sendText('post', JSON.stringify(body));
const patch = (body: unknown): Test => sendText('patch', JSON.stringify(body));
const merge = (body: object): Test => send('patch', '/merged').send(body);
const sendText = (method: 'post' | 'patch', body: string): Test =>
  send(method).type('json').send(body);

const getBody = (response: Response): unknown => {
  expect(response.status).toBe(200);
  return response.body;
};
const getSchema = (name: string): object => document.components!.schemas![name]!;
const reference = (name: string): object => ({ $ref: `#/components/schemas/${name}` });

/** What the service adds to every kit. */
const DEFAULTS = { status: 'available', labels: ['new'] };
const RED = { name: 'x', color: 'red' };

describe('property decorators', () => {
  it.each<[string, unknown[]]>([
    ['category', [{ ...RED, id: -(2 ** 31), parent: { ...RED, codes: [0, 9] } }]],
    ['tags', [[], [RED, { ...RED, name: 'y' }]]],
    ['photoUrls', [['http://example.com', 'https://u@example.com:8080/a%20b?c=d#e']]],
    ['outline', [[], [[0, -1.5]]]],
    ['parts', [{}, { red: 1, '': 2 ** 31 - 1 }]],
    ['count', [-(2 ** 31), 2 ** 31 - 1]],
    ['releasedOn', ['2024-02-29', '0000-02-29', '9999-12-31']],
    ['soldAt', ['0000-01-01T00:00:00Z', '9999-12-31T23:59:59.999Z', '0000-02-29T12:00:00Z']],
    ['orderKey', ['0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70', '0190C8F5-7C6F-7D3A-9C5E-2F1A8B4D6E70']],
    ['price', ['0', '0.5', '9999.99', '10']],
    ['share', ['-0.99', '0']],
    ['code', ['ABC', 'ÄÖÜ']],
    ['secret', ['x']],
  ])('accept every valid value of %s', async (name, values) => {
    for (const value of values)
      expect(getBody(await create({ [name]: value }))).toEqual({ ...DEFAULTS, [name]: value });
  });

  it.each<[string, unknown[], string]>([
    ['category', [1, 'x', [], [RED], null], 'category must be an object'],
    ['category', [{}], 'category.name is missing'],
    [
      'category',
      [
        { ...RED, id: '1' },
        { ...RED, id: 2 ** 31 },
      ],
      'category.id must be an integer from -2147483648 to 2147483647',
    ],
    ['category', [{ ...RED, desc: 1 }], 'unknown property category.desc'],
    ['category', [{ ...RED, parent: { color: 'red' } }], 'category.parent.name is missing'],
    ['tags', [{}, { 0: RED }, 'x', null], 'tags must be an array'],
    ['tags', [[[]], [null], ['x'], [[RED]]], 'tags[0] must be an object'],
    ['tags', [[RED, { name: 'y' }, { id: 1 }]], 'tags[2].name is missing'],
    ['tags', [[RED, { ...RED, x: 1 }]], 'unknown property tags[1].x'],
    ['tags', [[{ ...RED, codes: [1, 10] }]], 'tags[0].codes[1] must be an integer from 0 to 9'],
    [
      'tags',
      [
        [RED, RED],
        [RED, { name: 'x' }],
      ],
      'tags must not contain equal items',
    ],
    ['tags', [[1, 2, 3, 4]], 'tags must have at most 3 items'],
    ['photoUrls', [[]], 'photoUrls must have 1 to 3 items'],
    ['photoUrls', [['http://a', 'http://a']], 'photoUrls must not contain equal items'],
    [
      'photoUrls',
      ['ftp://a', 'http://', 'http://a b', 'http://a\\b', '//a', 'http://ä', 'http://a/%', 1].map(
        (url) => [url],
      ),
      'photoUrls[0] must be a URI that starts with http:// or https://',
    ],
    [
      'photoUrls',
      [[`http://a/${'x'.repeat(2048)}`]],
      'photoUrls[0] must be at most 2048 characters long',
    ],
    ['outline', [[[0, 1], [0]]], 'outline[1] must have 2 to 2 items'],
    ['outline', [[[0, '1']]], 'outline[0][1] must be a number'],
    ['parts', [[], 1, null], 'parts must be an object'],
    [
      'parts',
      [{ red: 1.5 }, { red: null }],
      'parts.red must be an integer from -2147483648 to 2147483647',
    ],
    ['parts', [{ a: 1, b: 1, c: 1 }], 'parts must have at most 2 properties'],
    ['parts', [{ '\0': 1 }], 'parts: a key must not contain a NUL character'],
    ['count', [2 ** 31, 1.5, '1'], 'count must be an integer from -2147483648 to 2147483647'],
    [
      'releasedOn',
      [
        '2026-02-29',
        '2026-13-01',
        '2026-00-01',
        '2026-1-1',
        '+02026-01-01',
        '2026-11-01T00:00:00Z',
        1,
      ],
      'releasedOn must be a date, such as 2026-11-01',
    ],
    [
      'soldAt',
      ['9999-12-31T23:59:59-12:00', '0000-01-01T00:00:00+00:01'],
      'soldAt must be in the years 0000 to 9999 in UTC',
    ],
    [
      'orderKey',
      ['0190c8f5', '{0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70}', 1],
      'orderKey must be a UUID',
    ],
    [
      'price',
      ['-1', '1.', '.5', '01', '1e2', '10000', '0.123', ' 1', '', 1],
      'price must be an unsigned decimal number in a string, with at most 4 digits before and 2 after the decimal point',
    ],
    [
      'share',
      ['1', '0.123', '+0.5'],
      'share must be a decimal number in a string, with at most 0 digits before and 2 after the decimal point',
    ],
    ['code', ['AB', 'ABCD', 'abc'], 'code must match the pattern ^\\p{Lu}{3}$'],
    ['id', [1, null], 'unknown property id'],
    ['status', [null, 'x'], 'status must be one of available, sold'],
  ])('reject an invalid %s: %j', async (name, values, message) => {
    for (const value of values)
      expect(await create({ [name]: value })).toBeError('VALIDATION_FAILED', `${message}.`);
  });

  it.each(['constructor', '__proto__', 'toString', 'prototype'])(
    'reject the property %s at every depth',
    async (name) => {
      const inner = `{"name":"x","${name}":{}}`;
      for (const [body, path] of [
        [inner, ''],
        [`{"category":${inner}}`, 'category.'],
        [`{"tags":[${inner}]}`, 'tags[0].'],
        [`{"tags":[[${inner}]]}`, 'tags[0][0].'],
        [`{"parts":{"${name}":1}}`, 'parts.'],
      ] as const) {
        for (const method of ['post', 'patch'] as const)
          expect(await sendText(method, body)).toBeError(
            'VALIDATION_FAILED',
            `unknown property ${path}${name}.`,
          );
      }
    },
  );

  it('refuse options that contradict each other, or that the OpenAPI document cannot express', () => {
    const text = { maxLength: 10, example: 'x', description: 'Text.' };
    expect(() => StringProperty({ ...text, pattern: /x/i })).toThrow(TypeError);
    expect(() => StringProperty({ ...text, pattern: /x/, notBlank: true })).toThrow(TypeError);
    const integer = { format: 'int32', example: 1, description: 'Number.' } as const;
    expect(() => IntegerProperty({ ...integer, maximum: 2 ** 31 })).toThrow(RangeError);
    const decimal = { precision: 2, example: '1', description: 'Number.' };
    expect(() => DecimalProperty({ ...decimal, scale: 3 })).toThrow(RangeError);
    const array = { maxItems: 1, description: 'Array.' };
    const map = { maxProperties: 1, description: 'Map.' };
    for (const option of [
      { optional: true },
      { default: 'x' },
      { readOnly: true },
      { writeOnly: true },
    ]) {
      const items = StringProperty({ ...text, ...option });
      expect(() => ArrayProperty({ ...array, items })).toThrow(TypeError);
      expect(() => MapProperty({ ...map, values: items })).toThrow(TypeError);
    }
    const objects = ObjectProperty(() => Object);
    const items = ArrayProperty({ ...array, items: objects });
    expect(() => ArrayProperty({ ...array, items })).toThrow(TypeError);
    expect(() => MapProperty({ ...map, values: objects })).toThrow(TypeError);
  });
});

describe('a default', () => {
  it('is used for an absent property of a create request, in nested objects, too', async () => {
    expect(getBody(await create({ tags: [{ name: 'x' }] }))).toEqual({ ...DEFAULTS, tags: [RED] });
    expect(getBody(await create({ status: 'sold', labels: [] }))).toEqual({
      status: 'sold',
      labels: [],
    });
  });

  it('is not used for an absent property of a JSON merge patch', async () => {
    expect(getBody(await patch({}))).toEqual({});
    expect(getBody(await patch({ category: { id: 1 } }))).toEqual({ category: { id: 1 } });
  });
});

describe('a write-only property', () => {
  it('is accepted, and not in the response', async () => {
    const response = await send('post', '/stored').send({ secret: 'x', category: RED });
    expect(getBody(response)).toEqual({ ...DEFAULTS, id: 1, category: RED });
  });
});

describe('a JSON merge patch', () => {
  it('accepts parts of nested objects, and null for what can be removed', async () => {
    for (const body of [
      { category: null, tags: null, photoUrls: null, parts: null, orderKey: null, status: null },
      { category: { id: null, codes: null, parent: { parent: null } }, parts: { red: null } },
      { tags: [RED], parts: { red: 1 } },
    ])
      expect(getBody(await patch(body))).toEqual(body);
  });

  it.each<[object, string]>([
    [{ id: 1 }, 'unknown property id'],
    [{ count: null }, 'count must be an integer from -2147483648 to 2147483647'],
    [{ category: { name: null } }, 'category.name must be a string'],
    [{ category: { desc: 1 } }, 'unknown property category.desc'],
    [{ category: { parent: { x: 1 } } }, 'unknown property category.parent.x'],
    [{ category: [] }, 'category must be an object'],
    [{ tags: [{}] }, 'tags[0].name is missing'],
    [{ tags: [null] }, 'tags[0] must be an object'],
    [{ tags: [[]] }, 'tags[0] must be an object'],
    [{ parts: { red: '1' } }, 'parts.red must be an integer from -2147483648 to 2147483647'],
  ])('rejects %j', async (body, message) => {
    expect(await patch(body)).toBeError('VALIDATION_FAILED', `${message}.`);
  });

  it('is applied to nested objects and maps, and the result is validated', async () => {
    expect(getBody(await merge({ parts: { red: null, green: 3 }, status: null }))).toEqual({
      ...DEFAULTS,
      parts: { blue: 2, green: 3 },
    });
    expect(await merge({ category: { id: 1 } })).toBeError(
      'VALIDATION_FAILED',
      'category.name is missing.',
    );
  });
});

describe('a query', () => {
  it('is converted from text', async () => {
    const response = await send('get').query(
      'status=sold&limit=5&minWeight=-1.5e1&inStock=false&tag=1&tag=2',
    );
    expect(getBody(response)).toEqual({
      status: 'sold',
      limit: 5,
      minWeight: -15,
      inStock: false,
      tag: [1, 2],
    });
  });

  it('may omit every optional parameter, and repeat an array once', async () => {
    expect(getBody(await send('get'))).toEqual({ limit: 20 });
    expect(getBody(await send('get').query('tag=7'))).toEqual({ limit: 20, tag: [7] });
  });

  it('may contain unknown parameters, which are ignored', async () => {
    const query = 'x=1&constructor=1&__proto__=1&toString=1&hasOwnProperty=1&x[y]=1';
    expect(getBody(await send('get').query(query))).toEqual({ limit: 20 });
  });

  it.each([
    ['status=gone', 'status must be one of available, sold'],
    ['limit=0', 'limit must be an integer from 1 to 100'],
    ['limit=', 'limit must be an integer from 1 to 100'],
    ['limit=1e1', 'limit must be an integer from 1 to 100'],
    ['limit=0x10', 'limit must be an integer from 1 to 100'],
    ['limit=1&limit=2', 'limit must be an integer from 1 to 100'],
    ['minWeight=NaN', 'minWeight must be a number'],
    ['minWeight=1e999', 'minWeight must be a number'],
    ['inStock=1', 'inStock must be true or false'],
    ['tag=1&tag=x', 'tag[1] must be an integer from 1 to 9007199254740991'],
    ['tag=1,2', 'tag[0] must be an integer from 1 to 9007199254740991'],
    ['tag=1&tag=2&tag=3&tag=4', 'tag must have at most 3 items'],
  ])('is rejected with 400 if it is invalid: %s', async (query, message) => {
    expect(await send('get').query(query)).toBeError('VALIDATION_FAILED', `${message}.`);
  });

  it('is in the OpenAPI document with its types', () => {
    expect(document.paths['/kits']!.get!.parameters).toEqual([
      {
        name: 'status',
        in: 'query',
        required: false,
        description: 'Status.',
        schema: { type: 'string', enum: ['available', 'sold'], example: 'available' },
      },
      {
        name: 'limit',
        in: 'query',
        required: false,
        description: 'Limit.',
        schema: {
          type: 'integer',
          format: 'int32',
          minimum: 1,
          maximum: 100,
          default: 20,
          example: 20,
        },
      },
      expect.objectContaining({
        name: 'minWeight',
        schema: { type: 'number', format: 'double', example: 1.5 },
      }),
      expect.objectContaining({ name: 'inStock', schema: { type: 'boolean', example: true } }),
      {
        name: 'tag',
        in: 'query',
        required: false,
        description: 'Tags.',
        schema: {
          type: 'array',
          items: expect.objectContaining({ type: 'integer', minimum: 1 }),
          maxItems: 3,
        },
      },
    ]);
  });
});

describe('the OpenAPI document', () => {
  it('contains the schema of a create request', () => {
    expect(getSchema('NewKit')).toMatchObject({
      required: ['id'],
      additionalProperties: false,
      properties: {
        id: { type: 'integer', readOnly: true },
        category: { description: 'Category.', allOf: [reference('Tag')] },
        tags: { type: 'array', items: reference('Tag'), maxItems: 3, uniqueItems: true },
        photoUrls: {
          type: 'array',
          items: {
            type: 'string',
            format: 'uri',
            maxLength: 2048,
            pattern: expect.stringMatching(/^\^https\?:/),
            description: 'Address of a photo.',
          },
          minItems: 1,
          maxItems: 3,
          uniqueItems: true,
        },
        outline: {
          type: 'array',
          items: { type: 'array', items: { type: 'number' }, minItems: 2, maxItems: 2 },
        },
        parts: {
          type: 'object',
          additionalProperties: {
            type: 'integer',
            format: 'int32',
            minimum: -2147483648,
            maximum: 2147483647,
          },
          maxProperties: 2,
        },
        count: { type: 'integer', format: 'int32', minimum: -2147483648, maximum: 2147483647 },
        releasedOn: { type: 'string', format: 'date' },
        orderKey: { type: 'string', format: 'uuid' },
        price: { type: 'string', format: 'decimal', pattern: '^(0|[1-9]\\d{0,3})(\\.\\d{1,2})?$' },
        share: { type: 'string', format: 'decimal', pattern: '^-?0(\\.\\d{1,2})?$' },
        code: { type: 'string', maxLength: 20, pattern: '^\\p{Lu}{3}$' },
        status: { type: 'string', enum: ['available', 'sold'], default: 'available' },
        labels: { type: 'array', items: { type: 'string' }, default: ['new'] },
        secret: { type: 'string', writeOnly: true },
      },
    });
  });

  it('contains the schema of a JSON merge patch, in which null is valid if it removes a property', () => {
    const patchOrNull = {
      anyOf: [reference('TagMergePatch'), { type: 'object', nullable: true, enum: [null] }],
    };
    expect(getSchema('KitPatch')).toMatchObject({
      additionalProperties: false,
      properties: {
        category: patchOrNull,
        tags: { type: 'array', items: reference('Tag'), nullable: true },
        parts: {
          type: 'object',
          nullable: true,
          additionalProperties: { type: 'integer', nullable: true },
        },
        sizes: {
          additionalProperties: { enum: ['small', 'large', null], nullable: true },
        },
        status: { type: 'string', nullable: true, enum: ['available', 'sold', null] },
        count: { type: 'integer' },
      },
    });
    for (const name of ['KitPatch', 'TagMergePatch']) {
      expect(getSchema(name)).not.toHaveProperty('required');
      expect(JSON.stringify(getSchema(name))).not.toContain('"default"');
    }
    expect(getSchema('KitPatch')).not.toHaveProperty('properties.id');
    expect(getSchema('KitPatch')).not.toHaveProperty('properties.count.nullable');
    expect(getSchema('TagMergePatch')).toHaveProperty('properties.parent.anyOf', patchOrNull.anyOf);
  });

  it('closes the schemas of request bodies at every depth, except maps', () => {
    for (const name of ['NewKit', 'Tag', 'KitPatch', 'TagMergePatch'])
      expect([name, getSchema(name)]).toMatchObject([name, { additionalProperties: false }]);
  });
});
