/* oxlint-disable jest/no-standalone-expect, jest/no-disabled-tests -- all tests need nginx */
import { createDatabase, type TestDatabase } from '../support/app.js';
import { CategoriesClient, sendRequest } from '../support/http-client.js';
import { LoadGenerator } from '../support/load-generator.js';
import { hasNginx, startNginx } from '../support/nginx.js';
import { findFreePort } from '../support/postgres.js';
import { requires } from '../support/requirements.js';
import {
  BOOTSTRAP_KEY,
  createServices,
  type ServiceProcess,
  type Services,
} from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

let nginx: Awaited<ReturnType<typeof startNginx>>;
let url: string;
let ports: readonly number[];
let processes: Map<number, ServiceProcess>;
let database: TestDatabase;
let services: Services;

/** Starts a process as `api@.service` does, and waits until it is ready. */
async function startProcess(port: number): Promise<void> {
  const environment = { PORT: String(port), NODE_ENV: 'production', LOG_LEVEL: 'debug' };
  processes.set(port, services.start({ env: { ...environment, TRUST_PROXY: 'loopback' } }));
  await waitUntilReady(`http://127.0.0.1:${port}`);
}

const waitUntilReady = (address: string): Promise<unknown> =>
  waitFor(() =>
    sendRequest(`${address}/readyz`).then(
      ({ status }) => status === 200,
      () => false,
    ),
  );

beforeEach(async () => {
  database = await createDatabase();
  services = await createServices({ DATABASE_URL: database.url });
  ports = [await findFreePort(), await findFreePort()];
  processes = new Map();
  await Promise.all(ports.map(startProcess));
  nginx = await startNginx(ports);
  ({ url } = nginx);
  await waitUntilReady(url);
});
afterEach(async () => {
  await nginx.stop();
  await services.close();
  await database.drop();
});

requires('nginx', hasNginx).describe('two processes behind nginx', () => {
  it('lose no request, no create and no change of the list in a rolling restart under load', async () => {
    const load = new LoadGenerator(BOOTSTRAP_KEY);
    load.start(url, { writers: 8, readers: 8, pause: 20 });
    try {
      await load.waitForSuccesses(20);
      for (const port of ports) {
        const former = processes.get(port)!;
        former.kill('SIGTERM');
        expect(await former.exited).toEqual({ code: 0, signal: null });
        await load.waitForSuccesses(10);
        await startProcess(port);
        await load.waitForSuccesses(10);
      }
    } finally {
      await load.stop();
    }
    for (const port of ports) {
      const categories = new CategoriesClient(`http://127.0.0.1:${port}`, BOOTSTRAP_KEY);
      load.verifyFinalState(await categories.getAll());
    }
    expect(load.violations).toEqual([]);
  });

  it('see the address of the client instead of what it claims, and its request id', async () => {
    const headers = { 'x-forwarded-for': '203.0.113.9', 'x-request-id': 'from-the-client' };
    const response = await sendRequest(`${url}/v1/categories`, { headers });
    expect(response.headers['x-request-id']).toBe('from-the-client');
    const line = await waitFor(() =>
      [...processes.values()]
        .flatMap(({ output }) => output.split('\n'))
        .find((each) => each.includes('"status":401')),
    );
    expect(JSON.parse(line!)).toMatchObject({
      requestId: 'from-the-client',
      clientIp: '127.0.0.1',
    });
  });
});
