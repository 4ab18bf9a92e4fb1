import * as fc from 'fast-check';
import type { Test } from 'supertest';
import { startApp, type TestApp } from './support/app.js';
import { sendRequest, jsonHeaders } from './support/http-client.js';

const MAX_ID = Number.MAX_SAFE_INTEGER;

let app: TestApp;
beforeAll(async () => {
  app = await startApp();
});
afterAll(() => app.stop());

const list = (target = app): Test =>
  target.http().get('/v1/categories').auth(target.key, { type: 'bearer' });

/** @param body a value, or the exact text of a body */
const create = (body: object | string, target = app): Test =>
  target
    .http()
    .post('/v1/categories')
    .auth(target.key, { type: 'bearer' })
    .type('application/json')
    .send(body);

async function created(body: object | string): Promise<{ id: number } & Record<string, unknown>> {
  const response = await create(body);
  expect(response.body).toMatchObject({ id: expect.any(Number) });
  expect(response.status).toBe(201);
  return response.body as { id: number };
}

async function listed(id: number): Promise<unknown> {
  const { body } = await list();
  return (body as { id: number }[]).find((category) => category.id === id);
}

/** Sends a body, and tells what came of it: the answer, and whether the list is another one now. */
async function attempt(body: object | string): Promise<object> {
  const before = await list();
  const response = await create(body);
  const after = await list();
  return {
    status: response.status,
    type: response.type,
    body: response.body as unknown,
    stored: after.text !== before.text || after.headers.etag !== before.headers.etag,
  };
}

/** What comes of a body that is refused. */
const refusal = (message: RegExp): object => ({
  status: 400,
  type: 'application/json',
  body: { code: 'VALIDATION_FAILED', message: expect.stringMatching(message), status: 400 },
  stored: false,
});

describe('GET /v1/categories', () => {
  it('answers an empty array where there is no category', async () => {
    const empty = await startApp();
    try {
      const response = await list(empty);
      expect(response.status).toBe(200);
      expect(response.type).toBe('application/json');
      expect(response.text).toBe('[]');
    } finally {
      await empty.stop();
    }
  });

  it('answers every category with exactly the fields of the interface, in id order', async () => {
    const dog = await created({ name: 'dog', description: 'Dogs of every size' });
    const cat = await created({ name: 'cat' });
    await app.dataSource.query(
      `INSERT INTO "categories" ("id", "name") VALUES (${cat.id + 2}, 'later'), (${cat.id + 1}, 'sooner')`,
    );

    const response = await list();

    expect(response.status).toBe(200);
    expect(response.body.slice(-4)).toEqual([
      { id: dog.id, name: 'dog', description: 'Dogs of every size' },
      { id: cat.id, name: 'cat' },
      { id: cat.id + 1, name: 'sooner' },
      { id: cat.id + 2, name: 'later' },
    ]);
    // Later ids are to follow those given by hand, whatever counts them.
    await app.dataSource.query(`DELETE FROM "categories" WHERE "id" > ${cat.id}`);
  });

  it('keeps the order of ids whatever the order of the names', async () => {
    for (const name of ['zebra', 'ant', 'Zebra', 'mouse']) await created({ name });
    const ids = ((await list()).body as { id: number }[]).map(({ id }) => id);
    expect(ids.length).toBeGreaterThanOrEqual(4);
    expect(ids).toEqual(ids.toSorted((a, b) => a - b));
  });

  it.each(['?limit=1', '?page=2&size=1', '?name=nothing', '?id=1&id=2', '?', '?%zz', '?a[b]=c'])(
    'ignores the query %s',
    async (query) => {
      await created({ name: 'dog' });
      const plain = await list();
      const response = await app
        .http()
        .get(`/v1/categories${query}`)
        .auth(app.key, { type: 'bearer' });
      expect(response.status).toBe(200);
      expect(response.body.length).toBeGreaterThan(0);
      expect(response.body).toEqual(plain.body);
    },
  );

  it('lets only the client keep the list, and only if it asks again', async () => {
    const response = await list();
    expect(response.headers['cache-control']).toBe('private, no-cache');
  });

  it('answers HEAD as it answers GET, without the body', async () => {
    await created({ name: 'dog' });
    const options = { headers: { authorization: `Bearer ${app.key}` } };
    const get = await sendRequest(`${app.url}/v1/categories`, options);
    const head = await sendRequest(`${app.url}/v1/categories`, { ...options, method: 'HEAD' });
    expect(head.status).toBe(200);
    expect(head.body).toHaveLength(0);
    expect(get.headers.etag).toBeDefined();
    const names = ['etag', 'content-type', 'content-length', 'cache-control', 'vary'] as const;
    for (const name of names) expect([name, head.headers[name]]).toEqual([name, get.headers[name]]);
  });

  it('gives ids of 64 bits as JSON numbers, up to the highest', async () => {
    const full = await startApp();
    try {
      await full.dataSource.query(
        `INSERT INTO "categories" ("id", "name") VALUES (2147483648, 'beyond 32 bits'), (${MAX_ID}, 'the highest')`,
      );
      const response = await list(full);
      expect(response.text).toBe(
        `[{"id":2147483648,"name":"beyond 32 bits"},{"id":${MAX_ID},"name":"the highest"}]`,
      );
    } finally {
      await full.stop();
    }
  });
});

