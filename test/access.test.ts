import { randomBytes } from 'node:crypto';
import { Agent, METHODS, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { OpenAPIObject } from '@nestjs/swagger';
import { getRepositoryToken } from '@nestjs/typeorm';
import request, { type Response } from 'supertest';
import type { Repository } from 'typeorm';
import { ApiKey } from '../src/platform/auth/api-key.entity.js';
import { ApiKeysService } from '../src/platform/auth/api-keys.service.js';
import { AuthFailureLimiter } from '../src/platform/auth/auth-failure-limiter.js';
import { createDatabase, startApp, type TestApp } from './support/app.js';
import { matchers } from './support/matchers.js';
import { ServiceProcess } from './support/service-process.js';
import { waitFor } from './support/wait.js';

const { jest } = import.meta;
expect.extend(matchers);
afterEach(() => jest.restoreAllMocks());

const unknownKey = (): string => `pet_${randomBytes(32).toString('base64url')}`;

function basic(credentials: string): string {
  return `Basic ${Buffer.from(credentials).toString('base64')}`;
}

describe('Every route and every method', () => {
  /** Everything that answers without a key, as the router writes it. */
  const PUBLIC = new Set([
    '/docs',
    '/docs/',
    '/docs/LICENSE',
    '/docs/docs/swagger-ui-init.js',
    '/docs/index.html',
    '/docs/swagger-ui-init.js',
    '/livez',
    '/openapi.json',
    '/openapi.yaml',
    '/readyz',
    // What no route takes; for the path of a route it asks for the key.
    '/{*path}',
  ]);
  /** CONNECT asks for a tunnel, not for a path. */
  const methods = METHODS.filter((method) => method !== 'CONNECT');
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });

  let app: TestApp;
  let paths: string[];
  let keys: Record<'valid' | 'revoked' | 'expired', string>;
  beforeAll(async () => {
    app = await startApp({ config: { authFailuresPerMinute: 0 } });
    const service = app.app.get(ApiKeysService);
    const revoked = await service.create('revoked');
    await service.revoke(revoked.record.id);
    keys = {
      valid: app.key,
      revoked: revoked.key,
      expired: (await service.create('expired', new Date(Date.now() - 1))).key,
    };
    paths = await guardedPaths();
  });
  afterAll(async () => {
    agent.destroy();
    await app.stop();
  });

  /** A path for every route of the router and every path of the document that is not public. */
  async function guardedPaths(): Promise<string[]> {
    const { router } = app.app.getHttpAdapter().getInstance() as {
      router: { stack: { route?: { path: string } }[] };
    };
    const routed = router.stack.flatMap(({ route }) => (route === undefined ? [] : [route.path]));
    const document = (await app.http().get('/openapi.json')).body as OpenAPIObject;
    const documented = Object.keys(document.paths).map((path) => `/v1${path}`);
    // Nobody has to remember to take a route that is gone off the list.
    expect([...PUBLIC].filter((path) => !routed.includes(path))).toEqual([]);
    return [
      ...new Set(
        [...routed, ...documented]
          .filter((path) => !PUBLIC.has(path))
          .map((path) => path.replaceAll(/:\w+|\{\w+\}/g, '1')),
      ),
    ];
  }

  /** Sends a request with the header lines as they are given, and gives its status. */
  function send(
    method: string,
    path: string,
    lines: readonly (readonly [string, string])[],
    body = '',
  ): Promise<{ status: number; challenge: string | undefined }> {
    const sized = body === '' ? [] : ['Content-Length', String(Buffer.byteLength(body))];
    return new Promise((resolve, reject) => {
      httpRequest(
        app.url + path,
        { method, agent, headers: ['Host', 'petstore', ...sized, ...lines.flat()] },
        (response) => {
          response
            .resume()
            .once('error', reject)
            .once('end', () =>
              resolve({
                status: response.statusCode!,
                challenge: response.headers['www-authenticate'],
              }),
            );
        },
      )
        .once('error', reject)
        .end(body);
    });
  }

  /** Walks all paths and methods, and tells which of them did not answer 401. */
  async function strays(
    lines: readonly (readonly [string, string])[],
    { query = '', body = '' } = {},
  ): Promise<string[]> {
    const requests = paths.flatMap((path) => methods.map((method) => ({ method, path })));
    const answers = await Promise.all(
      requests.map(async ({ method, path }) => {
        const { status, challenge } = await send(method, path + query, lines, body);
        return { name: `${method} ${path}`, status, challenge };
      }),
    );
    expect(answers).toHaveLength(paths.length * methods.length);
    return answers
      .filter(({ status, challenge }) => status !== 401 || !challenge?.startsWith('Bearer '))
      .map(({ name, status }) => `${name}: ${status}`);
  }

  it('are looked at: more than one path, and more than twenty methods', () => {
    expect(paths).toEqual(
      expect.arrayContaining(['/v1/categories', '/v1/pets/1', '/v1/store/orders']),
    );
    expect(methods.length).toBeGreaterThan(20);
  });

  it('let a valid key in, by which the walk would see it', async () => {
    const found = await strays([['Authorization', `Bearer ${keys.valid}`]]);
    expect(found).toHaveLength(paths.length * methods.length);
    expect(found).toContain('GET /v1/categories: 200');
  });

  it.each<[string, () => (readonly [string, string])[]]>([
    ['no key', () => []],
    ['an empty header', () => [['Authorization', '']]],
    ['an unknown key', () => [['Authorization', `Bearer ${unknownKey()}`]]],
    ['a revoked key', () => [['Authorization', `Bearer ${keys.revoked}`]]],
    ['an expired key', () => [['Authorization', `Bearer ${keys.expired}`]]],
    ['a truncated key', () => [['Authorization', `Bearer ${keys.valid.slice(0, -1)}`]]],
    ['a key in upper case', () => [['Authorization', `Bearer ${keys.valid.toUpperCase()}`]]],
    ['a key in lower case', () => [['Authorization', `Bearer ${keys.valid.toLowerCase()}`]]],
    ['a longer key', () => [['Authorization', `Bearer ${keys.valid}A`]]],
    ['the key without a scheme', () => [['Authorization', keys.valid]]],
    ['the key after Token', () => [['Authorization', `Token ${keys.valid}`]]],
    ['the key as the user of Basic', () => [['Authorization', basic(`${keys.valid}:`)]]],
    ['the key as the password of Basic', () => [['Authorization', basic(`x:${keys.valid}`)]]],
    [
      'the key in a second Authorization header',
      () => [
        ['Authorization', `Bearer ${unknownKey()}`],
        ['Authorization', `Bearer ${keys.valid}`],
      ],
    ],
    [
      'two keys in one header',
      () => [['Authorization', `Bearer ${unknownKey()}, Bearer ${keys.valid}`]],
    ],
    [
      'the key in other headers',
      () =>
        [
          'X-API-Key',
          'Api-Key',
          'X-Auth-Token',
          'X-Access-Token',
          'X-Authorization',
          'X-Forwarded-Authorization',
          'X-Original-Authorization',
          'Proxy-Authorization',
          'Authentication',
          'Token',
          'Referer',
        ].flatMap((name): [string, string][] => [
          [name, keys.valid],
          [name, `Bearer ${keys.valid}`],
        ]),
    ],
    [
      'the key in cookies',
      () => [['Cookie', `api_key=${keys.valid}; Authorization=Bearer ${keys.valid}`]],
    ],
    [
      'another method, path or address in a header',
      () => [
        ['X-HTTP-Method-Override', 'OPTIONS'],
        ['X-Original-URL', '/livez'],
        ['X-Rewrite-URL', '/livez'],
        ['X-Forwarded-For', '127.0.0.1'],
        ['X-Forwarded-Prefix', '/docs'],
      ],
    ],
  ])('answer 401 with %s', async (_name, lines) => {
    expect(await strays(lines())).toEqual([]);
  });

  it('answer 401 with the key in the query', async () => {
    const value = encodeURIComponent(`Bearer ${keys.valid}`);
    const names = ['access_token', 'api_key', 'apikey', 'key', 'token'];
    const query = names.map((name) => `${name}=${keys.valid}`).join('&');
    expect(await strays([], { query: `?${query}&authorization=${value}` })).toEqual([]);
  });

  it('answer 401 whatever the body, which nobody reads, and to a key in it', async () => {
    for (const [type, body] of [
      ['application/json', JSON.stringify({ name: 'dog', access_token: keys.valid })],
      ['application/json', '{"name":'],
      ['application/x-www-form-urlencoded', `name=dog&access_token=${keys.valid}`],
    ] as const) {
      expect(await strays([['Content-Type', type]], { body })).toEqual([]);
    }
    expect((await list(app, keys.valid)).body).not.toContainEqual(
      expect.objectContaining({ name: 'dog' }),
    );
  });
});

