import { createHash, randomBytes } from 'node:crypto';
import { METHODS } from 'node:http';
import { gzipSync } from 'node:zlib';
import type { Response } from 'supertest';
import { ApiKeysService } from '../src/platform/auth/api-keys.service.js';
import { createDatabase, startApp, type TestApp } from './support/app.js';
import { MemoryLogger } from './support/memory-logger.js';
import { matchers } from './support/matchers.js';
import { type RawResponse, RawConnection, sendRaw, rawRequest } from './support/raw-connection.js';
import { startAppWithModule } from './support/start-app-with-module.js';
import { StubsModule } from './support/stubs.module.js';
import { waitFor } from './support/wait.js';

const { jest } = import.meta;
expect.extend(matchers);

const MISSING_MESSAGE = 'The API key is missing: send Authorization: Bearer <API_KEY>.';
const INVALID_MESSAGE = 'The API key is not valid: it is unknown, expired or revoked.';

/** What there is to see of an answer where no key was sent, and where one was that is not valid. */
const MISSING = refusal('Bearer realm="petstore"', MISSING_MESSAGE);
const INVALID = refusal('Bearer realm="petstore", error="invalid_token"', INVALID_MESSAGE);

function refusal(challenge: string, message: string): unknown {
  return {
    status: 401,
    type: 'application/json; charset=utf-8',
    challenge,
    requestId: expect.stringMatching(/^[0-9a-f-]{36}$/) as unknown,
    text: JSON.stringify({ code: 'UNAUTHORIZED', message, status: 401 }),
  };
}

/** Operations of every kind, and the status that they answer with a key. */
const OPERATIONS = [
  { method: 'GET', path: '/v1/categories', status: 200 },
  { method: 'POST', path: '/v1/categories', status: 400 },
  { method: 'GET', path: '/v1/stubs/ending/1', status: 501 },
  { method: 'GET', path: '/v1/stubs/new', status: 501 },
];
const PATHS = [...new Set(OPERATIONS.map(({ path }) => path)), '/v1/pets/1', '/v1/store/orders'];

/** Milliseconds within which a key that is no longer valid must stop. */
const MUST_STOP_WITHIN = 5_000;
const MINUTE = 60_000;

const logger = new MemoryLogger();
let app: TestApp;
let keys: ApiKeysService;
beforeAll(async () => {
  app = await startAppWithModule(StubsModule, { logger });
  keys = app.app.get(ApiKeysService);
});
afterEach(() => jest.restoreAllMocks());
afterAll(() => app.stop());

/** Lists the categories with a value of the Authorization header. */
async function list(authorization?: string): Promise<Response> {
  const get = app.http().get('/v1/categories');
  return authorization === undefined ? get : get.set('Authorization', authorization);
}

/** Lists the categories with a key. */
const listWith = (key: string): Promise<Response> => list(`Bearer ${key}`);

/** What there is to see of an answer; see {@link MISSING}. */
function seen({
  status,
  headers,
  text,
}: Pick<RawResponse, 'status' | 'headers' | 'text'>): unknown {
  return {
    status,
    type: headers['content-type'],
    challenge: headers['www-authenticate'],
    requestId: headers['x-request-id'],
    text,
  };
}

/** The same text, with its last letter in the other case. */
function changeCase(text: string): string {
  return text.replace(/[a-z](?=[^a-z]*$)/i, (letter) =>
    letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase(),
  );
}

/** The row of a key as it is kept. */
async function rowOf(key: string): Promise<Record<string, unknown>> {
  const hash = createHash('sha256').update(key).digest('hex');
  const rows: Record<string, unknown>[] = await app.dataSource.query(
    `SELECT * FROM "api_keys" WHERE "hash" = '${hash}'`,
  );
  expect(rows).toHaveLength(1);
  return rows[0]!;
}

