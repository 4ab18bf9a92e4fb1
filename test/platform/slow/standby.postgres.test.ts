/* oxlint-disable jest/no-standalone-expect -- `requires` returns `it` or `it.skip` */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { main as keysCommand } from '../../../src/cli/keys.js';
import { main as migrationsCommand } from '../../../src/cli/migrations.js';
import { CategoryEntity } from '../../../src/modules/categories/category.entity.js';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import { ApiKeysService } from '../../../src/platform/auth/keys/api-keys.service.js';
import { startApp, type TestApp } from '../support/app.js';
import { CagesModule } from '../support/cages.module.js';
import { runCommand } from '../support/cli.js';
import { ChaosProxy } from '../support/chaos-proxy.js';
import { insertRow } from '../support/fixtures.js';
import { type HttpResponse, jsonHeaders, sendRequest } from '../support/http-client.js';
import { MemoryLogger } from '../support/memory-logger.js';
import { hasPgBouncer, startPgBouncer } from '../support/pgbouncer.js';
import { type PostgresServer, startPostgres } from '../support/postgres.js';
import { connectToPostgres, queryPostgres } from '../support/postgres-client.js';
import { kill } from '../support/postgres-faults.js';
import { requires } from '../support/requirements.js';
import { waitFor } from '../support/wait.js';

const COMMANDS = [
  [keysCommand, 'list'],
  [migrationsCommand, 'run'],
] as const;

let primary: PostgresServer;
let standby: PostgresServer;
/** A proxy or name that may lead to either of the servers. */
let proxy: ChaosProxy;
let app: TestApp;
let logger: MemoryLogger;
let stopPgBouncer: (() => Promise<void>) | undefined;
beforeEach(async () => {
  primary = await startPostgres();
  standby = await startPostgres(undefined, { primary });
  proxy = await ChaosProxy.listen(primary.url);
});
afterEach(async () => {
  await app.stop();
  await stopPgBouncer?.();
  stopPgBouncer = undefined;
  await proxy.close();
  await standby.stop();
  await primary.stop();
});

/** Starts the application, by default behind the proxy. */
async function serve(usesPgBouncer = false, url = proxy.proxiedUrl(primary.url)): Promise<void> {
  if (usesPgBouncer) ({ url, stop: stopPgBouncer } = await startPgBouncer(url));
  const config = { type: 'postgres', url } as const;
  logger = new MemoryLogger();
  app = await startApp({ database: { config }, logger, features: [CategoriesModule, CagesModule] });
}

/** Waits until the standby has what was committed. */
async function waitForReplay(): Promise<void> {
  await waitFor(async () => {
    const [row] = await queryPostgres(
      primary.url,
      'SELECT "replay_lsn" = pg_current_wal_lsn() AS "isCurrent" FROM pg_stat_replication',
    );
    return row?.['isCurrent'];
  });
}

/** Makes the standby lag: it gets what is committed from now on, but does not show it. */
async function pauseReplay(): Promise<void> {
  await waitForReplay();
  await queryPostgres(standby.url, 'SELECT pg_wal_replay_pause()');
}

/** Routes new connections to a server, and closes the others. */
function routeTo({ url }: PostgresServer): void {
  proxy.target = url;
  proxy.cut();
}

describe.each([
  ['directly', it, false],
  ['through PgBouncer', requires('pgbouncer', hasPgBouncer).it, true],
])('a standby that lags, reached %s', (_how, test, usesPgBouncer) => {
  test('serves no list, page, key or row, and the primary does again', async () => {
    await serve(usesPgBouncer);
    expect((await app.categories.create('old')).status).toBe(201);
    await insertRow(app.dataSource, 'cages');
    await pauseReplay();
    expect((await app.categories.create('new')).status).toBe(201);
    const { key } = await app.app.get(ApiKeysService).create('new');
    routeTo(standby);
    const paths = ['/v1/categories', '/v1/cages', '/v1/cages?limit=9&after=1', '/v1/cages/1'];
    // More often than the pool has connections.
    for (let round = 0; round < 12; round++) {
      for (const path of paths)
        expect(await app.send('GET', path)).toBeError('SERVICE_UNAVAILABLE');
      expect(await app.send('GET', paths[0]!, { key })).toBeError('SERVICE_UNAVAILABLE');
    }
    expect(logger.text).toMatch(/connection failed: The server is a standby, .* \(25006\)/);
    expect(logger.text).not.toContain('during recovery');
    routeTo(primary);
    const listed = await waitFor(
      () => app.categories.list(),
      ({ status }) => status === 200,
    );
    expect(listed.json()).toMatchObject([{ name: 'old' }, { name: 'new' }]);
  });
});

