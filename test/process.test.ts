import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { PetstoreDataSource } from '../src/platform/database/petstore-data-source.js';
import { createDataSource } from '../src/data-source.js';
import { createDatabase, type TestDatabase } from './support/app.js';
import {
  type HttpResponse,
  sendRequest,
  type RequestOptions,
  jsonHeaders,
} from './support/http-client.js';
import { RawConnection, rawRequest } from './support/raw-connection.js';
import { ServiceProcess } from './support/service-process.js';
import { waitFor } from './support/wait.js';

const BOOTSTRAP_KEY = 'bootstrap-0123456789-abcdefghijklmnop';
/** The maximum duration of a graceful shutdown. */
const SHUTDOWN_TIMEOUT_MS = 10_000;

// The first test waits for the build.
import.meta.jest.setTimeout(60_000);

let database: TestDatabase;
let directory: string;
let services: ServiceProcess[];
/** API keys used by a test; none of them may appear in any output. */
let keys: Set<string>;
beforeEach(async () => {
  database = await createDatabase();
  directory = await mkdtemp(join(tmpdir(), 'petstore-process-'));
  services = [];
  keys = new Set([BOOTSTRAP_KEY]);
});
afterEach(async () => {
  for (const service of services) service.kill('SIGKILL');
  await Promise.all(services.map(({ exited }) => exited));
  await database.drop();
  await rm(directory, { recursive: true, force: true });
  for (const { output } of services) {
    const log = output.replace(parseInitialKeyBanner(output)?.text ?? '', '');
    const leaked = [...keys].filter((key) => log.includes(key));
    if (leaked.length > 0) throw new Error(`The output contains the keys ${leaked.join(', ')}`);
  }
});

async function start(env: NodeJS.ProcessEnv = {}): Promise<ServiceProcess> {
  const service = await ServiceProcess.start(directory, { DATABASE_URL: database.url, ...env });
  services.push(service);
  return service;
}

/** Starts the service with an API key and waits until it listens. */
async function serve(
  env: NodeJS.ProcessEnv = {},
): Promise<{ service: ServiceProcess; url: string }> {
  const service = await start({ BOOTSTRAP_API_KEY: BOOTSTRAP_KEY, ...env });
  return { service, url: await service.waitUntilListening() };
}

/** Parses the API key and the curl command that the first start prints. */
function parseInitialKeyBanner(
  output: string,
): { text: string; key: string; authorization: string; address: string } | undefined {
  const banner =
    /API key \(shown only once\): +(?<key>\S+)\s+curl -H 'Authorization: (?<authorization>[^']+)' (?<address>\S+)/.exec(
      output,
    );
  const { key, authorization, address } = banner?.groups ?? {};
  return banner === null
    ? undefined
    : { text: banner[0], key: key!, authorization: authorization!, address: address! };
}

const list = (
  url: string,
  key = BOOTSTRAP_KEY,
  options: RequestOptions = {},
): Promise<HttpResponse> =>
  sendRequest(`${url}/v1/categories`, { headers: { authorization: `Bearer ${key}` }, ...options });
const create = (url: string, name: string, agent?: Agent): Promise<HttpResponse> =>
  sendRequest(`${url}/v1/categories`, {
    method: 'POST',
    headers: jsonHeaders(BOOTSTRAP_KEY),
    body: JSON.stringify({ name }),
    ...(agent === undefined ? {} : { agent }),
  });
const parse = ({ body }: HttpResponse): unknown => JSON.parse(body.toString());

interface Created {
  readonly id: number;
  readonly name: string;
}

const byId = (a: Created, b: Created): number => a.id - b.id;

/** Sends a signal and waits until the service exits. */
async function stopWith(
  signal: NodeJS.Signals,
  service: ServiceProcess,
): Promise<{ code: number | null; signal: NodeJS.Signals | null; milliseconds: number }> {
  const begin = performance.now();
  service.kill(signal);
  return { ...(await service.exited), milliseconds: performance.now() - begin };
}

async function connectToDatabase<T>(
  use: (dataSource: PetstoreDataSource) => Promise<T>,
): Promise<T> {
  const dataSource = createDataSource(database.config);
  await dataSource.initialize();
  try {
    return await use(dataSource);
  } finally {
    await dataSource.destroy();
  }
}

