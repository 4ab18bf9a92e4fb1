import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { ApiKey } from '../../src/platform/auth/api-key.entity.js';
import { ApiKeysService } from '../../src/platform/auth/api-keys.service.js';
import { createDataSource } from '../../src/data-source.js';
import { type HttpResponse, sendRequest, jsonHeaders } from '../support/http-client.js';
import { LoadGenerator, type Row } from '../support/load-generator.js';
import { type PostgresServer, startPostgres } from '../support/postgres.js';
import { freeze, kill, restart } from '../support/postgres-faults.js';
import { ServiceProcess } from '../support/service-process.js';
import { ChaosProxy } from '../support/chaos-proxy.js';
import { waitFor } from '../support/wait.js';

// Covers outages and recovery; the first start includes compilation.
import.meta.jest.setTimeout(90_000);

const KEY = 'bootstrap-0123456789-abcdefghijklmnop';
const PASSWORD = 'secret-0123456789';
const WRONG_PASSWORD = 'wrong-0123456789';
/** The maximum response time while the database hangs. */
const RESPONSE_TIMEOUT_MS = 5_000;
const RECOVERY_TIMEOUT_MS = 20_000;
const TIMEOUT_MS = 30_000;
/** The body of a response while the database is unavailable. */
const UNAVAILABLE = {
  code: 'SERVICE_UNAVAILABLE',
  message: expect.stringMatching(/\S/) as string,
  status: 503,
};

/** Clients whose requests are spread over time, about 100 per second in total. */
const STAGGERED_CLIENTS = { writers: 30, readers: 15, pause: 500 };

let server: PostgresServer;
let directory: string;
let url: string;
let services: ServiceProcess[];
/** Run after each test, in reverse order. */
let cleanUps: (() => Promise<unknown>)[];
beforeAll(async () => {
  server = await startPostgres();
  directory = await mkdtemp(join(tmpdir(), 'petstore-faults-'));
  await query(server.url, `CREATE ROLE "tester" LOGIN SUPERUSER PASSWORD '${PASSWORD}'`);
});
afterAll(async () => {
  await server.stop();
  await rm(directory, { recursive: true, force: true });
});
beforeEach(async () => {
  services = [];
  cleanUps = [];
  url = await createDatabase();
});
afterEach(async () => {
  for (const cleanUp of cleanUps.toReversed()) await cleanUp();
  await Promise.all(services.map((service) => service.stop()));
  for (const { output } of services) {
    const leaked = [PASSWORD, WRONG_PASSWORD, KEY].filter((secret) => output.includes(secret));
    if (leaked.length > 0) throw new Error(`The output contains ${leaked.join(', ')}`);
  }
});

/** Creates an empty database. The password in its URL is distinctive enough to search logs for. */
async function createDatabase(): Promise<string> {
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await query(server.url, `CREATE DATABASE "${name}"`);
  return withUrlParts(server.url, { username: 'tester', password: PASSWORD, pathname: `/${name}` });
}

function withUrlParts(
  address: string,
  parts: Partial<Record<'username' | 'password' | 'pathname', string>>,
): string {
  return Object.assign(new URL(address), parts).href;
}

