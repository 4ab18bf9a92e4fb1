import { createHash, randomBytes } from 'node:crypto';
import { getRepositoryToken } from '@nestjs/typeorm';
import type { Repository } from 'typeorm';
import { ApiKey } from '../../../src/platform/auth/keys/api-key.entity.js';
import { ApiKeysService } from '../../../src/platform/auth/keys/api-keys.service.js';
import { requestContext } from '../../../src/platform/logging/logger.js';
import { MetricsRegistry } from '../../../src/platform/metrics/prometheus-registry.js';
import { PRODUCT } from '../../../src/product.js';
import { startApp, type TestApp, useApp } from '../support/app.js';
import { advanceTime, setSystemTime } from '../support/clock.js';
import { describeOnPostgres } from '../support/databases.js';
import { unknownKey } from '../support/fixtures.js';
import { CategoriesClient, type HttpResponse } from '../support/http-client.js';
import { MemoryLogger } from '../support/memory-logger.js';
import { connectToPostgres } from '../support/postgres-client.js';
import { recordStatements } from '../support/queries.js';
import { RawConnection, rawRequest } from '../support/raw-connection.js';
import { waitFor } from '../support/wait.js';

const { jest } = import.meta;
const INVALID_MESSAGE = 'The API key is invalid: it is unknown, expired or revoked.';
/** Milliseconds after which a revoked or deleted key must be rejected. */
const REVOCATION_MS = 2_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const logger = new MemoryLogger();
const app = useApp({ logger });
let keys: ApiKeysService;
beforeAll(async () => {
  keys = app.app.get(ApiKeysService);
});
afterEach(() => jest.restoreAllMocks());

const list = (key: string): Promise<HttpResponse> => new CategoriesClient(app.url, key).list();

const getDateIn = (days: number): Date => new Date(Date.now() + days * DAY_MS);

/** Returns the stored row of a key. */
async function getRow(key: string): Promise<Record<string, unknown>> {
  const hash = createHash('sha256').update(key).digest('hex');
  const rows: Record<string, unknown>[] = await app.dataSource.query(
    `SELECT * FROM "api_keys" WHERE "hash" = '${hash}'`,
  );
  expect(rows).toHaveLength(1);
  return rows[0]!;
}

describe('ApiKeyGuard', () => {
  it('rejects a mistyped key without a query', async () => {
    const { key } = await keys.create('mistyped');
    expect((await list(key)).status).toBe(200);
    const statements = recordStatements(app.dataSource, /FROM "api_keys"/);
    for (const index of [key.length - 49, key.length - 20, key.length - 1]) {
      const other = key[index] === 'a' ? 'b' : 'a';
      const typo = key.slice(0, index) + other + key.slice(index + 1);
      expect(await list(typo)).toBeError('UNAUTHORIZED', INVALID_MESSAGE);
    }
    expect(statements).toEqual([]);
  });

  it('logs once, and counts, a key that expires within a week', async () => {
    const { key: soon } = await keys.create('expiring soon', { expiresAt: getDateIn(6) });
    const { key: later } = await keys.create('expiring later', { expiresAt: getDateIn(8) });
    const expiresAt = getDateIn(6);
    const { key: replaced, record } = await keys.create('replaced', { expiresAt });
    await app.dataSource.query(
      `UPDATE "api_keys" SET "successor_id" = 9 WHERE "id" = ${record.id}`,
    );
    for (const each of [soon, later, soon, replaced]) expect((await list(each)).status).toBe(200);
    advanceTime(Date.now() + 10_000);
    expect((await list(soon)).status).toBe(200);
    const warnings = logger.entries.filter(({ level }) => level === 'warn');
    const messages = warnings.map(({ values }) => String(values[0]));
    expect(messages.filter((message) => !message.startsWith('Rejected'))).toEqual([
      expect.stringMatching(
        /\(expiring soon\) .*: node dist\/cli\/keys\.js rotate \d+ --overlap 7d$/,
      ),
      expect.stringMatching(/\(replaced\) .* Its client must change to API key 9$/),
    ]);
    const metrics = app.app.get(MetricsRegistry);
    const metric = await metrics.getSingleMetricAsString(`service_api_keys_expiring`);
    expect(metric).toMatch(new RegExp(`^service_api_keys_expiring 2$`, 'm'));
  });

  it('rejects reads with a key whose scope in the database is unknown', async () => {
    const { key, record } = await keys.create('unknown scope');
    await app.dataSource.query(
      `UPDATE "api_keys" SET "scopes" = 'readonly' WHERE "id" = ${record.id}`,
    );
    expect(await list(key)).toBeError('FORBIDDEN');
  });

  it('accepts a key in the format of earlier versions, even if it was rejected before', async () => {
    const key = `${PRODUCT.keyPrefixes[0]}_${randomBytes(32).toString('base64url')}`;
    expect(await list(key)).toBeError('UNAUTHORIZED', INVALID_MESSAGE);
    await keys.ensureKey(key, 'late');
    expect((await list(key)).status).toBe(200);
  });

  it('rejects a key from the millisecond in which it expires', async () => {
    const expiresAt = new Date(Date.now() + HOUR_MS);
    const { key } = await keys.create('expiring', { expiresAt });
    expect((await list(key)).status).toBe(200);
    setSystemTime(expiresAt.getTime() - 1);
    expect((await list(key)).status).toBe(200);
    setSystemTime(expiresAt.getTime());
    expect(await list(key)).toBeError('UNAUTHORIZED', INVALID_MESSAGE);
  });
});

