import { randomUUID } from 'node:crypto';
import { createDatabase, startApp, type TestDatabase } from '../support/app.js';
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

declare const TEST_DATABASE: 'sqlite' | 'postgres';

const TIMEOUT_MS = 60_000;
const CLIENTS = 64;
/** How many creates are acknowledged between two failures. */
const CREATES_BETWEEN_FAILURES = 64;
const INSTANCES = TEST_DATABASE === 'postgres' ? 3 : 1;

/** A service process at a fixed port, behind a proxy that loses every tenth response. */
class Instance {
  private service!: ServiceProcess;

  private constructor(
    private readonly services: Services,
    private readonly port: number,
    readonly proxy: ChaosProxy,
  ) {}

  static async start(services: Services): Promise<Instance> {
    const port = await findFreePort();
    const proxy = await ChaosProxy.listen(`http://127.0.0.1:${port}`);
    proxy.cutProbability = 0.1;
    const instance = new Instance(services, port, proxy);
    await instance.restart();
    return instance;
  }

  get url(): string {
    return this.proxy.proxiedUrl(`http://127.0.0.1:${this.port}/`);
  }

  async restart(): Promise<void> {
    this.service = this.services.start({ env: { PORT: String(this.port) } });
    await this.service.waitUntilListening();
  }

  async kill(): Promise<void> {
    this.service.kill('SIGKILL');
    await this.service.exited;
  }
}

/** Clients that repeat each create request until it is acknowledged, with the same Idempotency-Key. */
class Clients {
  /** The names that were sent; each has a key of its own. */
  readonly sent: string[] = [];
  readonly acknowledged: Category[] = [];
  replayed = 0;
  lost = 0;
  private isStopped = false;
  private readonly running: Promise<void>[];

  constructor(private readonly instances: readonly Instance[]) {
    this.running = Array.from({ length: CLIENTS }, () => this.run());
  }

  /** Waits until more creates are acknowledged. */
  async waitForCreates(count: number): Promise<void> {
    const target = this.acknowledged.length + count;
    await waitFor(
      () => this.acknowledged.length,
      (length) => length >= target,
      TIMEOUT_MS,
    );
  }

  /** Waits until every request that was sent is acknowledged. */
  async stop(): Promise<void> {
    this.isStopped = true;
    await Promise.all(this.running);
  }

  private async run(): Promise<void> {
    while (!this.isStopped) {
      const key = randomUUID();
      const name = `of ${key}`;
      this.sent.push(name);
      const response = await this.createUntilAcknowledged(key, name);
      if (response.headers['idempotency-replayed'] === 'true') this.replayed++;
      this.acknowledged.push(response.json<Category>());
    }
  }

  private async createUntilAcknowledged(key: string, name: string): Promise<HttpResponse> {
    for (;;) {
      const { url } = this.instances[Math.floor(Math.random() * this.instances.length)]!;
      const response = await sendRequest(`${url}v1/categories`, {
        method: 'POST',
        headers: { ...jsonHeaders(BOOTSTRAP_KEY), 'Idempotency-Key': key },
        body: JSON.stringify({ name }),
      }).catch(() => undefined);
      if (response?.status === 201) return response;
      if (response === undefined) this.lost++;
      // Anything else would be repeated in vain.
      else if (response.status !== 503) throw new Error(response.text);
    }
  }
}

let server: PostgresServer | undefined;
let database: TestDatabase;
let services: Services;
let instances: Instance[];
beforeEach(async () => {
  server = TEST_DATABASE === 'postgres' ? await startPostgres() : undefined;
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
  for (let count = 0; count < INSTANCES; count++) instances.push(await Instance.start(services));
});
afterEach(async () => {
  for (const { proxy } of instances) await proxy.close();
  await services.close();
  await database.drop();
});

/** The failures of the database server. */
async function failServer(clients: Clients): Promise<void> {
  if (server === undefined) return;
  const resume = await freeze(server);
  // The requests in progress run into their deadline.
  const { lost } = clients;
  await waitFor(
    () => clients.lost,
    (count) => count > lost,
    TIMEOUT_MS,
  );
  await resume();
  await clients.waitForCreates(CREATES_BETWEEN_FAILURES);
  await kill(server);
  await restart(server);
  await clients.waitForCreates(CREATES_BETWEEN_FAILURES);
}

describe('create requests that are repeated with their Idempotency-Key until they are acknowledged', () => {
  it('create exactly one row each while responses are lost, services are killed and the database fails', async () => {
    const clients = new Clients(instances);
    for (let round = 0; round < 5; round++) {
      await clients.waitForCreates(CREATES_BETWEEN_FAILURES);
      const instance = instances[round % instances.length]!;
      await instance.kill();
      await instance.restart();
    }
    await failServer(clients);
    await clients.stop();

    const app = await startApp({ database });
    const stored = await app.categories.getAll();
    await app.stop();
    expect(stored.map(({ name }) => name).toSorted()).toEqual(clients.sent.toSorted());
    expect(stored).toEqual(clients.acknowledged.toSorted((a, b) => a.id - b.id));
    // Otherwise nothing was at stake.
    expect(clients.lost).toBeGreaterThan(CLIENTS);
    expect(clients.replayed).toBeGreaterThan(0);
  });
});
