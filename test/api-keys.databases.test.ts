import { createHash, randomBytes } from 'node:crypto';
import { METHODS } from 'node:http';
import { gzipSync } from 'node:zlib';
import type { Response } from 'supertest';
import { FEATURES } from '../src/features.js';
import { ApiKeysService } from '../src/platform/auth/api-keys.service.js';
import { createDatabase, startApp, type TestApp } from './support/app.js';
import { MemoryLogger } from './support/memory-logger.js';
import { matchers } from './support/matchers.js';
import { type RawResponse, RawConnection, sendRaw, rawRequest } from './support/raw-connection.js';
import { getRoutes, toExamplePath } from './support/routes.js';
import { StubsModule } from './support/stubs.module.js';
import { waitFor } from './support/wait.js';

const { jest } = import.meta;
expect.extend(matchers);

const MISSING_MESSAGE = 'The API key is missing: send Authorization: Bearer <API_KEY>.';
const INVALID_MESSAGE = 'The API key is invalid: it is unknown, expired or revoked.';

/** Summaries of the responses to a missing key and to an invalid one; see {@link summarize}. */
const MISSING = unauthorized('Bearer realm="petstore"', MISSING_MESSAGE);
const INVALID = unauthorized('Bearer realm="petstore", error="invalid_token"', INVALID_MESSAGE);

function unauthorized(challenge: string, message: string): unknown {
  return {
    status: 401,
    type: 'application/json; charset=utf-8',
    challenge,
    requestId: expect.stringMatching(/^[0-9a-f-]{36}$/) as unknown,
    text: JSON.stringify({ code: 'UNAUTHORIZED', message, status: 401 }),
  };
}

/** Operations with their status for a request with a valid key. */
const OPERATIONS = [
  { method: 'GET', path: '/v1/categories', status: 200 },
  { method: 'POST', path: '/v1/categories', status: 400 },
  { method: 'GET', path: '/v1/stubs/deprecated/1', status: 501 },
  { method: 'GET', path: '/v1/stubs/experimental', status: 501 },
];
const PATHS = [...new Set(OPERATIONS.map(({ path }) => path)), '/v1/pets/1', '/v1/store/orders'];

/** Milliseconds after which a revoked or deleted key must be rejected. */
const REVOCATION_TIMEOUT_MS = 5_000;
const MINUTE_MS = 60_000;

const logger = new MemoryLogger();
let app: TestApp;
let keys: ApiKeysService;
beforeAll(async () => {
  app = await startApp({
    features: [StubsModule, ...FEATURES],
    logger,
  });
  keys = app.app.get(ApiKeysService);
});
afterEach(() => jest.restoreAllMocks());
afterAll(() => app.stop());

/** Lists the categories with the given Authorization header. */
async function list(authorization?: string): Promise<Response> {
  const get = app.http().get('/v1/categories');
  return authorization === undefined ? get : get.set('Authorization', authorization);
}

const listWith = (key: string): Promise<Response> => list(`Bearer ${key}`);