async function connect(address: string): Promise<Client> {
  const client = new Client({ connectionString: address });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

async function query(address: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = await connect(address);
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

/** Locks a table from another session and returns a function that releases the lock. */
async function lock(address: string, table: string): Promise<() => Promise<void>> {
  const client = await connect(address);
  cleanUps.push(() => client.end());
  await client.query('BEGIN');
  await client.query(`LOCK TABLE "${table}"`);
  return async () => {
    await client.query('ROLLBACK');
  };
}

async function freezeServer(): Promise<() => Promise<void>> {
  const thaw = await freeze(server);
  cleanUps.push(thaw);
  return thaw;
}

async function killServer(): Promise<() => Promise<void>> {
  await kill(server);
  let killed = true;
  const restartServer = async (): Promise<void> => {
    if (killed) await restart(server);
    killed = false;
  };
  cleanUps.push(restartServer);
  return restartServer;
}

async function start(env: NodeJS.ProcessEnv = {}): Promise<ServiceProcess> {
  const service = await ServiceProcess.start(directory, {
    DATABASE_URL: url,
    BOOTSTRAP_API_KEY: KEY,
    LOG_LEVEL: 'verbose',
    ...env,
  });
  services.push(service);
  return service;
}

async function serve(env: NodeJS.ProcessEnv = {}): Promise<string> {
  return (await start(env)).waitUntilListening();
}

/** Starts clients and waits until each has received successful responses. */
async function startLoad(base: string): Promise<LoadGenerator> {
  const load = new LoadGenerator(KEY, { allow503: true });
  cleanUps.push(() => load.stop());
  load.start(base, STAGGERED_CLIENTS);
  await load.waitForSuccesses(3, TIMEOUT_MS);
  return load;
}

const get = (base: string, path: string): Promise<HttpResponse> =>
  sendRequest(base + path, { headers: { authorization: `Bearer ${KEY}` } });
const create = (base: string, name: string, key = KEY): Promise<HttpResponse> =>
  sendRequest(`${base}/v1/categories`, {
    method: 'POST',
    headers: jsonHeaders(key),
    body: JSON.stringify({ name }),
  });
const parse = ({ body }: HttpResponse): unknown => JSON.parse(body.toString());

function expectUnavailable(response: HttpResponse): void {
  expect(parse(response)).toEqual(UNAVAILABLE);
  expect(response.status).toBe(503);
  expect(response.headers['retry-after']).toMatch(/^[1-9]\d*$/);
  expect(response.headers['content-type']).toMatch(/^application\/json/);
}

async function waitUntilReady(base: string): Promise<void> {
  await waitFor(
    () => get(base, '/readyz'),
    ({ status }) => status === 200,
    RECOVERY_TIMEOUT_MS,
  );
}

function waitUntilNotReady(base: string): Promise<HttpResponse> {
  return waitFor(
    () => get(base, '/readyz'),
    ({ status }) => status !== 200,
    TIMEOUT_MS,
  );
}

/** Polls `/livez` in the background; the returned function stops and returns the distinct results. */
function monitorLiveness(base: string): () => Promise<unknown[]> {
  const results = new Set<unknown>();
  const stopping = new AbortController();
  const poll = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      results.add(await get(base, '/livez').then(({ status }) => status, String));
      await delay(50);
    }
  };
  const done = poll();
  const stop = async (): Promise<unknown[]> => {
    stopping.abort();
    await done;
    return [...results];
  };
  cleanUps.push(stop);
  return stop;
}

/**
 * Stops the clients, checks a final list, and returns all violations: incorrect, incomplete or late
 * responses.
 */
async function stopAndCollectViolations(load: LoadGenerator, base: string): Promise<string[]> {
  await load.stop();
  const response = await get(base, '/v1/categories');
  if (response.status !== 200) return [`The final list request got ${response.status}`];
  load.verifyFinalState(parse(response) as Row[]);
  const late = load.responses
    .filter(({ milliseconds }) => milliseconds > RESPONSE_TIMEOUT_MS)
    .toSorted((a, b) => b.milliseconds - a.milliseconds)
    .map(
      ({ kind, status, milliseconds }, _index, { length }) =>
        `A ${kind} request got ${status} after ${Math.round(milliseconds)} ms (one of ${length})`,
    );
  return [...load.violations, ...late.slice(0, 3)];
}

function parseRetryDelays(output: string): number[] {
  return [...output.matchAll(/retrying in (\d+) ms/g)].map(([, retryDelay]) => Number(retryDelay));
}

