import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PetstoreDataSource } from '../src/platform/database/petstore-data-source.js';
import { databaseOptions } from '../src/platform/database/data-source-options.js';
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
/** What the issue allows a stop. */
const STOP_LIMIT = 10_000;

let database: TestDatabase;
let directory: string;
let services: ServiceProcess[];
/** Every key that a test has used: none may be seen in any output. */
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
    const log = output.replace(firstKeyOffer(output)?.text ?? '', '');
    const leaked = [...keys].filter((key) => log.includes(key));
    if (leaked.length > 0) throw new Error(`The output shows the keys ${leaked.join(', ')}`);
  }
});

async function start(env: NodeJS.ProcessEnv = {}): Promise<ServiceProcess> {
  const service = await ServiceProcess.start(directory, { DATABASE_URL: database.url, ...env });
  services.push(service);
  return service;
}

/** Starts the service with a key, and waits until it listens. */
async function serve(
  env: NodeJS.ProcessEnv = {},
): Promise<{ service: ServiceProcess; url: string }> {
  const service = await start({ BOOTSTRAP_API_KEY: BOOTSTRAP_KEY, ...env });
  return { service, url: await service.waitUntilListening() };
}

/** What a first start prints: the key, and the line to try it with. */
function firstKeyOffer(
  output: string,
): { text: string; key: string; authorization: string; address: string } | undefined {
  const offer =
    /Your API key, shown only this once: +(?<key>\S+)\s+curl -H 'Authorization: (?<authorization>[^']+)' (?<address>\S+)/.exec(
      output,
    );
  const { key, authorization, address } = offer?.groups ?? {};
  return offer === null
    ? undefined
    : { text: offer[0], key: key!, authorization: authorization!, address: address! };
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

/** Sends a signal, and waits until the service has ended. */
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
  const dataSource = new PetstoreDataSource(databaseOptions(database.config));
  await dataSource.initialize();
  try {
    return await use(dataSource);
  } finally {
    await dataSource.destroy();
  }
}

describe('The first start', () => {
  it('makes one key and prints it once, with a line to try it and the addresses', async () => {
    const first = await start();
    const url = await first.waitUntilListening();
    await waitFor(
      () => first.stdout,
      (output) => output.includes('/docs'),
      10_000,
    );
    const offer = firstKeyOffer(first.stdout)!;
    expect(offer.key).toMatch(/^pet_[\w-]{43}$/);
    expect(first.output.split(offer.key)).toHaveLength(3);
    expect(offer.address).toBe(`${url}/v1/categories`);
    keys.add(offer.key);

    const answer = await sendRequest(offer.address, {
      headers: { authorization: offer.authorization },
    });
    expect(answer.status).toBe(200);
    expect(parse(answer)).toEqual([]);

    const addresses = first.stdout.match(/http:\/\/\S+/g)!;
    expect(addresses).toContain(`${url}/v1`);
    expect(addresses).toContain(`${url}/docs`);
    expect((await sendRequest(`${url}/docs`)).status).toBe(200);
    await first.stop();

    const second = await start();
    const again = await second.waitUntilListening();
    expect((await list(again, offer.key)).status).toBe(200);
    await second.stop();
    expect(second.output).not.toMatch(/pet_|curl|shown only/);
  });

  it('takes the key of BOOTSTRAP_API_KEY and prints none', async () => {
    const { service, url } = await serve();
    expect((await list(url)).status).toBe(200);
    await service.stop();
    expect(service.output).not.toMatch(/pet_|curl|shown only/);
  });

  it('prints no key in production, and says how to make one', async () => {
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
      expect.stringMatching(/no API key.*keys(\.js)? .*create/i),
    ]);
    expect((await list(url)).status).toBe(401);
    await service.stop();
    expect(service.output).not.toMatch(/pet_|curl|shown only/);
  });

  it('in production takes the key of BOOTSTRAP_API_KEY and warns of nothing', async () => {
    const { service, url } = await serve({ NODE_ENV: 'production' });
    expect((await list(url)).status).toBe(200);
    await service.stop();
    expect(service.output).not.toContain('"warn"');
  });

  it('of two at the same moment on the same empty database succeeds for both', async () => {
    const both = await Promise.all([serve(), serve()]);
    const [first, second] = both.map(({ url }) => url);
    expect((await create(first!, 'dog')).status).toBe(201);
    expect(parse(await list(second!))).toMatchObject([{ name: 'dog' }]);
  });
});

