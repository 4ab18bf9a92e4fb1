import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { CategoriesModule } from '../../src/modules/categories/categories.module.js';
import { createDatabase, startApp, type TestApp } from '../support/app.js';
import { type Cage, CagesModule, type Toy } from '../support/cages.module.js';
import { ChaosProxy } from '../support/chaos-proxy.js';
import { DATABASE } from '../support/databases.js';
import { type HttpResponse, jsonHeaders, sendRequest } from '../support/http-client.js';
import { queryPostgres } from '../support/postgres-client.js';

/** The documented maximum. */
const RESPONSE_TIMEOUT_MS = 5_000;
const features = [CategoriesModule, CagesModule];
const config = { databasePoolSize: 30 };

/** Starts an instance whose database can become slow: `slowDown` delays every statement, until the function that it returns is called. */
async function startSlowApp(milliseconds: number, isolation: string) {
  const database = await createDatabase();
  if (database.config.type === 'sqlite') {
    const app = await startApp({ database, features });
    const slowDown = (): (() => Promise<void>) => {
      const stopping = new AbortController();
      const occupy = async (): Promise<void> => {
        // Statements wait for the transaction that is next to them.
        while (!stopping.signal.aborted)
          await app.dataSource.transaction(() => delay(milliseconds)).catch(() => undefined);
      };
      const occupied = occupy();
      return async () => {
        stopping.abort();
        await occupied;
      };
    };
    const stop = () => app.stop().then(() => database.drop());
    return { app, slowDown, stop };
  }
  const { url } = database;
  const name = new URL(url).pathname.slice(1);
  await queryPostgres(
    url,
    `ALTER DATABASE ${name} SET default_transaction_isolation = '${isolation}'`,
  );
  const proxy = await ChaosProxy.listen(url);
  const proxied = { ...database.config, url: proxy.proxiedUrl(url) };
  const app = await startApp({ database: { ...database, config: proxied }, features, config });
  const connect = () => app.dataSource.query('SELECT pg_sleep(0.3)');
  await Promise.all(Array.from({ length: config.databasePoolSize }, connect));
  const slowDown = () => {
    proxy.latency = milliseconds;
    return async () => void (proxy.latency = 0);
  };
  const stop = async () => {
    await app.stop();
    await proxy.close();
    await database.drop();
  };
  return { app, slowDown, stop };
}

const send = (
  app: TestApp,
  method: string,
  path: string,
  body?: object,
  headers: Record<string, string> = {},
): Promise<HttpResponse> =>
  sendRequest(app.url + path, {
    method,
    headers: { ...jsonHeaders(app.key), ...headers },
    ...(body && { body: JSON.stringify(body) }),
  });

let count = 0;
const newCage = (other = {}) => ({
  label: `label ${++count}`,
  room: 'attic',
  shelfPosition: count,
  ...other,
});
const newCategory = () => ({ name: `name ${++count}` });

/**
 * Sends a request of every kind at once while each statement takes some time.
 *
 * @returns the responses that are late, or say that nothing was changed although something was
 */
async function findViolations(milliseconds: number, isolation: string): Promise<unknown[]> {
  const { app, slowDown, stop } = await startSlowApp(milliseconds, isolation);
  const created = await send(app, 'POST', '/v1/cages', newCage());
  const { id, label: used } = created.json<Cage>();
  const path = `/v1/cages/${id}`;
  const repeated = newCage();
  const key = { 'Idempotency-Key': randomUUID() };
  await send(app, 'POST', '/v1/cages', repeated, key);
  const bell = await send(app, 'POST', `${path}/toys`, { name: 'bell' });
  const toyPath = `${path}/toys/${bell.json<{ toy: Toy }>().toy.toyId}`;
  const twin = newCage();
  const twinKey = { 'Idempotency-Key': randomUUID() };
  const [current, stale] = [{ 'If-Match': created.headers.etag! }, { 'If-Match': '"1"' }];
  const requests: Parameters<typeof send> extends [TestApp, ...infer Rest] ? Rest[] : never = [
    ['GET', '/readyz'],
    ['GET', '/v1/categories'],
    ['GET', '/v1/cages?limit=2&after=1'],
    ['GET', '/v1/cages?room=attic'],
    ['GET', `${path}/toys`],
    ['GET', path],
    ['POST', '/v1/categories', newCategory()],
    ['POST', '/v1/cages', repeated, key],
    ['POST', '/v1/cages', twin, twinKey],
    ['POST', '/v1/cages', twin, twinKey],
    ['POST', '/v1/cages', newCage({ categoryId: 1_000 })],
    ['POST', '/v1/cages', newCage({ label: used })],
    ['POST', `${path}/toys`, newCategory()],
    ['PUT', path, newCage(), stale],
    ['PATCH', path, { room: 'cellar' }, stale],
    ['PATCH', path, { label: `label ${++count}` }],
    ['PATCH', path, { categoryId: 1_000 }],
    ['PATCH', toyPath, { ...newCategory(), size: { width: 1 } }],
    ['DELETE', path, undefined, stale],
    ['DELETE', path, undefined, current],
  ];
  // Until the key must be looked up.
  await delay(2_000);
  const restore = slowDown();
  const responses = await Promise.all(
    requests.map(async ([method, target, body, headers]) => {
      const sentAt = performance.now();
      const { status, text } = await send(app, method, target, body, headers);
      return { method, target, body, headers, status, text, ms: performance.now() - sentAt };
    }),
  );
  await restore();
  const lists = await Promise.all(
    ['/v1/categories', '/v1/cages?limit=100', `${path}/toys`].map((each) => send(app, 'GET', each)),
  );
  await stop();
  const stored = lists.map(({ text }) => text).join();
  return responses.filter(({ ms, text, body, headers }) => {
    const { label, name } = (body ?? {}) as { label?: string; name?: string };
    // With a key, it may have been stored before.
    const isStored =
      headers === undefined && label !== used && stored.includes(`"${label ?? name}"`);
    return ms > RESPONSE_TIMEOUT_MS || (isStored && /Please retry later/.test(text));
  });
}

describe('a request while the database is slow', () => {
  const levels = DATABASE === 'postgres' ? ['read committed', 'serializable'] : [''];
  it('gets a response within 5 seconds, however many operations it needs, and is told whether it may have taken effect', async () => {
    const scenarios = levels.flatMap((level) =>
      [1_050, 1_800].map((milliseconds) => findViolations(milliseconds, level)),
    );
    expect((await Promise.all(scenarios)).flat()).toEqual([]);
  });
});
