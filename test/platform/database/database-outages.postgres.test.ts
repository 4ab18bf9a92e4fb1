import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from 'pg';
import { CategoriesService } from '../../../src/modules/categories/categories.service.js';
import { readRows } from '../../../src/platform/database/connection/service-data-source.js';
import { transactionOnce } from '../../../src/platform/idempotency/idempotency-records.js';
import { createDatabase, startApp, type TestApp, type TestDatabase } from '../support/app.js';
import { type HttpResponse, sendRequest } from '../support/http-client.js';
import { MemoryLogger } from '../support/memory-logger.js';
import {
  connectToPostgres,
  queryPostgres,
  waitUntilDisconnected,
} from '../support/postgres-client.js';
import { waitFor } from '../support/wait.js';

let database: TestDatabase;
let name: string;
let role: string;
let admin: Client;
let app: TestApp;
let logger: MemoryLogger;
beforeEach(async () => {
  database = await createDatabase();
  name = new URL(database.url).pathname.slice(1);
  role = `role_${randomUUID().replaceAll('-', '')}`;
  admin = await connectToPostgres(process.env['TEST_DATABASE_URL']!);
  await admin.query(`CREATE ROLE ${role} LOGIN PASSWORD 'first'`);
  await admin.query(`ALTER DATABASE ${name} OWNER TO ${role}`);
  const url = Object.assign(new URL(database.url), { username: role, password: 'first' }).href;
  logger = new MemoryLogger();
  app = await startApp({
    database: { ...database, config: { ...database.config, url } as TestDatabase['config'] },
    logger,
  });
});
afterEach(async () => {
  await app.stop();
  await database.drop();
  await admin.query(`DROP ROLE ${role}`);
  await admin.end();
});

const getReadiness = (): Promise<HttpResponse> => sendRequest(`${app.url}/readyz`);

/** Terminates the connections of the service, so that it opens new ones. */
const DISCONNECT = `SELECT pg_terminate_backend("pid") FROM pg_stat_activity WHERE "usename" = '$role'`;

/** Runs a statement in the database of the service, as a superuser. */
const runInDatabase = (sql: string): Promise<unknown> => queryPostgres(database.url, sql);

/** Sends create requests until the instance is not ready. */
async function waitUntilRefused(): Promise<void> {
  await waitFor(async () => {
    const response = await app.categories.create('during');
    if (response.status === 201) return false;
    expect(response).toBeError('SERVICE_UNAVAILABLE');
    return (await getReadiness()).status === 503;
  }, Boolean);
}

/** Each failure of a real database: what causes it, what repairs it, and what the log says. */
const FAILURES: [string, string[], string[], RegExp][] = [
  [
    'is read-only',
    ['ALTER DATABASE $name SET default_transaction_read_only = on', DISCONNECT],
    // The connections that the service has opened meanwhile remain read-only.
    ['ALTER DATABASE $name RESET default_transaction_read_only'],
    /Database connection failed: .*read-only transaction \(25006\)/,
  ],
  [
    'rejects the password',
    [`ALTER ROLE $role PASSWORD 'second'`, DISCONNECT],
    [`ALTER ROLE $role PASSWORD 'first'`],
    /Database connection failed: password authentication failed .*\(28P01\)/,
  ],
  [
    'does not exist',
    [
      'ALTER DATABASE $name ALLOW_CONNECTIONS false',
      DISCONNECT,
      'ALTER DATABASE $name RENAME TO $name_moved',
    ],
    ['ALTER DATABASE $name_moved RENAME TO $name', 'ALTER DATABASE $name ALLOW_CONNECTIONS true'],
    /Database connection failed: .*does not exist \(3D000\)/,
  ],
];

/** Runs statements as a superuser, for the database and the role of the service. */
async function administer(statements: string[]): Promise<void> {
  for (const sql of statements)
    await admin.query(sql.replaceAll('$name', name).replaceAll('$role', role));
}

describe('a PostgreSQL database', () => {
  it.each(FAILURES)(
    'makes the instance unready until it is repaired, and logs the cause, if it %s',
    async (_state, fail, repair, message) => {
      await administer(fail);
      await waitUntilDisconnected(app.dataSource);
      await waitUntilRefused();
      expect(await getReadiness()).toBeError('SERVICE_UNAVAILABLE');
      await administer(repair);
      await waitFor(getReadiness, ({ status }) => status === 200);
      // No connection is left from the time of the failure.
      const created = await Promise.all(
        Array.from({ length: 20 }, () => app.categories.create('after')),
      );
      expect(created.map(({ status }) => status)).toEqual(created.map(() => 201));
      expect(logger.text).toMatch(message);
      expect(logger.text).not.toMatch(/Request failed|\n\s+at /);
    },
  );

  it('causes 503 to the requests of a table that it denies access to', async () => {
    await runInDatabase(`ALTER TABLE "categories" OWNER TO CURRENT_USER`);
    expect(await app.categories.create('during')).toBeError('SERVICE_UNAVAILABLE');
    await runInDatabase(`ALTER TABLE "categories" OWNER TO ${role}`);
    expect((await app.categories.create('after')).status).toBe(201);
  });
});