describe('the Authorization header', () => {
  it.each(['Bearer', 'bearer', 'BEARER', 'bEaReR'])('takes a key after %s', async (scheme) => {
    const response = await list(`${scheme} ${app.key}`);
    expect(response.status).toBe(200);
    expect(response.headers).not.toHaveProperty('www-authenticate');
  });

  it('may have several spaces before the key', async () => {
    expect((await list(`Bearer   ${app.key}`)).status).toBe(200);
  });

  it.each([
    ['no header', () => undefined],
    ['an empty header', () => ''],
    ['the scheme alone', () => 'Bearer'],
    ['the scheme and a space', () => 'Bearer '],
    ['the key alone', (key: string) => key],
    ['no space after the scheme', (key: string) => `Bearer${key}`],
    ['a colon after the scheme', (key: string) => `Bearer:${key}`],
    ['something before the scheme', (key: string) => `x Bearer ${key}`],
    ['another scheme', (key: string) => `Token ${key}`],
    ['the scheme twice removed', (key: string) => `Bearer2 ${key}`],
    ['Basic with the key as its credentials', (key: string) => `Basic ${key}`],
    ['Basic with the key as its user', (key: string) => basic(`${key}:`)],
    ['Basic with the key as its password', (key: string) => basic(`:${key}`)],
  ])('carries no key with %s', async (_name, header) => {
    expect(seen(await list(header(app.key)))).toEqual(MISSING);
  });

  it.each([
    ['unknown', () => `pet_${randomBytes(32).toString('base64url')}`],
    ['without its last character', (key: string) => key.slice(0, -1)],
    ['without its first character', (key: string) => key.slice(1)],
    ['without its prefix', (key: string) => key.replace('pet_', '')],
    ['the prefix alone', () => 'pet_'],
    ['one character longer', (key: string) => `${key}A`],
    ['padded', (key: string) => `${key}=`],
    ['with one letter in the other case', changeCase],
    ['in upper case', (key: string) => key.toUpperCase()],
    ['in lower case', (key: string) => key.toLowerCase()],
    ['in quotes', (key: string) => `"${key}"`],
    ['given twice', (key: string) => `${key} ${key}`],
    ['given twice, with a comma', (key: string) => `${key}, ${key}`],
    ['followed by a parameter', (key: string) => `${key};x=1`],
    ['percent-encoded', (key: string) => key.replace('_', '%5F')],
    ['its own hash', (key: string) => createHash('sha256').update(key).digest('hex')],
    ['longer than any key', (key: string) => key + 'A'.repeat(8_000)],
    ['a piece of SQL', () => `' OR '1' = '1`],
    ['a wildcard', () => 'pet_%'],
    ['not ASCII', () => 'pet_\u00e9'],
    ['the word null', () => 'null'],
  ])('carries an invalid key where it is %s', async (_name, change) => {
    expect((await listWith(app.key)).status).toBe(200);
    expect(seen(await listWith(change(app.key)))).toEqual(INVALID);
  });

  it('counts once: a second one is not looked at', async () => {
    const answers = await sendRaw(
      app.url,
      rawRequest({
        headers: [
          'Authorization: Bearer pet_unknown',
          `Authorization: Bearer ${app.key}`,
          'Connection: close',
        ],
      }),
    );
    expect(answers).toHaveLength(1);
    expect(seen(answers[0]!)).toEqual(INVALID);
  });
});

function basic(credentials: string): string {
  return `Basic ${Buffer.from(credentials).toString('base64')}`;
}