/** Returns the parts of a response that the tests compare. */
function summarize({
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

/** Changes the case of the last letter. */
function changeCase(text: string): string {
  return text.replace(/[a-z](?=[^a-z]*$)/i, (letter) =>
    letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase(),
  );
}

/** Returns the stored row of a key. */
async function getRow(key: string): Promise<Record<string, unknown>> {
  const hash = createHash('sha256').update(key).digest('hex');
  const rows: Record<string, unknown>[] = await app.dataSource.query(
    `SELECT * FROM "api_keys" WHERE "hash" = '${hash}'`,
  );
  expect(rows).toHaveLength(1);
  return rows[0]!;
}

describe('the Authorization header', () => {
  it.each(['Bearer', 'bearer', 'BEARER', 'bEaReR'])('accepts the scheme %s', async (scheme) => {
    const response = await list(`${scheme} ${app.key}`);
    expect(response.status).toBe(200);
    expect(response.headers).not.toHaveProperty('www-authenticate');
  });

  it('accepts several spaces before the key', async () => {
    expect((await list(`Bearer   ${app.key}`)).status).toBe(200);
  });

  it.each([
    ['a missing header', () => undefined],
    ['an empty header', () => ''],
    ['only the scheme', () => 'Bearer'],
    ['only the scheme and a space', () => 'Bearer '],
    ['only the key', (key: string) => key],
    ['no space after the scheme', (key: string) => `Bearer${key}`],
    ['a colon after the scheme', (key: string) => `Bearer:${key}`],
    ['text before the scheme', (key: string) => `x Bearer ${key}`],
    ['another scheme', (key: string) => `Token ${key}`],
    ['a longer scheme', (key: string) => `Bearer2 ${key}`],
    ['the key as Basic credentials', (key: string) => `Basic ${key}`],
    ['the key as the Basic user name', (key: string) => basic(`${key}:`)],
    ['the key as the Basic password', (key: string) => basic(`:${key}`)],
  ])('reports a missing key for %s', async (_name, header) => {
    expect(summarize(await list(header(app.key)))).toEqual(MISSING);
  });

  it.each([
    ['an unknown key', () => `pet_${randomBytes(32).toString('base64url')}`],
    ['a key without its last character', (key: string) => key.slice(0, -1)],
    ['a key without its first character', (key: string) => key.slice(1)],
    ['a key without its prefix', (key: string) => key.replace('pet_', '')],
    ['only the prefix', () => 'pet_'],
    ['a key with an extra character', (key: string) => `${key}A`],
    ['a padded key', (key: string) => `${key}=`],
    ['a key with one letter in the other case', changeCase],
    ['an upper-case key', (key: string) => key.toUpperCase()],
    ['a lower-case key', (key: string) => key.toLowerCase()],
    ['a quoted key', (key: string) => `"${key}"`],
    ['a duplicate key', (key: string) => `${key} ${key}`],
    ['a duplicate key after a comma', (key: string) => `${key}, ${key}`],
    ['a key with a parameter', (key: string) => `${key};x=1`],
    ['a percent-encoded key', (key: string) => key.replace('_', '%5F')],
    ['the hash of a key', (key: string) => createHash('sha256').update(key).digest('hex')],
    ['a very long key', (key: string) => key + 'A'.repeat(8_000)],
    ['an SQL injection', () => `' OR '1' = '1`],
    ['a wildcard', () => 'pet_%'],
    ['a non-ASCII key', () => 'pet_\u00e9'],
    ['the text null', () => 'null'],
  ])('reports an invalid key for %s', async (_name, change) => {
    expect((await listWith(app.key)).status).toBe(200);
    expect(summarize(await listWith(change(app.key)))).toEqual(INVALID);
  });

  it('is ignored if it is the second one', async () => {
    const responses = await sendRaw(
      app.url,
      rawRequest({
        headers: [
          'Authorization: Bearer pet_unknown',
          `Authorization: Bearer ${app.key}`,
          'Connection: close',
        ],
      }),
    );
    expect(responses).toHaveLength(1);
    expect(summarize(responses[0]!)).toEqual(INVALID);
  });
});

function basic(credentials: string): string {
  return `Basic ${Buffer.from(credentials).toString('base64')}`;
}

describe('authentication', () => {
  it.each(['access_token', 'api_key', 'apikey', 'key', 'token', 'authorization'])(
    'ignores a key in the query parameter %s',
    async (name) => {
      const values = [app.key, `Bearer ${app.key}`];
      for (const value of values) {
        expect(
          summarize(
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
  ])('ignores a key in the header %s', async (name) => {
    for (const value of [app.key, `Bearer ${app.key}`]) {
      expect(summarize(await app.http().get('/v1/categories').set(name, value))).toEqual(MISSING);
    }
    expect.assertions(2);
  });

  it.each(['access_token', 'api_key', 'Authorization', 'session'])(
    'ignores a key in the cookie %s',
    async (name) => {
      expect(
        summarize(await app.http().get('/v1/categories').set('Cookie', `${name}=${app.key}`)),
      ).toEqual(MISSING);
    },
  );

  it.each(['access_token', 'api_key', 'apiKey', 'key', 'authorization'])(
    'ignores a key in the property %s of a JSON or form body',
    async (name) => {
      const post = app.http().post('/v1/categories');
      expect(summarize(await post.send({ name: 'dog', [name]: app.key }))).toEqual(MISSING);
      const form = app.http().post('/v1/categories').type('form');
      expect(summarize(await form.send({ name: 'dog', [name]: app.key }))).toEqual(MISSING);
    },
  );

  it.each([
    [
      'the user name of an absolute target',
      (key: string) => `http://${key}@petstore/v1/categories`,
    ],
    [
      'the password of an absolute target',
      (key: string) => `http://x:${key}@petstore/v1/categories`,
    ],
    ['a path segment', (key: string) => `/v1/categories/;access_token=${key}`],
  ])('ignores a key in %s', async (_name, target) => {
    const [response] = await sendRaw(
      app.url,
      rawRequest({ target: target(app.key), headers: ['Connection: close'] }),
    );
    expect([401, 404]).toContain(response?.status);
  });

  it('ignores a key sent in a trailer', async () => {
    const [response] = await sendRaw(
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
    expect(summarize(response!)).toEqual(MISSING);
  });
});

describe('a protected operation', () => {
  it.each(OPERATIONS)('requires a key: $method $path', async ({ method, path, status }) => {
    const send = (): ReturnType<ReturnType<TestApp['http']>['get']> =>
      app.http()[method === 'POST' ? 'post' : 'get'](path);
    expect(summarize(await send())).toEqual(MISSING);
    expect(summarize(await send().auth('pet_unknown', { type: 'bearer' }))).toEqual(INVALID);
    expect((await send().auth(app.key, { type: 'bearer' })).status).toBe(status);
  });

  it.each(PATHS)(
    'responds to HEAD without a key like to GET, but without a body: %s',
    async (path) => {
      const get = await app.http().get(path);
      const head = await app.http().head(path);
      expect(head.status).toBe(401);
      expect(head.text).toBeUndefined();
      expect(head.headers).toEqual({
        ...get.headers,
        date: expect.any(String) as string,
        'x-request-id': expect.any(String) as string,
      });
    },
  );

  it.each(PATHS)('responds with 405 to methods that it does not support: %s', async (path) => {
    const supported = getRoutes(app)
      .filter((route) => toExamplePath(route.path) === path)
      .map(({ method }) => method);
    // CONNECT requests have no path, and responses to HEAD have no body to compare.
    const methods = METHODS.filter((name) => !['CONNECT', 'HEAD', ...supported].includes(name));
    expect(methods).toEqual(expect.arrayContaining(['PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE']));
    for (const method of methods) {
      const [response, ...others] = await sendRaw(
        app.url,
        rawRequest({ method, target: path, headers: ['Connection: close'] }),
      );
      expect(others).toEqual([]);
      expect(response).toBeError('METHOD_NOT_ALLOWED');
      expect(response!.headers['allow']).toBe([...supported, 'HEAD'].toSorted().join(', '));
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
  ])('cannot be reached without a key by another spelling of its path: %s', async (target) => {
    const [response] = await sendRaw(
      app.url,
      rawRequest({ target, headers: ['Connection: close'] }),
    );
    expect([400, 401, 404]).toContain(response?.status);
    const codes = { 400: 'BAD_REQUEST', 401: 'UNAUTHORIZED', 404: 'NOT_FOUND' } as const;
    expect(response).toBeError(codes[response?.status as keyof typeof codes]);
  });

  it('ignores X-HTTP-Method-Override', async () => {
    const post = app.http().post('/v1/categories');
    expect(summarize(await post.set('X-HTTP-Method-Override', 'OPTIONS'))).toEqual(MISSING);
  });
});

describe('a public path', () => {
  it.each(['/livez', '/readyz', '/docs', '/openapi.json', '/openapi.yaml'])(
    'requires no key and ignores an invalid one: %s',
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

describe('authentication before the body is read', () => {
  const BODIES: [string, Body][] = [
    ['a valid body', sized(category, json)],
    ['a missing body', { headers: [], body: '' }],
    ['an empty body', sized('', json)],
    ['malformed JSON', sized('{"name":', json)],
    ['an array', sized('[]', json)],
    ['an invalid body', sized('{"id":1,"nome":null}', json)],
    ['deep nesting', sized('['.repeat(50_000), json)],
    ['a body that is too large', sized(`{"name":"${'a'.repeat(200_000)}"}`, json)],
    ['a body that is too large after decompression', gzipped('a'.repeat(1_000_000))],
    ['invalid gzip data', sized('no', json, 'Content-Encoding: gzip')],
    ['an unknown Content-Encoding', sized(category, json, 'Content-Encoding: compress')],
    ['an unknown charset', sized(category, `${json}; charset=utf-16`)],
    ['invalid UTF-8', sized(Buffer.from('{"name":"\xff"}', 'latin1'), json)],
    ['another Content-Type', sized('name=dog', 'Content-Type: application/x-www-form-urlencoded')],
    ['a missing Content-Type', sized(category)],
    ['a chunked body', chunked(json)],
    ['a chunked body with another Content-Type', chunked('Content-Type: text/plain')],
  ];

  it.each(BODIES)('rejects %s with 401', async (_name, { headers, body }) => {
    for (const [authorization, expected] of [
      [[], MISSING],
      [['Authorization: Bearer pet_unknown'], INVALID],
    ] as const) {
      const responses = await sendRaw(
        app.url,
        rawRequest({
          method: 'POST',
          headers: [...headers, ...authorization, 'Connection: close'],
          body,
        }),
      );
      expect(responses).toHaveLength(1);
      expect(summarize(responses[0]!)).toEqual(expected);
    }
    expect((await listWith(app.key)).body).toEqual([]);
  });

  it('responds with 401 if the body never arrives', async () => {
    const connection = await RawConnection.open(app.url);
    connection.send(rawRequest({ method: 'POST', headers: [json, 'Content-Length: 1000000'] }));
    expect(summarize(await connection.nextResponse())).toEqual(MISSING);
    connection.close();
  });

  it('responds with 401, not 100, to Expect: 100-continue', async () => {
    const connection = await RawConnection.open(app.url);
    connection.send(
      rawRequest({
        method: 'POST',
        headers: [json, `Content-Length: ${category.length}`, 'Expect: 100-continue'],
      }),
    );
    // The next bytes could be the body or another request, so the connection cannot be reused.
    const responses = await connection.closed();
    expect(responses).toHaveLength(1);
    expect(summarize(responses[0]!)).toEqual(MISSING);
    expect(responses[0]?.headers).toMatchObject({ connection: 'close' });
  });

  it('responds with 100 to Expect: 100-continue if the key is valid', async () => {
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
  it('consists of pet_ and 256 random bits in base64url', async () => {
    const created = await Promise.all(Array.from({ length: 20 }, () => keys.create('format')));
    const values = created.map(({ key }) => key);
    for (const key of values) {
      expect(key).toMatch(/^pet_[A-Za-z0-9_-]{43}$/);
      expect(Buffer.from(key.slice(4), 'base64url')).toHaveLength(32);
    }
    expect(new Set(values).size).toBe(20);
  });

  it('is accepted immediately after its creation, even if it was rejected before', async () => {
    const key = `pet_${randomBytes(32).toString('base64url')}`;
    expect(summarize(await listWith(key))).toEqual(INVALID);
    await keys.ensureKey(key, 'late');
    expect((await listWith(key)).status).toBe(200);
  });

  it('is stored only as its SHA-256 hash', async () => {
    const { key, record } = await keys.create('hashed');
    expect((await listWith(key)).status).toBe(200);
    const row = await getRow(key);
    expect(row).toMatchObject({ name: 'hashed', expires_at: null, revoked_at: null });
    expect(JSON.stringify(row)).not.toContain(key.slice(4));
    expect(JSON.stringify(record)).not.toContain(key.slice(4));
  });

  it('expires to the millisecond', async () => {
    const expiresAt = new Date(Date.now() + 60 * MINUTE_MS);
    const { key } = await keys.create('expiring', expiresAt);
    expect((await listWith(key)).status).toBe(200);
    const clock = jest.spyOn(Date, 'now').mockReturnValue(expiresAt.getTime() - 1);
    expect((await listWith(key)).status).toBe(200);
    clock.mockReturnValue(expiresAt.getTime());
    expect(summarize(await listWith(key))).toEqual(INVALID);
  });

  it('is rejected if it expired before its first use', async () => {
    const { key } = await keys.create('expired', new Date(Date.now() - 1));
    expect(summarize(await listWith(key))).toEqual(INVALID);
  });
});

describe('API key revocation', () => {
  it.each([
    ['revoked', (id: number) => `UPDATE "api_keys" SET "revoked_at" = 1 WHERE "id" = ${id}`],
    ['deleted', (id: number) => `DELETE FROM "api_keys" WHERE "id" = ${id}`],
  ])('takes effect within 5 seconds for a key %s directly in the database', async (_name, sql) => {
    const { key, record } = await keys.create('to be revoked');
    expect((await listWith(key)).status).toBe(200);
    await app.dataSource.query(sql(record.id));
    // Repeated use must not keep it in the cache.
    const rejected = await waitFor(
      () => listWith(key),
      ({ status }) => status !== 200,
      REVOCATION_TIMEOUT_MS,
    );
    expect(summarize(rejected)).toEqual(INVALID);
  });

  it('takes effect within 5 seconds even if the clock is set back', async () => {
    const { key, record } = await keys.create('to be revoked');
    expect((await listWith(key)).status).toBe(200);
    const now = Date.now.bind(Date);
    jest.spyOn(Date, 'now').mockImplementation(() => now() - 60 * MINUTE_MS);
    expect(await keys.revoke(record.id)).toBe(true);
    const rejected = await waitFor(
      () => listWith(key),
      ({ status }) => status !== 200,
      REVOCATION_TIMEOUT_MS,
    );
    expect(summarize(rejected)).toEqual(INVALID);
  });

  it('applies to a key that was never used, and succeeds only once', async () => {
    const { key, record } = await keys.create('revoked');
    expect(await keys.revoke(record.id)).toBe(true);
    expect(await keys.revoke(record.id)).toBe(false);
    expect(summarize(await listWith(key))).toEqual(INVALID);
  });
});

async function getLastUse(key: string): Promise<number | null> {
  const { last_used_at: time } = await getRow(key);
  return time === null ? null : Number(time);
}

describe('the last-used timestamp of a key', () => {
  it('is persisted to the minute', async () => {
    const { key } = await keys.create('used');
    expect(await getLastUse(key)).toBeNull();
    const first = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
    const clock = jest.spyOn(Date, 'now');
    // In the second minute the key is cached.
    for (const minute of [first, first + MINUTE_MS]) {
      clock.mockReturnValue(minute + 34_567);
      expect((await listWith(key)).status).toBe(200);
      expect(
        await waitFor(
          () => getLastUse(key),
          (time) => time === minute,
          5_000,
        ),
      ).toBe(minute);
    }
  });

  it('is persisted for a request that arrives during a graceful shutdown', async () => {
    const database = await createDatabase();
    const other = await startApp({ database });
    const { key } = await other.app.get(ApiKeysService).create('late');
    const connection = await RawConnection.open(other.url);
    connection.send(rawRequest({ target: '/livez' }));
    await connection.nextResponse();
    const stopped = other.stop();
    await waitFor(
      () => other.server.listening,
      (listening) => !listening,
      5_000,
    );
    connection.send(rawRequest({ headers: [`Authorization: Bearer ${key}`] }));
    expect((await connection.nextResponse(2)).status).toBe(200);
    await stopped;
    const reopened = await startApp({ database });
    const records = await reopened.app.get(ApiKeysService).list();
    expect(records.find(({ name }) => name === 'late')!.lastUsedAt).not.toBeNull();
    await reopened.stop();
    await database.drop();
  });

  it('is not updated by a rejected request', async () => {
    const clock = jest.spyOn(Date, 'now');
    const now = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
    const { key: expired } = await keys.create('expired', new Date(now));
    const { key: used } = await keys.create('used');
    clock.mockReturnValue(now + 1);
    expect(summarize(await listWith(expired))).toEqual(INVALID);
    expect((await listWith(used)).status).toBe(200);
    // The later use is persisted, so the earlier one would be, too.
    expect(
      await waitFor(
        () => getLastUse(used),
        (time) => time !== null,
        5_000,
      ),
    ).toBe(now);
    expect(await getLastUse(expired)).toBeNull();
  });

  it('is persisted during graceful shutdown', async () => {
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

describe('BOOTSTRAP_API_KEY', () => {
  it.each([
    ['the minimum length', 'k'.repeat(32)],
    ['the maximum length', 'k'.repeat(256)],
    ['every kind of character', `aZ09-._~+/${'k'.repeat(30)}==`],
  ])('is accepted with %s', async (_name, key) => {
    await keys.ensureKey(key, 'bootstrap');
    expect((await listWith(key)).status).toBe(200);
    const row = await getRow(key);
    expect(row).toMatchObject({ name: 'bootstrap', expires_at: null, revoked_at: null });
    expect(JSON.stringify(row)).not.toContain(key);
  });

  it('is stored once even if it is ensured repeatedly and concurrently', async () => {
    const key = randomBytes(32).toString('hex');
    await Promise.all([keys.ensureKey(key, 'bootstrap'), keys.ensureKey(key, 'bootstrap')]);
    await keys.ensureKey(key, 'bootstrap');
    expect(await getRow(key)).toMatchObject({ name: 'bootstrap' });
    expect((await listWith(key)).status).toBe(200);
  });

  it('stays revoked after its revocation, with a warning in the log', async () => {
    const key = randomBytes(32).toString('hex');
    await keys.ensureKey(key, 'bootstrap');
    await keys.revoke(Number((await getRow(key))['id']));
    await keys.ensureKey(key, 'bootstrap');
    expect(summarize(await listWith(key))).toEqual(INVALID);
    expect(logger.text).toContain('BOOTSTRAP_API_KEY is revoked and will be rejected');
  });
});

describe('the log', () => {
  it('contains the id and name of a new key, but not the key', async () => {
    const { key, record } = await keys.create('logged');
    expect((await listWith(key)).status).toBe(200);
    expect(summarize(await listWith(`${key}A`))).toEqual(INVALID);
    expect(logger.text).toContain(`Created API key ${record.id} (logged)`);
    expect(logger.text).not.toContain(key);
    expect(logger.text).not.toContain(app.key);
  });
});