/** Lists the categories with a key, as from an address. */
async function list(app: TestApp, key: string, address?: string): Promise<Response> {
  const get = app.http().get('/v1/categories').auth(key, { type: 'bearer' });
  return address === undefined ? get : get.set('X-Forwarded-For', address);
}

describe('Failed authentications', () => {
  const LIMIT = 5;
  let app: TestApp;
  let service: ApiKeysService;
  let table: Repository<ApiKey>;
  beforeAll(async () => {
    app = await startApp({
      config: { authFailuresPerMinute: LIMIT, trustProxy: 'loopback' },
    });
    service = app.app.get(ApiKeysService);
    table = app.app.get<Repository<ApiKey>>(getRepositoryToken(ApiKey));
  });
  // All addresses together have a limit too, which each test gets anew.
  beforeEach(() => Object.assign(app.app.get(AuthFailureLimiter), { allEmptyAt: 0 }));
  afterAll(() => app.stop());

  const statusOf = async (key: string, address: string): Promise<number> =>
    (await list(app, key, address)).status;

  /** Fails as often as an address may. */
  async function exhaust(address: string): Promise<void> {
    for (let n = 0; n < LIMIT; n++) expect(await statusOf(unknownKey(), address)).toBe(401);
    expect(await statusOf(unknownKey(), address)).toBe(429);
  }

  /** Sends an unknown key from an address of its own. */
  const attempt = async (method: 'get' | 'post' | 'delete', path: string): Promise<number> => {
    const test = app.http()[method](path).auth(unknownKey(), { type: 'bearer' });
    return (await test.set('X-Forwarded-For', '192.0.2.2')).status;
  };
  /** Sends no key at all. */
  const listWithout = async (address: string): Promise<Response> =>
    app.http().get('/v1/categories').set('X-Forwarded-For', address);

  it('are answered with 429 and Retry-After past the limit', async () => {
    for (let n = 0; n < LIMIT; n++)
      expect(await list(app, unknownKey(), '192.0.2.1')).toBeError('UNAUTHORIZED');
    const refused = await list(app, unknownKey(), '192.0.2.1');
    expect(refused).toBeError('TOO_MANY_REQUESTS');
    // One failure runs out in a fifth of a minute.
    expect(Number(refused.headers['retry-after'])).toBeGreaterThanOrEqual(1);
    expect(Number(refused.headers['retry-after'])).toBeLessThanOrEqual(12);
    expect(refused.headers).not.toHaveProperty('www-authenticate');
  });

  it('are counted at all operations, and where the method is not served', async () => {
    for (const path of ['/v1/categories', '/v1/pets/1', '/v1/store/orders'])
      expect(await attempt('get', path)).toBe(401);
    expect(await attempt('post', '/v1/categories')).toBe(401);
    expect(await attempt('delete', '/v1/categories')).toBe(401);
    expect(await attempt('delete', '/v1/categories')).toBe(429);
    expect(await attempt('get', '/v1/pets/1')).toBe(429);
    expect(await attempt('get', '/livez')).toBe(200);
  });

  it('at the same moment are no more than others', async () => {
    const statuses = await Promise.all(
      Array.from({ length: 40 }, () => statusOf(unknownKey(), '192.0.2.3')),
    );
    expect(statuses.filter((status) => status === 401)).toHaveLength(LIMIT);
    expect(statuses.filter((status) => status === 429)).toHaveLength(40 - LIMIT);
  });

  it('never slow a valid key from the same address', async () => {
    const address = '192.0.2.4';
    const used = (await service.create('used')).key;
    const unused = (await service.create('unused')).key;
    expect(await statusOf(used, address)).toBe(200);
    await exhaust(address);
    // Remembered, not yet used, and made while the address is over its limit.
    expect(await statusOf(used, address)).toBe(200);
    expect(await statusOf(unused, address)).toBe(200);
    expect(await statusOf(unknownKey(), address)).toBe(429);
    expect(await statusOf((await service.create('new')).key, address)).toBe(200);
    const later = Date.now() + 3_000;
    jest.spyOn(Date, 'now').mockImplementation(() => later);
    expect(await statusOf(used, address)).toBe(200);
  });

  it('let a valid key pass in the middle of a flood', async () => {
    const address = '192.0.2.5';
    await exhaust(address);
    const calm = new AbortController();
    const flood = Array.from({ length: 20 }, async () => {
      const statuses = [];
      while (!calm.signal.aborted) statuses.push(await statusOf(unknownKey(), address));
      return statuses;
    });
    for (let n = 0; n < 10; n++) {
      const { key } = await service.create(`flood ${n}`);
      expect(await statusOf(key, address)).toBe(200);
    }
    calm.abort();
    const statuses = (await Promise.all(flood)).flat();
    expect(statuses.length).toBeGreaterThanOrEqual(20);
    expect(new Set(statuses)).toEqual(new Set([429]));
  });

  it('cost no query each past the limit', async () => {
    const address = '192.0.2.6';
    await exhaust(address);
    const looks = jest.spyOn(table, 'findOneBy');
    const readings = jest.spyOn(table, 'find');
    const startedAt = performance.now();
    for (let round = 0; round < 5; round++) {
      const statuses = await Promise.all(
        Array.from({ length: 60 }, () => statusOf(unknownKey(), address)),
      );
      expect(new Set(statuses)).toEqual(new Set([429]));
    }
    expect(looks).not.toHaveBeenCalled();
    expect(readings).toHaveBeenCalled();
    // At most one in the pause between two.
    expect(readings.mock.calls.length).toBeLessThanOrEqual(
      2 + (performance.now() - startedAt) / 100,
    );
  });

  it('of a key that was revoked cost one look-up past the limit', async () => {
    const address = '192.0.2.7';
    const { key, record } = await service.create('to be revoked');
    await exhaust(address);
    expect(await statusOf(key, address)).toBe(200);
    await service.revoke(record.id);
    const later = Date.now() + 3_000;
    jest.spyOn(Date, 'now').mockImplementation(() => later);
    const looks = jest.spyOn(table, 'findOneBy');
    for (let n = 0; n < 10; n++) expect(await statusOf(key, address)).toBe(429);
    expect(looks).toHaveBeenCalledTimes(1);
  });

  it('are not those without a key, which asks for nothing to be looked up', async () => {
    const address = '192.0.2.8';
    for (let n = 0; n < 3 * LIMIT; n++)
      expect(await listWithout(address)).toBeError('UNAUTHORIZED');
    await exhaust(address);
    expect(await listWithout(address)).toBeError('UNAUTHORIZED');
  });

  it('are not those that the database could not tell', async () => {
    const away = Object.assign(new Error('gone'), { code: 'ECONNREFUSED' });
    const looks = jest.spyOn(table, 'findOneBy').mockRejectedValue(away);
    for (let n = 0; n < 2 * LIMIT; n++)
      expect(await list(app, unknownKey(), '192.0.2.9')).toBeError('SERVICE_UNAVAILABLE');
    looks.mockRestore();
    await exhaust('192.0.2.9');
  });

  it('are counted by client: an IPv4 address however written, and an IPv6 /64', async () => {
    await exhaust('192.0.2.10');
    expect(await statusOf(unknownKey(), '::ffff:192.0.2.10')).toBe(429);
    expect(await statusOf(unknownKey(), '192.0.2.11')).toBe(401);
    await exhaust('2001:db8:1:2::1');
    for (const same of ['2001:db8:1:2:ffff::1', '2001:0DB8:1:2:0:0:0:9', '2001:db8:1:2:a:b:c:d'])
      expect([same, await statusOf(unknownKey(), same)]).toEqual([same, 429]);
    expect(await statusOf(unknownKey(), '2001:db8:1:3::1')).toBe(401);
  });

  it('are counted as one client where a proxy writes what is no address', async () => {
    for (let n = 0; n < LIMIT; n++) expect(await statusOf(unknownKey(), `client-${n}`)).toBe(401);
    expect(await statusOf(unknownKey(), 'client-x')).toBe(429);
  });

  it('run out, evenly', async () => {
    const other = await startApp({ config: { authFailuresPerMinute: 60 } });
    try {
      // Without TRUST_PROXY the header counts for nothing.
      const statuses = [];
      for (let n = 0; n < 62; n++)
        statuses.push((await list(other, unknownKey(), `192.0.2.${n}`)).status);
      expect(statuses.slice(0, 60)).toEqual(Array.from({ length: 60 }, () => 401));
      let refused = await list(other, unknownKey());
      while (refused.status === 401) refused = await list(other, unknownKey());
      expect(refused.headers['retry-after']).toBe('1');
      await delay(1_000);
      expect((await list(other, unknownKey())).status).toBe(401);
    } finally {
      await other.stop();
    }
  });

  it('are not limited where the limit is 0', async () => {
    const failures = new AuthFailureLimiter({ authFailuresPerMinute: 0 });
    for (let n = 0; n < 1_000; n++) expect(failures.consume('192.0.2.1')).toBe(0);
  });

  it('of many addresses have a limit together, and take bounded memory', () => {
    const together = new AuthFailureLimiter({ authFailuresPerMinute: 1 });
    const counted = Array.from({ length: 1_000 }, (_, n) =>
      together.consume(`2001:db8:0:${n.toString(16)}::1`),
    );
    expect(counted.filter((wait) => wait === 0)).toHaveLength(20);

    const kept = new AuthFailureLimiter({ authFailuresPerMinute: 1_000_000 });
    for (let n = 0; n < 30_000; n++) kept.consume(`10.1.${n >> 8}.${n & 255}`);
    expect((kept as unknown as { emptyAt: Map<string, number> }).emptyAt.size).toBe(10_000);
  });
});