describe('nothing else counts as a key', () => {
  it.each(['access_token', 'api_key', 'apikey', 'key', 'token', 'authorization'])(
    'no query parameter %s',
    async (name) => {
      const values = [app.key, `Bearer ${app.key}`];
      for (const value of values) {
        expect(
          seen(
            await app
              .http()
              .get('/v1/categories')
              .query({ [name]: value }),
          ),
        ).toEqual(MISSING);
      }
      expect.assertions(values.length);
    },
  );

  it.each([
    'X-Api-Key',
    'Api-Key',
    'ApiKey',
    'X-Auth-Token',
    'X-Access-Token',
    'X-Authorization',
    'X-Forwarded-Authorization',
    'X-Original-Authorization',
    'Proxy-Authorization',
    'Authentication',
    'WWW-Authenticate',
    'Sec-WebSocket-Protocol',
    'Referer',
  ])('no header %s', async (name) => {
    for (const value of [app.key, `Bearer ${app.key}`]) {
      expect(seen(await app.http().get('/v1/categories').set(name, value))).toEqual(MISSING);
    }
    expect.assertions(2);
  });

  it.each(['access_token', 'api_key', 'Authorization', 'session'])('no cookie %s', async (name) => {
    expect(
      seen(await app.http().get('/v1/categories').set('Cookie', `${name}=${app.key}`)),
    ).toEqual(MISSING);
  });

  it.each(['access_token', 'api_key', 'apiKey', 'key', 'authorization'])(
    'no property %s of the body, be it JSON or a form',
    async (name) => {
      const post = app.http().post('/v1/categories');
      expect(seen(await post.send({ name: 'dog', [name]: app.key }))).toEqual(MISSING);
      const form = app.http().post('/v1/categories').type('form');
      expect(seen(await form.send({ name: 'dog', [name]: app.key }))).toEqual(MISSING);
    },
  );

  it.each([
    ['the user of an absolute target', (key: string) => `http://${key}@petstore/v1/categories`],
    [
      'the password of an absolute target',
      (key: string) => `http://x:${key}@petstore/v1/categories`,
    ],
    ['a path segment', (key: string) => `/v1/categories/;access_token=${key}`],
  ])('not %s', async (_name, target) => {
    const [answer] = await sendRaw(
      app.url,
      rawRequest({ target: target(app.key), headers: ['Connection: close'] }),
    );
    expect([401, 404]).toContain(answer?.status);
  });

  it('not a trailer', async () => {
    const [answer] = await sendRaw(
      app.url,
      rawRequest({
        method: 'POST',
        headers: [
          'Content-Type: application/json',
          'Transfer-Encoding: chunked',
          'Trailer: Authorization',
          'Connection: close',
        ],
        body: `e\r\n{"name":"dog"}\r\n0\r\nAuthorization: Bearer ${app.key}\r\n\r\n`,
      }),
    );
    expect(seen(answer!)).toEqual(MISSING);
  });
});

describe('every operation', () => {
  it.each(OPERATIONS)('$method $path needs a key', async ({ method, path, status }) => {
    const send = (): ReturnType<ReturnType<TestApp['http']>['get']> =>
      app.http()[method === 'POST' ? 'post' : 'get'](path);
    expect(seen(await send())).toEqual(MISSING);
    expect(seen(await send().auth('pet_unknown', { type: 'bearer' }))).toEqual(INVALID);
    expect((await send().auth(app.key, { type: 'bearer' })).status).toBe(status);
  });

  it.each(PATHS)('%s answers HEAD without a key as GET, but without a body', async (path) => {
    const get = await app.http().get(path);
    const head = await app.http().head(path);
    expect(head.status).toBe(401);
    expect(head.text).toBeUndefined();
    expect(head.headers).toEqual({
      ...get.headers,
      date: expect.any(String) as string,
      'x-request-id': expect.any(String) as string,
    });
  });

  it.each(PATHS)('%s asks for the key whatever the method', async (path) => {
    // CONNECT is not for a path; HEAD answers have no body to look at.
    const methods = METHODS.filter((method) => method !== 'CONNECT' && method !== 'HEAD');
    expect(methods).toEqual(expect.arrayContaining(['PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE']));
    for (const method of methods) {
      const [answer, ...others] = await sendRaw(
        app.url,
        rawRequest({ method, target: path, headers: ['Connection: close'] }),
      );
      expect(others).toEqual([]);
      expect(seen(answer!)).toEqual(MISSING);
    }
  });

  it.each([
    '/v1/categories/',
    '/V1/Categories',
    '/v1/categories?x=1',
    '/v1/categories#x',
    '/v1/%63ategories',
    '//v1/categories',
    '/./v1/categories',
    '/docs/../v1/categories',
    '/v1/categories/.',
    '/v1/categories;x=1',
    '/v1/pets/1/',
    '/v1/pets/%2e%2e',
    '/v1/store//orders',
    'http://petstore/v1/categories',
  ])('lets nobody in by another spelling of its path: %s', async (target) => {
    const [answer] = await sendRaw(app.url, rawRequest({ target, headers: ['Connection: close'] }));
    expect([400, 401, 404]).toContain(answer?.status);
    expect(answer).toBeError(answer?.status === 401 ? 'UNAUTHORIZED' : codeOf(answer?.status));
  });

  it('does not take another method from a header', async () => {
    const post = app.http().post('/v1/categories');
    expect(seen(await post.set('X-HTTP-Method-Override', 'OPTIONS'))).toEqual(MISSING);
  });
});