describe('POST /v1/categories', () => {
  it('answers 201 with the created category and its id', async () => {
    const response = await create({ name: 'dog', description: 'Dogs of every size' });
    expect(response.status).toBe(201);
    expect(response.type).toBe('application/json');
    expect(response.headers['cache-control']).toBe('no-store');
    const { id } = response.body as { id: number };
    expect(Number.isSafeInteger(id) && id > 0).toBe(true);
    expect(response.body).toEqual({ id, name: 'dog', description: 'Dogs of every size' });
    expect(await listed(id)).toEqual(response.body);
  });

  it('leaves the description out where it was not given', async () => {
    const category = await created({ name: 'dog' });
    expect(Object.keys(category)).toEqual(['id', 'name']);
    expect(Object.keys((await listed(category.id)) as object)).toEqual(['id', 'name']);
  });

  it('keeps an empty description', async () => {
    const category = await created({ name: 'dog', description: '' });
    expect(category).toEqual({ id: category.id, name: 'dog', description: '' });
    expect(await listed(category.id)).toEqual(category);
  });

  it('takes the same name twice, with an id for each', async () => {
    const first = await created({ name: 'twin', description: 'one' });
    const second = await created({ name: 'twin', description: 'one' });
    expect(second.id).toBeGreaterThan(first.id);
    expect(await listed(first.id)).toEqual(first);
    expect(await listed(second.id)).toEqual(second);
  });

  it('never gives the id of a deleted category again', async () => {
    const last = await created({ name: 'gone' });
    await app.dataSource.query(`DELETE FROM "categories" WHERE "id" = ${last.id}`);
    expect((await created({ name: 'next' })).id).toBeGreaterThan(last.id);
    await app.dataSource.query('DELETE FROM "categories"');
    expect((await list()).body).toEqual([]);
    expect((await created({ name: 'first again' })).id).toBeGreaterThan(last.id + 1);
  });

  it('ignores unknown query parameters', async () => {
    const response = await app
      .http()
      .post('/v1/categories?dryRun=true&id=1')
      .auth(app.key, { type: 'bearer' })
      .send({ name: 'dog' });
    expect(response.status).toBe(201);
    expect(await listed(response.body.id as number)).toEqual(response.body);
  });
});

/** Any characters but NUL and lone surrogates; lengths are in characters. */
const storable = (minLength: number, maxLength: number): fc.Arbitrary<string> =>
  fc.string({ unit: 'binary', minLength, maxLength }).map((value) => value.replaceAll('\0', '0'));

