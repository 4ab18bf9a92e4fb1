import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { OpenAPIObject } from '@nestjs/swagger';
import { PetstoreDataSource } from '../src/platform/database/petstore-data-source.js';
import { databaseOptions } from '../src/platform/database/data-source-options.js';
import { createDatabase, type TestDatabase } from './support/app.js';
import { sendRequest, jsonHeaders } from './support/http-client.js';
import { runKeys } from './support/cli.js';
import { RawConnection, rawRequest } from './support/raw-connection.js';
import { ServiceProcess } from './support/service-process.js';
import { isNotImplemented } from './support/not-implemented.js';
import { waitFor } from './support/wait.js';

const ROOT = join(import.meta.dirname, '..');
const { paths } = JSON.parse(await readFile(join(ROOT, 'openapi.json'), 'utf8')) as OpenAPIObject;
/** The status of a pet that is not there. */
const NO_PET = isNotImplemented(paths['/pets/{petId}']!.get!) ? 501 : 404;

// Services start and stop, and the first one waits for the compiler.
import.meta.jest.setTimeout(90_000);

const secret = (): string => randomBytes(24).toString('base64url');
const bearer = (key: string): string => `Authorization: Bearer ${key}`;

let database: TestDatabase;
let directory: string;
let services: ServiceProcess[];
beforeEach(async () => {
  database = await createDatabase();
  directory = await mkdtemp(join(tmpdir(), 'petstore-log-'));
  services = [];
});
afterEach(async () => {
  await Promise.all(services.map((service) => service.stop()));
  await database.drop();
  await rm(directory, { recursive: true, force: true });
});

async function start(env: NodeJS.ProcessEnv): Promise<ServiceProcess> {
  const service = await ServiceProcess.start(directory, { DATABASE_URL: database.url, ...env });
  services.push(service);
  return service;
}

/** Changes the database behind the service's back. */
async function changeDatabase(sql: string): Promise<void> {
  const dataSource = new PetstoreDataSource(databaseOptions(database.config));
  await dataSource.initialize();
  await dataSource.query(sql);
  await dataSource.destroy();
}

/** Creates a key as an operator does. */
async function createKey(...options: string[]): Promise<string> {
  const args = ['create', `test${options.length}`, ...options];
  const { stdout } = await runKeys(args, { env: { DATABASE_URL: database.url }, cwd: directory });
  return stdout.trim();
}

/** One line of the log in production. */
interface Line {
  readonly level: string;
  readonly message: string;
  readonly requestId?: string;
  readonly error?: { readonly message: string; readonly stack: string };
}

const linesOf = ({ output }: ServiceProcess): Line[] =>
  output
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Line);

