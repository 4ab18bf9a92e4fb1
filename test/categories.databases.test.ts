import type { Test } from 'supertest';
import { startApp } from './support/app.js';
import { describeResource } from './support/describe-resource.js';
import type { Category } from './support/http-client.js';

const PATH = '/v1/categories';

const app = await startApp();
afterAll(() => app.stop());

const send = (method: 'get' | 'head' | 'post', path: string, target = app): Test =>
  target.http()[method](path).auth(target.key, { type: 'bearer' });

const describeDog = (description: unknown): object => ({ name: 'dog', description });

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
    ['one character', 'd'],
    ['100 characters', '🐶'.repeat(100)],
    ['100 code points', 'e\u0301'.repeat(50)],
  ])('are stored and returned unchanged: %s', async (_label, text) => {
    const category = await createCategory({ name: text, description: text });
    expect(category).toEqual({ id: category.id, name: text, description: text });
    expect(await findInList(category.id)).toEqual(category);
  });

  it.each(['d'.repeat(1000), '🐶'.repeat(1000), ' \t\u3000', ''])(
    'may be long, and the description empty (%#)',
    async (description) => {
      const category = await createCategory({ name: 'dog', description });
      expect(category).toEqual({ id: category.id, name: 'dog', description });
      expect(await findInList(category.id)).toEqual(category);
    },
  );

  it('may contain JSON escapes', async () => {
    const category = await createCategory(
      '{"name":"\\ud83d\\udc36\\u0061\\u00e9\\/","description":"\\ufeff"}',
    );
    expect(category).toEqual({ id: category.id, name: '🐶aé/', description: '\uFEFF' });
  });
});

describe('POST /v1/categories with an invalid body', () => {
  const NAME_LENGTH = 'name must be 1 to 100 characters long';
  const DESCRIPTION_LENGTH = 'description must be at most 1000 characters long';

  it.each<[string, (object | string)[]]>([
    ['name is missing', [{}, { description: 'Dogs' }]],
    [NAME_LENGTH, [{ name: '' }, { name: 'd'.repeat(101) }, { name: '🐶'.repeat(101) }]],
    [NAME_LENGTH, [{ name: '🐶'.repeat(50) + 'd'.repeat(51) }, { name: 'e\u0301'.repeat(51) }]],
    [DESCRIPTION_LENGTH, ['d'.repeat(1001), '🐶'.repeat(1001)].map(describeDog)],
  ])('responds with 400: %s (%#)', async (message, bodies) => {
    const before = await send('get', PATH);
    for (const body of bodies)
      expect(await create(body)).toBeError('VALIDATION_FAILED', `${message}.`);
    expect((await send('get', PATH)).text).toBe(before.text);
  });

  it.each([
    // Every character with the Unicode property White_Space.
    [
      'white space',
      '\t\n\v\f\r \u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200A\u2028\u2029\u202F\u205F\u3000',
    ],
    ['control characters', '\u0001\u0007\u001b\u007f\u0080\u009f'],
  ])('rejects a name of only %s with 400', async (_name, characters) => {
    for (const blank of [...Array.from(characters), characters])
      expect(await create({ name: blank })).toBeError(
        'VALIDATION_FAILED',
        'name must not be blank.',
      );
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