describe('first startup', () => {
  it('creates one API key and prints it once with a curl command and the URLs', async () => {
    const first = await start();
    const url = await first.waitUntilListening();
    await waitFor(
      () => first.stdout,
      (output) => output.includes('/docs'),
      10_000,
    );
    const banner = parseInitialKeyBanner(first.stdout)!;
    expect(banner.key).toMatch(/^pet_[\w-]{43}$/);
    expect(first.output.split(banner.key)).toHaveLength(3);
    expect(banner.address).toBe(`${url}/v1/categories`);
    keys.add(banner.key);

    const response = await sendRequest(banner.address, {
      headers: { authorization: banner.authorization },
    });
    expect(response.status).toBe(200);
    expect(parse(response)).toEqual([]);

    const addresses = first.stdout.match(/http:\/\/\S+/g)!;
    expect(addresses).toContain(`${url}/v1`);
    expect(addresses).toContain(`${url}/docs`);
    expect((await sendRequest(`${url}/docs`)).status).toBe(200);
    await first.stop();

    const second = await start();
    const again = await second.waitUntilListening();
    expect((await list(again, banner.key)).status).toBe(200);
    await second.stop();
    expect(second.output).not.toMatch(/pet_|curl|shown only/);
  });

  it('accepts BOOTSTRAP_API_KEY and prints no key', async () => {
    const { service, url } = await serve();
    expect((await list(url)).status).toBe(200);
    await service.stop();
    expect(service.output).not.toMatch(/pet_|curl|shown only/);
  });

  it('prints no key in production but logs how to create one', async () => {
    const service = await start({ NODE_ENV: 'production' });
    const url = await service.waitUntilListening();
    const output = await waitFor(
      () => service.output,
      (text) => text.includes('"warn"'),
      10_000,
    );
    const warnings = output
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { level: string; message: string })
      .filter(({ level }) => level === 'warn');
    expect(warnings.map(({ message }) => message)).toEqual([
      expect.stringMatching(/^No API keys exist\. Create one with: .*keys(\.js)? .*create/),
    ]);
    expect((await list(url)).status).toBe(401);
    await service.stop();
    expect(service.output).not.toMatch(/pet_|curl|shown only/);
  });

  it('accepts BOOTSTRAP_API_KEY in production without warnings', async () => {
    const { service, url } = await serve({ NODE_ENV: 'production' });
    expect((await list(url)).status).toBe(200);
    await service.stop();
    expect(service.output).not.toContain('"warn"');
  });

  it('succeeds for two instances starting simultaneously on one empty database', async () => {
    const both = await Promise.all([serve(), serve()]);
    const [first, second] = both.map(({ url }) => url);
    expect((await create(first!, 'dog')).status).toBe(201);
    expect(parse(await list(second!))).toMatchObject([{ name: 'dog' }]);
  });
});

describe('restart', () => {
  it('keeps the categories and API keys', async () => {
    const before = await serve();
    expect((await create(before.url, 'dog')).status).toBe(201);
    expect((await create(before.url, 'cat')).status).toBe(201);
    const categories = parse(await list(before.url));
    expect(categories).toMatchObject([{ name: 'dog' }, { name: 'cat' }]);
    expect(await stopWith('SIGTERM', before.service)).toMatchObject({ code: 0 });

    const after = await serve({ BOOTSTRAP_API_KEY: '' });
    expect(parse(await list(after.url))).toEqual(categories);
  });
});

describe('durability', () => {
  it('keeps every acknowledged create after SIGKILL', async () => {
    const before = await serve();
    const created = await Promise.all(
      Array.from({ length: 20 }, (_, index) => create(before.url, `category ${index}`)),
    );
    expect(created.map(({ status }) => status)).toEqual(created.map(() => 201));
    before.service.kill('SIGKILL');
    expect(await before.service.exited).toMatchObject({ signal: 'SIGKILL' });
    const after = await serve();
    expect(parse(await list(after.url))).toEqual(
      created.map((response) => parse(response) as Created).toSorted(byId),
    );
  });
});

