import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { createDataSource } from '../src/data-source.js';
import { createDatabase, type TestDatabase } from './support/app.js';
import { buildOnce } from './support/build.js';
import { type HttpResponse, sendRequest, jsonHeaders } from './support/http-client.js';
import { runKeys } from './support/cli.js';
import { LoadGenerator, type Row } from './support/load-generator.js';
import { ServiceProcess } from './support/service-process.js';
import { ChaosProxy } from './support/chaos-proxy.js';
import { waitFor } from './support/wait.js';

// Starts several processes; the first start includes compilation.
import.meta.jest.setTimeout(60_000);

const INSTANCES = 3;
/** Clients per instance that create categories. */
const WRITERS = 3;
/** The latency of database responses to the distant instance. */
const LATENCY_MS = 10;
/** The time within which revocation must take effect on every instance. */
const REVOCATION_TIMEOUT_MS = 5_000;
/** Generous because other tests run at the same time. */
const TIMEOUT_MS = 30_000;

let directory: string;
let database: TestDatabase;
let client: Client;
let services: ServiceProcess[];

/** Creates an empty database and opens a connection to it. */
async function openDatabase(): Promise<void> {
  directory = await mkdtemp(join(tmpdir(), 'petstore-instances-'));
  database = await createDatabase();
  services = [];
  client = new Client({ connectionString: database.url });
  await client.connect();
}

async function closeDatabase(): Promise<void> {
  await Promise.all(services.map((service) => service.stop()));
  await client.end();
  await database.drop();
  await rm(directory, { recursive: true, force: true });
}

async function start(env: NodeJS.ProcessEnv = {}): Promise<ServiceProcess> {
  const service = await ServiceProcess.start(directory, { DATABASE_URL: database.url, ...env });
  services.push(service);
  return service;
}

/**
 * Starts three instances simultaneously and waits until all of them listen.
 *
 * @param first additional environment variables of the first instance
 */
async function startAll(
  env: NodeJS.ProcessEnv = {},
  first: NodeJS.ProcessEnv = {},
): Promise<string[]> {
  // Compiles first, so that the instances really start simultaneously.
  await buildOnce();
  const started = await Promise.all([start({ ...env, ...first }), start(env), start(env)]);
  return Promise.all(started.map((service) => service.waitUntilListening()));
}