describe('The text of a category', () => {
  it.each([
    ['ASCII', 'dog'],
    ['leading and trailing spaces', '  dog \t'],
    ['line ends', 'dog\r\ncat\n'],
    ['control characters', 'a\u0001\u0007\u001b[31m\u007f\u0085b'],
    ['an emoji with joiners', '👨‍👩‍👧‍👦 🏳️‍🌈'],
    ['characters of 4 bytes', '𠜎𝒳𐍈\u{10FFFF}'],
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
    ['the names of properties', '__proto__'],
    ['the words of other types', 'null'],
  ])('comes back byte for byte as it was sent: %s', async (_what, text) => {
    const category = await created({ name: text, description: text });
    expect(category).toEqual({ id: category.id, name: text, description: text });
    expect(await listed(category.id)).toEqual(category);
  });

  it('is the same whether it was sent escaped or not', async () => {
    const category = await created(
      '{"name":"\\ud83d\\udc36\\u0061\\u00e9\\/","description":"\\ufeff"}',
    );
    expect(category).toEqual({ id: category.id, name: '🐶aé/', description: '\uFEFF' });
  });

  it('is sent as UTF-8', async () => {
    const text = 'é 🐶 \uFEFF𠜎';
    const { status, body } = await sendRequest(`${app.url}/v1/categories`, {
      method: 'POST',
      headers: jsonHeaders(app.key),
      body: Buffer.from(JSON.stringify({ name: text })),
    });
    expect(status).toBe(201);
    expect(body.includes(Buffer.from(`"${text}"`))).toBe(true);
  });

  it('may be any characters that the rules allow', async () => {
    await fc.assert(
      fc.asyncProperty(
        storable(1, 100).filter((name) => /\P{White_Space}/u.test(name.replaceAll('\uFEFF', ' '))),
        fc.option(storable(0, 200), { nil: undefined }),
        async (name, description) => {
          const category = await created({ name, description });
          expect(category).toEqual({ id: category.id, name, description });
          expect(await listed(category.id)).toEqual(category);
        },
      ),
      { numRuns: 50 },
    );
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
  ])('may be %s', async (_what, body) => {
    const category = await created(body);
    expect(category).toEqual({ id: category.id, ...body });
    expect(await listed(category.id)).toEqual(category);
  });

  it.each([
    ['an empty name', { name: '' }, /^name must be 1 to 100 characters long\.$/],
    ['a name of 101 characters', { name: 'd'.repeat(101) }, /^name must be 1 to 100 char/],
    ['a name of 101 emoji', { name: '🐶'.repeat(101) }, /^name must be 1 to 100 char/],
    [
      'a name of 101 characters, half of them emoji',
      { name: `${'🐶'.repeat(50)}${'d'.repeat(51)}` },
      /^name must be 1 to 100 char/,
    ],
    ['a name of 51 characters with 51 marks', { name: 'e\u0301'.repeat(51) }, /^name must be 1 to/],
    [
      'a description of 1001 characters',
      { name: 'dog', description: 'd'.repeat(1001) },
      /^description must be at most 1000 characters long\.$/,
    ],
    [
      'a description of 1001 emoji',
      { name: 'dog', description: '🐶'.repeat(1001) },
      /^description must be at most 1000 char/,
    ],
  ])('may not be %s', async (_what, body, message) => {
    expect(await attempt(body)).toEqual(refusal(message));
  });

  // Every character with the Unicode property White_Space.
  const whiteSpace =
    '\t\n\v\f\r \u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200A\u2028\u2029\u202F\u205F\u3000';
  it.each(
    [...whiteSpace.split(''), '   ', ' \t\r\n', whiteSpace].map((name) => [
      encodeURIComponent(name),
      name,
    ]),
  )('may not be a name of white space alone: %s', async (_what, name) => {
    expect(await attempt({ name })).toEqual(refusal(/^name must not be blank\.$/));
  });

  it.each([
    ['a NUL in the name', '{"name":"do\\u0000g"}', /^name must not contain a NUL/],
    ['a NUL in the description', '{"name":"dog","description":"\\u0000"}', /^description .* NUL/],
    ['a lone high surrogate', '{"name":"dog\\ud83d"}', /^name .* lone surrogate/],
    ['a lone low surrogate', '{"name":"\\udc36dog"}', /^name .* lone surrogate/],
    ['surrogates in the wrong order', '{"name":"\\udc36\\ud83d"}', /^name .* lone surrogate/],
    [
      'a lone surrogate in the description',
      '{"name":"dog","description":"\\ud83d"}',
      /^description .* lone surrogate/,
    ],
  ])('may not have %s', async (_what, body, message) => {
    expect(await attempt(body)).toEqual(refusal(message));
  });
});

