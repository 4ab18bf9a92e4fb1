import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
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

/** Lists the categories with a key, optionally from a given client address. */
async function list(app: TestApp, key: string, address?: string): Promise<Response> {
  const get = app.http().get('/v1/categories').auth(key, { type: 'bearer' });
  return address === undefined ? get : get.set('X-Forwarded-For', address);
}

describe('rate limit on failed authentications', () => {
  const FAILURES_PER_MINUTE = 5;
  let app: TestApp;
  let service: ApiKeysService;
  let table: Repository<ApiKey>;
  beforeAll(async () => {
    app = await startApp({
      config: { authFailuresPerMinute: FAILURES_PER_MINUTE, trustProxy: 'loopback' },
    });
    service = app.app.get(ApiKeysService);
    table = app.app.get<Repository<ApiKey>>(getRepositoryToken(ApiKey));
  });
  // Resets the limit that all addresses share.
  beforeEach(() => Object.assign(app.app.get(AuthFailureLimiter), { globalTat: 0 }));
  afterAll(() => app.stop());

  const getStatus = async (key: string, address: string): Promise<number> =>
    (await list(app, key, address)).status;

  /** Sends as many unknown keys as the address is allowed to, and one more. */
  async function exhaust(address: string): Promise<void> {
    for (let n = 0; n < FAILURES_PER_MINUTE; n++)
      expect(await getStatus(unknownKey(), address)).toBe(401);
    expect(await getStatus(unknownKey(), address)).toBe(429);
  }

  const sendUnknownKey = async (
    method: 'get' | 'post' | 'delete',
    path: string,
  ): Promise<number> => {
    const test = app.http()[method](path).auth(unknownKey(), { type: 'bearer' });
    return (await test.set('X-Forwarded-For', '192.0.2.2')).status;
  };

  const listWithoutKey = async (address: string): Promise<Response> =>
    app.http().get('/v1/categories').set('X-Forwarded-For', address);

  it('responds with 429 and Retry-After once the limit is exceeded', async () => {
    for (let n = 0; n < FAILURES_PER_MINUTE; n++)
      expect(await list(app, unknownKey(), '192.0.2.1')).toBeError('UNAUTHORIZED');
    const limited = await list(app, unknownKey(), '192.0.2.1');
    expect(limited).toBeError('TOO_MANY_REQUESTS');
    // One failure expires every 12 seconds.
    expect(Number(limited.headers['retry-after'])).toBeGreaterThanOrEqual(1);
    expect(Number(limited.headers['retry-after'])).toBeLessThanOrEqual(12);
    expect(limited.headers).not.toHaveProperty('www-authenticate');
  });

  it('counts failures on all operations, including methods that are not allowed', async () => {
    for (const path of ['/v1/categories', '/v1/pets/1', '/v1/store/orders'])
      expect(await sendUnknownKey('get', path)).toBe(401);
    expect(await sendUnknownKey('post', '/v1/categories')).toBe(401);
    expect(await sendUnknownKey('delete', '/v1/categories')).toBe(401);
    expect(await sendUnknownKey('delete', '/v1/categories')).toBe(429);
    expect(await sendUnknownKey('get', '/v1/pets/1')).toBe(429);
    expect(await sendUnknownKey('get', '/livez')).toBe(200);
  });

  it('counts concurrent failures', async () => {
    const statuses = await Promise.all(
      Array.from({ length: 40 }, () => getStatus(unknownKey(), '192.0.2.3')),
    );
    expect(statuses.filter((status) => status === 401)).toHaveLength(FAILURES_PER_MINUTE);
    expect(statuses.filter((status) => status === 429)).toHaveLength(40 - FAILURES_PER_MINUTE);
  });

  it('accepts valid keys from an address that exceeded the limit', async () => {
    const address = '192.0.2.4';
    const used = (await service.create('used')).key;
    const unused = (await service.create('unused')).key;
    expect(await getStatus(used, address)).toBe(200);
    await exhaust(address);
    expect(await getStatus(used, address)).toBe(200);
    expect(await getStatus(unused, address)).toBe(200);
    expect(await getStatus(unknownKey(), address)).toBe(429);
    expect(await getStatus((await service.create('new')).key, address)).toBe(200);
    // Late enough for the cached key to be checked again.
    const later = Date.now() + 3_000;
    jest.spyOn(Date, 'now').mockImplementation(() => later);
    expect(await getStatus(used, address)).toBe(200);
  });

  it('accepts new keys during a flood of invalid ones', async () => {
    const address = '192.0.2.5';
    await exhaust(address);
    const flooding = new AbortController();
    const flood = Array.from({ length: 20 }, async () => {
      const statuses = [];
      while (!flooding.signal.aborted) statuses.push(await getStatus(unknownKey(), address));
      return statuses;
    });
    for (let n = 0; n < 10; n++) {
      const { key } = await service.create(`flood ${n}`);
      expect(await getStatus(key, address)).toBe(200);
    }
    flooding.abort();
    const statuses = (await Promise.all(flood)).flat();
    expect(statuses.length).toBeGreaterThanOrEqual(20);
    expect(new Set(statuses)).toEqual(new Set([429]));
  });

  it('does not query the database for each invalid key once the limit is exceeded', async () => {
    const address = '192.0.2.6';
    await exhaust(address);
    const lookups = jest.spyOn(table, 'findOneBy');
    const refreshes = jest.spyOn(table, 'find');
    const startedAt = performance.now();
    for (let round = 0; round < 5; round++) {
      const statuses = await Promise.all(
        Array.from({ length: 60 }, () => getStatus(unknownKey(), address)),
      );
      expect(new Set(statuses)).toEqual(new Set([429]));
    }
    expect(lookups).not.toHaveBeenCalled();
    expect(refreshes).toHaveBeenCalled();
    // At most one per refresh interval.
    expect(refreshes.mock.calls.length).toBeLessThanOrEqual(
      2 + (performance.now() - startedAt) / 100,
    );
  });

  it('queries the database once after the revocation of a cached key', async () => {
    const address = '192.0.2.7';
    const { key, record } = await service.create('to be revoked');
    await exhaust(address);
    expect(await getStatus(key, address)).toBe(200);
    await service.revoke(record.id);
    const later = Date.now() + 3_000;
    jest.spyOn(Date, 'now').mockImplementation(() => later);
    const lookups = jest.spyOn(table, 'findOneBy');
    for (let n = 0; n < 10; n++) expect(await getStatus(key, address)).toBe(429);
    expect(lookups).toHaveBeenCalledTimes(1);
  });

  it('does not count requests without a key', async () => {
    const address = '192.0.2.8';
    for (let n = 0; n < 3 * FAILURES_PER_MINUTE; n++)
      expect(await listWithoutKey(address)).toBeError('UNAUTHORIZED');
    await exhaust(address);
    expect(await listWithoutKey(address)).toBeError('UNAUTHORIZED');
  });

  it('does not count requests that fail because the database is unavailable', async () => {
    const connectionError = Object.assign(new Error('gone'), { code: 'ECONNREFUSED' });
    const lookups = jest.spyOn(table, 'findOneBy').mockRejectedValue(connectionError);
    for (let n = 0; n < 2 * FAILURES_PER_MINUTE; n++)
      expect(await list(app, unknownKey(), '192.0.2.9')).toBeError('SERVICE_UNAVAILABLE');
    lookups.mockRestore();
    await exhaust('192.0.2.9');
  });

  it('treats all spellings of an IPv4 address, and all addresses of an IPv6 /64, as one client', async () => {
    await exhaust('192.0.2.10');
    expect(await getStatus(unknownKey(), '::ffff:192.0.2.10')).toBe(429);
    expect(await getStatus(unknownKey(), '192.0.2.11')).toBe(401);
    await exhaust('2001:db8:1:2::1');
    for (const same of ['2001:db8:1:2:ffff::1', '2001:0DB8:1:2:0:0:0:9', '2001:db8:1:2:a:b:c:d'])
      expect([same, await getStatus(unknownKey(), same)]).toEqual([same, 429]);
    expect(await getStatus(unknownKey(), '2001:db8:1:3::1')).toBe(401);
  });

  it('treats all invalid addresses in X-Forwarded-For as one client', async () => {
    for (let n = 0; n < FAILURES_PER_MINUTE; n++)
      expect(await getStatus(unknownKey(), `client-${n}`)).toBe(401);
    expect(await getStatus(unknownKey(), 'client-x')).toBe(429);
  });

  it('expires failures evenly over the minute, and ignores X-Forwarded-For without TRUST_PROXY', async () => {
    const other = await startApp({ config: { authFailuresPerMinute: 60 } });
    try {
      const statuses = [];
      for (let n = 0; n < 62; n++)
        statuses.push((await list(other, unknownKey(), `192.0.2.${n}`)).status);
      expect(statuses.slice(0, 60)).toEqual(Array.from({ length: 60 }, () => 401));
      let limited = await list(other, unknownKey());
      while (limited.status === 401) limited = await list(other, unknownKey());
      expect(limited.headers['retry-after']).toBe('1');
      await delay(1_000);
      expect((await list(other, unknownKey())).status).toBe(401);
    } finally {
      await other.stop();
    }
  });

  it('is disabled if AUTH_FAILURES_PER_MINUTE is 0', async () => {
    const limiter = new AuthFailureLimiter({ authFailuresPerMinute: 0 });
    for (let n = 0; n < 1_000; n++) expect(limiter.consume('192.0.2.1')).toBe(0);
  });

  it('limits the failures of all addresses together', () => {
    const limiter = new AuthFailureLimiter({ authFailuresPerMinute: 1 });
    const waits = Array.from({ length: 1_000 }, (_, n) =>
      limiter.consume(`2001:db8:0:${n.toString(16)}::1`),
    );
    expect(waits.filter((wait) => wait === 0)).toHaveLength(20);
  });

  it('tracks at most 10,000 clients', () => {
    const limiter = new AuthFailureLimiter({ authFailuresPerMinute: 1_000_000 });
    for (let n = 0; n < 30_000; n++) limiter.consume(`10.1.${n >> 8}.${n & 255}`);
    const { theoreticalArrivalTime } = limiter as unknown as {
      theoreticalArrivalTime: Map<string, number>;
    };
    expect(theoreticalArrivalTime.size).toBe(10_000);
  });
});

describe('rate limit per API key', () => {
  it('is disabled by default', async () => {
    const app = await startApp();
    try {
      for (let n = 0; n < 50; n++) expect((await list(app, app.key)).status).toBe(200);
      const { headers } = await list(app, app.key);
      expect(Object.keys(headers).filter((name) => /rate-?limit/i.test(name))).toEqual([]);
    } finally {
      await app.stop();
    }
  });

  // Runs in a separate process because Jest on Node 20 cannot load a CommonJS package that requires Nest's modules.
  it('counts the requests of each key across all operations', async () => {
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

      const limited = await get('/v1/categories');
      expect(limited).toBeError(
        'TOO_MANY_REQUESTS',
        /Rate limit exceeded \(4 requests per minute\)/,
      );
      expect(Number(limited.headers['retry-after'])).toBeGreaterThanOrEqual(1);
      expect(Number(limited.headers['retry-after'])).toBeLessThanOrEqual(60);
      // The body is not read.
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
