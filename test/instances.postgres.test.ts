import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { main as keys } from '../src/cli/keys.js';
import type { Config } from '../src/platform/config/config.js';
import { createDatabase, startApp, type TestApp, type TestDatabase } from './support/app.js';
import { ChaosProxy } from './support/chaos-proxy.js';
import { runCommand } from './support/cli.js';
import { CategoriesClient, type Category, sendRequest } from './support/http-client.js';
import { LoadGenerator } from './support/load-generator.js';
import { MemoryLogger } from './support/memory-logger.js';
import { connectToPostgres } from './support/postgres-client.js';
import { BOOTSTRAP_KEY } from './support/service-process.js';

const INSTANCES = 3;
/** The latency of database responses to the distant instance. */
const LATENCY_MS = 10;
/** The time within which revocation must take effect on every instance. */
const REVOCATION_TIMEOUT_MS = 5_000;
/** Generous because other tests run at the same time. */

let database: TestDatabase;
let client: Client;
let instances: TestApp[];

/** Creates an empty database and opens a connection to it. */
async function openDatabase(): Promise<void> {
  database = await createDatabase();
  instances = [];
  client = await connectToPostgres(database.url);
}

async function closeDatabase(): Promise<void> {
  await Promise.all(instances.map((instance) => instance.stop()));
  await client.end();
  await database.drop();
}

/**
 * Starts three instances simultaneously.
 *
 * @param first additional configuration of the first instance
 */
async function startAll(
  { logger = false, ...config }: Partial<Config> & { logger?: MemoryLogger | false } = {},
  first: Partial<Config> = {},
): Promise<void> {
  instances = await Promise.all(
    [{ ...config, ...first }, config, config].map((each) =>
      startApp({ database, config: each, logger }),
    ),
  );
}

async function runKeyCommand(...args: string[]): Promise<string> {
  const { code, stdout } = await runCommand(keys, args, { DATABASE_URL: database.url });
  expect(code).toBe(0);
  return stdout.trim();
}

async function getKeyRecord(name: string): Promise<{ id: string; revoked_at: string | null }> {
  const { rows } = await client.query<{ id: string; revoked_at: string | null }>(
    'SELECT "id", "revoked_at" FROM "api_keys" WHERE "name" = $1',
    [name],
  );
  return rows[0]!;
}

/** Lists the categories on all instances concurrently. */
const listAll = (): Promise<Category[][]> =>
  Promise.all(instances.map(({ categories }) => categories.getAll()));

/** Lists the categories on all instances with an API key, and returns the statuses. */
const listWithKey = (key: string): Promise<number[]> =>
  Promise.all(
    instances.map(async ({ url }) => (await new CategoriesClient(url, key).list()).status),
  );

describe('startup of several instances', () => {
  beforeEach(openDatabase);
  afterEach(closeDatabase);

  it('migrates an empty database exactly once when three instances start simultaneously', async () => {
    const logger = new MemoryLogger();
    await startAll({ logger });
    const { rows } = await client.query<{ name: string }>('SELECT "name" FROM "migrations"');
    const names = rows.map(({ name }) => name);
    expect(names).toEqual([...new Set(names)]);
    expect(names.length).toBeGreaterThan(0);
    const text = logger.text.match(/Applied migration \w+/g)!;
    expect(text.toSorted()).toEqual(names.map((name) => `Applied migration ${name}`).toSorted());

    for (const { url, categories } of instances) {
      expect((await sendRequest(`${url}/readyz`)).status).toBe(200);
      expect((await categories.create(url)).status).toBe(201);
    }
    const urls = instances.map(({ url }) => url);
    for (const rowsOfOne of await listAll())
      expect(rowsOfOne.map(({ name }) => name)).toEqual(urls);
  });

  it('stores BOOTSTRAP_API_KEY only once when three instances start simultaneously', async () => {
    await startAll({ bootstrapApiKey: BOOTSTRAP_KEY });
    expect(await listWithKey(BOOTSTRAP_KEY)).toEqual([200, 200, 200]);
    const { rows } = await client.query(
      `SELECT "hash", "revoked_at" FROM "api_keys" WHERE "name" = 'bootstrap'`,
    );
    const hash = createHash('sha256').update(BOOTSTRAP_KEY).digest('hex');
    expect(rows).toEqual([{ hash, revoked_at: null }]);
  });
});