describe('a standby that lags', () => {
  it('serves no row to the repository of a module', async () => {
    await serve();
    expect((await app.categories.create('old')).status).toBe(201);
    await pauseReplay();
    expect((await app.categories.create('new')).status).toBe(201);
    routeTo(standby);
    const rows = app.dataSource.getRepository(CategoryEntity);
    for (let round = 0; round < 12; round++)
      await expect(rows.find()).rejects.toMatchObject({ code: 'SERVICE_UNAVAILABLE' });
  });

  it('is named by the commands that need the primary', async () => {
    await serve();
    await waitForReplay();
    for (const [command, ...args] of COMMANDS) {
      const { code, stderr } = await runCommand(command, args, { DATABASE_URL: standby.url });
      expect(code).toBe(1);
      expect(stderr).toMatch(/^error: The server is a standby, .*DATABASE_URL.*\n$/);
    }
  });
});

/** Makes the primary wait for a standby at each commit. */
async function requireStandby(name: string): Promise<void> {
  await queryPostgres(primary.url, `ALTER SYSTEM SET synchronous_standby_names = '${name}'`);
  await queryPostgres(primary.url, 'SELECT pg_reload_conf()');
}

/** Requires a standby that does not exist, and waits until a commit waits for it. */
async function loseStandby(): Promise<void> {
  await requireStandby('nobody');
  // A commit waits only after the checkpointer has read the setting, which can be later than the reload.
  await waitFor(async () => {
    const client = await connectToPostgres(primary.url);
    const commit = client.query(`SELECT pg_logical_emit_message(true, '', '')`);
    const committed = await Promise.race([commit.then(() => true), delay(500)]);
    if (!committed)
      await queryPostgres(
        primary.url,
        `SELECT pg_cancel_backend("pid") FROM pg_stat_activity WHERE "wait_event" = 'SyncRep'`,
      );
    await commit;
    await client.end();
    return !committed;
  });
}

/** Sends a POST request with an Idempotency-Key. */
const post = (path: string, body: object, key: string = randomUUID()): Promise<HttpResponse> =>
  sendRequest(app.url + path, {
    method: 'POST',
    headers: { ...jsonHeaders(app.key), 'Idempotency-Key': key },
    body: JSON.stringify(body),
  });

describe.each([
  ['directly', it, false],
  ['through PgBouncer', requires('pgbouncer', hasPgBouncer).it, true],
])(
  'a synchronous standby that is lost, with its primary reached %s',
  (_how, test, usesPgBouncer) => {
    const MAYBE = /may have taken effect/;

    test('lets no change return 201, nor its repetition, until it is back', async () => {
      await serve(usesPgBouncer);
      const cage = { label: 'cage', room: 'one', shelfPosition: 1, locked: false };
      const { id } = (await post('/v1/cages', cage)).json<{ id: number }>();
      const create = () => post('/v1/categories', { name: 'keyed' }, 'create');
      const act = () =>
        post(`/v1/cages/${id}/exchange`, { ...cage, label: 'other', shelfPosition: 2 }, 'action');
      const names = Array.from({ length: 20 }, (_, index) => `batch ${index}`);
      const getReadiness = () => app.send('GET', '/readyz');
      await loseStandby();
      expect(await create()).toBeError('SERVICE_UNAVAILABLE', MAYBE);
      expect(await act()).toBeError('SERVICE_UNAVAILABLE', MAYBE);
      const together = [...names.map((name) => app.categories.create(name)), create(), act()];
      for (const response of await Promise.all(together))
        expect(response).toBeError('SERVICE_UNAVAILABLE');
      for (const repeat of [create, act, () => app.categories.create('alone')]) {
        expect(await repeat()).toBeError('SERVICE_UNAVAILABLE');
        expect(await getReadiness()).toBeError('SERVICE_UNAVAILABLE');
      }
      expect(logger.text).toMatch(/connection failed: No synchronous standby .* SyncRep/);
      await requireStandby('standby');
      await waitFor(getReadiness, ({ status }) => status === 200);
      for (const repeat of [create, act]) {
        const repeated = await waitFor(repeat, ({ status }) => status === 201);
        expect(repeated.headers['idempotency-replayed']).toBe('true');
      }
      const stored = await app.categories.getNames();
      expect(stored.filter((name) => name === 'keyed')).toHaveLength(1);
    });
  },
);

describe('a URL of several servers', () => {
  it('leads to the primary, whatever is before it, and to the next one after a failover', async () => {
    const silent = createServer().listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const hosts = [
      `127.0.0.1:${(silent.address() as AddressInfo).port}`,
      '[::1]:1',
      '%2Fnowhere',
      new URL(standby.url).host,
      new URL(primary.url).host,
    ].join(',');
    const url = primary.url.replace(/@[^/]+/, `@${hosts}`) + '?target_session_attrs=read-write';
    await serve(false, url);
    expect((await app.categories.create('before')).status).toBe(201);
    for (const [command, ...args] of COMMANDS)
      expect(await runCommand(command, args, { DATABASE_URL: url })).toMatchObject({ code: 0 });
    await waitForReplay();
    await kill(primary);
    await queryPostgres(standby.url, 'SELECT pg_promote()');
    const create = () => app.categories.create('after');
    await waitFor(create, ({ status }) => status === 201);
    expect(await app.categories.getNames()).toEqual(['before', 'after']);
    silent.close();
  });
});
