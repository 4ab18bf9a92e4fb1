import { getRepositoryToken } from '@nestjs/typeorm';
import type { Repository } from 'typeorm';
import { FEATURES } from '../../../src/features.js';
import { ApiKey } from '../../../src/platform/auth/keys/api-key.entity.js';
import { ApiKeysService } from '../../../src/platform/auth/keys/api-keys.service.js';
import { DatabaseUnavailableError } from '../../../src/platform/database/connection/driver-errors.js';
import { PRODUCT } from '../../../src/product.js';
import { MetricsRegistry } from '../../../src/platform/metrics/prometheus-registry.js';
import { startApp, type TestApp, useApp } from '../support/app.js';
import { advanceTime, setSystemTime } from '../support/clock.js';
import { unknownKey } from '../support/fixtures.js';
import {
  CategoriesClient,
  type HttpResponse,
  jsonHeaders,
  sendRequest,
} from '../support/http-client.js';
import { MemoryLogger } from '../support/memory-logger.js';
import { StubsModule } from '../support/stubs.module.js';

const { jest } = import.meta;
afterEach(() => jest.restoreAllMocks());

/** Lists the categories with a key, as if from a client address. */
const list = (app: TestApp, key: string, address = ''): Promise<HttpResponse> =>
  new CategoriesClient(app.url, key).list({ 'x-forwarded-for': address });

const FAILURES = 'service_authentication_failures_total';

async function readCounter({ app }: TestApp, series: string): Promise<number> {
  const text = await app.get(MetricsRegistry).metrics();
  return parseInt(text.split(`\n${series} `)[1]!, 10);
}

/** Returns how many requests have exceeded the limits of a client, of all clients, and of a key. */
const readLimited = (app: TestApp): Promise<number[]> =>
  Promise.all(
    ['auth-failures', 'auth-failures-global', 'api-key'].map((policy) =>
      readCounter(app, `service_rate_limited_requests_total{policy="${policy}"}`),
    ),
  );