describe('A restart', () => {
  it('keeps the categories and the keys', async () => {
    const before = await serve();
    expect((await create(before.url, 'dog')).status).toBe(201);
    expect((await create(before.url, 'cat')).status).toBe(201);
    const categories = parse(await list(before.url));
    expect(categories).toMatchObject([{ name: 'dog' }, { name: 'cat' }]);
    expect(await stopWith('SIGTERM', before.service)).toMatchObject({ code: 0 });

    const after = await serve({ BOOTSTRAP_API_KEY: '' });
    expect(parse(await list(after.url))).toEqual(categories);
  });

  it('after a kill keeps every create that was answered', async () => {
    const before = await serve();
    const created = await Promise.all(
      Array.from({ length: 20 }, (_, index) => create(before.url, `category ${index}`)),
    );
    expect(created.map(({ status }) => status)).toEqual(created.map(() => 201));
    before.service.kill('SIGKILL');
    expect(await before.service.exited).toMatchObject({ signal: 'SIGKILL' });
    const after = await serve();
    expect(parse(await list(after.url))).toEqual(
      created.map((answer) => parse(answer) as Created).toSorted(byId),
    );
  });
});

describe('The configuration', () => {
  it('that is not usable ends the start with every problem by name, and no value', async () => {
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
    // It is the operator's to mend: a stack would be of no help.
    expect(service.output).not.toMatch(/^\s+at /m);
  });

  it('is read from a .env file too, which the environment outdoes', async () => {
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

  it('with a port that is in use ends the start with a message that says so', async () => {
    const { url } = await serve();
    const { port } = new URL(url);
    const second = await start({ PORT: port, BOOTSTRAP_API_KEY: BOOTSTRAP_KEY });
    const { code } = await second.exited;
    expect(code).toBeGreaterThan(0);
    expect(second.stderr).toMatch(new RegExp(`in use.*${port}|${port}.*in use`));
    expect((await list(url)).status).toBe(200);
  });
});

describe('The logs', () => {
  it('are lines of JSON in production, with the request id of what failed and without any key', async () => {
    const { service, url } = await serve({ NODE_ENV: 'production', LOG_LEVEL: 'verbose' });
    const wrongKey = `pet_${'B'.repeat(43)}`;
    keys.add(wrongKey);
    expect((await list(url, wrongKey)).status).toBe(401);
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
    // The cause is for the operator alone.
    expect(JSON.stringify(errors)).toMatch(/categories/);
    expect(failed.body.toString()).not.toMatch(/categories/);
  });

  it('are text that a person reads otherwise', async () => {
    const { service } = await serve();
    await service.stop();
    const lines = service.output.trim().split('\n');
    expect(lines.length).toBeGreaterThan(1);
    for (const line of lines) expect(() => JSON.parse(line) as unknown).toThrow(SyntaxError);
  });
});

describe('The health routes', () => {
  it('say that the process lives and that it is ready', async () => {
    const { url } = await serve();
    for (const path of ['/livez', '/readyz']) {
      const answer = await sendRequest(url + path);
      expect(answer.status).toBe(200);
      expect(parse(answer)).toEqual({ status: 'ok' });
    }
  });
});

describe('A stop', () => {
  it.each(['SIGTERM', 'SIGINT'] as const)(
    'with %s ends well within 10 seconds, whatever idle clients hold open',
    async (signal) => {
      const { service, url } = await serve();
      const agent = new Agent({ keepAlive: true });
      const idle = await Promise.all([1, 2, 3].map(() => list(url, BOOTSTRAP_KEY, { agent })));
      expect(idle.map(({ status }) => status)).toEqual([200, 200, 200]);
      const silent = await RawConnection.open(url);
      const half = (await RawConnection.open(url)).send('GET /livez HTTP/1.1\r\nHost: pets');
      const { milliseconds, ...exit } = await stopWith(signal, service);
      agent.destroy();
      silent.close();
      half.close();
      expect(exit).toEqual({ code: 0, signal: null });
      expect(milliseconds).toBeLessThan(STOP_LIMIT);
    },
  );

  it('says on /readyz that no more requests are wanted, and answers those that come', async () => {
    const { service, url } = await serve({ SHUTDOWN_DELAY_MS: '3000' });
    const agent = new Agent({ keepAlive: true });
    service.kill('SIGTERM');
    const answer = await waitFor(
      () => sendRequest(`${url}/readyz`),
      ({ status }) => status !== 200,
      10_000,
    );
    expect(answer.status).toBe(503);
    expect(parse(answer)).toEqual({
      code: 'SERVICE_UNAVAILABLE',
      message: expect.any(String),
      status: 503,
    });
    expect(answer.headers['retry-after']).toBeDefined();
    expect((await sendRequest(`${url}/livez`)).status).toBe(200);
    expect((await create(url, 'dog', agent)).status).toBe(201);
    const last = await list(url, BOOTSTRAP_KEY, { agent });
    expect(parse(last)).toMatchObject([{ name: 'dog' }]);
    agent.destroy();
    expect(await service.exited).toEqual({ code: 0, signal: null });
  });

  it('waits for a request whose body is still on the way', async () => {
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
    // Once it is answered, the service has taken the connection.
    await connection.send(rawRequest({ target: '/livez' })).nextResponse();
    connection.send(request.subarray(0, -5));
    service.kill('SIGTERM');
    await waitFor(
      () =>
        sendRequest(`${url}/livez`).then(
          () => 'taken',
          () => 'refused',
        ),
      (state) => state === 'refused',
      STOP_LIMIT,
    );
    connection.send(request.subarray(-5));
    const [, answer] = await connection.closed();
    expect(answer).toMatchObject({ status: 201, headers: { connection: 'close' } });
    expect(await service.exited).toEqual({ code: 0, signal: null });
    const rows = await connectToDatabase((dataSource) =>
      dataSource.query('SELECT "name" FROM "categories"'),
    );
    expect(rows).toEqual([{ name: 'late' }]);
  });

  it.each(['0', '1000'])(
    'under load cuts no request, and loses no create that was answered, after a delay of %s ms',
    async (delay) => {
      const CLIENTS = 64;
      const { service, url } = await serve({ SHUTDOWN_DELAY_MS: delay });
      const agent = new Agent({ keepAlive: true, maxSockets: CLIENTS });
      const created: Created[] = [];
      const outcomes = { answered: 0, refused: 0, wrong: [] as unknown[] };

      const work = async (client: number): Promise<void> => {
        for (let turn = 0; ; turn++) {
          const writes = turn % 2 === client % 2;
          const name = `${client}-${turn}`;
          try {
            const answer = writes
              ? await create(url, name, agent)
              : await list(url, BOOTSTRAP_KEY, { agent });
            const body = parse(answer);
            outcomes.answered++;
            if (answer.status === 201) created.push(body as Created);
            else if (answer.status !== 200 || !Array.isArray(body)) outcomes.wrong.push(body);
          } catch (error) {
            const { code, message } = error as NodeJS.ErrnoException;
            if (code === 'ECONNREFUSED') outcomes.refused++;
            else outcomes.wrong.push({ client, turn, writes, code, message });
            return;
          }
        }
      };
      const clients = Array.from({ length: CLIENTS }, (_, client) => work(client));
      await waitFor(
        () => outcomes.answered,
        (answered) => answered > 20 * CLIENTS,
        30_000,
      );
      const { milliseconds, ...exit } = await stopWith('SIGTERM', service);
      await Promise.all(clients);
      agent.destroy();

      expect(outcomes.wrong).toEqual([]);
      expect(outcomes.refused).toBe(CLIENTS);
      expect(exit).toEqual({ code: 0, signal: null });
      expect(milliseconds).toBeLessThan(STOP_LIMIT);
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
