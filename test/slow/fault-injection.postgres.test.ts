import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { createApp } from '../../src/app.js';
import { ApiKeysService } from '../../src/platform/auth/keys/api-keys.service.js';
import { loadConfig } from '../../src/platform/config/config.js';
import { NAME } from '../../src/platform/config/product.js';
import { ChaosProxy } from '../support/chaos-proxy.js';
import { CategoriesClient, type HttpResponse, sendRequest } from '../support/http-client.js';
import { LoadGenerator } from '../support/load-generator.js';
import { MemoryLogger } from '../support/memory-logger.js';
import { type PostgresServer, startPostgres } from '../support/postgres.js';
import { connectToPostgres, queryPostgres } from '../support/postgres-client.js';
import { createStandby, freeze, kill, restart } from '../support/postgres-faults.js';
import { BOOTSTRAP_KEY, createServices, type Services } from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

const PASSWORD = 'secret-0123456789';
const WRONG_PASSWORD = 'wrong-0123456789';
/** The documented maximum response time of 5 seconds while the database hangs, and what a busy machine adds. */
const RESPONSE_TIMEOUT_MS = 5_000 + 10_000;

/** Clients whose requests are spread over time, about 100 per second in total. */
const STAGGERED_CLIENTS = { writers: 30, readers: 15, pause: 500 };

/** An address where the service listens, with a client that has a valid key. */
interface Instance {
  readonly url: string;
  readonly categories: CategoriesClient;
}

let server: PostgresServer;
let url: string;
let services: Services;
/** The log of the applications in this process. */
let logger: MemoryLogger;
/** Run after each test, in reverse order. */
let cleanUps: (() => Promise<unknown>)[];
beforeAll(async () => {
  server = await startPostgres();
  await queryPostgres(server.url, `CREATE ROLE "tester" LOGIN SUPERUSER PASSWORD '${PASSWORD}'`);
});
afterAll(() => server.stop());
beforeEach(async () => {
  logger = new MemoryLogger();
  cleanUps = [];
  url = await createDatabase();
  services = await createServices({ DATABASE_URL: url, LOG_LEVEL: 'verbose' });
});
afterEach(async () => {
  for (const cleanUp of cleanUps.toReversed()) await cleanUp();
  await services.close();
  const log = [logger.text, ...services.started.map(({ output }) => output)].join('\n');
  const leaked = [PASSWORD, WRONG_PASSWORD, BOOTSTRAP_KEY].filter((secret) => log.includes(secret));
  if (leaked.length > 0) throw new Error(`The log contains ${leaked.join(', ')}`);
});

/** Creates an empty database. The password in its URL is distinctive enough to search logs for. */
async function createDatabase(): Promise<string> {
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await queryPostgres(server.url, `CREATE DATABASE "${name}"`);
  return withUrlParts(server.url, { username: 'tester', password: PASSWORD, pathname: `/${name}` });
}

function withUrlParts(
  address: string,
  parts: Partial<Record<'username' | 'password' | 'pathname', string>>,
): string {
  return Object.assign(new URL(address), parts).href;
}

/** The part of a query for the connections of the service. */
const FROM_CONNECTIONS = `FROM pg_stat_activity WHERE "application_name" = '${NAME}'`;