describe('rate limit on failed authentications', () => {
  const FAILURES_PER_MINUTE = 5;
  const logger = new MemoryLogger();
  const app = useApp({
    logger,
    features: [StubsModule, ...FEATURES],
    config: { authFailuresPerMinute: FAILURES_PER_MINUTE, metricsPort: 0, trustProxy: 'loopback' },
  });
  // Each test has a new window, because together they exceed the limit that all addresses share.
  let now = Date.now();
  beforeEach(() => {
    now += 60_000;
    advanceTime(now);
  });

  const getStatus = async (key: string, address: string): Promise<number> =>
    (await list(app, key, address)).status;

  /** Sends as many unknown keys as the address is allowed to, and one more. */
  async function exhaust(address: string): Promise<void> {
    for (let n = 0; n < FAILURES_PER_MINUTE; n++)
      expect(await getStatus(unknownKey(), address)).toBe(401);
    expect(await getStatus(unknownKey(), address)).toBe(429);
  }

  it('returns 429 and Retry-After once the limit is exceeded', async () => {
    for (let n = 0; n < FAILURES_PER_MINUTE; n++)
      expect(await list(app, unknownKey(), '192.0.2.1')).toBeError('UNAUTHORIZED');
    // Retry-After is rounded up to seconds.
    advanceTime(now + 1);
    // The system clock may be set meanwhile.
    setSystemTime(now - 86_400_000);
    const limited = await list(app, unknownKey(), '192.0.2.1');
    expect(limited).toBeError('TOO_MANY_REQUESTS');
    expect(limited.headers).toMatchObject({
      'retry-after': '60',
      'ratelimit-policy': '"auth-failures";q=5;w=60',
      ratelimit: '"auth-failures";r=0;t=60',
    });
    expect(limited.headers).not.toHaveProperty('www-authenticate');
    advanceTime(now + 60_000);
    expect(await list(app, unknownKey(), '192.0.2.1')).toBeError('UNAUTHORIZED');
  });

  it('logs invalid keys once a minute for each client, at most 20 clients, and counts them all', async () => {
    const findClients = (): string[] =>
      logger.entries.flatMap(({ level, values: [message] }) => {
        const [, client] = /^Rejected an invalid API key from (\S+),/.exec(String(message)) ?? [];
        return level === 'warn' && client !== undefined ? [client] : [];
      });
    // The clients of other tests were logged more than a minute ago.
    now += 60_000;
    advanceTime(now);
    const failures = await readCounter(app, FAILURES);
    logger.entries.length = 0;
    for (const last of [1, 2]) expect(await getStatus(unknownKey(), `2001:db8::${last}`)).toBe(401);
    await exhaust('192.0.2.9');
    expect(findClients()).toEqual(['2001:db8:0:0', '192.0.2.9']);
    expect(await readCounter(app, FAILURES)).toBe(failures + 2 + FAILURES_PER_MINUTE);
    for (let host = 1; host < 30; host++) await getStatus(unknownKey(), `198.51.100.${host}`);
    expect(findClients()).toHaveLength(20);
    advanceTime(now + 60_000);
    await getStatus(unknownKey(), '192.0.2.9');
    expect(findClients()).toHaveLength(21);
    expect(logger.text).not.toContain(`${PRODUCT.keyPrefixes[0]}_`);
  });

  it('counts failures of all operations, but not requests without an operation', async () => {
    for (const [method, path, status] of [
      ['GET', '/v1/categories', 401],
      ['GET', '/v1/stubs/deprecated/1', 401],
      ['GET', '/v1/stubs/experimental', 401],
      ['POST', '/v1/categories', 401],
      ['DELETE', '/v1/categories', 405],
      ['GET', '/v1/unknown', 404],
      ['GET', '/v1/categories', 401],
      ['GET', '/v1/stubs/deprecated/1', 429],
      ['GET', '/livez', 200],
    ] as const) {
      const headers = { authorization: `Bearer ${unknownKey()}`, 'x-forwarded-for': '192.0.2.2' };
      const response = await sendRequest(app.url + path, { method, headers });
      expect([method, path, response.status]).toEqual([method, path, status]);
    }
  });

  it('accepts keys that were valid before from an address that exceeded the limit', async () => {
    const address = '192.0.2.4';
    const service = app.app.get(ApiKeysService);
    const { key: used, record } = await service.create('used');
    const unused = (await service.create('unused')).key;
    expect(await getStatus(used, address)).toBe(200);
    await exhaust(address);
    expect(await getStatus(used, address)).toBe(200);
    expect(await getStatus(unknownKey(), address)).toBe(429);
    // Late enough for the cached key to be checked again.
    advanceTime(now + 3_000);
    expect(await getStatus(used, address)).toBe(200);
    // This instance has not seen the key yet, so that it cannot tell it from an invalid one without a query.
    expect(await getStatus(unused, address)).toBe(429);
    expect(await getStatus(unused, '192.0.2.44')).toBe(200);
    expect(await getStatus(unused, address)).toBe(200);
    await service.revoke(record.id);
    advanceTime(now + 6_000);
    // A revoked key is as invalid as any other (revocation).
    expect([await getStatus(used, address), await getStatus(used, address)]).toEqual([401, 429]);
  });

  it('ignores requests without a key', async () => {
    const headers = { 'x-forwarded-for': '192.0.2.8' };
    const listWithoutKey = async (): Promise<number> =>
      (await sendRequest(`${app.url}/v1/categories`, { headers })).status;
    for (let n = 0; n < 3 * FAILURES_PER_MINUTE; n++) expect(await listWithoutKey()).toBe(401);
    await exhaust('192.0.2.8');
    expect(await listWithoutKey()).toBe(401);
  });

  it('ignores requests that fail because the database is unavailable', async () => {
    const table = app.app.get<Repository<ApiKey>>(getRepositoryToken(ApiKey));
    const outage = new DatabaseUnavailableError();
    const lookups = jest.spyOn(table, 'findOneBy').mockRejectedValue(outage);
    for (let n = 0; n < 3 * FAILURES_PER_MINUTE; n++)
      expect(await getStatus(unknownKey(), '192.0.2.9')).toBe(503);
    lookups.mockRestore();
    await exhaust('192.0.2.9');
  });

  const IPV4 = ['::ffff:192.0.2.10', '192.0.2.10:50001', '127.0.0.1:1, 192.0.2.10:1'];
  const IPV6 = ['2001:0DB8:1:2:0:0:0:9', '2001:db8:1:2:a:b:c:d%eth0', '[2001:db8:1:2::2]:4711'];

  it.each([
    ['192.0.2.10', IPV4, '192.0.2.11:50001'],
    ['2001:db8:1:2::1', IPV6, '[2001:db8:1:3::1]:4711'],
    ['client', ['client-1'], '192.0.2.11'],
  ])(
    'counts as one client the spellings of an IPv4 address, an IPv6 /64, or invalid ones: %s',
    async (address, same, other) => {
      await exhaust(address);
      for (const each of same)
        expect([each, await getStatus(unknownKey(), each)]).toEqual([each, 429]);
      expect(await getStatus(unknownKey(), other)).toBe(401);
    },
  );

  it('ignores X-Forwarded-For without TRUST_PROXY', async () => {
    const other = await startApp({ config: { authFailuresPerMinute: 3 } });
    const statuses = [];
    for (let n = 0; n < 4; n++)
      statuses.push((await list(other, unknownKey(), `192.0.2.${n}`)).status);
    await other.stop();
    expect(statuses).toEqual([401, 401, 401, 429]);
  });

  it.each([
    ['limits all addresses together to 20 times the limit', 1, 20, [30, 9, 0]],
    ['allows all requests with AUTH_FAILURES_PER_MINUTE=0', 0, 59, [0, 0, 0]],
  ])('%s', async (_sentence, authFailuresPerMinute, expected, limited) => {
    const config = { authFailuresPerMinute, trustProxy: 'loopback', metricsPort: 0 };
    const other = await startApp({ config });
    const statuses = [];
    // Failures beyond the limit of one address do not count towards the limit of all.
    for (const n of [...Array(30).fill(0), ...Array(29).keys()])
      statuses.push((await list(other, unknownKey(), `192.0.2.${n}`)).status);
    const counts = await readLimited(other);
    await other.stop();
    expect(statuses.filter((status) => status === 401)).toHaveLength(expected);
    expect(counts).toEqual(limited);
  });
});