/** Creates a trigger that terminates its connection. */
const terminate = (event: string): Promise<unknown> =>
  runInDatabase(`
    CREATE FUNCTION terminate() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
    CREATE ${event} EXECUTE FUNCTION terminate()`);
const TERMINATE = 'SELECT pg_terminate_backend(pg_backend_pid())';
const AT_ONCE = 'TRIGGER terminate AFTER INSERT ON "categories" FOR EACH ROW';
const AT_COMMIT =
  'CONSTRAINT TRIGGER terminate AFTER INSERT ON "categories" DEFERRABLE INITIALLY DEFERRED FOR EACH ROW';
const createWithKey = (): Promise<HttpResponse> =>
  app.send('POST', '/v1/categories', {
    headers: { 'Idempotency-Key': randomUUID() },
    body: { name: 'dog' },
  });

/** A client of pg, which does not declare its connection. */
type PrivateClient = { readonly connection: { readonly stream: Socket } };

describe('a request whose connection is lost', () => {
  const MAYBE = /may have taken effect.*Idempotency-Key/;
  const RETRY = /^[^.]*\. Please retry later\.$/;

  it.each([
    ['a create', () => app.categories.create('dog')],
    ['a create with an Idempotency-Key', createWithKey],
  ])(
    'returns 503 that says that it may have taken effect, and names the Idempotency-Key: %s',
    async (_name, create) => {
      await terminate(AT_COMMIT);
      expect(await create()).toBeError('SERVICE_UNAVAILABLE', MAYBE);
    },
  );

  it.each([
    ['read', 'bad record mac', 'ERR_SSL_SSLV3_ALERT_BAD_RECORD_MAC'],
    ['understood', 'Received unexpected commandComplete message from backend.', undefined],
  ])(
    'returns 503 if it cannot be %s, and is not repeated: its row may have been stored',
    async (_how, message, code) => {
      await runInDatabase(`
      CREATE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END $$;
      CREATE TRIGGER pause BEFORE INSERT ON "categories" FOR EACH ROW EXECUTE FUNCTION pause()`);
      const service = app.app.get(CategoriesService);
      const creates = Promise.allSettled(
        ['dog', 'cat'].map((each) => service.create({ name: each })),
      );
      await delay(200);
      const { master } = app.dataSource.driver as { master?: { _clients: PrivateClient[] } };
      for (const { connection } of master!._clients)
        connection.stream.destroy(Object.assign(new Error(message), code && { code }));
      const outcomes = await creates;
      // The server completes the statement.
      await delay(600);
      expect(await app.categories.getNames()).toEqual(['dog', 'cat']);
      const failure = { reason: { message: expect.stringMatching(MAYBE) as string } };
      expect(outcomes).toMatchObject([failure, failure]);
    },
  );

  it('returns 503 that only asks for a retry if its transaction was not committed yet', async () => {
    await terminate(AT_ONCE);
    const transaction = transactionOnce(app.dataSource, undefined, (manager) =>
      manager.query(`INSERT INTO "categories" ("name") VALUES ('dog')`),
    );
    await expect(transaction).rejects.toMatchObject({ message: expect.stringMatching(RETRY) });
  });

  it.each([
    ['a statement', /may have taken effect/, () => app.dataSource.query(TERMINATE)],
    ['one that reads', /Please retry later/, () => readRows(app.dataSource.manager, TERMINATE)],
    [
      'one of TypeORM that reads',
      /Please retry later/,
      () =>
        app.dataSource
          .createQueryBuilder()
          .select(TERMINATE.slice(7))
          .from('pg_class', 'c')
          .getRawOne(),
    ],
  ])('says whether %s may have taken effect', async (_name, message, run) => {
    await expect(run()).rejects.toMatchObject({ message: expect.stringMatching(message) });
  });

  it('returns 503 that only asks for a retry on GET /readyz, which changes nothing', async () => {
    await terminate('TRIGGER terminate BEFORE UPDATE ON "revisions" FOR EACH STATEMENT');
    expect(await getReadiness()).toBeError('SERVICE_UNAVAILABLE', RETRY);
  });
});