/** Locks a table from another session and returns a function that releases the lock. */
async function lock(address: string, table: string): Promise<() => Promise<void>> {
  const client = await connectToPostgres(address);
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

/** Starts the application in this process, whether or not the database is available. */
async function serve(
  env: NodeJS.ProcessEnv = {},
): Promise<Instance & { app: NestExpressApplication }> {
  const config = loadConfig({ DATABASE_URL: url, BOOTSTRAP_API_KEY: BOOTSTRAP_KEY, ...env });
  const app = await createApp(config, { logger });
  await app.listen(0, config.host);
  cleanUps.push(() => app.close());
  const address = await app.getUrl();
  return { app, url: address, categories: new CategoriesClient(address, BOOTSTRAP_KEY) };
}

/** Starts clients and waits until each has received successful responses. */
async function startLoad(instance: Instance): Promise<LoadGenerator> {
  const load = new LoadGenerator(BOOTSTRAP_KEY, { allow503: true });
  cleanUps.push(() => load.stop());
  load.start(instance.url, STAGGERED_CLIENTS);
  await load.waitForSuccesses(2);
  return load;
}

function expectUnavailable(response: HttpResponse): void {
  expect(response).toBeError('SERVICE_UNAVAILABLE');
  expect(response.headers['retry-after']).toMatch(/^[1-9]\d*$/);
}

const getReadiness = (instance: Instance): Promise<HttpResponse> =>
  sendRequest(`${instance.url}/readyz`);

async function waitUntilReady(instance: Instance): Promise<void> {
  await waitFor(
    () => getReadiness(instance),
    ({ status }) => status === 200,
  );
}

/** Polls `/livez` in the background; the returned function stops and returns the distinct results. */
function monitorLiveness(instance: Instance): () => Promise<unknown[]> {
  const results = new Set<unknown>();
  const stopping = new AbortController();
  const poll = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      results.add(await sendRequest(`${instance.url}/livez`).then(({ status }) => status, String));
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
async function stopAndCollectViolations(
  load: LoadGenerator,
  { categories }: Instance,
): Promise<string[]> {
  await load.stop();
  load.verifyFinalState(await categories.getAll());
  const late = load.responses
    .filter(({ milliseconds }) => milliseconds > RESPONSE_TIMEOUT_MS)
    .toSorted((a, b) => b.milliseconds - a.milliseconds)
    .map(
      ({ kind, status, milliseconds }, _index, { length }) =>
        `A ${kind} request got ${status} after ${Math.round(milliseconds)} ms (one of ${length})`,
    );
  return [...load.violations, ...late.slice(0, 3)];
}

describe('database failures under load', () => {
  it.each([
    ['hangs', freezeServer],
    ['is killed', killServer],
  ])(
    'responds within its deadline while the server %s, recovers and keeps every acknowledged create',
    async (_failure, failServer) => {
      const instance = await services.serve({ env: { NODE_ENV: 'production' } });
      const load = await startLoad(instance);
      const stopMonitoring = monitorLiveness(instance);
      const recoverServer = await failServer();
      await load.waitForUnavailable(2);
      expectUnavailable(await getReadiness(instance));

      await recoverServer();
      await waitUntilReady(instance);
      await load.waitForSuccesses(2);
      expect(await stopMonitoring()).toEqual([200]);
      expect(await stopAndCollectViolations(load, instance)).toEqual([]);
    },
  );

  it('responds within its deadline on DATABASE_POOL_SIZE connections while a table is locked and recovers afterwards', async () => {
    const tables = ['categories', 'api_keys', 'revisions'];
    const outcomes = await Promise.all(
      tables.map(async (table) => {
        const address = await createDatabase();
        const instance = await serve({ DATABASE_URL: address, DATABASE_POOL_SIZE: '4' });
        const load = await startLoad(instance);
        const stopMonitoring = monitorLiveness(instance);
        const unlock = await lock(address, table);
        // Only creates are sure to fail: unless the revision is locked, lists come from the cache.
        await load.waitForUnavailable(2, 'create');
        // All clients share one look-up of their key; otherwise at least a batch and a check wait at once.
        const needed = table === 'api_keys' ? 1 : 2;
        const connections = await waitFor(
          () =>
            queryPostgres(
              address,
              `SELECT "pid" ${FROM_CONNECTIONS} AND "datname" = current_database()`,
            ),
          ({ length }) => length >= needed,
        );
        await unlock();
        await load.waitForSuccesses(2);
        return {
          table,
          exceedsPool: connections.length > 4,
          liveness: await stopMonitoring(),
          violations: await stopAndCollectViolations(load, instance),
        };
      }),
    );
    expect(outcomes).toEqual(
      tables.map((table) => ({ table, exceedsPool: false, liveness: [200], violations: [] })),
    );
  });

  it('replaces connections that hang', async () => {
    const proxy = await ChaosProxy.listen(url);
    cleanUps.push(() => proxy.close());
    const instance = await serve({ DATABASE_URL: proxy.proxiedUrl(url) });
    const load = await startLoad(instance);
    proxy.blackhole();
    await waitFor(() => load.responses.some(({ status }) => status === 503));
    await load.waitForSuccesses(2);
    expect(await stopAndCollectViolations(load, instance)).toEqual([]);
  });
});

describe('a failover to a server that lacks the last transactions', () => {
  it('lists what this server has, and each create since', async () => {
    const instance = await serve();
    const failOver = await createStandby(server);
    await waitUntilReady(instance);
    expect((await instance.categories.create('cat')).status).toBe(201);
    expect(await instance.categories.getNames()).toEqual(['cat']);
    await failOver();
    await waitUntilReady(instance);
    expect((await instance.categories.create('dog')).status).toBe(201);
    expect(await instance.categories.getNames()).toEqual(['dog']);
  });
});

describe('startup while the database is unavailable', () => {
  it.each([
    ['is down', killServer],
    ['hangs', freezeServer],
  ])('retries while the server %s and then recovers', async (_state, failServer) => {
    const recoverServer = await failServer();
    const instance = await serve();
    const { categories } = instance;
    expectUnavailable(await getReadiness(instance));
    expect((await sendRequest(`${instance.url}/livez`)).status).toBe(200);
    expectUnavailable(await categories.list());
    expectUnavailable(await categories.create('dog'));
    expect((await sendRequest(`${instance.url}/v1/categories`)).status).toBe(401);
    await waitFor(
      () => logger.text.match(/retrying in \d+ ms/g)?.length ?? 0,
      (retries) => retries >= 3,
    );
    await recoverServer();
    await waitUntilReady(instance);
    expect((await categories.create('dog')).status).toBe(201);
    expect(await categories.getNames()).toEqual(['dog']);
  });

  it('completes a graceful shutdown on SIGTERM', async () => {
    await killServer();
    const { service } = await services.serve();
    service.kill('SIGTERM');
    expect(await service.exited).toEqual({ code: 0, signal: null });
    expect(service.stderr).toBe('');
  });

  it('waits while another process migrates the database, and logs it', async () => {
    const other = await connectToPostgres(url);
    cleanUps.push(() => other.end());
    // A migration of the previous release holds the lock of its session.
    await other.query('SELECT pg_advisory_lock(7738378831)');
    const instance = await serve();
    expectUnavailable(await getReadiness(instance));
    expect(logger.text).toMatch(
      /Another process is migrating the database\. Checking again in 500 ms/,
    );
    await other.query('SELECT pg_advisory_unlock_all()');
    await waitUntilReady(instance);
    expect((await instance.categories.create('dog')).status).toBe(201);
  });

  it('waits for a lock on the API key table to be released', async () => {
    const { app } = await serve({ BOOTSTRAP_API_KEY: '' });
    const { key } = await app.get(ApiKeysService).create('test');
    await cleanUps.pop()!();
    const unlock = await lock(url, 'api_keys');
    // In a process, because it looks for keys, too, to create the first one.
    const instance = await services.serve({ env: { BOOTSTRAP_API_KEY: '' } });
    const categories = new CategoriesClient(instance.url, key);
    expect((await sendRequest(`${instance.url}/livez`)).status).toBe(200);
    expectUnavailable(await categories.create('dog'));
    await unlock();
    await waitUntilReady(instance);
    expect((await categories.create('dog')).status).toBe(201);
  });
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
    await expect(serve({ DATABASE_URL: withUrlParts(url, parts) })).rejects.toThrow(message);
  });
});
