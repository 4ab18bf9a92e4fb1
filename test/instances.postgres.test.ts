import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { PetstoreDataSource } from '../src/platform/database/petstore-data-source.js';
import { databaseOptions } from '../src/platform/database/data-source-options.js';
import { createDatabase, type TestDatabase } from './support/app.js';
import { buildOnce } from './support/build.js';
import { type HttpResponse, sendRequest, jsonHeaders } from './support/http-client.js';
import { runKeys } from './support/cli.js';
import { LoadGenerator, type Row } from './support/load-generator.js';
import { ServiceProcess } from './support/service-process.js';
import { ChaosProxy } from './support/chaos-proxy.js';
import { waitFor } from './support/wait.js';

// Several processes start, and the first one waits for the compiler.
import.meta.jest.setTimeout(60_000);

const INSTANCES = 3;
/** Clients that write on each instance. */
const WRITERS = 3;
/** Milliseconds that an answer of the database takes to a distant instance. */
const LATENCY = 10;
/** What the issue allows a revoked key. */
const REVOKED_WITHIN = 5_000;
/** Generous: other tests run at the same time. */
const LIMIT = 30_000;

let directory: string;
let database: TestDatabase;
let client: Client;
let services: ServiceProcess[];

/** Every test has an empty database, and a connection of its own to it. */
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
 * Starts three instances at the same moment, and waits until all listen.
 *
 * @param first what the environment of the first has more
 */
