import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { ApiKey } from '../src/platform/auth/api-key.entity.js';
import { ApiKeysService } from '../src/platform/auth/api-keys.service.js';
import { PetstoreDataSource } from '../src/platform/database/petstore-data-source.js';
import { databaseOptions } from '../src/platform/database/data-source-options.js';
import { type HttpResponse, sendRequest, jsonHeaders } from './support/http-client.js';
import { LoadGenerator, type Row } from './support/load-generator.js';
import { type PostgresServer, startPostgres } from './support/postgres.js';
import { freeze, kill, restart } from './support/postgres-faults.js';
import { ServiceProcess } from './support/service-process.js';
import { ChaosProxy } from './support/chaos-proxy.js';
import { waitFor } from './support/wait.js';

// Servers stop, hang and recover; the first service waits for the compiler.
import.meta.jest.setTimeout(90_000);

const KEY = 'bootstrap-0123456789-abcdefghijklmnop';
const PASSWORD = 'secret-0123456789';
const WRONG_PASSWORD = 'wrong-0123456789';
/** What the issue allows a request while the database hangs. */
const ANSWER_LIMIT = 5_000;
/** Milliseconds in which the service works again. */
const RECOVERY_LIMIT = 20_000;
const LIMIT = 30_000;
/** What a client is told while the database is away. */
const UNAVAILABLE = {
  code: 'SERVICE_UNAVAILABLE',
  message: expect.stringMatching(/\S/) as string,
  status: 503,
};

/** Clients that come at many different moments, about a hundred a second. */
const CROWD = { writers: 30, readers: 15, pause: 500 };

let server: PostgresServer;
let directory: string;
let url: string;
let services: ServiceProcess[];
/** Ends what a test has begun, where the test has not. */
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
    if (leaked.length > 0) throw new Error(`The output shows ${leaked.join(', ')}`);
  }
});

/** An empty database on the server; the password of its address is not found in an output by chance. */
async function createDatabase(): Promise<string> {
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await query(server.url, `CREATE DATABASE "${name}"`);
  return change(server.url, { username: 'tester', password: PASSWORD, pathname: `/${name}` });
}

function change(
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

/** Locks a table as somebody does who works on it by hand; gives what ends the lock. */
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
  const mend = async (): Promise<void> => {
    if (killed) await restart(server);
    killed = false;
  };
  cleanUps.push(mend);
  return mend;
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

/** Starts clients, and waits until each has been served. */
async function startLoad(base: string): Promise<LoadGenerator> {
  const load = new LoadGenerator(KEY, { allow503: true });
  cleanUps.push(() => load.stop());
  load.start(base, CROWD);
  await load.waitForSuccesses(3, LIMIT);
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

function expectUnavailable(answer: HttpResponse): void {
  expect(parse(answer)).toEqual(UNAVAILABLE);
  expect(answer.status).toBe(503);
  expect(answer.headers['retry-after']).toMatch(/^[1-9]\d*$/);
  expect(answer.headers['content-type']).toMatch(/^application\/json/);
}

/** Waits until the service says that it is ready. */
async function ready(base: string): Promise<void> {
  await waitFor(
    () => get(base, '/readyz'),
    ({ status }) => status === 200,
    RECOVERY_LIMIT,
  );
}

/** Waits until the service says that it is not ready. */
function unready(base: string): Promise<HttpResponse> {
  return waitFor(
    () => get(base, '/readyz'),
    ({ status }) => status !== 200,
    LIMIT,
  );
}

/** Asks `/livez` all the time, beside whatever else happens; gives everything that was answered. */
function watchLife(base: string): () => Promise<unknown[]> {
  const answers = new Set<unknown>();
  const stopping = new AbortController();
  const watch = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      answers.add(await get(base, '/livez').then(({ status }) => status, String));
      await delay(50);
    }
  };
  const done = watch();
  const stop = async (): Promise<unknown[]> => {
    stopping.abort();
    await done;
    return [...answers];
  };
  cleanUps.push(stop);
  return stop;
}

/**
 * Ends the clients, reads the list once more, and gives what must not be: answers that are wrong,
 * that lack what was stored, or that came too late.
 */
async function problemsOf(load: LoadGenerator, base: string): Promise<string[]> {
  await load.stop();
  const answer = await get(base, '/v1/categories');
  if (answer.status !== 200) return [`The list is answered ${answer.status}`];
  load.verifyFinalState(parse(answer) as Row[]);
  const late = load.answers
    .filter(({ milliseconds }) => milliseconds > ANSWER_LIMIT)
    .toSorted((a, b) => b.milliseconds - a.milliseconds)
    .map(
      ({ kind, status, milliseconds }, _index, { length }) =>
        `A ${kind} was answered ${status} after ${Math.round(milliseconds)} ms (of ${length})`,
    );
  return [...load.violations, ...late.slice(0, 3)];
}