describe('a deployment of three instances', () => {
  let proxy: ChaosProxy;
  beforeAll(async () => {
    await openDatabase();
    // Database responses reach the first instance late and may be stale by then.
    proxy = await ChaosProxy.listen(database.url, LATENCY_MS);
    const distant = { ...database.config, url: proxy.proxiedUrl(database.url) };
    await startAll({}, { database: distant as Config['database'] });
  });
  afterAll(async () => {
    await closeDatabase();
    await proxy.close();
  });
  beforeEach(async () => {
    await client.query('TRUNCATE "categories" RESTART IDENTITY CASCADE');
  });

  it('accepts a newly created API key immediately', async () => {
    const key = await runKeyCommand('create', 'fresh');
    expect(await listWithKey(key)).toEqual([200, 200, 200]);
  });

  it('applies the revocation of an API key in constant use within 5 seconds', async () => {
    const key = await runKeyCommand('create', 'to be revoked');
    let isRevoked = false;
    const use = async ({ url }: TestApp): Promise<{ lastAccepted: number; statuses: number[] }> => {
      const categories = new CategoriesClient(url, key);
      const statuses: number[] = [];
      let lastAccepted = 0;
      for (let rejections = 0; rejections < 10;) {
        const sentAt = Date.now();
        const { status } = await categories.list();
        if (status === 200) lastAccepted = sentAt;
        if (isRevoked && status !== 200) rejections++;
        if (status !== statuses.at(-1)) statuses.push(status);
        await delay(10);
      }
      return { lastAccepted, statuses };
    };
    const pendingUses = instances.map(use);
    await runKeyCommand('revoke', (await getKeyRecord('to be revoked')).id);
    isRevoked = true;
    const uses = await Promise.all(pendingUses);
    const revokedAt = Number((await getKeyRecord('to be revoked')).revoked_at);
    for (const { lastAccepted, statuses } of uses) {
      expect(statuses).toEqual([200, 401]);
      expect(lastAccepted - revokedAt).toBeLessThan(REVOCATION_TIMEOUT_MS);
    }
    // Other keys are unaffected.
    expect(await listWithKey(instances[0]!.key)).toEqual([200, 200, 200]);
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
    ['a truncate', ['TRUNCATE "categories" CASCADE'], []],
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
      const after = await listAll();
      expect(after).toHaveLength(INSTANCES);
      for (const rows of after) {
        const labels = rows.map(({ name, description }) =>
          description === undefined ? name : `${name} ${description}`,
        );
        expect(labels).toEqual(expected);
      }
    },
  );

  it.each([
    ['constant', { writers: 3, readers: 3, pause: 10 }, 20],
    // Cached lists are then often still valid, or could wrongly be considered valid.
    ['occasional', { writers: 1, readers: 6, pause: 200 }, 20],
  ])(
    'includes every acknowledged create in each list under %s changes',
    async (_rate, { writers, readers, pause }, successes) => {
      // Every instance accepts the key of any. On a busy machine a query can exceed the deadline of a request.
      const load = new LoadGenerator(instances[0]!.key, { allow503: true });
      for (const { url } of instances) {
        load.start(url, { writers, readers: 0, pause });
        load.start(url, { writers: 0, readers, pause: 10 });
      }
      try {
        await load.waitForSuccesses(successes);
      } finally {
        await load.stop();
      }

      const lists = await listAll();
      for (const rows of lists) load.verifyFinalState(rows);
      expect(load.violations).toEqual([]);
      for (const rows of lists) expect(rows).toEqual(lists[0]);
      for (const { url } of instances) {
        const responses = load.responses.filter((response) => response.url === url);
        for (const status of [200, 201])
          expect(responses).toContainEqual(expect.objectContaining({ status }));
      }
    },
  );
});