/** Sends what a client may send, its key where it belongs and wherever else it could be; gives the statuses. */
async function sendEverything(url: string, key: string): Promise<number[]> {
  const base = `${url}/v1/categories`;
  const auth = jsonHeaders(key);
  const body = JSON.stringify({ name: key });
  const exchanges = [
    sendRequest(base, { headers: auth }),
    sendRequest(base, { headers: { ...auth, 'x-request-id': key } }),
    sendRequest(base, { headers: { 'x-request-id': `trace-${key}`, cookie: `key=${key}` } }),
    sendRequest(base, { headers: { 'x-api-key': key, referer: `http://${key}@petstore/` } }),
    sendRequest(base, { headers: { authorization: `Basic ${key}`, 'user-agent': key } }),
    sendRequest(base, { headers: { authorization: key } }),
    sendRequest(`${base}?api_key=${key}&access_token=${key}`),
    sendRequest(`${base}/${key}`, { headers: auth }),
    sendRequest(`${url}/v1/pets/${key}`, { headers: auth }),
    sendRequest(`${url}/${key}/v1/categories`),
    sendRequest(`${url}/metrics?key=${key}`, { headers: auth }),
    sendRequest(base, { method: 'POST', headers: auth, body }),
    sendRequest(base, { method: 'POST', headers: auth, body: key }),
    sendRequest(base, { method: 'POST', headers: auth, body: JSON.stringify({ [key]: key }) }),
    sendRequest(base, { method: 'PUT', headers: auth, body }),
  ];
  const raw = [
    rawRequest({ headers: [bearer(key), bearer(key), 'Connection: close'] }),
    rawRequest({ headers: [`Authorization: ${bearer(key)}`, 'Connection: close'] }),
    rawRequest({ headers: [`Host: ${key}`, bearer(key), 'Connection: close'] }),
    rawRequest({ target: `http://${key}@petstore/v1/categories`, headers: ['Connection: close'] }),
    rawRequest({ target: `/v1/%ZZ${key}`, headers: [bearer(key), 'Connection: close'] }),
    rawRequest({ method: 'CONNECT', target: `${key}:443`, headers: [bearer(key)] }),
    rawRequest({ method: key, headers: [bearer(key)] }),
    rawRequest({ headers: [`${key}\u0001: ${key}`] }),
    rawRequest({ headers: [bearer(key), `X-Large: ${key.repeat(500)}`] }),
  ];
  const statuses = await Promise.all([
    ...exchanges.map(async (answer) => (await answer).status),
    ...raw.map(
      async (bytes) => (await (await RawConnection.open(url)).send(bytes).closed())[0]!.status,
    ),
  ]);
  return statuses;
}

