import { Body, Controller, Post } from '@nestjs/common';
import { type OpenAPIObject, PartialType } from '@nestjs/swagger';
import { Type } from 'class-transformer';
import { IsInt, IsOptional, IsUppercase, ValidateNested } from 'class-validator';
import * as fc from 'fast-check';
import type { Response, Test } from 'supertest';
import { CategoriesModule } from '../src/modules/categories/categories.module.js';
import { Feature } from '../src/platform/feature.decorator.js';
import { applyMergePatch } from '../src/platform/resource/merge-patch.js';
import { Property } from '../src/platform/resource/property.js';
import type { Schema } from '../src/platform/resource/schema.js';
import { StrictValidationPipe, validateBody } from '../src/platform/resource/validation.pipe.js';
import { startApp, type TestApp } from './support/app.js';
import { CagesModule } from './support/cages.module.js';
import { Sample } from './support/sample.dto.js';

/** How many values were checked, and how many objects were converted to DTOs. */
const work = { checks: 0, conversions: 0 };
const ONE = Object.assign([1], {
  includes: (value: unknown) => {
    work.checks++;
    return value === 1;
  },
});

/** A body that counts what is done with it. */
class Box {
  @Property({ enum: ONE, optional: true }) one?: number;
  @Property({ type: () => Box, optional: true }) inner?: Box;
  @Property({ type: 'array', items: { type: () => Box }, optional: true }) list?: Box[];
  @Property({ type: 'array', items: { type: () => Box }, maxItems: 3, optional: true })
  some?: Box[];
  @Property({ type: 'object', additionalProperties: { type: 'integer' }, optional: true })
  map?: Record<string, number>;

  constructor() {
    work.conversions++;
  }
}

@Controller('boxes')
class BoxesController {
  @Post()
  createBox(@Body() _box: Box): object {
    return {};
  }
}

@Feature({ tag: { name: 'boxes', description: 'Boxes.' }, controllers: [BoxesController] })
class BoxesModule {}

let app: TestApp;
let document: OpenAPIObject;
beforeAll(async () => {
  app = await startApp({ features: [CategoriesModule, CagesModule, BoxesModule] });
  document = (await app.http().get('/openapi.json')).body as OpenAPIObject;
});
afterAll(() => app.stop());

type Method = 'get' | 'post' | 'patch';

const send = (method: Method, path = '/samples'): Test =>
  app.http()[method](`/v1/cages${path}`).auth(app.key, { type: 'bearer' });
const sendText = (method: Method, body: string): Test => send(method).type('json').send(body);
const create = (body: unknown): Test => sendText('post', JSON.stringify(body));
const patch = (body: unknown): Test => sendText('patch', JSON.stringify(body));

const apply = (changes: object): Promise<Sample> =>
  validateBody(Sample, applyMergePatch({ parts: { red: 1, blue: 2 } }, changes));

const getBody = (response: Response): unknown => {
  expect(response.status).toBe(200);
  return response.body;
};
const getSchema = (name: string): object => document.components!.schemas![name]!;
const reference = (name: string): object => ({ $ref: `#/components/schemas/${name}` });

/** What the service adds to every sample. */
const DEFAULTS = { status: 'available', digits: [7] };
const RED = { name: 'x', color: 'red' };
const INT32 = 'must be an integer from -2147483648 to 2147483647';
const DATE_TIME = 'must be a date and time with an offset from UTC, such as 2026-11-01T12:00:00Z';
const UTC_YEARS = 'must be in the years 0000 to 9999 in UTC';
const DECIMAL = 'must be a decimal number in a string, such as 9.99';
const URI = 'must be a URI that starts with http:// or https://';