function pausesIn(output: string): number[] {
  return [...output.matchAll(/trying again in (\d+) ms/g)].map(([, pause]) => Number(pause));
}

describe('A service whose database fails under load', () => {
  it('answers within 5 seconds while the server hangs, and works again when it goes on', async () => {
    const base = await serve();
    const load = await startLoad(base);
    const life = watchLife(base);
    const thaw = await freezeServer();
    const [readiness] = await Promise.all([unready(base), load.waitForUnavailable(2, LIMIT)]);
    expectUnavailable(readiness);

    await thaw();
    await ready(base);
    await load.waitForSuccesses(3, RECOVERY_LIMIT);
    expect(await life()).toEqual([200]);
    expect(await problemsOf(load, base)).toEqual([]);
  });

  it('works again when the server was killed and is started again, and nothing answered is lost', async () => {
    const base = await serve({ NODE_ENV: 'production' });
    const load = await startLoad(base);
    const life = watchLife(base);
    const startServer = await killServer();
    await load.waitForUnavailable(3, LIMIT);
    expectUnavailable(await get(base, '/readyz'));

    await startServer();
    await ready(base);
    await load.waitForSuccesses(3, RECOVERY_LIMIT);
    expect(await life()).toEqual([200]);
    expect(await problemsOf(load, base)).toEqual([]);
  });

  it('answers no worse than 503 when all its connections are cut, again and again', async () => {
    const base = await serve();
    const load = await startLoad(base);
    const life = watchLife(base);
    for (let cut = 0; cut < 3; cut++) {
      const gone = await query(
        server.url,
        `SELECT pg_terminate_backend("pid") FROM pg_stat_activity WHERE "application_name" = 'petstore'`,
      );
      expect(gone.length).toBeGreaterThan(0);
      await load.waitForSuccesses(2, RECOVERY_LIMIT);
    }
    expect((await get(base, '/readyz')).status).toBe(200);
    expect(await life()).toEqual([200]);
    expect(await problemsOf(load, base)).toEqual([]);
  });

  it('answers within 5 seconds on DATABASE_POOL_SIZE connections while somebody locks a table, and works again afterwards', async () => {
    const tables = ['categories', 'api_keys', 'revisions'];
    const outcomes = await Promise.all(
      tables.map(async (table) => {
        const address = await createDatabase();
        const base = await serve({ DATABASE_URL: address, DATABASE_POOL_SIZE: '4' });
        const load = await startLoad(base);
        const life = watchLife(base);
        const unlock = await lock(address, table);
        // Reads go on where nothing changes.
        await load.waitForUnavailable(2, LIMIT, 'create');
        const connections = await query(
          address,
          `SELECT "pid" FROM pg_stat_activity
           WHERE "application_name" = 'petstore' AND "datname" = current_database()`,
        );
        await unlock();
        await load.waitForSuccesses(3, RECOVERY_LIMIT);
        return {
          table,
          connections: connections.length,
          life: await life(),
          problems: await problemsOf(load, base),
        };
      }),
    );
    expect(outcomes).toEqual(
      tables.map((table) => ({ table, connections: 4, life: [200], problems: [] })),
    );
  });

  it('gives up connections that hang, and works with new ones', async () => {
    const proxy = await ChaosProxy.listen(url);
    cleanUps.push(() => proxy.close());
    const base = await serve({
      DATABASE_URL: proxy.proxiedUrl(url),
      DATABASE_CONNECT_TIMEOUT_MS: '500',
      DATABASE_QUERY_TIMEOUT_MS: '500',
    });
    const load = await startLoad(base);
    proxy.blackhole();
    await load.waitForSuccesses(10, RECOVERY_LIMIT);
    expect(await problemsOf(load, base)).toEqual([]);
    expect(load.answers).toContainEqual(expect.objectContaining({ status: 503 }));
  });
});