function codeOf(status: number | undefined): 'BAD_REQUEST' | 'NOT_FOUND' {
  return status === 400 ? 'BAD_REQUEST' : 'NOT_FOUND';
}

describe('the public paths', () => {
  it.each(['/livez', '/readyz', '/docs', '/openapi.json', '/openapi.yaml'])(
    '%s needs no key, and minds no wrong one',
    async (path) => {
      expect((await app.http().get(path)).status).toBe(200);
      const response = await app.http().get(path).auth('pet_unknown', { type: 'bearer' });
      expect(response.status).toBe(200);
    },
  );
});

const json = 'Content-Type: application/json';
const category = '{"name":"dog"}';

interface Body {
  readonly headers: readonly string[];
  readonly body: string | Buffer;
}

function sized(body: string | Buffer, ...headers: string[]): Body {
  return { headers: [`Content-Length: ${Buffer.byteLength(body)}`, ...headers], body };
}

function gzipped(text: string): Body {
  return sized(gzipSync(JSON.stringify({ name: text })), json, 'Content-Encoding: gzip');
}

function chunked(...headers: string[]): Body {
  return {
    headers: ['Transfer-Encoding: chunked', ...headers],
    body: `e\r\n${category}\r\n0\r\n\r\n`,
  };
}

describe('the key is looked at before the body', () => {
  const BODIES: [string, Body][] = [
    ['valid', sized(category, json)],
    ['missing', { headers: [], body: '' }],
    ['empty', sized('', json)],
    ['malformed', sized('{"name":', json)],
    ['not an object', sized('[]', json)],
    ['invalid', sized('{"id":1,"nome":null}', json)],
    ['deeper than any parser likes', sized('['.repeat(50_000), json)],
    ['larger than the limit', sized(`{"name":"${'a'.repeat(200_000)}"}`, json)],
    ['larger than the limit when inflated', gzipped('a'.repeat(1_000_000))],
    ['no gzip, though it says so', sized('no', json, 'Content-Encoding: gzip')],
    ['of an unknown encoding', sized(category, json, 'Content-Encoding: compress')],
    ['of an unknown charset', sized(category, `${json}; charset=utf-16`)],
    ['not UTF-8', sized(Buffer.from('{"name":"\xff"}', 'latin1'), json)],
    ['of another type', sized('name=dog', 'Content-Type: application/x-www-form-urlencoded')],
    ['without a type', sized(category)],
    ['in chunks', chunked(json)],
    ['in chunks, and of another type', chunked('Content-Type: text/plain')],
  ];

  it.each(BODIES)('where it is %s', async (_name, { headers, body }) => {
    for (const [authorization, expected] of [
      [[], MISSING],
      [['Authorization: Bearer pet_unknown'], INVALID],
    ] as const) {
      const answers = await sendRaw(
        app.url,
        rawRequest({
          method: 'POST',
          headers: [...headers, ...authorization, 'Connection: close'],
          body,
        }),
      );
      expect(answers).toHaveLength(1);
      expect(seen(answers[0]!)).toEqual(expected);
    }
    expect((await listWith(app.key)).body).toEqual([]);
  });

  it('where it never comes', async () => {
    const connection = await RawConnection.open(app.url);
    connection.send(rawRequest({ method: 'POST', headers: [json, 'Content-Length: 1000000'] }));
    expect(seen(await connection.nextResponse())).toEqual(MISSING);
    connection.close();
  });

  it('where the client waits to be asked for it: it is not asked', async () => {
    const connection = await RawConnection.open(app.url);
    connection.send(
      rawRequest({
        method: 'POST',
        headers: [json, `Content-Length: ${category.length}`, 'Expect: 100-continue'],
      }),
    );
    // The next bytes could be the body or another request, so the connection is of no more use.
    const answers = await connection.closed();
    expect(answers).toHaveLength(1);
    expect(seen(answers[0]!)).toEqual(MISSING);
    expect(answers[0]?.headers).toMatchObject({ connection: 'close' });
  });

  it('and asks for it where the key is valid', async () => {
    const connection = await RawConnection.open(app.url);
    connection.send(
      rawRequest({
        method: 'POST',
        headers: [
          json,
          `Authorization: Bearer ${app.key}`,
          'Content-Length: 2',
          'Expect: 100-continue',
        ],
      }),
    );
    expect(await connection.nextResponse(1)).toMatchObject({ status: 100 });
    expect(await connection.send('{}').nextResponse(2)).toBeError('VALIDATION_FAILED');
    connection.close();
  });
});