describe('@Property', () => {
  it.each<[string, unknown[]]>([
    ['category', [{ ...RED, id: -(2 ** 31), parent: { ...RED, codes: [0, 9] } }]],
    ['tags', [[], [RED, { ...RED, name: 'y' }]]],
    ['status', ['sold']],
    ['digits', [[]]],
    ['photoUrls', [['http://example.com', 'https://u@example.com:8080/a%20b?c=d#e']]],
    ['outline', [[], [[0, -1.5]]]],
    ['parts', [{}, { red: 1, '': 2 ** 31 - 1 }]],
    ['name', ['ab', '🪀🪀', 'x'.repeat(20)]],
    ['code', ['ABC', 'ÄÖÜ']],
    ['count', [-(2 ** 31), 2 ** 31 - 1]],
    ['weight', [-0.25, 1e300]],
    ['fragile', [true, false]],
    ['releasedOn', ['2024-02-29', '0000-02-29', '9999-12-31']],
    ['soldAt', ['0000-01-01T00:00:00Z', '9999-12-31T23:59:59.999Z', '0000-02-29T12:00:00Z']],
    ['orderKey', ['0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70', '0190C8F5-7C6F-7D3A-9C5E-2F1A8B4D6E70']],
    ['price', ['0', '0.5', '9999.99', '10']],
    ['share', ['-0.99', '0']],
    ['note', ['x'.repeat(20_000), null]],
    ['numbers', [Array.from({ length: 2000 }, () => 1)]],
    ['counts', [{ a: 1, b: 2 }]],
  ])('accepts every valid value of %s', async (name, values) => {
    for (const value of values)
      expect(getBody(await create({ [name]: value }))).toEqual({ ...DEFAULTS, [name]: value });
  });

  it.each<[string, unknown[], string]>([
    ['category', [1, 'x', [], [RED], null], 'category must be an object'],
    ['category', [{}], 'category.name is missing'],
    ['category', [{ ...RED, id: '1' }], `category.id ${INT32}`],
    ['category', [{ ...RED, desc: 1 }], 'unknown property category.desc'],
    ['category', [{ ...RED, parent: { color: 'red' } }], 'category.parent.name is missing'],
    ['tags', [{}, { 0: RED }, 'x', null], 'tags must be an array'],
    ['tags', [[[]], [null], ['x'], [[RED]], [[{ valueOf: 1 }]]], 'tags[0] must be an object'],
    ['tags', [[RED, { name: 'y' }, { id: 1 }]], 'tags[2].name is missing'],
    ['tags', [[RED, { ...RED, x: 1 }]], 'unknown property tags[1].x'],
    ['tags', [[{ ...RED, codes: [1, 10] }]], 'tags[0].codes[1] must be an integer from 0 to 9'],
    [
      'tags',
      [
        [RED, RED],
        [RED, { color: 'red', name: 'x' }],
      ],
      'tags must not contain equal items',
    ],
    ['tags', [[RED, { name: 'x' }]], 'tags must not contain equal items'],
    ['tags', [[1, 2, 3, 4]], 'tags must have at most 3 items'],
    ['photoUrls', [[]], 'photoUrls must have 1 to 3 items'],
    ['photoUrls', [['http://a', 'http://a']], 'photoUrls must not contain equal items'],
    ['photoUrls', [['javascript:alert(1)'], ['urn:a'], ['']], `photoUrls[0] ${URI}`],
    ['photoUrls', [['ftp://a'], ['http://'], ['http://a b'], ['//a']], `photoUrls[0] ${URI}`],
    ['photoUrls', [['http://a\\b'], ['http://ä'], ['http://a/%'], [1]], `photoUrls[0] ${URI}`],
    [
      'photoUrls',
      [[`http://a/${'x'.repeat(2048)}`]],
      'photoUrls[0] must be at most 2048 characters long',
    ],
    ['outline', [[[0, 1], [0]]], 'outline[1] must have 2 to 2 items'],
    ['outline', [[[0, '1']]], 'outline[0][1] must be a number'],
    ['parts', [[], 1, null], 'parts must be an object'],
    ['parts', [{ red: 1.5 }, { red: null }], `parts.red ${INT32}`],
    ['parts', [{ a: 1, b: 1, c: 1 }], 'parts must have at most 2 properties'],
    ['parts', [{ '\0': 1 }], 'parts: a key must not contain a NUL character'],
    ['name', ['', 'x', 'x'.repeat(21), '🪀'], 'name must be 2 to 20 characters long'],
    ['name', ['   '], 'name must not be blank'],
    ['name', [1, null, {}], 'name must be a string'],
    ['code', ['AB', 'ABCD', 'abc'], 'code must match the pattern ^\\p{Lu}{3}$'],
    ['count', [2 ** 31, 1.5, '1', null], `count ${INT32}`],
    ['weight', ['1.5', null, true], 'weight must be a number'],
    ['fragile', ['true', 0, null], 'fragile must be true or false'],
    [
      'releasedOn',
      ['2026-02-29', '2026-13-01', '2026-1-1', '+02026-01-01', '2026-11-01T00:00:00Z', 1],
      'releasedOn must be a date, such as 2026-11-01',
    ],
    [
      'soldAt',
      ['2026-11-01', '2026-02-30T12:00:00Z', '2026-11-01T24:00:00Z', 1, null],
      `soldAt ${DATE_TIME}`,
    ],
    ['soldAt', ['9999-12-31T23:59:59-12:00', '0000-01-01T00:00:00+00:01'], `soldAt ${UTC_YEARS}`],
    [
      'orderKey',
      ['0190c8f5', '{0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70}', 1],
      'orderKey must be a UUID',
    ],
    ['price', ['+1', '1.', '.5', '01', '1e2', ' 1', '', 1], `price ${DECIMAL}`],
    ['price', ['10000', '0.123'], 'price must match the pattern ^-?\\d{1,4}(\\.\\d{1,2})?$'],
    ['share', ['1', '0.123'], 'share must match the pattern ^-?0(\\.\\d{1,2})?$'],
    ['id', [1, null], 'unknown property id'],
    ['status', [null, 'x'], 'status must be one of available, sold'],
    ['note', ['x'], 'note must be at least 2 characters long'],
    ['numbers', [[]], 'numbers must have at least 1 items'],
    ['numbers', [null], 'numbers must be an array'],
  ])('rejects an invalid %s: %j', async (name, values, message) => {
    for (const value of values)
      expect(await create({ [name]: value })).toBeError('VALIDATION_FAILED', `${message}.`);
  });

  it.each(['constructor', '__proto__', 'toString', 'prototype'])(
    'rejects the property %s at every depth',
    async (name) => {
      const inner = `{"name":"x","${name}":{}}`;
      for (const [body, path] of [
        [`{"${name}":1}`, ''],
        [`{"category":${inner}}`, 'category.'],
        [`{"tags":[${inner}]}`, 'tags[0].'],
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

  it.each<[string, Schema]>([
    ['a pattern with flags', { type: 'string', pattern: /x/i }],
    ['two patterns', { type: 'string', pattern: /x/, notBlank: true }],
  ])('refuses what the OpenAPI document cannot express: %s', (_name, schema) => {
    expect(() => Property(schema)).toThrow(TypeError);
  });
});

const repeat = (count: number, toText: (index: number) => string): string =>
  Array.from({ length: count }, (_, index) => toText(index)).join(',');
const toJson = (name: string, inner: string): string => `{${JSON.stringify(name)}:${inner}}`;

describe('a rejected body', () => {
  const BODY_LIMIT = 102_400;
  const name = fc.oneof(
    fc.constantFrom('one', 'x', 'valueOf', '__proto__', 'inner', 'list', 'some', 'map'),
    fc.string({ unit: 'binary', maxLength: 20 }).filter((text) => !text.includes(';')),
    fc
      .tuple(
        fc.constantFrom('k', '"', '\u0001', '\ud800', '🪀'),
        fc.integer({ min: 50, max: 8000 }),
      )
      .map(([character, length]) => character.repeat(length)),
  );
  const value = fc.constantFrom('0', '{}', '[]', 'null', '{"valueOf":1}', '{"x":{"one":2}}');
  /** Values whose every part is invalid: wide, deep, with long names, and arrays of objects. */
  const { body } = fc.letrec<{ body: string }>((tie) => ({
    body: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.tuple(name, value).map(([key, inner]) => toJson(key, inner)),
      fc
        .tuple(fc.integer({ min: 1, max: 11_000 }), value)
        .map(([count, inner]) => `{${repeat(count, (index) => `"${index}":${inner}`)}}`),
      fc.tuple(name, tie('body')).map(([key, inner]) => toJson(key, inner)),
      fc
        .tuple(fc.constantFrom('list', 'some', 'x'), fc.nat(33_000), tie('body'))
        .map(([key, count, inner]) => {
          const length = Math.min(count, Math.floor(BODY_LIMIT / (inner.length + 1)));
          return toJson(key, `[${repeat(length, () => inner)}]`);
        }),
      fc
        .tuple(fc.constantFrom('inner', 'x'), fc.integer({ min: 1, max: 28 }), tie('body'))
        .map(([key, depth, inner]) => `{"${key}":`.repeat(depth) + inner + '}'.repeat(depth)),
    ),
  }));

  it('reports at most ten problems in 4 KB, and ends the validation with them', async () => {
    await fc.assert(
      fc.asyncProperty(body, async (text) => {
        fc.pre(Buffer.byteLength(text) <= BODY_LIMIT);
        Object.assign(work, { checks: 0, conversions: 0 });
        const response = await app
          .http()
          .post('/v1/boxes')
          .auth(app.key, { type: 'bearer' })
          .type('json')
          .send(text);
        fc.pre(response.status !== 201);
        expect(response).toBeError('VALIDATION_FAILED');
        expect(Buffer.byteLength(response.text)).toBeLessThanOrEqual(4096);
        const { message } = response.body as { message: string };
        expect(message.split('; ').length).toBeLessThanOrEqual(10);
        expect(work.conversions).toBe(0);
        expect(work.checks).toBeLessThanOrEqual(10);
      }),
      {
        examples: [
          [toJson('k'.repeat(45_000), `[${repeat(3500, () => '{"valueOf":1}')}]`)],
          [`{${repeat(11_000, (index) => `"${index}":1`)}}`],
          [toJson('list', `[${repeat(20, () => toJson('\u0001'.repeat(200), '1'))}]`)],
          [toJson('some', `[${repeat(33_000, () => '{}')}]`)],
          [toJson('list', `[${repeat(10_000, () => '{"one":2}')}]`)],
        ],
      },
    );
  });
});

describe('a URI', () => {
  it('that is too long is rejected before its characters are checked', async () => {
    await expect(
      validateBody(Sample, { photoUrls: [`http://${'x'.repeat(20_000_000)}`] }),
    ).rejects.toMatchObject({ message: 'photoUrls[0] must be at most 2048 characters long.' });
  });
});

/** With decorators of class-validator beside and without those of the platform. */
class Contact {
  @IsUppercase({ message: '$property must be in upper case' })
  @Property({ type: 'string', maxLength: 9, description: 'A name.', example: 'ANN' })
  name!: string;
  @IsInt() age!: number;
  @IsOptional() @ValidateNested() @Type(() => Contact) friend?: Contact;
}
class Contacts {
  @Property({ type: () => Contact }) contact!: Contact;
}

describe('a DTO with decorators of class-validator', () => {
  it('is validated by both', async () => {
    const contact = { name: 'ANN', age: 7 };
    await expect(validateBody(Contacts, { contact })).resolves.toEqual({ contact });
    for (const [changes, message] of [
      [{ name: 'Ann' }, 'contact.name must be in upper case.'],
      [{ age: undefined }, 'contact.age must be an integer number.'],
      [{ sex: 'f' }, 'unknown property contact.sex.'],
      [{ friend: { ...contact, sex: 'm' } }, 'unknown property contact.friend.sex.'],
    ] as const) {
      const result = validateBody(Contacts, { contact: { ...contact, ...changes } });
      await expect(result).rejects.toMatchObject({ message });
    }
  });

  it('may describe a query', async () => {
    class Filter {
      @IsInt() @Type(() => Number) age!: number;
    }
    const transform = (query: object): Promise<unknown> =>
      new StrictValidationPipe().transform(query, { type: 'query', metatype: Filter });
    await expect(transform({ age: '7', x: '1' })).resolves.toEqual({ age: 7 });
    await expect(transform({ age: 'x' })).rejects.toThrow('age must be an integer number.');
  });

  it('may be derived with PartialType', async () => {
    await expect(validateBody(PartialType(Contact), {})).resolves.toEqual({});
  });
});

describe('a property', () => {
  it('that is write-only is accepted, and not in the response', async () => {
    expect(getBody(await create({ secret: 'x' }))).toEqual(DEFAULTS);
    expect(getBody(await patch({ secret: 'x' }))).toEqual({ secret: 'x' });
  });
});

describe('a JSON merge patch', () => {
  it('accepts parts of nested objects, null for what can be removed, and no defaults', async () => {
    for (const body of [
      {},
      { category: null, tags: null, photoUrls: null, parts: null, orderKey: null, status: null },
      { category: { id: null, codes: null, parent: { parent: null } }, parts: { red: null } },
      { tags: [RED], parts: { red: 1 } },
    ])
      expect(getBody(await patch(body))).toEqual(body);
  });

  it.each<[object, string]>([
    [{ id: 1 }, 'unknown property id'],
    [{ count: null }, `count ${INT32}`],
    [{ name: 'x' }, 'name must be 2 to 20 characters long'],
    [{ category: { name: null } }, 'category.name must be a string'],
    [{ category: { parent: { x: 1 } } }, 'unknown property category.parent.x'],
    [{ category: [] }, 'category must be an object'],
    [{ tags: [{}] }, 'tags[0].name is missing'],
    [{ tags: [null] }, 'tags[0] must be an object'],
    [{ parts: { red: '1' } }, `parts.red ${INT32}`],
  ])('rejects %j', async (body, message) => {
    expect(await patch(body)).toBeError('VALIDATION_FAILED', `${message}.`);
  });

  it('is applied to nested objects and maps, and the result is validated', async () => {
    expect(await apply({ parts: { red: null, green: 3 }, status: null })).toEqual({
      ...DEFAULTS,
      parts: { blue: 2, green: 3 },
    });
    await expect(apply({ category: { id: 1 } })).rejects.toMatchObject({
      code: 'VALIDATION_FAILED',
      message: 'category.name is missing.',
    });
  });
});

describe('a query', () => {
  it.each([
    [
      'status=sold&limit=5&minWeight=-1.5e1&inStock=false&tag=1&tag=2',
      { status: 'sold', limit: 5, minWeight: -15, inStock: false, tag: [1, 2] },
    ],
    ['', { limit: 20 }],
    ['tag=7', { limit: 20, tag: [7] }],
    ['x=1&constructor=1&__proto__=1&toString=1&hasOwnProperty=1&x[y]=1', { limit: 20 }],
  ])('is converted from text, without unknown parameters: %s', async (query, expected) => {
    expect(getBody(await send('get').query(query))).toEqual(expected);
  });

  it.each([
    ['status=gone', 'status must be one of available, sold'],
    ['limit=0', 'limit must be an integer from 1 to 100'],
    ['limit=', 'limit must be an integer from 1 to 100'],
    ['limit=1e1', 'limit must be an integer from 1 to 100'],
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
});

describe('a path', () => {
  it.each(['0', '-1', '01', '1e0', '1.0', 'one', '9007199254740992'])(
    'is not found if its id cannot be one: %s',
    async (id) => {
      expect(await send('get', `/${id}`)).toBeError('NOT_FOUND', 'Resource not found.');
    },
  );

  it.each([
    ['12', 200, { page: 12 }],
    ['100', 400, { message: 'page must be an integer from 1 to 99.' }],
    ['x', 400, { message: 'page must be an integer from 1 to 99.' }],
  ])('with the parameters of a DTO is converted and validated: %s', async (page, status, body) => {
    const response = await send('get', `/samples/pages/${page}`);
    expect([response.status, response.body]).toMatchObject([status, body]);
  });

  it('that overlaps with others has the methods of all of them in Allow', async () => {
    const response = await app.send('PURGE', '/v1/cages/login');
    expect(response).toBeError('METHOD_NOT_ALLOWED');
    expect(response.headers.allow).toBe('DELETE, GET, HEAD, PATCH, POST, PUT');
  });
});

describe('the OpenAPI document', () => {
  it('contains the tags of all features once each', () => {
    expect(document.tags!.map(({ name }) => name)).toEqual(['categories', 'cages', 'boxes']);
  });

  it('contains the parameters of a path and a query with their types', () => {
    expect(document.paths['/cages/samples/pages/{page}']!.get!.parameters).toMatchObject([
      { name: 'page', in: 'path', required: true, description: 'The number of the page.' },
    ]);
    const common = { in: 'query', required: false };
    expect(document.paths['/cages/samples']!.get!.parameters).toMatchObject([
      { ...common, name: 'status', schema: { type: 'string', enum: ['available', 'sold'] } },
      {
        ...common,
        name: 'limit',
        description: 'Limit.',
        schema: { type: 'integer', format: 'int32', minimum: 1, maximum: 100, default: 20 },
      },
      { ...common, name: 'minWeight', schema: { type: 'number', example: 1.5 } },
      { ...common, name: 'inStock', schema: { type: 'boolean', example: true } },
      { ...common, name: 'tag', schema: { type: 'array', items: { minimum: 1 }, maxItems: 3 } },
    ]);
  });

  it('contains the schema of a create request', () => {
    expect(getSchema('Sample')).toMatchObject({
      required: ['id'],
      properties: {
        id: { type: 'integer', format: 'int64', minimum: 1, readOnly: true },
        category: { description: 'A value.', allOf: [reference('Tag')] },
        tags: { type: 'array', items: reference('Tag'), maxItems: 3, uniqueItems: true },
        photoUrls: {
          type: 'array',
          items: { format: 'uri', maxLength: 2048, pattern: expect.stringMatching(/^\^https\?:/) },
          minItems: 1,
          uniqueItems: true,
        },
        outline: { items: { type: 'array', items: { type: 'number' }, minItems: 2, maxItems: 2 } },
        parts: {
          type: 'object',
          additionalProperties: { format: 'int32', minimum: -(2 ** 31), maximum: 2 ** 31 - 1 },
          maxProperties: 2,
        },
        name: { type: 'string', minLength: 2, maxLength: 20, pattern: '[^\\s\\u0085]' },
        code: { type: 'string', maxLength: 20, pattern: '^\\p{Lu}{3}$' },
        count: { type: 'integer', format: 'int32', minimum: -2147483648, maximum: 2147483647 },
        weight: { type: 'number', example: 1.5 },
        fragile: { type: 'boolean' },
        releasedOn: { type: 'string', format: 'date' },
        soldAt: { type: 'string', format: 'date-time', maxLength: 64 },
        orderKey: { type: 'string', format: 'uuid' },
        price: {
          type: 'string',
          format: 'decimal',
          pattern: '^-?\\d{1,4}(\\.\\d{1,2})?$',
        },
        share: { type: 'string', format: 'decimal', pattern: '^-?0(\\.\\d{1,2})?$' },
        status: { type: 'string', enum: ['available', 'sold'], default: 'available' },
        digits: { type: 'array', items: { type: 'integer' }, default: [7] },
        secret: { type: 'string', writeOnly: true },
        note: { minLength: 2, nullable: true, description: 'A value.', example: 'two' },
        numbers: { minItems: 1, example: [3], items: { type: 'integer', example: 1 } },
        counts: { type: 'object', additionalProperties: { type: 'integer' } },
      },
    });
    expect(JSON.stringify(getSchema('Sample'))).not.toMatch(/Infinity|null,/);
  });

  it('contains the schema of a JSON merge patch, in which null is valid if it removes a property', () => {
    const patchOrNull = {
      anyOf: [reference('TagMergePatch'), { type: 'object', nullable: true, enum: [null] }],
    };
    expect(getSchema('SamplePatch')).toMatchObject({
      properties: {
        category: patchOrNull,
        tags: { type: 'array', items: reference('Tag'), nullable: true },
        parts: { nullable: true, additionalProperties: { type: 'integer', nullable: true } },
        sizes: { additionalProperties: { enum: ['available', 'sold', null], nullable: true } },
        status: { type: 'string', nullable: true, enum: ['available', 'sold', null] },
        count: expect.not.objectContaining({ nullable: true }) as object,
      },
    });
    for (const name of ['SamplePatch', 'TagMergePatch']) {
      expect(getSchema(name)).not.toHaveProperty('required');
      expect(JSON.stringify(getSchema(name))).not.toContain('"default"');
    }
    expect(getSchema('SamplePatch')).not.toHaveProperty('properties.id');
    expect(getSchema('TagMergePatch')).toHaveProperty('properties.parent.anyOf', patchOrNull.anyOf);
  });

  it('closes the schemas of request bodies at every depth, but not those of responses', () => {
    for (const name of ['NewCage', 'CagePatch', 'Tag', 'SamplePatch', 'TagMergePatch'])
      expect([name, getSchema(name)]).toMatchObject([name, { additionalProperties: false }]);
    expect(getSchema('Cage')).not.toHaveProperty('additionalProperties');
  });
});
