/* oxlint-disable jest/no-standalone-expect, jest/no-disabled-tests -- all tests need pgbouncer */
import { CategoryEntity } from '../../../src/modules/categories/category.entity.js';
import { CategoriesService } from '../../../src/modules/categories/categories.service.js';
import { transactionOnce } from '../../../src/platform/idempotency/idempotency-records.js';
import { createDatabase, startApp, type TestApp, type TestDatabase } from '../support/app.js';
import { createKey } from '../support/fixtures.js';
import { jsonHeaders, sendRequest } from '../support/http-client.js';
import { hasPgBouncer, startPgBouncer } from '../support/pgbouncer.js';
import { connectToPostgres, queryPostgres, waitUntilBlocked } from '../support/postgres-client.js';
import { requires } from '../support/requirements.js';
import {
  BOOTSTRAP_KEY,
  createServices,
  type RunningService,
  type Services,
} from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

let pgBouncer: Awaited<ReturnType<typeof startPgBouncer>>;
let database: TestDatabase;
let services: Services;
/** The database behind PgBouncer. */
let href: string;
let app: TestApp | undefined;

beforeEach(async () => {
  database = await createDatabase();
  pgBouncer = await startPgBouncer(database.url);
  href = pgBouncer.url;
  services = await createServices({ DATABASE_URL: href });
});
afterEach(async () => {
  await app?.stop();
  app = undefined;
  await services.close();
  await pgBouncer.stop();
  await database.drop();
});

const getReadiness = async ({ url }: RunningService): Promise<number> =>
  (await sendRequest(`${url}/readyz`)).status;

/** Starts instances at once, and waits until they are ready. */
async function serve(count: number): Promise<RunningService[]> {
  const instances = await Promise.all(Array.from({ length: count }, () => services.serve()));
  for (const instance of instances)
    await waitFor(
      () => getReadiness(instance),
      (status) => status === 200,
    );
  return instances;
}

requires('pgbouncer', hasPgBouncer).describe('PgBouncer in transaction mode', () => {
  it('serves instances that start at once, and keeps no lock of their migrations', async () => {
    const instances = await serve(4);
    for (const { url, categories } of instances)
      expect((await categories.create(url)).status).toBe(201);
    const urls = instances.map(({ url }) => url);
    for (const { categories } of instances) expect(await categories.getNames()).toEqual(urls);
    const output = services.started.map((service) => service.output).join('');
    const applied = output.match(/Applied migration \w+/g)!;
    expect(applied).toEqual([...new Set(applied)]);
    // Other tests have locks in other databases of the server.
    const locks = `SELECT 1 FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
      WHERE "locktype" = 'advisory' AND "datname" = current_database()`;
    expect(await queryPostgres(database.url, locks)).toEqual([]);
  });

  it('serves instances whose requests share sessions', async () => {
    const instances = await serve(2);
    const names: string[] = [];
    const create = async ({ url, categories }: RunningService): Promise<void> => {
      const name = `${names.push(url)}`;
      const headers = { ...jsonHeaders(BOOTSTRAP_KEY), 'idempotency-key': name };
      const body = JSON.stringify({ name });
      const [unkeyed, keyed] = await Promise.all([
        categories.create(name),
        sendRequest(`${url}/v1/categories`, { method: 'POST', headers, body }),
        categories.getAll(),
      ]);
      expect([unkeyed.status, keyed.status]).toEqual([201, 201]);
    };
    for (let round = 0; round < 50; round++) await Promise.all(instances.map(create));
    for (const { categories } of instances) {
      const expected = names.flatMap((_url, index) => [String(index + 1), String(index + 1)]);
      expect((await categories.getNames()).toSorted()).toEqual(expected.toSorted());
    }
  });

  it('returns the connection of a statement that times out to the pool', async () => {
    const [instance] = await serve(1);
    const { categories } = instance!;
    const other = await connectToPostgres(database.url);
    try {
      await other.query('BEGIN; LOCK TABLE "categories"');
      // The request lasts for two seconds only.
      const isBlocked = waitUntilBlocked(database.url, 1);
      const response = categories.create('during');
      await isBlocked;
      expect(await response).toBeError('SERVICE_UNAVAILABLE');
      await waitUntilBlocked(database.url, 0);
      expect(await getReadiness(instance!)).toBe(200);
    } finally {
      await other.end();
    }
    expect((await categories.create('after')).status).toBe(201);
    expect(await categories.getNames()).toEqual(['after']);
  });

  it('lets keys and rules work, and refuses only the rows that PostgreSQL refuses', async () => {
    const config = { type: 'postgres', url: href } as const;
    const own = (app = await startApp({ database: { ...database, config } }));
    await own.dataSource.query(`ALTER TABLE "categories" ADD CHECK ("name" <> 'bad')`);
    await own.dataSource.query(
      `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN IF NEW."name" = 'worse' THEN RAISE EXCEPTION 'worse'; END IF; RETURN NULL; END $$`,
    );
    await own.dataSource.query(
      `CREATE CONSTRAINT TRIGGER "refuse" AFTER INSERT ON "categories" DEFERRABLE INITIALLY DEFERRED
       FOR EACH ROW EXECUTE FUNCTION refuse()`,
    );
    const create = async (name: string): Promise<number> =>
      (await own.app.get(CategoriesService).create({ name }, createKey(name))).id;
    const names = Array.from({ length: 100 }, (_, number) => `category ${number}`);
    const stored = await Promise.all(names.map((name) => create(name)));
    const sent = [...names, 'new', 'bad', 'worse'];
    const results = await Promise.allSettled(sent.map((name) => create(name)));
    expect(results.slice(0, 100)).toMatchObject(stored.map((value) => ({ value })));
    expect(results.slice(100).map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'rejected',
    ]);
    const sell = (): Promise<unknown> =>
      transactionOnce(own.dataSource, createKey('sell'), async (manager) => {
        const { affected } = await manager.delete(CategoryEntity, { name: 'new' });
        if (affected === 0) throw new Error('It is not for sale');
        return 'sold';
      });
    expect(await Promise.all([sell(), sell(), sell()])).toEqual(['sold', 'sold', 'sold']);
  });
});
