import type { Client } from 'pg';
import type { Config } from '../../src/platform/config/config.js';
import { createDatabase, startApp, type TestApp, type TestDatabase } from '../support/app.js';
import { ChaosProxy } from '../support/chaos-proxy.js';
import type { Category } from '../support/http-client.js';
import { LoadGenerator } from '../support/load-generator.js';
import { MemoryLogger } from '../support/memory-logger.js';
import { connectToPostgres } from '../support/postgres-client.js';

/** The latency of database responses to the distant instance, in milliseconds. */
const LATENCY_MS = 10;

const logger = new MemoryLogger();
let database: TestDatabase;
let client: Client;
let proxy: ChaosProxy;
let instances: TestApp[];
beforeAll(async () => {
  database = await createDatabase();
  client = await connectToPostgres(database.url);
  // Database responses reach the first instance late and may be stale by then.
  proxy = await ChaosProxy.listen(database.url, LATENCY_MS);
  const distant = { ...database.config, url: proxy.proxiedUrl(database.url) } as Config['database'];
  instances = await Promise.all(
    [distant, database.config, database.config].map((each) =>
      startApp({ database, config: { database: each }, logger }),
    ),
  );
});
afterAll(async () => {
  await Promise.all(instances.map((instance) => instance.stop()));
  await client.end();
  await database.drop();
  await proxy.close();
});
beforeEach(async () => {
  await client.query('TRUNCATE "categories" RESTART IDENTITY CASCADE');
});

/** Lists the categories on all instances concurrently. */
const listAll = (): Promise<Category[][]> =>
  Promise.all(instances.map(({ categories }) => categories.getAll()));

describe('three instances that start simultaneously', () => {
  it('have migrated the empty database exactly once', async () => {
    const { rows } = await client.query<{ name: string }>('SELECT "name" FROM "migrations"');
    const names = rows.map(({ name }) => name);
    expect(names).toEqual([...new Set(names)]);
    expect(names.length).toBeGreaterThan(0);
    const text = logger.text.match(/Applied migration \w+/g)!;
    expect(text.toSorted()).toEqual(names.map((name) => `Applied migration ${name}`).toSorted());
  });

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
