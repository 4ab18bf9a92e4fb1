import type { Test } from 'supertest';
import { CategoriesModule } from '../../src/modules/categories/categories.module.js';
import type { Category } from '../../src/modules/categories/category.dto.js';
import { describeResource, startApp } from '../platform/index.js';

const PATH = '/v1/categories';

const app = await startApp({ features: [CategoriesModule] });
afterAll(() => app.stop());

const send = (method: 'get' | 'head' | 'post', path: string, target = app): Test =>
  target.http()[method](path).auth(target.key, { type: 'bearer' });

/** @param body a value to serialize, or JSON */
const create = (body: object | string): Test =>
  send('post', PATH).type('application/json').send(body);

async function createCategory(body: object | string): Promise<Category> {
  const response = await create(body);
  expect([response.status, response.body]).toMatchObject([201, { id: expect.any(Number) }]);
  return response.body as Category;
}

async function findInList(id: number): Promise<unknown> {
  const { body } = await send('get', PATH);
  return (body as Category[]).find((category) => category.id === id);
}

await describeResource(app, '/categories', {
  create: (n) => ({ name: `dog ${n}`, description: 'Dogs of every size' }),
  other: (n) => ({ name: `cat ${n}`, description: 'Cats of every color' }),
  invalid: { name: [null, 1, ''], description: [null, 1], id: [1] },
});

describe('GET /v1/categories', () => {
  it('returns an empty array, and 64-bit ids as JSON numbers up to the maximum', async () => {
    const empty = await startApp({ features: [CategoriesModule] });
    const response = await send('get', PATH, empty);
    expect([response.status, response.type, response.text]).toEqual([
      200,
      'application/json',
      '[]',
    ]);
    expect(response.headers['cache-control']).toBe('private, no-cache');
    await empty.dataSource.query(
      `INSERT INTO "categories" ("id", "name") VALUES (2147483648, 'dog'), (9007199254740991, 'cat')`,
    );
    const { text } = await send('get', PATH, empty);
    await empty.stop();
    expect(text).toBe('[{"id":2147483648,"name":"dog"},{"id":9007199254740991,"name":"cat"}]');
  });

  it('returns every category in id order, with exactly the documented properties', async () => {
    const zebra = await createCategory({ name: 'zebra', description: 'Striped' });
    const ant = await createCategory({ name: 'ant' });
    await app.dataSource.query(
      `INSERT INTO "categories" ("id", "name") VALUES (${ant.id + 2}, 'later'), (${ant.id + 1}, 'sooner')`,
    );
    const response = await send('get', PATH);
    // On PostgreSQL explicit ids do not advance the sequence: later ids would collide with them.
    await app.dataSource.query(`DELETE FROM "categories" WHERE "id" > ${ant.id}`);
    expect(response.status).toBe(200);
    expect(response.body.slice(-4)).toEqual([
      { id: zebra.id, name: 'zebra', description: 'Striped' },
      { id: ant.id, name: 'ant' },
      { id: ant.id + 1, name: 'sooner' },
      { id: ant.id + 2, name: 'later' },
    ]);
  });

  it.each(['?limit=1', '?name=nothing', '?%zz', '?a[b]=c'])(
    'ignores the query string %s',
    async (query) => {
      await createCategory({ name: 'dog' });
      const plain = await send('get', PATH);
      const response = await send('get', PATH + query);
      expect([response.status, response.text]).toEqual([200, plain.text]);
    },
  );

  it('responds to HEAD with the headers of GET and no body', async () => {
    await createCategory({ name: 'dog' });
    const get = await send('get', PATH).set('Accept-Encoding', 'identity');
    const head = await send('head', PATH).set('Accept-Encoding', 'identity');
    expect([head.status, head.text]).toEqual([200, undefined]);
    expect(get.headers['etag']).toBeDefined();
    for (const name of ['etag', 'content-type', 'content-length', 'cache-control', 'vary'])
      expect([name, head.headers[name]]).toEqual([name, get.headers[name]]);
  });
});

describe('POST /v1/categories', () => {
  it('ignores the query string, and returns 201 with JSON that is not cached', async () => {
    const response = await send('post', `${PATH}?unknown=parameter`).send({ name: 'dog' });
    expect([response.status, response.type]).toEqual([201, 'application/json']);
    expect(response.headers['cache-control']).toBe('no-store');
    const { id } = response.body as Category;
    expect(Number.isSafeInteger(id) && id > 0).toBe(true);
    expect(response.body).toStrictEqual({ id, name: 'dog' });
  });

  it('accepts duplicate names and assigns each category its own id', async () => {
    const first = await createCategory({ name: 'twin', description: 'one' });
    const second = await createCategory({ name: 'twin', description: 'one' });
    expect(second.id).toBeGreaterThan(first.id);
    expect(await findInList(first.id)).toEqual(first);
    expect(await findInList(second.id)).toEqual(second);
  });
});

describe('the name and the description of a category', () => {
  it.each([
    ['spaces and line breaks', '  dog \t\r\n'],
    ['control characters', 'a\u0001\u0007\u001b[31m\u007f\u0085b'],
    ['4-byte characters', '🐶'.repeat(100)],
    ['combining marks', 'e\u0301'.repeat(50)],
    ['right-to-left text, marks and separators', '\u202Eקטגוריה\u202C\u200F\uFEFF\u200B\u2028'],
    ['noncharacters', 'a\uFFFE\uFFFF\uFFFDb'],
    ['quotes, SQL and format placeholders', `'); DROP TABLE "categories"; -- %s $1 ? :name \\n`],
  ])('return unchanged as they were sent: %s', async (_label, text) => {
    const description = text + 'd'.repeat(1000 - Array.from(text).length);
    const category = await createCategory({ name: text, description });
    expect(category).toEqual({ id: category.id, name: text, description });
    expect(await findInList(category.id)).toEqual(category);
  });

  it('rejects a name of only white space and control characters with 400', async () => {
    // White space and control characters.
    const blank =
      '\t\n\v\f\r \u0001\u0007\u001b\u007f\u0080\u009f\u0085\u00A0\u1680\u2000\u200A\u2028\u202F\u205F\u3000\uFEFF';
    for (const name of [...Array.from(blank), blank])
      expect(await create({ name })).toBeError('VALIDATION_FAILED', 'name must not be blank.');
  });

  it('reports all violations at once', async () => {
    const response = await create({ id: 1, nome: 'dog', description: 2 });
    expect(response).toBeError('VALIDATION_FAILED');
    const { message } = response.body as { message: string };
    expect(message.replace(/\.$/, '').split('; ').toSorted()).toEqual([
      'description must be a string',
      'name is missing',
      'unknown property id',
      'unknown property nome',
    ]);
  });
});