describe('API key revocation', () => {
  it.each([
    ['revoked', (id: number) => `UPDATE "api_keys" SET "revoked_at" = 1 WHERE "id" = ${id}`],
    ['deleted', (id: number) => `DELETE FROM "api_keys" WHERE "id" = ${id}`],
  ])('takes effect within 2 seconds for a key %s directly in the database', async (_name, sql) => {
    const { key, record } = await keys.create('to be revoked');
    const now = Date.now();
    advanceTime(now);
    expect((await list(key)).status).toBe(200);
    await app.dataSource.query(sql(record.id));
    // Repeated use must not keep it in the cache.
    for (const elapsed of [500, 1_000, 1_500, REVOCATION_MS - 1]) {
      advanceTime(now + elapsed);
      await list(key);
    }
    advanceTime(now + REVOCATION_MS);
    expect(await list(key)).toBeError('UNAUTHORIZED', INVALID_MESSAGE);
  });

  it.each<[string, number, (id: number) => Promise<unknown>]>([
    ['revoked', 401, (id) => keys.revoke(id)],
    ['deleted', 401, (id) => app.dataSource.query(`DELETE FROM "api_keys" WHERE "id" = ${id}`)],
    ['rotated out', 401, (id) => keys.rotate(id, 0)],
    ['still valid', 201, async () => undefined],
  ])(
    'takes effect while a slow body arrives: a key that is %s gets %d',
    async (_state, status, change) => {
      const { key, record } = await keys.create('slow', { requestsPerMinute: 5 });
      const now = Date.now();
      advanceTime(now);
      const connection = await RawConnection.open(app.url);
      const headers = ['Content-Type: application/json', 'Content-Length: 14'];
      headers.push(`Authorization: Bearer ${key}`, 'Expect: 100-continue');
      connection.send(rawRequest({ method: 'POST', headers }));
      // The body is requested once the key has been accepted.
      expect(await connection.nextResponse()).toMatchObject({ status: 100 });
      await change(record.id);
      advanceTime(now + 4_000);
      connection.send('{"name":"dog"}');
      // The request counts once.
      const limit = { ratelimit: expect.stringContaining('r=4') as string };
      expect(await connection.nextResponse(2)).toMatchObject({ status, headers: limit });
      connection.close();
    },
  );

  it.each([1_000, HOUR_MS])('takes effect if the clock is set back by %d ms', async (change) => {
    const { key, record } = await keys.create('to be revoked');
    const now = Date.now();
    advanceTime(now);
    expect((await list(key)).status).toBe(200);
    expect(await keys.revoke(record.id)).toBe(true);
    advanceTime(now + REVOCATION_MS);
    setSystemTime(now + REVOCATION_MS - change);
    expect(await list(key)).toBeError('UNAUTHORIZED', INVALID_MESSAGE);
  });
});

