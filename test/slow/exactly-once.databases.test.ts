import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { createDatabase, startApp, type TestDatabase } from '../support/app.js';
import { DATABASE } from '../support/databases.js';
import { ChaosProxy } from '../support/chaos-proxy.js';
import {
  type Category,
  type HttpResponse,
  jsonHeaders,
  sendRequest,
} from '../support/http-client.js';
import { findFreePort, type PostgresServer, startPostgres } from '../support/postgres.js';
import { freeze, kill, restart } from '../support/postgres-faults.js';
import {
  BOOTSTRAP_KEY,
  createServices,
  type ServiceProcess,
  type Services,
} from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

const CLIENTS = 64;
const RETRY_DELAY_MS = 50;
/** How many creates are acknowledged between two failures. */
const CREATES_BETWEEN_FAILURES = 64;
const INSTANCES = DATABASE === 'postgres' ? 3 : 1;

/** A service process at a fixed port, behind a proxy that loses every tenth response. */
interface Instance {
  readonly port: string;
  readonly proxy: ChaosProxy;
  service: ServiceProcess;
}

let server: PostgresServer | undefined;
let database: TestDatabase;
let services: Services;
let instances: Instance[];
/** The names that were sent; each has a key of its own. */
let sent: string[];
let acknowledged: Category[];
let replayed: number;
let lost: number;
beforeEach(async () => {
  [sent, acknowledged, replayed, lost] = [[], [], 0, 0];
  server = DATABASE === 'postgres' ? await startPostgres() : undefined;
  database =
    server === undefined
      ? await createDatabase()
      : {
          url: server.url,
          config: { type: 'postgres', url: server.url },
          drop: server.stop,
        };
  services = await createServices({ DATABASE_URL: database.url, NODE_ENV: 'production' });
  instances = [];
  for (let count = 0; count < INSTANCES; count++) {
    const port = String(await findFreePort());
    const proxy = await ChaosProxy.listen(`http://127.0.0.1:${port}`);
    proxy.cutProbability = 0.1;
    instances.push({ port, proxy, service: await startService(port) });
  }
});
afterEach(async () => {
  for (const { proxy } of instances) await proxy.close();
  await services.close();
  await database.drop();
});

async function startService(port: string): Promise<ServiceProcess> {
  return (await services.serve({ env: { PORT: port } })).service;
}

async function killAndRestart(instance: Instance): Promise<void> {
  instance.service.kill('SIGKILL');
  await instance.service.exited;
  instance.service = await startService(instance.port);
}

/** Creates categories, and repeats each request, with its Idempotency-Key, until it is acknowledged. */
async function runClient(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const key = randomUUID();
    sent.push(`of ${key}`);
    const response = await createUntilAcknowledged(key);
    if (response.headers['idempotency-replayed'] === 'true') replayed++;
    acknowledged.push(response.json<Category>());
  }
}

async function createUntilAcknowledged(key: string): Promise<HttpResponse> {
  for (;;) {
    const { port, proxy } = instances[Math.floor(Math.random() * instances.length)]!;
    const url = proxy.proxiedUrl(`http://127.0.0.1:${port}/`);
    const response = await sendRequest(`${url}v1/categories`, {
      method: 'POST',
      headers: { ...jsonHeaders(BOOTSTRAP_KEY), 'Idempotency-Key': key },
      body: JSON.stringify({ name: `of ${key}` }),
    }).catch(() => undefined);
    if (response?.status === 201) return response;
    if (response === undefined) lost++;
    // Anything else would be repeated in vain.
    else if (response.status !== 503) throw new Error(response.text);
    // Otherwise the clients would keep a service that starts from the CPU.
    await delay(RETRY_DELAY_MS);
  }
}

async function waitForCreates(): Promise<void> {
  const target = acknowledged.length + CREATES_BETWEEN_FAILURES;
  await waitFor(
    () => acknowledged.length,
    (length) => length >= target,
  );
}

/** The failures of the database server. */
async function failServer(): Promise<void> {
  if (server === undefined) return;
  const resume = await freeze(server);
  // The requests in progress run into their deadline.
  const before = lost;
  await waitFor(
    () => lost,
    (count) => count > before,
  );
  await resume();
  await waitForCreates();
  await kill(server);
  await restart(server);
  await waitForCreates();
}

describe('create requests that are repeated with their Idempotency-Key until they are acknowledged', () => {
  it('create exactly one row each while responses are lost, services are killed and the database fails', async () => {
    const stopping = new AbortController();
    const clients = Array.from({ length: CLIENTS }, () => runClient(stopping.signal));
    for (let round = 0; round < 5; round++) {
      await waitForCreates();
      await killAndRestart(instances[round % instances.length]!);
    }
    await failServer();
    stopping.abort();
    await Promise.all(clients);

    const app = await startApp({ database });
    const stored = await app.categories.getAll();
    await app.stop();
    expect(stored.map(({ name }) => name).toSorted()).toEqual(sent.toSorted());
    expect(stored).toEqual(acknowledged.toSorted((a, b) => a.id - b.id));
    // Otherwise nothing was at stake.
    expect(lost).toBeGreaterThan(CLIENTS);
    expect(replayed).toBeGreaterThan(0);
  });
});