describe('an API key', () => {
  it('is pet_ and 256 random bits in base64url', async () => {
    const created = await Promise.all(Array.from({ length: 20 }, () => keys.create('format')));
    const values = created.map(({ key }) => key);
    for (const key of values) {
      expect(key).toMatch(/^pet_[A-Za-z0-9_-]{43}$/);
      expect(Buffer.from(key.slice(4), 'base64url')).toHaveLength(32);
    }
    expect(new Set(values).size).toBe(20);
  });

  it('works at once, also where it was tried before it existed', async () => {
    const key = `pet_${randomBytes(32).toString('base64url')}`;
    expect(seen(await listWith(key))).toEqual(INVALID);
    await keys.ensureKey(key, 'late');
    expect((await listWith(key)).status).toBe(200);
  });

  it('is kept only as its SHA-256', async () => {
    const { key, record } = await keys.create('hashed');
    expect((await listWith(key)).status).toBe(200);
    const row = await rowOf(key);
    expect(row).toMatchObject({ name: 'hashed', expires_at: null, revoked_at: null });
    expect(JSON.stringify(row)).not.toContain(key.slice(4));
    expect(JSON.stringify(record)).not.toContain(key.slice(4));
  });

  it.each([
    ['was revoked', (id: number) => `UPDATE "api_keys" SET "revoked_at" = 1 WHERE "id" = ${id}`],
    ['is gone', (id: number) => `DELETE FROM "api_keys" WHERE "id" = ${id}`],
  ])('stops within 5 seconds where it %s behind the back of the service', async (_name, sql) => {
    const { key, record } = await keys.create('stopped');
    expect((await listWith(key)).status).toBe(200);
    await app.dataSource.query(sql(record.id));
    // It is used all the time meanwhile, which must not keep it alive.
    const refused = await waitFor(
      () => listWith(key),
      ({ status }) => status !== 200,
      MUST_STOP_WITHIN,
    );
    expect(seen(refused)).toEqual(INVALID);
  });

  it('stops within 5 seconds of its revocation, also where the clock was set back', async () => {
    const { key, record } = await keys.create('stopped');
    expect((await listWith(key)).status).toBe(200);
    const now = Date.now.bind(Date);
    jest.spyOn(Date, 'now').mockImplementation(() => now() - 60 * MINUTE);
    expect(await keys.revoke(record.id)).toBe(true);
    const refused = await waitFor(
      () => listWith(key),
      ({ status }) => status !== 200,
      MUST_STOP_WITHIN,
    );
    expect(seen(refused)).toEqual(INVALID);
  });

  it('is not valid where it was revoked before its first use', async () => {
    const { key, record } = await keys.create('revoked');
    expect(await keys.revoke(record.id)).toBe(true);
    expect(await keys.revoke(record.id)).toBe(false);
    expect(seen(await listWith(key))).toEqual(INVALID);
  });

  it('expires to the millisecond', async () => {
    const expiresAt = new Date(Date.now() + 60 * MINUTE);
    const { key } = await keys.create('expiring', expiresAt);
    expect((await listWith(key)).status).toBe(200);
    const clock = jest.spyOn(Date, 'now').mockReturnValue(expiresAt.getTime() - 1);
    expect((await listWith(key)).status).toBe(200);
    clock.mockReturnValue(expiresAt.getTime());
    expect(seen(await listWith(key))).toEqual(INVALID);
  });

  it('is not valid where it expired before its first use', async () => {
    const { key } = await keys.create('expired', new Date(Date.now() - 1));
    expect(seen(await listWith(key))).toEqual(INVALID);
  });
});