const getLastUse = async (key: string): Promise<unknown> => (await getRow(key))['last_used_at'];

describe('the last use of a key', () => {
  it('changes at most once an hour, and not by a rejected request', async () => {
    const { key } = await keys.create('used');
    const { key: expired } = await keys.create('expired', { expiresAt: new Date() });
    expect(await list(expired)).toBeError('UNAUTHORIZED', INVALID_MESSAGE);
    const now = Date.now();
    for (const [time, written] of [
      [now, now],
      [now + HOUR_MS - 1, now],
      [now + HOUR_MS, now + HOUR_MS],
      // The clock was ahead.
      [now, now],
    ] as const) {
      advanceTime(time);
      // At the second request the key is cached.
      for (let n = 0; n < 2; n++) expect((await list(key)).status).toBe(200);
      await waitFor(
        () => getLastUse(key),
        (lastUse) => Number(lastUse) === written,
      );
    }
    // The writes are in the order of the uses.
    expect(await getLastUse(expired)).toBeNull();
  });

  it('stays unwritten after a failure, whose log line has no request id', async () => {
    const { key } = await keys.create('used');
    const written = new Promise((resolve) => {
      const repository = app.app.get<Repository<ApiKey>>(getRepositoryToken(ApiKey));
      jest.spyOn(repository, 'update').mockImplementation(async () => {
        resolve(requestContext.getStore());
        throw new Error('rejected');
      });
    });
    expect((await list(key)).status).toBe(200);
    expect(await written).toBeUndefined();
    await waitFor(() => logger.text.includes('Failed to write the last use of API keys'));
  });
});

/** Starts an instance on the database of `app`, which it leaves there. */
const startOther = (): Promise<TestApp> =>
  startApp({ database: { config: app.config.database }, logger });

/** Uses 20 new keys at once. */
async function useNewKeys({ url }: TestApp): Promise<string[]> {
  const created = await Promise.all(Array.from({ length: 20 }, () => keys.create('used once')));
  const uses = created.map(({ key }) => new CategoriesClient(url, key).list());
  expect((await Promise.all(uses)).map(({ status }) => status)).toEqual(uses.map(() => 200));
  return created.map(({ key }) => key);
}

describe('the last uses of keys at the shutdown', () => {
  it('reach the database before it ends', async () => {
    const other = await startOther();
    const used = await useNewKeys(other);
    await other.stop();
    for (const key of used) expect(await getLastUse(key)).not.toBeNull();
  });
});

describeOnPostgres('the last uses of keys while their table is locked', () => {
  it('delay no shutdown', async () => {
    const other = await startOther();
    const session = await connectToPostgres((app.config.database as { url: string }).url);
    // The writes of the uses wait for a moment, or for the lock.
    await useNewKeys(other);
    await session.query('BEGIN; LOCK TABLE "api_keys" IN SHARE MODE');
    const startedAt = performance.now();
    await other.stop();
    // docs/install.md promises it.
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    await session.end();
  });
});