describe('rate limit per API key', () => {
  const config = { keyRequestsPerMinute: 4, metricsPort: 0 };
  const app = useApp({ features: [StubsModule, ...FEATURES], config });

  it('counts the requests of each key across all operations', async () => {
    const now = Date.now();
    advanceTime(now);
    const paths = ['/v1/categories', '/v1/stubs/deprecated/1', '/v1/stubs/experimental'];
    for (const [index, path] of paths.entries())
      expect((await app.send('GET', path)).headers).toMatchObject({
        'ratelimit-policy': '"api-key";q=4;w=60',
        ratelimit: `"api-key";r=${3 - index};t=60`,
      });
    expect((await app.categories.list()).status).toBe(200);

    const limited = await app.categories.list();
    expect(limited).toBeError('TOO_MANY_REQUESTS', /4 requests per minute/);
    expect(limited.headers).toMatchObject({ 'retry-after': '60', ratelimit: '"api-key";r=0;t=60' });
    // The body is not read.
    const malformed = { method: 'POST', headers: jsonHeaders(app.key), body: '{"name":' };
    expect(await sendRequest(`${app.url}/v1/categories`, malformed)).toBeError('TOO_MANY_REQUESTS');

    expect((await list(app, unknownKey())).status).toBe(401);
    const { key } = await app.app.get(ApiKeysService).create('other');
    expect((await list(app, key)).status).toBe(200);
    for (let n = 0; n < 6; n++) expect((await app.send('GET', '/livez')).status).toBe(200);
    expect(await app.categories.list()).toBeError('TOO_MANY_REQUESTS');
    expect(await readLimited(app)).toEqual([0, 0, 3]);
    advanceTime(now + 60_000);
    expect((await app.categories.list()).status).toBe(200);
  });

  it('counts requests that the key lacks the scope for', async () => {
    const options = { scopes: ['read'], requestsPerMinute: 2 } as const;
    const { key } = await app.app.get(ApiKeysService).create('reader', options);
    const client = new CategoriesClient(app.url, key);
    advanceTime(Date.now());
    for (const remaining of [1, 0]) {
      const forbidden = await client.create('forbidden');
      expect(forbidden).toBeError('FORBIDDEN');
      expect(forbidden.headers).toMatchObject({ ratelimit: `"api-key";r=${remaining};t=60` });
    }
    expect(await client.create('limited')).toBeError('TOO_MANY_REQUESTS');
    expect(await client.list()).toBeError('TOO_MANY_REQUESTS');
  });

  it('applies the limit of the key, and none if that is 0', async () => {
    const service = app.app.get(ApiKeysService);
    const { key } = await service.create('unlimited', { requestsPerMinute: 0 });
    for (let n = 0; n < 5; n++) {
      const { status, headers } = await list(app, key);
      expect(status).toBe(200);
      expect(Object.keys(headers).filter((name) => /rate-?limit/i.test(name))).toEqual([]);
    }
    const { key: other } = await service.create('limited', { requestsPerMinute: 1 });
    expect([(await list(app, other)).status, (await list(app, other)).status]).toEqual([200, 429]);
  });
});