describe('A limit for each key', () => {
  it('is off unless configured', async () => {
    const app = await startApp();
    try {
      for (let n = 0; n < 50; n++) expect((await list(app, app.key)).status).toBe(200);
      const { headers } = await list(app, app.key);
      expect(Object.keys(headers).filter((name) => /rate-?limit/i.test(name))).toEqual([]);
    } finally {
      await app.stop();
    }
  });

  // In a process of its own: Jest on Node 20 cannot load a CommonJS package that requires Nest's modules.
  it('counts the requests of a key at all operations, and of no other', async () => {
    const database = await createDatabase();
    const [key, other] = [unknownKey(), unknownKey()];
    const service = await ServiceProcess.start(tmpdir(), {
      DATABASE_URL: database.url,
      BOOTSTRAP_API_KEY: key,
      KEY_REQUESTS_PER_MINUTE: '4',
    });
    try {
      const url = await service.waitUntilListening();
      const get = (path: string, bearer = key) =>
        request(url).get(path).set('Authorization', `Bearer ${bearer}`);
      await waitFor(
        () => get('/v1/pets/1', other),
        ({ status }) => status === 401,
        10_000,
      );

      const first = await get('/v1/categories');
      expect(first.headers).toMatchObject({
        'x-ratelimit-limit': '4',
        'x-ratelimit-remaining': '3',
      });
      for (const [path, remaining] of [
        ['/v1/pets/1', '2'],
        ['/v1/store/orders', '1'],
      ] as const)
        expect((await get(path)).headers).toMatchObject({ 'x-ratelimit-remaining': remaining });
      const otherSpelling = request(url).get('/v1/categories');
      expect((await otherSpelling.set('Authorization', `bearer   ${key}`)).status).toBe(200);

      const refused = await get('/v1/categories');
      expect(refused).toBeError('TOO_MANY_REQUESTS', /may send 4 requests a minute/);
      expect(Number(refused.headers['retry-after'])).toBeGreaterThanOrEqual(1);
      expect(Number(refused.headers['retry-after'])).toBeLessThanOrEqual(60);
      // Nothing of a body is read for it.
      const post = request(url).post('/v1/categories').auth(key, { type: 'bearer' });
      expect(await post.type('json').send('{"name":')).toBeError('TOO_MANY_REQUESTS');

      expect((await get('/v1/categories', other)).status).toBe(401);
      for (let n = 0; n < 6; n++) expect((await get('/livez')).status).toBe(200);
      expect(await get('/v1/categories')).toBeError('TOO_MANY_REQUESTS');
    } finally {
      await service.stop();
      await database.drop();
    }
  }, 60_000);
});