async function lastUse(key: string): Promise<number | null> {
  const { last_used_at: time } = await rowOf(key);
  return time === null ? null : Number(time);
}

describe('the last use of a key', () => {
  it('is written to the minute', async () => {
    const { key } = await keys.create('used');
    expect(await lastUse(key)).toBeNull();
    const first = Math.floor(Date.now() / MINUTE) * MINUTE;
    const clock = jest.spyOn(Date, 'now');
    // In the second of the two minutes the key is in memory already.
    for (const minute of [first, first + MINUTE]) {
      clock.mockReturnValue(minute + 34_567);
      expect((await listWith(key)).status).toBe(200);
      expect(
        await waitFor(
          () => lastUse(key),
          (time) => time === minute,
          5_000,
        ),
      ).toBe(minute);
    }
  });

  it('is not that of a request that was refused', async () => {
    const clock = jest.spyOn(Date, 'now');
    const now = Math.floor(Date.now() / MINUTE) * MINUTE;
    const { key: refused } = await keys.create('refused', new Date(now));
    const { key: used } = await keys.create('used');
    clock.mockReturnValue(now + 1);
    expect(seen(await listWith(refused))).toEqual(INVALID);
    expect((await listWith(used)).status).toBe(200);
    // What was used after it is written, so it would have been.
    expect(
      await waitFor(
        () => lastUse(used),
        (time) => time !== null,
        5_000,
      ),
    ).toBe(now);
    expect(await lastUse(refused)).toBeNull();
  });

  it('is written before the service stops', async () => {
    const database = await createDatabase();
    const before = await startApp({ database, logger });
    const response = await before.http().get('/v1/categories').auth(before.key, { type: 'bearer' });
    expect(response.status).toBe(200);
    await before.stop();

    const after = await startApp({ database, logger });
    const [record] = await after.app.get(ApiKeysService).list();
    await after.stop();
    await database.drop();
    expect(record?.lastUsedAt).toBeInstanceOf(Date);
  });
});

describe('a key from the configuration', () => {
  it.each([
    ['the shortest', 'k'.repeat(32)],
    ['the longest', 'k'.repeat(256)],
    ['one of every kind of character', `aZ09-._~+/${'k'.repeat(30)}==`],
  ])('is valid from the first start on, be it %s', async (_name, key) => {
    await keys.ensureKey(key, 'bootstrap');
    expect((await listWith(key)).status).toBe(200);
    const row = await rowOf(key);
    expect(row).toMatchObject({ name: 'bootstrap', expires_at: null, revoked_at: null });
    expect(JSON.stringify(row)).not.toContain(key);
  });

  it('is kept once, however often and by however many processes it is given', async () => {
    const key = randomBytes(32).toString('hex');
    await Promise.all([keys.ensureKey(key, 'bootstrap'), keys.ensureKey(key, 'bootstrap')]);
    await keys.ensureKey(key, 'bootstrap');
    expect(await rowOf(key)).toMatchObject({ name: 'bootstrap' });
    expect((await listWith(key)).status).toBe(200);
  });

  it('stays revoked where it was revoked, and the log says so', async () => {
    const key = randomBytes(32).toString('hex');
    await keys.ensureKey(key, 'bootstrap');
    await keys.revoke(Number((await rowOf(key))['id']));
    await keys.ensureKey(key, 'bootstrap');
    expect(seen(await listWith(key))).toEqual(INVALID);
    expect(logger.text).toContain('The bootstrap key is revoked');
  });
});

describe('the log', () => {
  it('tells of a new key, and never the key', async () => {
    const { key, record } = await keys.create('logged');
    expect((await listWith(key)).status).toBe(200);
    expect(seen(await listWith(`${key}A`))).toEqual(INVALID);
    expect(logger.text).toContain(`Created API key ${record.id} (logged)`);
    expect(logger.text).not.toContain(key);
    expect(logger.text).not.toContain(app.key);
  });
});
