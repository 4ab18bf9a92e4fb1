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

/** @param body a value to serialize, or the raw text of the body */
const create = (body: object | string, target = app): Test =>
  target
    .http()
    .post('/v1/categories')
    .auth(target.key, { type: 'bearer' })
    .type('application/json')
    .send(body);

async function createCategory(
  body: object | string,
): Promise<{ id: number } & Record<string, unknown>> {
  const response = await create(body);
  expect(response.body).toMatchObject({ id: expect.any(Number) });
  expect(response.status).toBe(201);
  return response.body as { id: number };
}

async function findInList(id: number): Promise<unknown> {
  const { body } = await list();
  return (body as { id: number }[]).find((category) => category.id === id);
}

/** Posts a body and returns the response and whether the list changed. */
async function postAndDiff(body: object | string): Promise<object> {
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

/** The result of `postAndDiff` for a body that fails validation. */
const validationError = (message: RegExp): object => ({
  status: 400,
  type: 'application/json',
  body: { code: 'VALIDATION_FAILED', message: expect.stringMatching(message), status: 400 },
  stored: false,
});

describe('GET /v1/categories', () => {
  it('returns an empty array when there are no categories', async () => {
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

  it('returns every category in id order with exactly the documented fields', async () => {
    const dog = await createCategory({ name: 'dog', description: 'Dogs of every size' });
    const cat = await createCategory({ name: 'cat' });
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
    // Explicit ids do not advance the sequence on PostgreSQL: later inserts would collide with them.
    await app.dataSource.query(`DELETE FROM "categories" WHERE "id" > ${cat.id}`);
  });

  it('orders by id regardless of name', async () => {
    for (const name of ['zebra', 'ant', 'Zebra', 'mouse']) await createCategory({ name });
    const ids = ((await list()).body as { id: number }[]).map(({ id }) => id);
    expect(ids.length).toBeGreaterThanOrEqual(4);
    expect(ids).toEqual(ids.toSorted((a, b) => a - b));
  });

  it.each(['?limit=1', '?page=2&size=1', '?name=nothing', '?id=1&id=2', '?', '?%zz', '?a[b]=c'])(
    'ignores the query string %s',
    async (query) => {
      await createCategory({ name: 'dog' });
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

  it('sends Cache-Control: private, no-cache', async () => {
    const response = await list();
    expect(response.headers['cache-control']).toBe('private, no-cache');
  });

  it('responds to HEAD with the headers of GET and no body', async () => {
    await createCategory({ name: 'dog' });
    const options = { headers: { authorization: `Bearer ${app.key}` } };
    const get = await sendRequest(`${app.url}/v1/categories`, options);
    const head = await sendRequest(`${app.url}/v1/categories`, { ...options, method: 'HEAD' });
    expect(head.status).toBe(200);
    expect(head.body).toHaveLength(0);
    expect(get.headers.etag).toBeDefined();
    const names = ['etag', 'content-type', 'content-length', 'cache-control', 'vary'] as const;
    for (const name of names) expect([name, head.headers[name]]).toEqual([name, get.headers[name]]);
  });

  it('returns 64-bit ids as JSON numbers, up to the maximum', async () => {
    const full = await startApp();
    try {
      await full.dataSource.query(
        `INSERT INTO "categories" ("id", "name") VALUES (2147483648, 'beyond 32 bits'), (${MAX_ID}, 'the maximum')`,
      );
      const response = await list(full);
      expect(response.text).toBe(
        `[{"id":2147483648,"name":"beyond 32 bits"},{"id":${MAX_ID},"name":"the maximum"}]`,
      );
    } finally {
      await full.stop();
    }
  });
});

describe('POST /v1/categories', () => {
  it('returns 201 with the created category and its id', async () => {
    const response = await create({ name: 'dog', description: 'Dogs of every size' });
    expect(response.status).toBe(201);
    expect(response.type).toBe('application/json');
    expect(response.headers['cache-control']).toBe('no-store');
    const { id } = response.body as { id: number };
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
    expect((await createCategory({ name: 'next' })).id).toBeGreaterThan(last.id);
    await app.dataSource.query('DELETE FROM "categories"');
    expect((await list()).body).toEqual([]);
    expect((await createCategory({ name: 'first again' })).id).toBeGreaterThan(last.id + 1);
  });

  it('ignores unknown query parameters', async () => {
    const response = await app
      .http()
      .post('/v1/categories?dryRun=true&id=1')
      .auth(app.key, { type: 'bearer' })
      .send({ name: 'dog' });
    expect(response.status).toBe(201);
    expect(await findInList(response.body.id as number)).toEqual(response.body);
  });
});

/** Generates strings without NUL or lone surrogates. Lengths are in code points. */
const storable = (minLength: number, maxLength: number): fc.Arbitrary<string> =>
  fc.string({ unit: 'binary', minLength, maxLength }).map((value) => value.replaceAll('\0', '0'));

describe('POST /v1/categories: name and description', () => {
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
  ])('stores and returns unchanged: %s', async (_label, text) => {
    const category = await createCategory({ name: text, description: text });
    expect(category).toEqual({ id: category.id, name: text, description: text });
    expect(await findInList(category.id)).toEqual(category);
  });

  it('decodes JSON escapes', async () => {
    const category = await createCategory(
      '{"name":"\\ud83d\\udc36\\u0061\\u00e9\\/","description":"\\ufeff"}',
    );
    expect(category).toEqual({ id: category.id, name: '🐶aé/', description: '\uFEFF' });
  });

  it('sends the response as UTF-8', async () => {
    const text = 'é 🐶 \uFEFF𠜎';
    const { status, body } = await sendRequest(`${app.url}/v1/categories`, {
      method: 'POST',
      headers: jsonHeaders(app.key),
      body: Buffer.from(JSON.stringify({ name: text })),
    });
    expect(status).toBe(201);
    expect(body.includes(Buffer.from(`"${text}"`))).toBe(true);
  });

  it('accepts any text that the documented rules allow', async () => {
    await fc.assert(
      fc.asyncProperty(
        storable(1, 100).filter((name) => /\P{White_Space}/u.test(name.replaceAll('\uFEFF', ' '))),
        fc.option(storable(0, 200), { nil: undefined }),
        async (name, description) => {
          const category = await createCategory({ name, description });
          expect(category).toEqual({ id: category.id, name, description });
          expect(await findInList(category.id)).toEqual(category);
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
  ])('accepts %s', async (_label, body) => {
    const category = await createCategory(body);
    expect(category).toEqual({ id: category.id, ...body });
    expect(await findInList(category.id)).toEqual(category);
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
    [
      'a name of 51 characters with 51 combining marks',
      { name: 'e\u0301'.repeat(51) },
      /^name must be 1 to/,
    ],
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
  ])('rejects %s with 400', async (_label, body, message) => {
    expect(await postAndDiff(body)).toEqual(validationError(message));
  });

  // Every character with the Unicode property White_Space.
  const whiteSpace =
    '\t\n\v\f\r \u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200A\u2028\u2029\u202F\u205F\u3000';
  it.each(
    [...whiteSpace.split(''), '   ', ' \t\r\n', whiteSpace].map((name) => [
      encodeURIComponent(name),
      name,
    ]),
  )('rejects a whitespace-only name with 400: %s', async (_label, name) => {
    expect(await postAndDiff({ name })).toEqual(validationError(/^name must not be blank\.$/));
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
  ])('rejects text that cannot be stored with 400: %s', async (_label, body, message) => {
    expect(await postAndDiff(body)).toEqual(validationError(message));
  });
});

describe('POST /v1/categories: validation', () => {
  it.each([
    ['an empty object', {}, /^name is missing\.$/],
    ['a description without a name', { description: 'Dogs' }, /^name is missing\.$/],
    ['a null name', { name: null }, /^name must be a string\.$/],
    ['a numeric name', { name: 1 }, /^name must be a string\.$/],
    ['a boolean name', { name: true }, /^name must be a string\.$/],
    ['an array as name', { name: ['dog'] }, /^name must be a string\.$/],
    ['an object as name', { name: { length: 3 } }, /^name must be a string\.$/],
    ['a null description', { name: 'dog', description: null }, /^description must be a str/],
    ['a numeric description', { name: 'dog', description: 0 }, /^description must be a st/],
    ['a boolean description', { name: 'dog', description: false }, /^description must be a string/],
    ['an array as description', { name: 'dog', description: [] }, /^description must be a st/],
    ['an object as description', { name: 'dog', description: {} }, /^description must be a/],
    ['an id', { id: 1, name: 'dog' }, /^property id should not exist\.$/],
    ['a null id', { id: null, name: 'dog' }, /^property id should not exist\.$/],
    ['an unknown property', { name: 'dog', color: 'red' }, /^property color should not exist/],
    ['a property name in the wrong case', { Name: 'dog' }, /property Name should not exist/],
    ['an empty property name', { name: 'dog', '': 1 }, /^property {2}should not exist/],
    ['the property __proto__', '{"name":"dog","__proto__":{}}', /__proto__ should not exist/],
    ['the property constructor', '{"name":"dog","constructor":{}}', /constructor should not exist/],
    ['the property toString', '{"name":"dog","toString":1}', /toString should not exist/],
    ['a name nested in __proto__', '{"__proto__":{"name":"dog"}}', /__proto__ should not exist/],
    ['an array body', '[{"name":"dog"}]', /must be a JSON object/],
    ['an empty array body', '[]', /must be a JSON object/],
    ['a null body', 'null', /must be a JSON object/],
    ['a number body', '1', /must be a JSON object/],
    ['a string body', '"dog"', /must be a JSON object/],
    ['a boolean body', 'true', /must be a JSON object/],
  ])('rejects %s with 400', async (_label, body, message) => {
    expect(await postAndDiff(body)).toEqual(validationError(message));
  });

  it('reports all invalid properties at once', async () => {
    expect(await postAndDiff({ name: '', description: null, color: 'red' })).toEqual(
      validationError(
        /^(?=.*name must be 1 to 100)(?=.*description must be a string)(?=.*color should not exist)/,
      ),
    );
  });

  it('rejects a missing body with 400', async () => {
    const before = await list();
    const response = await app.http().post('/v1/categories').auth(app.key, { type: 'bearer' });
    expect(response.status).toBe(400);
    expect(response.body).toEqual({
      code: 'VALIDATION_FAILED',
      message: expect.stringMatching(/request body is required/),
      status: 400,
    });
    expect((await list()).body).toEqual(before.body);
  });

  it('rejects a body that is not valid UTF-8 with 400', async () => {
    const before = await list();
    const { status, body } = await sendRequest(`${app.url}/v1/categories`, {
      method: 'POST',
      headers: jsonHeaders(app.key),
      // A surrogate encoded as three bytes: invalid in UTF-8 (RFC 3629, section 3).
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

describe('Authentication of /v1/categories', () => {
  const invalidKey = `pet_${'A'.repeat(43)}`;
  it.each([
    ['GET', 'no key', undefined],
    ['GET', 'an unknown key', `Bearer ${invalidKey}`],
    ['POST', 'no key', undefined],
    ['POST', 'an unknown key', `Bearer ${invalidKey}`],
  ])('returns 401 with the Error body for %s with %s', async (method, _label, authorization) => {
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