describe('database failures under load', () => {
  it('responds within 5 seconds while the server hangs and recovers once it resumes', async () => {
    const base = await serve();
    const load = await startLoad(base);
    const stopMonitoring = monitorLiveness(base);
    const thaw = await freezeServer();
    const [readiness] = await Promise.all([
      waitUntilNotReady(base),
      load.waitForUnavailable(2, TIMEOUT_MS),
    ]);
    expectUnavailable(readiness);

    await thaw();
    await waitUntilReady(base);
    await load.waitForSuccesses(3, RECOVERY_TIMEOUT_MS);
    expect(await stopMonitoring()).toEqual([200]);
    expect(await stopAndCollectViolations(load, base)).toEqual([]);
  });

  it('recovers after the server is killed and restarted and keeps every acknowledged create', async () => {
    const base = await serve({ NODE_ENV: 'production' });
    const load = await startLoad(base);
    const stopMonitoring = monitorLiveness(base);
    const startServer = await killServer();
    await load.waitForUnavailable(3, TIMEOUT_MS);
    expectUnavailable(await get(base, '/readyz'));

    await startServer();
    await waitUntilReady(base);
    await load.waitForSuccesses(3, RECOVERY_TIMEOUT_MS);
    expect(await stopMonitoring()).toEqual([200]);
    expect(await stopAndCollectViolations(load, base)).toEqual([]);
  });

  it('responds with no error but 503 when all connections are repeatedly terminated', async () => {
    const base = await serve();
    const load = await startLoad(base);
    const stopMonitoring = monitorLiveness(base);
    for (let cut = 0; cut < 3; cut++) {
      const terminated = await query(
        server.url,
        `SELECT pg_terminate_backend("pid") FROM pg_stat_activity WHERE "application_name" = 'petstore'`,
      );
      expect(terminated.length).toBeGreaterThan(0);
      await load.waitForSuccesses(2, RECOVERY_TIMEOUT_MS);
    }
    expect((await get(base, '/readyz')).status).toBe(200);
    expect(await stopMonitoring()).toEqual([200]);
    expect(await stopAndCollectViolations(load, base)).toEqual([]);
  });

  it('responds within 5 seconds on DATABASE_POOL_SIZE connections while a table is locked and recovers afterwards', async () => {
    const tables = ['categories', 'api_keys', 'revisions'];
    const outcomes = await Promise.all(
      tables.map(async (table) => {
        const address = await createDatabase();
        const base = await serve({ DATABASE_URL: address, DATABASE_POOL_SIZE: '4' });
        const load = await startLoad(base);
        const stopMonitoring = monitorLiveness(base);
        const unlock = await lock(address, table);
        // Only creates are sure to fail: unless the revision is locked, lists come from the cache.
        await load.waitForUnavailable(2, TIMEOUT_MS, 'create');
        const connections = await query(
          address,
          `SELECT "pid" FROM pg_stat_activity
           WHERE "application_name" = 'petstore' AND "datname" = current_database()`,
        );
        await unlock();
        await load.waitForSuccesses(3, RECOVERY_TIMEOUT_MS);
        return {
          table,
          connections: connections.length,
          liveness: await stopMonitoring(),
          violations: await stopAndCollectViolations(load, base),
        };
      }),
    );
    expect(outcomes).toEqual(
      tables.map((table) => ({ table, connections: 4, liveness: [200], violations: [] })),
    );
  });

  it('replaces connections that hang', async () => {
    const proxy = await ChaosProxy.listen(url);
    cleanUps.push(() => proxy.close());
    const base = await serve({
      DATABASE_URL: proxy.proxiedUrl(url),
      DATABASE_CONNECT_TIMEOUT_MS: '500',
      DATABASE_QUERY_TIMEOUT_MS: '500',
    });
    const load = await startLoad(base);
    proxy.blackhole();
    await load.waitForSuccesses(10, RECOVERY_TIMEOUT_MS);
    expect(await stopAndCollectViolations(load, base)).toEqual([]);
    expect(load.responses).toContainEqual(expect.objectContaining({ status: 503 }));
  });
});

describe('DATABASE_QUERY_TIMEOUT_MS', () => {
  it('limits the duration of a query', async () => {
    const base = await serve({ DATABASE_QUERY_TIMEOUT_MS: '200' });
    await lock(url, 'categories');
    const times: number[] = [];
    for (let attempt = 0; attempt < 3; attempt++) {
      const begin = performance.now();
      expectUnavailable(await create(base, 'dog'));
      times.push(performance.now() - begin);
    }
    const fastest = Math.min(...times);
    expect(fastest).toBeGreaterThanOrEqual(190);
    // The default is 2 s.
    expect(fastest).toBeLessThan(1_500);
  });
});