describe('configuration', () => {
  it('ends startup by reporting every invalid variable by name, never its value', async () => {
    const service = await start({
      PORT: 'SECRET1',
      BOOTSTRAP_API_KEY: 'SECRET2',
      LOG_LEVEL: 'SECRET3',
      DATABASE_URL: 'mysql://user:SECRET4@host/db',
      NODE_ENV: 'production',
    });
    const { code } = await service.exited;
    expect(code).toBeGreaterThan(0);
    for (const name of ['PORT', 'BOOTSTRAP_API_KEY', 'LOG_LEVEL', 'DATABASE_URL'])
      expect(service.stderr).toContain(`${name} must `);
    expect(service.output).not.toContain('SECRET');
    // A stack trace would not help the operator to fix the configuration.
    expect(service.output).not.toMatch(/^\s+at /m);
  });

  it('reads a .env file, which the environment overrides', async () => {
    await writeFile(
      join(directory, '.env'),
      `BOOTSTRAP_API_KEY=${BOOTSTRAP_KEY}\nPUBLIC_BASE_URL=https://file.example/v1\nSTAGING_BASE_URL=https://staging.example/v1\n`,
    );
    const service = await start({ PUBLIC_BASE_URL: 'https://environment.example/v1' });
    const url = await service.waitUntilListening();
    expect((await list(url)).status).toBe(200);
    const { servers } = parse(await sendRequest(`${url}/openapi.json`)) as {
      servers: { url: string }[];
    };
    expect(servers.map((server) => server.url)).toEqual([
      'https://environment.example/v1',
      'https://staging.example/v1',
    ]);
  });

  it('ends startup with a clear message if the port is in use', async () => {
    const { url } = await serve();
    const { port } = new URL(url);
    const second = await start({ PORT: port, BOOTSTRAP_API_KEY: BOOTSTRAP_KEY });
    const { code } = await second.exited;
    expect(code).toBeGreaterThan(0);
    expect(second.stderr).toMatch(new RegExp(`in use.*${port}|${port}.*in use`));
    expect((await list(url)).status).toBe(200);
  });
});

describe('log output', () => {
  it('contains one JSON object per line in production, with the ids of failed requests and no API keys', async () => {
    const { service, url } = await serve({ NODE_ENV: 'production', LOG_LEVEL: 'verbose' });
    const invalidKey = `pet_${'B'.repeat(43)}`;
    keys.add(invalidKey);
    expect((await list(url, invalidKey)).status).toBe(401);
    expect((await sendRequest(`${url}/v1/categories?key=${BOOTSTRAP_KEY}`)).status).toBe(401);
    await connectToDatabase((dataSource) =>
      dataSource.query('ALTER TABLE "categories" RENAME TO "hidden"'),
    );
    const headers = { ...jsonHeaders(BOOTSTRAP_KEY), 'x-request-id': 'request-4711' };
    const failed = await sendRequest(`${url}/v1/categories?key=${BOOTSTRAP_KEY}`, {
      method: 'POST',
      headers,
      body: '{"name":"dog"}',
    });
    expect(failed.status).toBe(500);
    expect(failed.headers['x-request-id']).toBe('request-4711');
    await service.stop();

    const lines = service.output.trim().split('\n');
    expect(lines.length).toBeGreaterThan(2);
    const entries = lines.map((line) => JSON.parse(line) as { level: string; message: unknown });
    for (const { level, message } of entries) {
      expect(level).toMatch(/^(fatal|error|warn|log|debug|verbose)$/);
      expect(message).toBeDefined();
    }
    const errors = entries.filter(({ level }) => level === 'error');
    expect(JSON.stringify(errors)).toContain('request-4711');
    // Only the logs reveal the cause.
    expect(JSON.stringify(errors)).toMatch(/categories/);
    expect(failed.body.toString()).not.toMatch(/categories/);
  });

  it('is plain text outside production', async () => {
    const { service } = await serve();
    await service.stop();
    const lines = service.output.trim().split('\n');
    expect(lines.length).toBeGreaterThan(1);
    for (const line of lines) expect(() => JSON.parse(line) as unknown).toThrow(SyntaxError);
  });
});

describe('GET /livez and GET /readyz', () => {
  it('returns 200 when the service is live and ready', async () => {
    const { url } = await serve();
    for (const path of ['/livez', '/readyz']) {
      const response = await sendRequest(url + path);
      expect(response.status).toBe(200);
      expect(parse(response)).toEqual({ status: 'ok' });
    }
  });
});