describe('the first use of keys from one address', () => {
  const LIMIT = 5;
  let limited: TestApp;
  let table: Repository<ApiKey>;
  beforeEach(async () => {
    const config = { authFailuresPerMinute: LIMIT, trustProxy: 'loopback' };
    limited = await startApp({ config, logger });
    table = limited.app.get<Repository<ApiKey>>(getRepositoryToken(ApiKey));
  });
  afterEach(() => limited.stop());

  const createMany = async (count: number): Promise<string[]> => {
    const service = limited.app.get(ApiKeysService);
    const created = await Promise.all(Array.from({ length: count }, () => service.create('new')));
    return created.map(({ key }) => key);
  };

  /** Sends a request with each key at once, from alternating addresses of one client, and returns the statuses. */
  const sendAll = (sent: readonly string[]): Promise<number[]> =>
    Promise.all(
      sent.map(async (key, index) => {
        const headers = { 'x-forwarded-for': `2001:db8::${index}` };
        return (await new CategoriesClient(limited.url, key).list(headers)).status;
      }),
    );

  /** Makes each look-up wait for something, and returns how many have started, and were in progress at once. */
  const delayLookUps = (wait: () => Promise<unknown>): { started: number; max: number } => {
    const findOneBy = table.findOneBy.bind(table);
    const lookUps = { started: 0, max: 0 };
    let current = 0;
    jest.spyOn(table, 'findOneBy').mockImplementation(async (where) => {
      lookUps.started++;
      lookUps.max = Math.max(lookUps.max, ++current);
      await wait();
      current--;
      return findOneBy(where);
    });
    return lookUps;
  };

  it('waits for other look-ups instead of counting them as failures (rate limit)', async () => {
    const valid = await createMany(20);
    const unknown = Array.from({ length: LIMIT - 1 }, unknownKey);
    const repeated = Array.from({ length: 10 }, () => unknown[0]!);
    const sent = [...repeated, ...valid.slice(0, 10), ...unknown, ...valid];
    const arrived = new Promise<void>((resolve) => {
      let count = 0;
      limited.server.on('request', () => ++count === sent.length && resolve());
    });
    const lookUps = delayLookUps(() => arrived);
    expect(await sendAll(sent)).toEqual(sent.map((key) => (unknown.includes(key) ? 401 : 200)));
    expect(lookUps).toEqual({ started: valid.length + unknown.length, max: LIMIT });
    expect(await sendAll([unknownKey()])).toEqual([401]);
    expect(await sendAll([unknownKey()])).toEqual([429]);
  });

  it('returns 503 after its deadline if other look-ups do not end, and then skips its own', async () => {
    const valid = await createMany(20);
    let release!: () => void;
    const released = new Promise<void>((resolve) => (release = resolve));
    const lookUps = delayLookUps(() => released);
    expect(new Set(await sendAll(valid))).toEqual(new Set([503]));
    release();
    expect(await sendAll(valid.slice(LIMIT, LIMIT + 1))).toEqual([200]);
    expect(lookUps.started).toBe(LIMIT + 1);
  });
});

describe('BOOTSTRAP_API_KEY', () => {
  it('stores one hash, also if instances start at once, and keeps the key valid that it replaces', async () => {
    const key = `aZ09-._~+/${'k'.repeat(30)}==`;
    await Promise.all([keys.ensureKey(key, 'bootstrap'), keys.ensureKey(key, 'bootstrap')]);
    await keys.ensureKey(key, 'bootstrap');
    expect(JSON.stringify(await getRow(key))).not.toContain(key);
    expect((await list(key)).status).toBe(200);
    expect(logger.text).not.toContain('BOOTSTRAP_API_KEY');
    await keys.ensureKey('k'.repeat(40), 'bootstrap');
    const { id } = await getRow(key);
    expect(logger.text).toContain(
      `The former API key ${Number(id)} (bootstrap) stays valid until it is revoked with: node dist/cli/keys.js revoke ${Number(id)}`,
    );
    expect((await list(key)).status).toBe(200);
  });

  it.each([
    ['revoked', (id: number) => keys.revoke(id)],
    ['expired', (id: number) => keys.rotate(id, -1)],
  ])('stays %s, with a warning in the log', async (state, end) => {
    const key = randomBytes(32).toString('hex');
    await keys.ensureKey(key, 'bootstrap');
    await end(Number((await getRow(key))['id']));
    await keys.ensureKey(key, 'bootstrap');
    expect(await list(key)).toBeError('UNAUTHORIZED', INVALID_MESSAGE);
    expect(logger.text).toContain(`BOOTSTRAP_API_KEY is ${state} and will be rejected`);
  });
});