describe('A creation that is refused', () => {
  it.each([
    ['has no name', {}, /^name is missing\.$/],
    ['has only a description', { description: 'Dogs' }, /^name is missing\.$/],
    ['has null for a name', { name: null }, /^name must be a string\.$/],
    ['has a number for a name', { name: 1 }, /^name must be a string\.$/],
    ['has a boolean for a name', { name: true }, /^name must be a string\.$/],
    ['has an array for a name', { name: ['dog'] }, /^name must be a string\.$/],
    ['has an object for a name', { name: { length: 3 } }, /^name must be a string\.$/],
    [
      'has null for a description',
      { name: 'dog', description: null },
      /^description must be a str/,
    ],
    [
      'has a number for a description',
      { name: 'dog', description: 0 },
      /^description must be a st/,
    ],
    [
      'has a boolean for a description',
      { name: 'dog', description: false },
      /^description must be a string/,
    ],
    [
      'has an array for a description',
      { name: 'dog', description: [] },
      /^description must be a st/,
    ],
    ['has an object for a description', { name: 'dog', description: {} }, /^description must be a/],
    ['has an id', { id: 1, name: 'dog' }, /^property id should not exist\.$/],
    ['has an id of null', { id: null, name: 'dog' }, /^property id should not exist\.$/],
    ['has an unknown property', { name: 'dog', color: 'red' }, /^property color should not exist/],
    ['has a name in another case', { Name: 'dog' }, /property Name should not exist/],
    ['has an empty property', { name: 'dog', '': 1 }, /^property {2}should not exist/],
    ['has the property __proto__', '{"name":"dog","__proto__":{}}', /__proto__ should not exist/],
    [
      'has the property constructor',
      '{"name":"dog","constructor":{}}',
      /constructor should not exist/,
    ],
    ['has the property toString', '{"name":"dog","toString":1}', /toString should not exist/],
    ['takes its name from __proto__', '{"__proto__":{"name":"dog"}}', /__proto__ should not exist/],
    ['is an array', '[{"name":"dog"}]', /must be a JSON object/],
    ['is an empty array', '[]', /must be a JSON object/],
    ['is null', 'null', /must be a JSON object/],
    ['is a number', '1', /must be a JSON object/],
    ['is a string', '"dog"', /must be a JSON object/],
    ['is true', 'true', /must be a JSON object/],
  ])('%s', async (_what, body, message) => {
    expect(await attempt(body)).toEqual(refusal(message));
  });

  it('is told of every property that is wrong at once', async () => {
    expect(await attempt({ name: '', description: null, color: 'red' })).toEqual(
      refusal(
        /^(?=.*name must be 1 to 100)(?=.*description must be a string)(?=.*color should not exist)/,
      ),
    );
  });

  it('is one without a body', async () => {
    const before = await list();
    const response = await app.http().post('/v1/categories').auth(app.key, { type: 'bearer' });
    expect(response.status).toBe(400);
    expect(response.body).toEqual({
      code: 'VALIDATION_FAILED',
      message: expect.stringMatching(/body is missing/),
      status: 400,
    });
    expect((await list()).body).toEqual(before.body);
  });

  it('is one of bytes that are not UTF-8', async () => {
    const before = await list();
    const { status, body } = await sendRequest(`${app.url}/v1/categories`, {
      method: 'POST',
      headers: jsonHeaders(app.key),
      // A surrogate as three bytes, which no UTF-8 has.
      body: Buffer.concat([
        Buffer.from('{"name":"'),
        Buffer.from([0xed, 0xa0, 0x80]),
        Buffer.from('"}'),
      ]),
    });
    expect(status).toBe(400);
    expect(JSON.parse(body.toString())).toEqual({
      code: 'MALFORMED_JSON',
      message: expect.any(String),
      status: 400,
    });
    expect((await list()).body).toEqual(before.body);
  });
});

describe('Both operations', () => {
  const wrongKey = `pet_${'A'.repeat(43)}`;
  it.each([
    ['GET', 'no key', undefined],
    ['GET', 'an unknown key', `Bearer ${wrongKey}`],
    ['POST', 'no key', undefined],
    ['POST', 'an unknown key', `Bearer ${wrongKey}`],
  ])('answer %s with %s with 401 and the Error body', async (method, _what, authorization) => {
    const before = await list();
    const { status, headers, body } = await sendRequest(`${app.url}/v1/categories`, {
      method,
      headers: {
        'content-type': 'application/json',
        ...(authorization === undefined ? {} : { authorization }),
      },
      ...(method === 'POST' ? { body: '{"name":"dog"}' } : {}),
    });
    expect(status).toBe(401);
    expect(headers['content-type']).toMatch(/^application\/json/);
    expect(headers['cache-control']).toBe('no-store');
    expect(JSON.parse(body.toString())).toEqual({
      code: 'UNAUTHORIZED',
      message: expect.any(String),
      status: 401,
    });
    expect((await list()).body).toEqual(before.body);
  });
});
