import { setImmediate } from 'node:timers/promises';
import { type Config, loadConfig } from '../../../src/platform/config/config.js';
import { HttpAdapter } from '../../../src/platform/http/server/http.adapter.js';
import type { ServerTimeouts } from '../../../src/platform/http/server/server-options.js';
import { startApp, type TestApp } from '../support/app.js';
import { type Category, sendRequest } from '../support/http-client.js';
import { LoadGenerator } from '../support/load-generator.js';
import { RawConnection, rawRequest } from '../support/raw-connection.js';
import { waitFor } from '../support/wait.js';
import { PRODUCT } from '../../../src/product.js';

/** Longer than any pause of the test process. */
const LONG_TIMEOUTS = { drainGracePeriod: 5_000, shutdown: 60_000 };

let app: TestApp;
afterEach(() => app.stop());

async function start(
  timeouts: Partial<ServerTimeouts>,
  config: Partial<Config> = {},
): Promise<void> {
  const adapter = new HttpAdapter({ ...loadConfig(PRODUCT, {}), ...config }, timeouts);
  app = await startApp({ config, adapter });
}

/** Lists the categories with another instance of the application on the same database. */
async function getStoredCategories(): Promise<Category[]> {
  const other = await startApp({ database: { config: app.config.database } });
  const stored = await other.categories.getAll();
  await other.stop();
  return stored;
}

/** Waits without a timer, so that the caller continues before the timers of the shutdown. */
async function waitUntilNotListening(): Promise<void> {
  while (app.server.listening) await setImmediate();
}

function blockEventLoop(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

describe('graceful shutdown', () => {
  it('returns 503 on /readyz while it still serves other requests', async () => {
    await start(LONG_TIMEOUTS, { shutdownDelay: 500 });
    const closed = app.app.close();
    const readiness = await waitFor(
      () => sendRequest(`${app.url}/readyz`),
      ({ status }) => status !== 200,
    );
    expect(readiness).toBeError('SERVICE_UNAVAILABLE');
    expect(readiness.headers['retry-after']).toBe('1');
    expect((await sendRequest(`${app.url}/livez`)).status).toBe(200);
    expect((await app.categories.create('dog')).status).toBe(201);
    expect(await app.categories.getNames()).toEqual(['dog']);
    await closed;
  });

  it('waits for a request whose body is incomplete', async () => {
    await start(LONG_TIMEOUTS);
    const type = 'Content-Type: application/json';
    const headers = [`Authorization: Bearer ${app.key}`, type, 'Content-Length: 15'];
    const request = rawRequest({ method: 'POST', headers, body: '{"name":"late"}' });
    const connection = await RawConnection.open(app.url);
    // A response proves that the service has accepted the connection.
    await connection.send(rawRequest({ target: '/livez' })).nextResponse();
    connection.send(request.subarray(0, -5));
    const closed = app.app.close();
    await waitUntilNotListening();
    connection.send(request.subarray(-5));
    const [, response] = await connection.closed();
    expect(response).toMatchObject({ status: 201, headers: { connection: 'close' } });
    await closed;
    expect(await getStoredCategories()).toMatchObject([{ name: 'late' }]);
  });

  it('completes a request that arrived while a blocked event loop outlasted the grace period', async () => {
    await start({ drainGracePeriod: 100 });
    const request = rawRequest({ headers: [`Authorization: Bearer ${app.key}`] });
    const connection = await RawConnection.open(app.url);
    await connection.send(request).nextResponse();
    const closed = app.app.close();
    await waitUntilNotListening();
    connection.send(request);
    blockEventLoop(300);
    const [, response] = await connection.closed();
    expect(response).toMatchObject({ status: 200, headers: { connection: 'close' } });
    await closed;
  });

  it('accepts a connection that was opened while the event loop was blocked', async () => {
    await start(LONG_TIMEOUTS, { shutdownDelay: 500 });
    const closed = app.app.close();
    await waitFor(
      () => sendRequest(`${app.url}/readyz`),
      ({ status }) => status === 503,
    );
    const opened = RawConnection.open(app.url);
    // Node opens the connection in the next tick.
    await Promise.resolve();
    blockEventLoop(800);
    const request = rawRequest({ target: '/livez', headers: ['Connection: close'] });
    const connection = (await opened).send(request);
    expect(await connection.closed()).toMatchObject([{ status: 200 }]);
    await closed;
  });

  it('completes every request under load and keeps every acknowledged create', async () => {
    await start(LONG_TIMEOUTS);
    const load = new LoadGenerator(app.key);
    load.start(app.url, { writers: 8, readers: 8 });
    await load.waitForSuccesses(5);
    load.allowShutdown(app.url);
    await app.app.close();
    await load.stop();
    load.verifyFinalState(await getStoredCategories());
    expect(load.violations).toEqual([]);
    expect(load.created.length).toBeGreaterThanOrEqual(40);
  });
});