describe('A service whose database is slow', () => {
  it('waits no longer for a query than DATABASE_QUERY_TIMEOUT_MS', async () => {
    const base = await serve({ DATABASE_QUERY_TIMEOUT_MS: '200' });
    await lock(url, 'categories');
    const times: number[] = [];
    for (let attempt = 0; attempt < 3; attempt++) {
      const begin = performance.now();
      expectUnavailable(await create(base, 'dog'));
      times.push(performance.now() - begin);
    }
    const quickest = Math.min(...times);
    expect(quickest).toBeGreaterThanOrEqual(190);
    // Its default is 2 s.
    expect(quickest).toBeLessThan(1_500);
  });
});

describe('A service that starts before its database', () => {
  it.each([
    ['is down', killServer],
    ['hangs', freezeServer],
  ])(
    'says so with growing pauses while the server %s, and works when it is there',
    async (_how, fail) => {
      const mend = await fail();
      const service = await start({ DATABASE_CONNECT_TIMEOUT_MS: '300' });
      const base = await service.waitUntilListening();
      expectUnavailable(await get(base, '/readyz'));
      expect((await get(base, '/livez')).status).toBe(200);
      expectUnavailable(await get(base, '/v1/categories'));
      expectUnavailable(await create(base, 'dog'));
      expect((await sendRequest(`${base}/v1/categories`)).status).toBe(401);
      const pauses = await waitFor(
        () => pausesIn(service.output),
        ({ length }) => length >= 3,
        LIMIT,
      );
      for (const [index, pause] of pauses.entries())
        expect(pause).toBeGreaterThan(pauses[index - 1] ?? 0);

      await mend();
      await ready(base);
      expect((await create(base, 'dog')).status).toBe(201);
      expect(parse(await get(base, '/v1/categories'))).toMatchObject([{ name: 'dog' }]);
    },
  );

  it('stops when it is told to', async () => {
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
    'waits for its keys, %s BOOTSTRAP_API_KEY, where somebody locks their table',
    async (_what, bootstrapKey) => {
      const dataSource = new PetstoreDataSource(
        databaseOptions({ type: 'postgres', url, poolSize: 2, connectTimeout: 2_000 }),
      );
      await dataSource.open();
      const keys = new ApiKeysService(dataSource.getRepository(ApiKey));
      const key = bootstrapKey === '' ? (await keys.create('test')).key : bootstrapKey;
      await dataSource.destroy();
      const unlock = await lock(url, 'api_keys');
      const base = await serve({ BOOTSTRAP_API_KEY: bootstrapKey });
      expect((await get(base, '/livez')).status).toBe(200);
      expectUnavailable(await create(base, 'dog', key));
      await unlock();
      await ready(base);
      expect((await create(base, 'dog', key)).status).toBe(201);
    },
  );
});

describe('A start that cannot succeed', () => {
  it.each<[string, Parameters<typeof change>[1], RegExp]>([
    ['a wrong password', { password: WRONG_PASSWORD }, /password authentication failed/],
    [
      'a database that does not exist',
      { pathname: '/missing' },
      /database "missing" does not exist/,
    ],
  ])('ends with a clear message: %s', async (_what, parts, message) => {
    const service = await start({ DATABASE_URL: change(url, parts) });
    const { code } = await service.exited;
    expect(code).toBeGreaterThan(0);
    expect(service.stderr).toMatch(message);
  });

  it('because a migration fails half way leaves the database as it was, and succeeds when the obstacle is gone', async () => {
    await query(url, 'CREATE TABLE "categories" ("theirs" text)');
    const service = await start();
    expect((await service.exited).code).toBe(1);
    expect(service.stderr).toMatch(/The database cannot be used: .*"categories" already exists/);
    const left = await query(
      url,
      `SELECT "tablename" FROM pg_tables WHERE "schemaname" = 'public' AND "tablename" <> 'migrations'`,
    );
    expect(left).toEqual([{ tablename: 'categories' }]);
    await query(url, 'DROP TABLE "categories"');
    expect((await create(await serve(), 'dog')).status).toBe(201);
  });
});

describe('A service that is killed', () => {
  it('five times under load loses no create that was answered, and gives no id twice', async () => {
    const load = new LoadGenerator(KEY);
    cleanUps.push(() => load.stop());
    for (let round = 0; round < 5; round++) {
      const service = await start();
      const base = await service.waitUntilListening();
      load.start(base, { writers: 16, readers: 2 });
      await load.waitForSuccesses(2, LIMIT);
      await delay(Math.random() * 50);
      load.allowDisconnects(base);
      service.kill('SIGKILL');
      expect(await service.exited).toMatchObject({ signal: 'SIGKILL' });
    }
    expect(await problemsOf(load, await serve())).toEqual([]);
    expect(load.created.length).toBeGreaterThan(5 * 16 * 2);
  });
});