async function runKeyCommand(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await runKeys(args, {
    env: { DATABASE_URL: database.url },
    cwd: directory,
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout.trim();
}

const list = (url: string, key: string): Promise<HttpResponse> =>
  sendRequest(`${url}/v1/categories`, { headers: { authorization: `Bearer ${key}` } });
const create = (url: string, key: string, name: string): Promise<HttpResponse> =>
  sendRequest(`${url}/v1/categories`, {
    method: 'POST',
    headers: jsonHeaders(key),
    body: JSON.stringify({ name }),
  });
const parseRows = ({ body }: HttpResponse): Row[] => JSON.parse(body.toString()) as Row[];
const sha256 = (key: string): string => createHash('sha256').update(key).digest('hex');

async function getKeyRecord(key: string): Promise<{ id: string; revoked_at: string | null }> {
  const { rows } = await client.query<{ id: string; revoked_at: string | null }>(
    'SELECT "id", "revoked_at" FROM "api_keys" WHERE "hash" = $1',
    [sha256(key)],
  );
  return rows[0]!;
}

describe('startup of several instances', () => {
  beforeEach(openDatabase);
  afterEach(closeDatabase);

  it('migrates an empty database exactly once when three instances start simultaneously', async () => {
    const urls = await startAll({ NODE_ENV: 'production' });
    const { rows } = await client.query<{ name: string }>('SELECT "name" FROM "migrations"');
    const names = rows.map(({ name }) => name);
    expect(names).toEqual([...new Set(names)]);
    expect(names.length).toBeGreaterThan(0);
    const outputs = services.map(({ output }) => output).join('');
    const reported = [...outputs.matchAll(/Applied migration (\w+)/g)].map(([, name]) => name!);
    expect(reported.toSorted()).toEqual(names.toSorted());

    const key = await runKeyCommand('create', 'test');
    for (const url of urls) {
      expect((await sendRequest(`${url}/readyz`)).status).toBe(200);
      expect((await create(url, key, url)).status).toBe(201);
    }
    const lists = await Promise.all(urls.map(async (url) => parseRows(await list(url, key))));
    for (const shown of lists) expect(shown.map(({ name }) => name)).toEqual(urls);
  });

  it('creates only one initial API key, which every instance accepts', async () => {
    const first = await start();
    const url = await first.waitUntilListening();
    const [, key] = await waitFor(
      () => /API key \(shown only once\): +(pet_\S+)/.exec(first.output) ?? [],
      (match) => match.length > 0,
      TIMEOUT_MS,
    );
    const others = await Promise.all([start(), start()]);
    for (const other of [
      url,
      ...(await Promise.all(others.map((one) => one.waitUntilListening()))),
    ])
      expect((await list(other, key!)).status).toBe(200);
    await Promise.all(services.map((service) => service.stop()));
    expect(others.map(({ output }) => output).join('')).not.toMatch(/pet_/);
  });

  it('stores BOOTSTRAP_API_KEY only once when three instances start simultaneously', async () => {
    // Migrates first, so that the instances contend only for the key.
    const dataSource = createDataSource(database.config);
    await dataSource.initialize();
    await dataSource.migrate();
    await dataSource.destroy();
    // No instance can store the key until all of them have found it missing.
    await client.query('BEGIN');
    await client.query('LOCK TABLE "api_keys" IN SHARE MODE');

    const key = 'bootstrap-0123456789-abcdefghijklmnop';
    const env = { BOOTSTRAP_API_KEY: key, DATABASE_QUERY_TIMEOUT_MS: String(TIMEOUT_MS) };
    const started = startAll(env);
    // A failed start is reported below.
    started.catch(() => undefined);
    const observer = new Client({ connectionString: database.url });
    await observer.connect();
    try {
      await waitFor(
        async () => {
          const { rowCount } = await observer.query(
            `SELECT 1 FROM pg_stat_activity
             WHERE "datname" = current_database() AND "wait_event_type" = 'Lock'`,
          );
          return rowCount;
        },
        (waiting) => waiting === INSTANCES,
        TIMEOUT_MS,
      );
    } finally {
      await observer.end();
      await client.query('COMMIT');
    }

    const urls = await started;
    for (const url of urls) expect((await list(url, key)).status).toBe(200);
    const { rows } = await client.query('SELECT "hash", "revoked_at" FROM "api_keys"');
    expect(rows).toEqual([{ hash: sha256(key), revoked_at: null }]);
  });
});

describe('a deployment of three instances', () => {
  let proxy: ChaosProxy;
  let urls: string[];
  let key: string;
  beforeAll(async () => {
    await openDatabase();
    // Database responses reach the first instance late and may be stale by then.
    proxy = await ChaosProxy.listen(database.url, LATENCY_MS);
    const env = { NODE_ENV: 'production' };
    urls = await startAll(env, { DATABASE_URL: proxy.proxiedUrl(database.url) });
    key = await runKeyCommand('create', 'test');
  });
  afterAll(async () => {
    await closeDatabase();
    await proxy.close();
  });
  let load: LoadGenerator | undefined;
  beforeEach(async () => {
    await client.query('TRUNCATE "categories" RESTART IDENTITY');
  });
  afterEach(async () => {
    await load?.stop();
    load = undefined;
  });

  /**
   * Starts clients that create and list categories on every instance.
   *
   * @param pause maximum delay in milliseconds before each create request
   */
  function startLoad({ writers = WRITERS, readers = 3, pause = 10 } = {}): LoadGenerator {
    const clients = new LoadGenerator(key);
    for (const url of urls) {
      clients.start(url, { writers, readers: 0, pause });
      clients.start(url, { writers: 0, readers, pause: 10 });
    }
    return clients;
  }

  /** Lists the categories on all instances concurrently. */
  const listAll = (): Promise<Row[][]> =>
    Promise.all(urls.map(async (url) => parseRows(await list(url, key))));

  it('accepts a newly created API key immediately', async () => {
    const created = await runKeyCommand('create', 'fresh');
    const responses = await Promise.all(urls.map((url) => list(url, created)));
    expect(responses.map(({ status }) => status)).toEqual([200, 200, 200]);
  });

  it('applies the revocation of an API key in constant use within 5 seconds', async () => {
    const revoked = await runKeyCommand('create', 'to be revoked');
    const record = await getKeyRecord(revoked);
    let isRevoked = false;
    const use = async (url: string): Promise<{ lastAccepted: number; statuses: number[] }> => {
      const statuses: number[] = [];
      let lastAccepted = 0;
      for (let rejections = 0; rejections < 10;) {
        const sentAt = Date.now();
        const { status } = await list(url, revoked);
        if (status === 200) lastAccepted = sentAt;
        if (isRevoked && status !== 200) rejections++;
        if (status !== statuses.at(-1)) statuses.push(status);
        await delay(10);
      }
      return { lastAccepted, statuses };
    };
    const pendingUses = urls.map(use);
    await runKeyCommand('revoke', record.id);
    isRevoked = true;
    const uses = await Promise.all(pendingUses);
    const revokedAt = Number((await getKeyRecord(revoked)).revoked_at);
    for (const { lastAccepted, statuses } of uses) {
      expect(statuses).toEqual([200, 401]);
      expect(lastAccepted - revokedAt).toBeLessThan(REVOCATION_TIMEOUT_MS);
    }
    // Other keys are unaffected.
    const others = await Promise.all(urls.map((url) => list(url, key)));
    expect(others.map(({ status }) => status)).toEqual([200, 200, 200]);
  });

  it('returns ids as JSON numbers up to Number.MAX_SAFE_INTEGER', async () => {
    const ids: number[] = [];
    const highest = String(Number.MAX_SAFE_INTEGER);
    for (const url of urls) {
      const { status, body } = await create(url, key, 'dog');
      expect(status).toBe(201);
      expect(body.toString()).toMatch(/^\{"id":[1-9]\d*,"name":"dog"\}$/);
      ids.push((JSON.parse(body.toString()) as Row).id);
    }
    expect(ids).toEqual([1, 2, 3]);
    await client.query(`SELECT setval(pg_get_serial_sequence('categories', 'id'), ${highest} - 1)`);
    const last = await create(urls[0]!, key, 'cat');
    expect(last.body.toString()).toBe(`{"id":${highest},"name":"cat"}`);
    for (const url of urls) {
      const { body } = await list(url, key);
      expect(body.toString()).toBe(
        `[{"id":1,"name":"dog"},{"id":2,"name":"dog"},{"id":3,"name":"dog"},{"id":${highest},"name":"cat"}]`,
      );
    }
  });

  it.each<[string, string[], string[]]>([
    ['an insert', [`INSERT INTO "categories" ("name") VALUES ('cat')`], ['dog', 'rabbit', 'cat']],
    [
      'an update',
      [`UPDATE "categories" SET "name" = 'hound' WHERE "name" = 'dog'`],
      ['hound', 'rabbit'],
    ],
    [
      'an update of only a description',
      [`UPDATE "categories" SET "description" = 'barks' WHERE "name" = 'dog'`],
      ['dog barks', 'rabbit'],
    ],
    ['a delete', [`DELETE FROM "categories" WHERE "name" = 'dog'`], ['rabbit']],
    ['a truncate', ['TRUNCATE "categories"'], []],
    [
      'a transaction of several statements',
      [
        'BEGIN',
        `INSERT INTO "categories" ("name") VALUES ('cat')`,
        `DELETE FROM "categories" WHERE "name" = 'rabbit'`,
        'COMMIT',
      ],
      ['dog', 'cat'],
    ],
    [
      'an update that reverts another',
      [
        `UPDATE "categories" SET "name" = 'hound' WHERE "name" = 'dog'`,
        `UPDATE "categories" SET "name" = 'dog' WHERE "name" = 'hound'`,
      ],
      ['dog', 'rabbit'],
    ],
  ])(
    'reflects %s made outside the service in the next list',
    async (_change, statements, expected) => {
      await client.query(`INSERT INTO "categories" ("name") VALUES ('dog'), ('rabbit')`);
      const before = await listAll();
      for (const rows of before) expect(rows.map(({ name }) => name)).toEqual(['dog', 'rabbit']);
      for (const statement of statements) await client.query(statement);
      const after: (Row & { description?: string })[][] = await listAll();
      expect(after).toHaveLength(INSTANCES);
      for (const rows of after) {
        const labels = rows.map(({ name, description }) =>
          description === undefined ? name : `${name} ${description}`,
        );
        expect(labels).toEqual(expected);
      }
    },
  );

  it('does not show the changes of an open or rolled-back transaction', async () => {
    await client.query('BEGIN');
    await client.query(`INSERT INTO "categories" ("name") VALUES ('cat')`);
    expect(await listAll()).toEqual([[], [], []]);
    await client.query('ROLLBACK');
    expect(await listAll()).toEqual([[], [], []]);
  });

  it.each([
    ['constant', {}, 60],
    // Cached lists are then often still valid, or could wrongly be considered valid.
    ['occasional', { writers: 1, readers: 6, pause: 200 }, 40],
  ])(
    'includes every acknowledged create in each list under %s changes',
    async (_rate, clients, successes) => {
      load = startLoad(clients);
      await load.waitForSuccesses(successes, TIMEOUT_MS);
      await load.stop();

      const lists = await listAll();
      for (const rows of lists) load.verifyFinalState(rows);
      expect(load.violations).toEqual([]);
      // Every create was acknowledged, so no other rows may exist.
      const created = load.created.toSorted((a, b) => a.id - b.id);
      for (const rows of lists) expect(rows).toEqual(created);
      for (const url of urls) {
        const responses = load.responses.filter((response) => response.url === url);
        for (const status of [200, 201])
          expect(responses).toContainEqual(expect.objectContaining({ status }));
      }
    },
  );

  it('keeps every acknowledged create and remains available when one instance is killed', async () => {
    load = startLoad();
    await load.waitForSuccesses(20, TIMEOUT_MS);
    const killedUrl = urls.at(-1)!;
    load.allowDisconnects(killedUrl);
    services.at(-1)!.kill('SIGKILL');
    expect(await services.at(-1)!.exited).toEqual({ code: null, signal: 'SIGKILL' });
    const killedResponses = load.responses.filter(({ url }) => url === killedUrl).length;
    expect(killedResponses).toBeGreaterThan(0);
    await load.waitForSuccesses(40, TIMEOUT_MS);
    await load.stop();

    // Restores three instances for the next tests.
    const replacement = await start({ NODE_ENV: 'production' });
    urls = [...urls.slice(0, -1), await replacement.waitUntilListening()];
    const lists = await listAll();
    for (const rows of lists) {
      load.verifyFinalState(rows);
      expect(rows).toEqual(lists[0]);
    }
    expect(load.violations).toEqual([]);
    const stored = new Set(lists[0]!.map(({ id }) => id));
    expect(load.created.filter(({ id }) => !stored.has(id))).toEqual([]);
    // Any other rows are creates that the killed instance committed but did not acknowledge.
    expect(lists[0]!.length - load.created.length).toBeLessThanOrEqual(WRITERS);
  });
});