describe('startup while the database is unavailable', () => {
  it.each([
    ['is down', killServer],
    ['hangs', freezeServer],
  ])(
    'logs retries with increasing delays while the server %s and then recovers',
    async (_state, failServer) => {
      const recoverServer = await failServer();
      const service = await start({ DATABASE_CONNECT_TIMEOUT_MS: '300' });
      const base = await service.waitUntilListening();
      expectUnavailable(await get(base, '/readyz'));
      expect((await get(base, '/livez')).status).toBe(200);
      expectUnavailable(await get(base, '/v1/categories'));
      expectUnavailable(await create(base, 'dog'));
      expect((await sendRequest(`${base}/v1/categories`)).status).toBe(401);
      const retryDelays = await waitFor(
        () => parseRetryDelays(service.output),
        ({ length }) => length >= 3,
        TIMEOUT_MS,
      );
      for (const [index, retryDelay] of retryDelays.entries())
        expect(retryDelay).toBeGreaterThan(retryDelays[index - 1] ?? 0);

      await recoverServer();
      await waitUntilReady(base);
      expect((await create(base, 'dog')).status).toBe(201);
      expect(parse(await get(base, '/v1/categories'))).toMatchObject([{ name: 'dog' }]);
    },
  );

  it('completes a graceful shutdown on SIGTERM', async () => {
    await killServer();
    const service = await start();
    await service.waitUntilListening();
    service.kill('SIGTERM');
    expect(await service.exited).toEqual({ code: 0, signal: null });
    expect(service.stderr).toBe('');
  });

  it.each([
    ['with', KEY],
    ['without', ''],
  ])(
    'waits for a lock on the API key table to be released %s BOOTSTRAP_API_KEY',
    async (_preposition, bootstrapKey) => {
      const dataSource = createDataSource({
        type: 'postgres',
        url,
        poolSize: 2,
        connectTimeout: 2_000,
      });
      await dataSource.initialize();
      await dataSource.migrate();
      const keys = new ApiKeysService(dataSource.getRepository(ApiKey));
      const key = bootstrapKey === '' ? (await keys.create('test')).key : bootstrapKey;
      await dataSource.destroy();
      const unlock = await lock(url, 'api_keys');
      const base = await serve({ BOOTSTRAP_API_KEY: bootstrapKey });
      expect((await get(base, '/livez')).status).toBe(200);
      expectUnavailable(await create(base, 'dog', key));
      await unlock();
      await waitUntilReady(base);
      expect((await create(base, 'dog', key)).status).toBe(201);
    },
  );
});

describe('unrecoverable startup errors', () => {
  it.each<[string, Parameters<typeof withUrlParts>[1], RegExp]>([
    ['a wrong password', { password: WRONG_PASSWORD }, /password authentication failed/],
    [
      'a database that does not exist',
      { pathname: '/missing' },
      /database "missing" does not exist/,
    ],
  ])('ends startup with a clear message: %s', async (_cause, parts, message) => {
    const service = await start({ DATABASE_URL: withUrlParts(url, parts) });
    const { code } = await service.exited;
    expect(code).toBeGreaterThan(0);
    expect(service.stderr).toMatch(message);
  });

  it('leaves the database unchanged if a migration fails and starts once the conflict is removed', async () => {
    await query(url, 'CREATE TABLE "categories" ("unrelated" text)');
    const service = await start();
    expect((await service.exited).code).toBe(1);
    expect(service.stderr).toMatch(/Failed to open database: .*"categories" already exists/);
    const tables = await query(
      url,
      `SELECT "tablename" FROM pg_tables WHERE "schemaname" = 'public' AND "tablename" <> 'migrations'`,
    );
    expect(tables).toEqual([{ tablename: 'categories' }]);
    await query(url, 'DROP TABLE "categories"');
    expect((await create(await serve(), 'dog')).status).toBe(201);
  });
});

describe('durability', () => {
  it('keeps every acknowledged create across 5 SIGKILLs under load', async () => {
    const load = new LoadGenerator(KEY);
    cleanUps.push(() => load.stop());
    for (let round = 0; round < 5; round++) {
      const service = await start();
      const base = await service.waitUntilListening();
      load.start(base, { writers: 16, readers: 2 });
      await load.waitForSuccesses(2, TIMEOUT_MS);
      await delay(Math.random() * 50);
      load.allowDisconnects(base);
      service.kill('SIGKILL');
      expect(await service.exited).toMatchObject({ signal: 'SIGKILL' });
    }
    expect(await stopAndCollectViolations(load, await serve())).toEqual([]);
    expect(load.created.length).toBeGreaterThan(5 * 16 * 2);
  });
});
