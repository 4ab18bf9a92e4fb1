import type { OpenAPIObject } from '@nestjs/swagger';
import type { Test } from 'supertest';
import { CategoriesModule } from '../src/modules/categories/categories.module.js';
import { startApp, type TestApp } from './support/app.js';
import type { Category } from './support/http-client.js';
import { matchers } from './support/matchers.js';
import { ToysModule } from './support/toys.module.js';

expect.extend(matchers);

let app: TestApp;
beforeAll(async () => {
  app = await startApp({ features: [CategoriesModule, ToysModule] });
});
afterAll(() => app.stop());

const send = (method: 'get' | 'post' | 'patch', path: string, body?: object): Test =>
  app.http()[method](`/v1/toys${path}`).auth(app.key, { type: 'bearer' }).send(body);

const TOY = { name: 'ball', size: 'small', pieces: 1, fragile: false };

async function createToy(properties: object = {}): Promise<{ id: number }> {
  const response = await send('post', '', { ...TOY, ...properties });
  expect(response.status).toBe(201);
  return response.body as { id: number };
}

describe('property decorators', () => {
  it.each([
    ['name', 'must be 2 to 20 characters long', ['', 'x', 'x'.repeat(21), '🪀']],
    ['name', 'must not be blank', ['   ']],
    ['name', 'must be a string', [1, null, {}]],
    ['size', 'must be one of small, large', ['medium', 1, null]],
    ['pieces', 'must be an integer from 1 to 10', [0, 11, 1.5, '1', null]],
    ['weight', 'must be a number', ['1.5', null, true]],
    ['fragile', 'must be true or false', ['true', 0, null]],
    [
      'madeAt',
      'must be a date and time with an offset from UTC, such as 2026-11-01T12:00:00Z',
      ['2026-11-01', '2026-02-30T12:00:00Z', '2026-11-01T24:00:00Z', 1, null],
    ],
    [
      'madeAt',
      'must be in the years 0000 to 9999 in UTC',
      ['9999-12-31T23:59:59-12:00', '0000-01-01T00:00:00+00:01'],
    ],
    ['categoryId', 'must be an integer from 1 to 9007199254740991', [0, -1, 1.5, '1', null]],
  ])('reject an invalid %s: it %s', async (name, violation, values) => {
    for (const value of values) {
      const response = await send('post', '', { ...TOY, [name]: value });
      expect(response).toBeError('VALIDATION_FAILED', `${name} ${violation}.`);
    }
  });

  it.each(Object.keys(TOY))('reject a body without %s', async (name) => {
    const response = await send('post', '', { ...TOY, [name]: undefined });
    expect(response).toBeError('VALIDATION_FAILED', `${name} is missing.`);
  });

  it('accept and return every valid value', async () => {
    const { id: categoryId } = (await app.categories.create('outdoor')).json<Category>();
    for (const properties of [
      {},
      { name: '🪀🪀', size: 'large', pieces: 10, weight: -0.25, fragile: true, categoryId },
      { weight: 1e300, madeAt: '1969-07-20T20:17:40.000Z' },
      { madeAt: '0000-02-29T00:00:00.000Z' },
      { madeAt: '9999-12-31T23:59:59.999Z' },
    ]) {
      const toy = await createToy(properties);
      expect(toy).toEqual({ ...TOY, ...properties, id: toy.id });
      expect((await send('get', `/${toy.id}`)).body).toEqual(toy);
    }
  });

  it('return a point in time in UTC, to the millisecond', async () => {
    expect(await createToy({ madeAt: '2026-11-01T14:00:00.1239+02:00' })).toMatchObject({
      madeAt: '2026-11-01T12:00:00.123Z',
    });
  });

  it('define the schemas of the OpenAPI document', async () => {
    const { components } = (await app.http().get('/openapi.json')).body as OpenAPIObject;
    expect(components!.schemas!['NewToy']).toMatchObject({
      required: ['name', 'size', 'pieces', 'fragile'],
      properties: {
        name: { type: 'string', minLength: 2, maxLength: 20 },
        size: { type: 'string', enum: ['small', 'large'] },
        pieces: { type: 'integer', format: 'int32', minimum: 1, maximum: 10 },
        weight: { type: 'number', format: 'double' },
        fragile: { type: 'boolean' },
        madeAt: { type: 'string', format: 'date-time' },
        categoryId: { type: 'integer', format: 'int64', minimum: 1 },
      },
    });
  });
});

