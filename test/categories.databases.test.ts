import type { Response, Test } from 'supertest';
import { startApp, type TestApp } from './support/app.js';
import type { Category } from './support/http-client.js';
import { matchers } from './support/matchers.js';

expect.extend(matchers);

const PATH = '/v1/categories';

let app: TestApp;
beforeAll(async () => {
  app = await startApp();
});
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

/** Sends a create request that must store nothing. */
async function createInvalid(body: object | string): Promise<Response> {
  const before = await send('get', PATH);
  const response = await create(body);
  expect((await send('get', PATH)).text).toBe(before.text);
  return response;
}

async function findInList(id: number): Promise<unknown> {
  const { body } = await send('get', PATH);
  return (body as Category[]).find((category) => category.id === id);
}

describe('GET /v1/categories', () => {
  it('returns an empty array when there are no categories', async () => {
    const empty = await startApp();
    const response = await send('get', PATH, empty);
    await empty.stop();
    expect(response.status).toBe(200);
    expect(response.type).toBe('application/json');
    expect(response.headers['cache-control']).toBe('private, no-cache');
    expect(response.text).toBe('[]');
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

  it('returns 64-bit ids as JSON numbers, up to the maximum', async () => {
    const full = await startApp();
    await full.dataSource.query(
      `INSERT INTO "categories" ("id", "name") VALUES (2147483648, 'beyond 32 bits'), (9007199254740991, 'the maximum')`,
    );
    const { text } = await send('get', PATH, full);
    await full.stop();
    expect(text).toBe(
      '[{"id":2147483648,"name":"beyond 32 bits"},{"id":9007199254740991,"name":"the maximum"}]',
    );
  });

  it.each(['?limit=1', '?page=2&size=1', '?name=nothing', '?id=1&id=2', '?', '?%zz', '?a[b]=c'])(
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
  it('returns 201 with the created category and its id', async () => {
    const response = await create({ name: 'dog', description: 'Dogs of every size' });
    expect(response.status).toBe(201);
    expect(response.type).toBe('application/json');
    expect(response.headers['cache-control']).toBe('no-store');
    const { id } = response.body as Category;
    expect(Number.isSafeInteger(id) && id > 0).toBe(true);
    expect(response.body).toEqual({ id, name: 'dog', description: 'Dogs of every size' });
    expect(await findInList(id)).toEqual(response.body);
  });

  it('omits the description if it was not given', async () => {
    const category = await createCategory({ name: 'dog' });
    expect(Object.keys(category)).toEqual(['id', 'name']);
    expect(Object.keys((await findInList(category.id)) as object)).toEqual(['id', 'name']);
  });

  it('keeps an empty description', async () => {
    const category = await createCategory({ name: 'dog', description: '' });
    expect(category).toEqual({ id: category.id, name: 'dog', description: '' });
    expect(await findInList(category.id)).toEqual(category);
  });

  it('accepts duplicate names and assigns each category its own id', async () => {
    const first = await createCategory({ name: 'twin', description: 'one' });
    const second = await createCategory({ name: 'twin', description: 'one' });
    expect(second.id).toBeGreaterThan(first.id);
    expect(await findInList(first.id)).toEqual(first);
    expect(await findInList(second.id)).toEqual(second);
  });

  it('never reuses the id of a deleted category', async () => {
    const last = await createCategory({ name: 'gone' });
    await app.dataSource.query(`DELETE FROM "categories" WHERE "id" = ${last.id}`);
    const next = await createCategory({ name: 'next' });
    expect(next.id).toBeGreaterThan(last.id);
    await app.dataSource.query('DELETE FROM "categories"');
    expect((await send('get', PATH)).body).toEqual([]);
    expect((await createCategory({ name: 'first again' })).id).toBeGreaterThan(next.id);
  });

  it('ignores unknown query parameters', async () => {
    const response = await send('post', `${PATH}?dryRun=true&id=1`).send({ name: 'dog' });
    expect(response.status).toBe(201);
    expect(await findInList((response.body as Category).id)).toEqual(response.body);
  });
});

describe('the name and the description of a category', () => {
  it.each([
    ['ASCII', 'dog'],
    ['leading and trailing spaces', '  dog \t'],
    ['line breaks', 'dog\r\ncat\n'],
    ['control characters', 'a\u0001\u0007\u001b[31m\u007f\u0085b'],
    ['an emoji with joiners', '👨‍👩‍👧‍👦 🏳️‍🌈'],
    ['4-byte characters', '𠜎𝒳𐍈\u{10FFFF}'],
    ['composed characters', 'caf\u00e9'],
    ['combining marks', 'cafe\u0301 z\u0351\u0342'],
    ['right-to-left text and marks', '\u202Eקטגוריה\u202C \u200Fفئة'],
    ['a byte order mark', '\uFEFFdog\uFEFF'],
    ['zero-width characters', '\u200Bdog\u2060'],
    ['line and paragraph separators', 'a\u2028b\u2029c'],
    ['noncharacters', 'a\uFFFE\uFFFFb'],
    ['replacement characters', '\uFFFD'],
    ['quotes', `"double" 'single' \`back\``],
    ['backslashes', 'C:\\dogs\\n\\u0041\\'],
    ['HTML', '<script>alert("dog")</script>&amp;'],
    ['SQL', `'); DROP TABLE "categories"; --`],
    ['JSON', '{"id":1}'],
    ['format placeholders', '%s %d $1 ? :name {0} ${dog}'],
    ['a property name', '__proto__'],
    ['a JSON literal', 'null'],
  ])('are stored and returned unchanged: %s', async (_label, text) => {
    const category = await createCategory({ name: text, description: text });
    expect(category).toEqual({ id: category.id, name: text, description: text });
    expect(await findInList(category.id)).toEqual(category);
  });

  it('may contain JSON escapes', async () => {
    const category = await createCategory(
      '{"name":"\\ud83d\\udc36\\u0061\\u00e9\\/","description":"\\ufeff"}',
    );
    expect(category).toEqual({ id: category.id, name: '🐶aé/', description: '\uFEFF' });
  });

  it.each([
    ['a name of 1 character', { name: 'd' }],
    ['a name of 100 characters', { name: 'd'.repeat(100) }],
    ['a name of 1 emoji', { name: '🐶' }],
    ['a name of 100 emoji', { name: '🐶'.repeat(100) }],
    ['a name of 50 characters with 50 combining marks', { name: 'e\u0301'.repeat(50) }],
    ['a description of 1000 characters', { name: 'dog', description: 'd'.repeat(1000) }],
    ['a description of 1000 emoji', { name: 'dog', description: '🐶'.repeat(1000) }],
    ['a blank description', { name: 'dog', description: ' \t\u3000' }],
  ])('may be as long as documented: %s', async (_label, body) => {
    const category = await createCategory(body);
    expect(category).toEqual({ id: category.id, ...body });
    expect(await findInList(category.id)).toEqual(category);
  });
});

describe('POST /v1/categories with an invalid body', () => {
  const NAME_LENGTH = 'name must be 1 to 100 characters long.';
  const DESCRIPTION_LENGTH = 'description must be at most 1000 characters long.';

  it.each([
    ['an empty object', {}, 'name is missing.'],
    ['a description without a name', { description: 'Dogs' }, 'name is missing.'],
    ['a null name', { name: null }, 'name must be a string.'],
    ['a number as the name', { name: 1 }, 'name must be a string.'],
    ['a boolean as the name', { name: true }, 'name must be a string.'],
    ['an array as the name', { name: ['dog'] }, 'name must be a string.'],
    ['an object as the name', { name: { length: 3 } }, 'name must be a string.'],
    ['a second name that is invalid', '{"name":"dog","name":1}', 'name must be a string.'],
    ['an empty name', { name: '' }, NAME_LENGTH],
    ['a name of 101 characters', { name: 'd'.repeat(101) }, NAME_LENGTH],
    ['a name of 101 emoji', { name: '🐶'.repeat(101) }, NAME_LENGTH],
    ['a name of 101 mixed characters', { name: '🐶'.repeat(50) + 'd'.repeat(51) }, NAME_LENGTH],
    ['a name of 51 characters with 51 marks', { name: 'e\u0301'.repeat(51) }, NAME_LENGTH],
    ['a NUL in the name', { name: 'do\0g' }, 'name must not contain a NUL character.'],
    ['a lone high surrogate', '{"name":"dog\\ud83d"}', 'name must not contain a lone surrogate.'],
    ['a lone low surrogate', '{"name":"\\udc36dog"}', 'name must not contain a lone surrogate.'],
    [
      'surrogates in the wrong order',
      '{"name":"\\udc36\\ud83d"}',
      'name must not contain a lone surrogate.',
    ],
    ['a null description', { name: 'dog', description: null }, 'description must be a string.'],
    [
      'a number as the description',
      { name: 'dog', description: 0 },
      'description must be a string.',
    ],
    [
      'a boolean as the description',
      { name: 'dog', description: false },
      'description must be a string.',
    ],
    [
      'an array as the description',
      { name: 'dog', description: [] },
      'description must be a string.',
    ],
    [
      'an object as the description',
      { name: 'dog', description: {} },
      'description must be a string.',
    ],
    [
      'a description of 1001 characters',
      { name: 'dog', description: 'd'.repeat(1001) },
      DESCRIPTION_LENGTH,
    ],
    [
      'a description of 1001 emoji',
      { name: 'dog', description: '🐶'.repeat(1001) },
      DESCRIPTION_LENGTH,
    ],
    [
      'a NUL in the description',
      { name: 'dog', description: '\0' },
      'description must not contain a NUL character.',
    ],
    [
      'a lone surrogate in the description',
      '{"name":"dog","description":"\\ud83d"}',
      'description must not contain a lone surrogate.',
    ],
    ['an id', { id: 1, name: 'dog' }, 'unknown property id.'],
    ['a null id', { id: null, name: 'dog' }, 'unknown property id.'],
    ['an unknown property', { name: 'dog', color: 'red' }, 'unknown property color.'],
    ['a name nested in __proto__', '{"__proto__":{"name":"dog"}}', 'unknown property __proto__.'],
  ])('rejects %s with 400', async (_label, body, message) => {
    expect(await createInvalid(body)).toBeError('VALIDATION_FAILED', message);
  });

  it('rejects a name of only white space with 400', async () => {
    // Every character with the Unicode property White_Space.
    const whiteSpace =
      '\t\n\v\f\r \u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200A\u2028\u2029\u202F\u205F\u3000';
    for (const name of [...whiteSpace.split(''), '   ', ' \t\r\n', whiteSpace]) {
      expect(await createInvalid({ name })).toBeError(
        'VALIDATION_FAILED',
        'name must not be blank.',
      );
    }
  });

  it('reports all violations at once', async () => {
    const response = await createInvalid({ id: 1, nome: 'dog', description: 2 });
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