async function startAll(
  env: NodeJS.ProcessEnv = {},
  first: NodeJS.ProcessEnv = {},
): Promise<string[]> {
  // Compiled before, so that nothing but the start itself takes time.
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
const rowsIn = ({ body }: HttpResponse): Row[] => JSON.parse(body.toString()) as Row[];
const hashOf = (key: string): string => createHash('sha256').update(key).digest('hex');

async function recordOf(key: string): Promise<{ id: string; revoked_at: string | null }> {
  const { rows } = await client.query<{ id: string; revoked_at: string | null }>(
    'SELECT "id", "revoked_at" FROM "api_keys" WHERE "hash" = $1',
    [hashOf(key)],
  );
  return rows[0]!;
}

describe('Instances that start on an empty database', () => {
  beforeEach(openDatabase);
  afterEach(closeDatabase);

  it('three at the same moment, migrate it once and all serve it', async () => {
    const urls = await startAll({ NODE_ENV: 'production' });
    const { rows } = await client.query<{ name: string }>('SELECT "name" FROM "migrations"');
    const names = rows.map(({ name }) => name);
    expect(names).toEqual([...new Set(names)]);
    expect(names.length).toBeGreaterThan(0);
    const outputs = services.map(({ output }) => output).join('');
    const reported = [...outputs.matchAll(/Migrated: (\w+)/g)].map(([, name]) => name!);
    expect(reported.toSorted()).toEqual(names.toSorted());

    const key = await runKeyCommand('create', 'test');
    for (const url of urls) {
      expect((await sendRequest(`${url}/readyz`)).status).toBe(200);
      expect((await create(url, key, url)).status).toBe(201);
    }
    const lists = await Promise.all(urls.map(async (url) => rowsIn(await list(url, key))));
    for (const shown of lists) expect(shown.map(({ name }) => name)).toEqual(urls);
  });

  it('take the first key that one of them has made, and make none of their own', async () => {
    const first = await start();
    const url = await first.waitUntilListening();
    const [, key] = await waitFor(
      () => /shown only this once: +(pet_\S+)/.exec(first.output) ?? [],
      (match) => match.length > 0,
      LIMIT,
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

  it('three at the same moment, take the same BOOTSTRAP_API_KEY, of which one row is kept', async () => {
    // Migrated before, so that the key is all that they can meet in.
    const dataSource = new PetstoreDataSource(databaseOptions(database.config));
    await dataSource.open();
    await dataSource.destroy();
    // None can store the key before all have seen that it is missing.
    await client.query('BEGIN');
    await client.query('LOCK TABLE "api_keys" IN SHARE MODE');

    const key = 'bootstrap-0123456789-abcdefghijklmnop';
    const env = { BOOTSTRAP_API_KEY: key, DATABASE_QUERY_TIMEOUT_MS: String(LIMIT) };
    const started = startAll(env);
    // A start that fails is reported below.
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
        LIMIT,
      );
    } finally {
      await observer.end();
      await client.query('COMMIT');
    }

    const urls = await started;
    for (const url of urls) expect((await list(url, key)).status).toBe(200);
    const { rows } = await client.query('SELECT "hash", "revoked_at" FROM "api_keys"');
    expect(rows).toEqual([{ hash: hashOf(key), revoked_at: null }]);
  });
});

describe('Three instances on one database', () => {
  let proxy: ChaosProxy;
  let urls: string[];
  let key: string;
  beforeAll(async () => {
    await openDatabase();
    // The first is far from the database: what it asks is answered late, and may be stale by then.
    proxy = await ChaosProxy.listen(database.url, LATENCY);
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
   * Starts clients that create and list on every instance.
   *
   * @param pause milliseconds that a writer waits at most before each create
   */
  function startLoad({ writers = WRITERS, readers = 3, pause = 10 } = {}): LoadGenerator {
    const clients = new LoadGenerator(key);
    for (const url of urls) {
      clients.start(url, { writers, readers: 0, pause });
      clients.start(url, { writers: 0, readers, pause: 10 });
    }
    return clients;
  }

  /** What each instance shows now, asked of all at the same moment. */
  const listAll = (): Promise<Row[][]> =>
    Promise.all(urls.map(async (url) => rowsIn(await list(url, key))));

  it('all take a key at once that was created while they ran', async () => {
    const created = await runKeyCommand('create', 'fresh');
    const answers = await Promise.all(urls.map((url) => list(url, created)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  });

  it('all refuse a key within 5 seconds after it was revoked, however busy it is', async () => {
    const revoked = await runKeyCommand('create', 'to be revoked');
    const record = await recordOf(revoked);
    let isRevoked = false;
    const use = async (url: string): Promise<{ lastAccepted: number; statuses: number[] }> => {
      const statuses: number[] = [];
      let lastAccepted = 0;
      for (let refused = 0; refused < 10;) {
        const sentAt = Date.now();
        const { status } = await list(url, revoked);
        if (status === 200) lastAccepted = sentAt;
        if (isRevoked && status !== 200) refused++;
        if (status !== statuses.at(-1)) statuses.push(status);
        await delay(10);
      }
      return { lastAccepted, statuses };
    };
    const users = urls.map(use);
    await runKeyCommand('revoke', record.id);
    isRevoked = true;
    const uses = await Promise.all(users);
    const revokedAt = Number((await recordOf(revoked)).revoked_at);
    for (const { lastAccepted, statuses } of uses) {
      expect(statuses).toEqual([200, 401]);
      expect(lastAccepted - revokedAt).toBeLessThan(REVOKED_WITHIN);
    }
    // Another key is not touched by it.
    const others = await Promise.all(urls.map((url) => list(url, key)));
    expect(others.map(({ status }) => status)).toEqual([200, 200, 200]);
  });

  it('give ids as JSON numbers, up to the highest that a JSON number holds exactly', async () => {
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
      'an update of a description alone',
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
      'an update that changes back what another has changed',
      [
        `UPDATE "categories" SET "name" = 'hound' WHERE "name" = 'dog'`,
        `UPDATE "categories" SET "name" = 'dog' WHERE "name" = 'hound'`,
      ],
      ['dog', 'rabbit'],
    ],
  ])('all show %s by hand at the next read', async (_what, statements, expected) => {
    await client.query(`INSERT INTO "categories" ("name") VALUES ('dog'), ('rabbit')`);
    const before = await listAll();
    for (const rows of before) expect(rows.map(({ name }) => name)).toEqual(['dog', 'rabbit']);
    for (const statement of statements) await client.query(statement);
    const after: (Row & { description?: string })[][] = await listAll();
    expect(after).toHaveLength(INSTANCES);
    for (const rows of after) {
      const shown = rows.map(({ name, description }) =>
        description === undefined ? name : `${name} ${description}`,
      );
      expect(shown).toEqual(expected);
    }
  });

  it('show nothing of a transaction that is open or was rolled back', async () => {
    await client.query('BEGIN');
    await client.query(`INSERT INTO "categories" ("name") VALUES ('cat')`);
    expect(await listAll()).toEqual([[], [], []]);
    await client.query('ROLLBACK');
    expect(await listAll()).toEqual([[], [], []]);
  });

  it.each([
    ['changes all the time', {}, 60],
    // A list that was made before is then often still current, or would be taken for it.
    ['changes now and then', { writers: 1, readers: 6, pause: 200 }, 40],
  ])('show whatever was answered before in a list that %s', async (_how, clients, answers) => {
    load = startLoad(clients);
    await load.waitForSuccesses(answers, LIMIT);
    await load.stop();

    const lists = await listAll();
    for (const rows of lists) load.verifyFinalState(rows);
    expect(load.violations).toEqual([]);
    // Every create was answered, so there is nothing else.
    const created = load.created.toSorted((a, b) => a.id - b.id);
    for (const rows of lists) expect(rows).toEqual(created);
    for (const url of urls) {
      const answered = load.answers.filter((answer) => answer.url === url);
      for (const status of [200, 201])
        expect(answered).toContainEqual(expect.objectContaining({ status }));
    }
  });

  it('lose nothing that was answered when one of them is killed, and the others go on', async () => {
    load = startLoad();
    await load.waitForSuccesses(20, LIMIT);
    const victim = urls.at(-1)!;
    load.allowDisconnects(victim);
    services.at(-1)!.kill('SIGKILL');
    expect(await services.at(-1)!.exited).toEqual({ code: null, signal: 'SIGKILL' });
    const answersOfTheVictim = load.answers.filter(({ url }) => url === victim).length;
    expect(answersOfTheVictim).toBeGreaterThan(0);
    await load.waitForSuccesses(40, LIMIT);
    await load.stop();

    // The store of the next tests has three instances again.
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
    // What is stored beyond that are creates of the killed instance that nobody was told of.
    expect(lists[0]!.length - load.created.length).toBeLessThanOrEqual(WRITERS);
  });
});
