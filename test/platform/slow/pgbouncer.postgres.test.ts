/* oxlint-disable jest/no-standalone-expect, jest/no-disabled-tests -- all tests need pgbouncer */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CategoryEntity } from '../../../src/modules/categories/category.entity.js';
import { CategoriesService } from '../../../src/modules/categories/categories.service.js';
import { transactionOnce } from '../../../src/platform/idempotency/idempotency-records.js';
import { createDatabase, startApp, type TestApp, type TestDatabase } from '../support/app.js';
import { createKey } from '../support/fixtures.js';
import { jsonHeaders, sendRequest } from '../support/http-client.js';
import { findFreePort } from '../support/postgres.js';
import { connectToPostgres, queryPostgres, waitUntilBlocked } from '../support/postgres-client.js';
import { commandSucceeds, requires } from '../support/requirements.js';
import {
  BOOTSTRAP_KEY,
  createServices,
  type RunningService,
  type Services,
} from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

/** Debian's package `pgbouncer` installs it in a folder that is not in the PATH of all users. */
const env = { PATH: `${process.env['PATH']}:/usr/sbin` };
const hasPgBouncer = commandSucceeds('pgbouncer', ['--version'], env);

let directory: string;
let pgBouncer: ChildProcess;
let database: TestDatabase;
let services: Services;
/** The database behind PgBouncer. */
let href: string;
let app: TestApp | undefined;

/** Starts PgBouncer with its defaults, but for the mode and the number of its connections. */
async function startPgBouncer(target: URL): Promise<URL> {
  directory = await mkdtemp(join(tmpdir(), 'petstore-pgbouncer-'));
  await chmod(directory, 0o755);
  const port = await findFreePort();
  await writeFile(join(directory, 'users'), `"${target.username}" "${target.password}"\n`);
  await writeFile(
    join(directory, 'pgbouncer.ini'),
    `[databases]
* = host=${target.hostname} port=${target.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${join(directory, 'users')}
pool_mode = transaction
default_pool_size = 2
`,
  );
  // PgBouncer refuses to run as root.
  const user = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  pgBouncer = spawn('pgbouncer', ['-q', ...user, join(directory, 'pgbouncer.ini')], {
    env,
    stdio: 'ignore',
  });
  return Object.assign(new URL(target), { port: String(port) });
}

beforeEach(async () => {
  database = await createDatabase();
  ({ href } = await startPgBouncer(new URL(database.url)));
  const isRunning = () =>
    queryPostgres(href, 'SELECT 1').then(
      () => true,
      () => false,
    );
  await waitFor(isRunning);
  services = await createServices({ DATABASE_URL: href });
});
afterEach(async () => {
  await app?.stop();
  app = undefined;
  await services.close();
  pgBouncer.kill();
  await once(pgBouncer, 'exit');
  await database.drop();
  await rm(directory, { recursive: true });
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

  it('serves requests whose session has not prepared their statement, or has already', async () => {
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
    for (const { service, categories } of instances) {
      expect(service.output.match(/not prepared any more: .+ \((26000|42P05)\)/g)).toHaveLength(1);
      const expected = names.flatMap((_url, index) => [String(index + 1), String(index + 1)]);
      expect((await categories.getNames()).toSorted()).toEqual(expected.toSorted());
    }
  });

  it('gets the connection back of a statement that times out', async () => {
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