describe('The log', () => {
  it.each(['production', 'development'])(
    'shows no key and no password, whatever happens at debug level (%s)',
    async (mode) => {
      const bootstrap = `bootstrap-${secret()}`;
      const good = await createKey();
      const expired = await createKey('--expires-in', '1m');
      const truncated = good.slice(0, -1);
      const unknown = `pet_${randomBytes(32).toString('base64url')}`;
      const password = secret();
      await changeDatabase(`UPDATE "api_keys" SET "expires_at" = 1 WHERE "expires_at" IS NOT NULL`);

      const common = { NODE_ENV: mode, LOG_LEVEL: 'debug', BOOTSTRAP_API_KEY: bootstrap };
      const service = await start(common);
      const url = await service.waitUntilListening();
      const secrets = [bootstrap, good, expired, truncated, unknown];
      const statuses = new Set<number>();
      for (const key of secrets) {
        for (const status of await sendEverything(url, key)) statuses.add(status);
      }
      // Otherwise the run was not as mixed as it seems.
      expect(statuses).toEqual(new Set([200, 201, 400, 401, 404, 405, 431, NO_PET]));
      await runKeys(['revoke', '2'], { env: { DATABASE_URL: database.url }, cwd: directory });

      // The database fails: each 5xx is logged with its cause, which knows the parameters of the query.
      await changeDatabase('ALTER TABLE "categories" RENAME TO "hidden"');
      for (const key of [bootstrap, good]) expect(await sendEverything(url, key)).toContain(500);
      await changeDatabase('ALTER TABLE "api_keys" RENAME TO "hidden_keys"');
      await delay(2_100);
      expect(await sendEverything(url, bootstrap)).toContain(500);

      // One that waits for a PostgreSQL server, whose address has a password.
      const away = await start({
        ...common,
        DATABASE_URL: `postgres://admin:${password}@127.0.0.1:1/petstore`,
      });
      expect(await sendEverything(await away.waitUntilListening(), bootstrap)).toContain(503);
      await waitFor(
        () => away.output,
        (output) => output.includes('trying again'),
        10_000,
      );
      await Promise.all(services.map((each) => each.stop()));

      expect(service.output).toContain('POST createCategory failed');
      for (const { output } of services) {
        expect(output.length).toBeGreaterThan(1_000);
        expect(output).toContain('401');
        // A part of a key helps to guess the rest.
        const leaked = [...secrets, password].filter((key) => output.includes(key.slice(4, 24)));
        expect(leaked).toEqual([]);
      }
    },
  );

  it('has at debug a line for each answer, under the id that the client got', async () => {
    const key = `bootstrap-${secret()}`;
    const service = await start({
      NODE_ENV: 'production',
      LOG_LEVEL: 'debug',
      BOOTSTRAP_API_KEY: key,
    });
    const url = await service.waitUntilListening();
    const sent: [string, string, object][] = [
      ['/v1/categories?secret=1', 'GET listCategories 200', { headers: jsonHeaders(key) }],
      ['/v1/categories', 'HEAD listCategories 200', { method: 'HEAD', headers: jsonHeaders(key) }],
      [
        '/v1/categories',
        'POST createCategory 201',
        { method: 'POST', headers: jsonHeaders(key), body: '{"name":"dog"}' },
      ],
      ['/v1/categories', 'GET listCategories 401', {}],
      ['/v1/pets/7', `GET getPet ${NO_PET}`, { headers: jsonHeaders(key) }],
      ['/readyz', 'GET /readyz 200', {}],
      ['/nowhere', 'GET unmatched 404', {}],
      ['/docs/swagger-ui.css', 'GET other 200', {}],
    ];
    const expected: [string, string][] = [];
    for (const [path, line, options] of sent) {
      const { headers } = await sendRequest(url + path, options);
      expected.push([headers['x-request-id'] as string, line]);
    }
    const [refusal] = await (await RawConnection.open(url)).send('NO HTTP\r\n\r\n').closed();
    expected.push([refusal!.headers['x-request-id']!, '- other 400']);
    await service.stop();

    const lines = linesOf(service);
    for (const [id, line] of expected) {
      const about = lines.filter(({ requestId }) => requestId === id);
      expect(about).toEqual([
        expect.objectContaining({
          level: 'debug',
          message: expect.stringMatching(new RegExp(`^${line}( \\d+\\.\\d ms)?$`)) as string,
        }),
      ]);
    }
  });

  it('has at info the start, migrations, changes of keys and the stop, and 5xx with their cause; no line for other answers', async () => {
    const key = `bootstrap-${secret()}`;
    const service = await start({ NODE_ENV: 'production', BOOTSTRAP_API_KEY: key });
    const url = await service.waitUntilListening();
    const other = await createKey();
    for (const used of [key, other, 'wrong'])
      await sendRequest(`${url}/v1/categories`, { headers: jsonHeaders(used) });
    const run = { env: { DATABASE_URL: database.url }, cwd: directory };
    await runKeys(['revoke', '2'], run);
    await waitFor(
      () => sendRequest(`${url}/v1/categories`, { headers: jsonHeaders(other) }),
      ({ status }) => status === 401,
      10_000,
    );
    await changeDatabase('ALTER TABLE "categories" RENAME TO "hidden"');
    const failed = await sendRequest(`${url}/v1/categories`, {
      method: 'POST',
      headers: jsonHeaders(key),
      body: '{"name":"dog"}',
    });
    expect(failed.status).toBe(500);
    await service.stop();

    const lines = linesOf(service);
    const said = (level: string): string[] =>
      lines.filter((line) => line.level === level).map(({ message }) => message);
    const { migrations } = databaseOptions(database.config);
    const migrated = (migrations as { name: string }[]).map(({ name }) => `Migrated: ${name}`);
    expect(migrated).toContainEqual(expect.stringMatching(/^Migrated: CreateCategories/));
    expect(said('log')).toEqual([
      ...migrated,
      'Created API key 1 (bootstrap)',
      expect.stringMatching(/^Listening on http/),
      'API key 2 (test0) was revoked: it lets nobody in',
      'SIGTERM: stopping',
      'Stopped',
    ]);
    expect(said('error')).toEqual(['POST createCategory failed']);
    expect(lines.find(({ level }) => level === 'error')).toMatchObject({
      requestId: failed.headers['x-request-id'],
      error: {
        message: expect.stringMatching(/categories/) as string,
        stack: expect.stringContaining('\n') as string,
      },
    });
    expect(said('debug')).toEqual([]);
  });
});