describe('a reference to another resource', () => {
  it('is rejected with 400 if the resource does not exist', async () => {
    const response = await send('post', '', { ...TOY, categoryId: Number.MAX_SAFE_INTEGER });
    expect(response).toBeError(
      'VALIDATION_FAILED',
      'categoryId must reference an existing category.',
    );
  });
});

describe('paths that overlap', () => {
  it('have the methods of all of them in Allow', async () => {
    const response = await app.http().delete('/v1/toys/boxes');
    expect(response).toBeError('METHOD_NOT_ALLOWED');
    expect(response.headers['allow']).toBe('GET, HEAD, PATCH, POST');
  });
});

describe('a JSON merge patch', () => {
  it('changes the given properties, and removes an optional one that is null', async () => {
    const { id } = await createToy({ weight: 2, madeAt: '2026-11-01T12:00:00.000Z' });
    const response = await send('patch', `/${id}`, { weight: null, pieces: 7 }).type(
      'application/merge-patch+json',
    );
    expect([response.status, response.body]).toEqual([
      200,
      { ...TOY, id, pieces: 7, madeAt: '2026-11-01T12:00:00.000Z' },
    ]);
  });

  it('rejects null for a required property, and invalid values', async () => {
    const { id } = await createToy();
    expect(await send('patch', `/${id}`, { name: null })).toBeError('VALIDATION_FAILED', /^name /);
    expect(await send('patch', `/${id}`, { pieces: 0 })).toBeError('VALIDATION_FAILED', /^pieces /);
    expect(await send('patch', `/${id}`, { id: 1 })).toBeError(
      'VALIDATION_FAILED',
      'unknown property id.',
    );
  });
});

describe('an id in a path', () => {
  it.each(['0', '-1', '01', '1e0', '1.0', 'one', '9007199254740992'])(
    'is rejected with 404 if it cannot be one: %s',
    async (id) => {
      expect(await send('get', `/${id}`)).toBeError('NOT_FOUND', 'Resource not found.');
    },
  );
});

describe('unknown properties', () => {
  const label = { text: 'new' };

  it.each<[string, object, string]>([
    ['at the top', { label, color: 1 }, 'color'],
    ['in a nested object', { label: { ...label, color: 1 } }, 'label.color'],
    ['in an array', { label, more: [label, { ...label, color: 1 }] }, 'more[1].color'],
    [
      'named constructor',
      JSON.parse('{"label":{"text":"x","constructor":1}}'),
      'label.constructor',
    ],
    [
      'named __proto__',
      JSON.parse('{"label":{"text":"x"},"more":[{"text":"x","__proto__":{}}]}'),
      'more[0].__proto__',
    ],
    ['named toString', { label, toString: 1 }, 'toString'],
    ['named prototype', { label: { ...label, prototype: 1 } }, 'label.prototype'],
  ])('are rejected %s', async (_name, body, path) => {
    const response = await send('post', '/boxes').type('json').send(JSON.stringify(body));
    expect(response).toBeError('VALIDATION_FAILED', `unknown property ${path}.`);
  });

  it('do not include the declared ones at any depth', async () => {
    const body = { label, more: [label] };
    const response = await send('post', '/boxes', body);
    expect([response.status, response.body]).toEqual([200, body]);
  });

  it('are disallowed in the OpenAPI document at every depth', async () => {
    const { components } = (await app.http().get('/openapi.json')).body as OpenAPIObject;
    for (const name of ['Box', 'Label', 'NewToy', 'ToyPatch', 'NewCategory'])
      expect([name, components!.schemas![name]]).toMatchObject([
        name,
        { additionalProperties: false },
      ]);
    expect(components!.schemas!['Category']).not.toHaveProperty('additionalProperties');
  });
});