describe('graceful shutdown', () => {
  it.each(['SIGTERM', 'SIGINT'] as const)(
    'exits with code 0 within 10 seconds of %s despite idle connections',
    async (signal) => {
      const { service, url } = await serve();
      const agent = new Agent({ keepAlive: true });
      const idle = await Promise.all([1, 2, 3].map(() => list(url, BOOTSTRAP_KEY, { agent })));
      expect(idle.map(({ status }) => status)).toEqual([200, 200, 200]);
      const silent = await RawConnection.open(url);
      const partial = (await RawConnection.open(url)).send('GET /livez HTTP/1.1\r\nHost: pets');
      const { milliseconds, ...exit } = await stopWith(signal, service);
      agent.destroy();
      silent.close();
      partial.close();
      expect(exit).toEqual({ code: 0, signal: null });
      expect(milliseconds).toBeLessThan(SHUTDOWN_TIMEOUT_MS);
    },
  );

  it('responds with 503 on /readyz while it still serves other requests', async () => {
    const { service, url } = await serve({ SHUTDOWN_DELAY_MS: '3000' });
    const agent = new Agent({ keepAlive: true });
    service.kill('SIGTERM');
    const response = await waitFor(
      () => sendRequest(`${url}/readyz`),
      ({ status }) => status !== 200,
      10_000,
    );
    expect(response.status).toBe(503);
    expect(parse(response)).toEqual({
      code: 'SERVICE_UNAVAILABLE',
      message: expect.any(String),
      status: 503,
    });
    expect(response.headers['retry-after']).toBeDefined();
    expect((await sendRequest(`${url}/livez`)).status).toBe(200);
    expect((await create(url, 'dog', agent)).status).toBe(201);
    const last = await list(url, BOOTSTRAP_KEY, { agent });
    expect(parse(last)).toMatchObject([{ name: 'dog' }]);
    agent.destroy();
    expect(await service.exited).toEqual({ code: 0, signal: null });
  });

  it('waits for a request whose body is incomplete', async () => {
    const { service, url } = await serve();
    const body = '{"name":"late"}';
    const request = rawRequest({
      method: 'POST',
      headers: [
        `Authorization: Bearer ${BOOTSTRAP_KEY}`,
        'Content-Type: application/json',
        `Content-Length: ${body.length}`,
      ],
      body,
    });
    const connection = await RawConnection.open(url);
    // A response proves that the service has accepted the connection.
    await connection.send(rawRequest({ target: '/livez' })).nextResponse();
    connection.send(request.subarray(0, -5));
    service.kill('SIGTERM');
    await waitFor(
      () =>
        sendRequest(`${url}/livez`).then(
          () => 'accepted',
          () => 'refused',
        ),
      (state) => state === 'refused',
      SHUTDOWN_TIMEOUT_MS,
    );
    connection.send(request.subarray(-5));
    const [, response] = await connection.closed();
    expect(response).toMatchObject({ status: 201, headers: { connection: 'close' } });
    expect(await service.exited).toEqual({ code: 0, signal: null });
    const rows = await connectToDatabase((dataSource) =>
      dataSource.query('SELECT "name" FROM "categories"'),
    );
    expect(rows).toEqual([{ name: 'late' }]);
  });

  it.each(['0', '1000'])(
    'completes every request under load and keeps every acknowledged create with SHUTDOWN_DELAY_MS=%s',
    async (delay) => {
      const CLIENTS = 64;
      const { service, url } = await serve({ SHUTDOWN_DELAY_MS: delay });
      const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });
      const created: Created[] = [];
      const outcomes = { responses: 0, refused: 0, unexpected: [] as unknown[] };

      const runClient = async (client: number): Promise<void> => {
        for (let turn = 0; ; turn++) {
          const writes = turn % 2 === client % 2;
          const name = `${client}-${turn}`;
          try {
            const response = writes
              ? await create(url, name, agent)
              : await list(url, BOOTSTRAP_KEY, { agent });
            const body = parse(response);
            outcomes.responses++;
            if (response.status === 201) created.push(body as Created);
            else if (response.status !== 200 || !Array.isArray(body))
              outcomes.unexpected.push(body);
          } catch (error) {
            const { code, message } = error as NodeJS.ErrnoException;
            if (code === 'ECONNREFUSED') outcomes.refused++;
            else outcomes.unexpected.push({ client, turn, writes, code, message });
            return;
          }
        }
      };
      const clients = Array.from({ length: CLIENTS }, (_, client) => runClient(client));
      await waitFor(
        () => outcomes.responses,
        (responses) => responses > 20 * CLIENTS,
        30_000,
      );
      const { milliseconds, ...exit } = await stopWith('SIGTERM', service);
      await Promise.all(clients);
      agent.destroy();

      expect(outcomes.unexpected).toEqual([]);
      expect(outcomes.refused).toBe(CLIENTS);
      expect(exit).toEqual({ code: 0, signal: null });
      expect(milliseconds).toBeLessThan(SHUTDOWN_TIMEOUT_MS);
      expect(created.length).toBeGreaterThan(CLIENTS);
      const rows = await connectToDatabase((dataSource) =>
        dataSource.query<{ id: number | string; name: string }[]>(
          'SELECT "id", "name" FROM "categories" ORDER BY "id"',
        ),
      );
      expect(rows.map(({ id, name }) => ({ id: Number(id), name }))).toEqual(
        created.toSorted(byId),
      );
    },
    60_000,
  );
});
