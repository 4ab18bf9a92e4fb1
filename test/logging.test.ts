import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { OpenAPIObject } from '@nestjs/swagger';
import { collectSchema, createDataSource } from '../src/data-source.js';
import { FEATURES } from '../src/features.js';
import { createDatabase, type TestDatabase } from './support/app.js';
import { sendRequest, jsonHeaders } from './support/http-client.js';
import { runKeys } from './support/cli.js';
import { RawConnection, rawRequest } from './support/raw-connection.js';
import { ServiceProcess } from './support/service-process.js';
import { isNotImplemented } from './support/not-implemented.js';
import { waitFor } from './support/wait.js';

const ROOT = join(import.meta.dirname, '..');
const { paths } = JSON.parse(await readFile(join(ROOT, 'openapi.json'), 'utf8')) as OpenAPIObject;
/** The status of a request for a missing pet. */
const MISSING_PET_STATUS = isNotImplemented(paths['/pets/{petId}']!.get!) ? 501 : 404;

// Every test starts service processes, and the first one waits for the build.
import.meta.jest.setTimeout(90_000);

const randomSecret = (): string => randomBytes(24).toString('base64url');
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

/** Executes SQL outside the service. */
async function executeSql(sql: string): Promise<void> {
  const dataSource = createDataSource(database.config);
  await dataSource.initialize();
  await dataSource.query(sql);
  await dataSource.destroy();
}

/** Creates a key with `keys create`. */
async function createKey(...options: string[]): Promise<string> {
  const args = ['create', `test${options.length}`, ...options];
  const { stdout } = await runKeys(args, { env: { DATABASE_URL: database.url }, cwd: directory });
  return stdout.trim();
}

/** A line of the JSON log. */
interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly requestId?: string;
  readonly error?: { readonly message: string; readonly stack: string };
}

const parseLog = ({ output }: ServiceProcess): LogLine[] =>
  output
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as LogLine);

/** Sends the key in the Authorization header and in every other place, and returns the statuses. */
async function sendKeyEverywhere(url: string, key: string): Promise<number[]> {
  const base = `${url}/v1/categories`;
  const auth = jsonHeaders(key);
  const body = JSON.stringify({ name: key });
  const requests = [
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
  const rawRequests = [
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
  return Promise.all([
    ...requests.map(async (response) => (await response).status),
    ...rawRequests.map(
      async (bytes) => (await (await RawConnection.open(url)).send(bytes).closed())[0]!.status,
    ),
  ]);
}

describe('service log', () => {
  it.each(['production', 'development'])(
    'contains no API keys or passwords at debug level (%s)',
    async (mode) => {
      const bootstrap = `bootstrap-${randomSecret()}`;
      const valid = await createKey();
      const expired = await createKey('--expires-in', '1m');
      const truncated = valid.slice(0, -1);
      const unknown = `pet_${randomBytes(32).toString('base64url')}`;
      const password = randomSecret();
      await executeSql(`UPDATE "api_keys" SET "expires_at" = 1 WHERE "expires_at" IS NOT NULL`);

      const env = { NODE_ENV: mode, LOG_LEVEL: 'debug', BOOTSTRAP_API_KEY: bootstrap };
      const service = await start(env);
      const url = await service.waitUntilListening();
      const secrets = [bootstrap, valid, expired, truncated, unknown];
      const statuses = new Set<number>();
      for (const key of secrets) {
        for (const status of await sendKeyEverywhere(url, key)) statuses.add(status);
      }
      // Ensures that the requests exercise all of these paths.
      expect(statuses).toEqual(new Set([200, 201, 400, 401, 404, 405, 431, MISSING_PET_STATUS]));
      await runKeys(['revoke', '2'], { env: { DATABASE_URL: database.url }, cwd: directory });

      // Every 500 is logged with the database error, which contains the query parameters.
      await executeSql('ALTER TABLE "categories" RENAME TO "hidden"');
      for (const key of [bootstrap, valid])
        expect(await sendKeyEverywhere(url, key)).toContain(500);
      await executeSql('ALTER TABLE "api_keys" RENAME TO "hidden_keys"');
      await delay(2_100);
      expect(await sendKeyEverywhere(url, bootstrap)).toContain(500);

      // A service whose PostgreSQL server, with a password in its URL, is unreachable.
      const disconnected = await start({
        ...env,
        DATABASE_URL: `postgres://admin:${password}@127.0.0.1:1/petstore`,
      });
      expect(await sendKeyEverywhere(await disconnected.waitUntilListening(), bootstrap)).toContain(
        503,
      );
      await waitFor(
        () => disconnected.output,
        (output) => output.includes('retrying in'),
        10_000,
      );
      await Promise.all(services.map((each) => each.stop()));

      expect(service.output).toContain('Request failed');
      for (const { output } of services) {
        expect(output.length).toBeGreaterThan(1_000);
        expect(output).toContain('401');
        // Checks for a part of the key, because a partial key also helps to guess it.
        const leaked = [...secrets, password].filter((key) => output.includes(key.slice(4, 24)));
        expect(leaked).toEqual([]);
      }
    },
  );

  it('has a line with the request id for each response at debug level', async () => {
    const key = `bootstrap-${randomSecret()}`;
    const service = await start({
      NODE_ENV: 'production',
      LOG_LEVEL: 'debug',
      BOOTSTRAP_API_KEY: key,
    });
    const url = await service.waitUntilListening();
    const sent: [string, string, object][] = [
      ['/v1/categories?secret=1', 'GET /v1/categories 200', { headers: jsonHeaders(key) }],
      ['/v1/categories', 'HEAD /v1/categories 200', { method: 'HEAD', headers: jsonHeaders(key) }],
      [
        '/v1/categories',
        'POST /v1/categories 201',
        { method: 'POST', headers: jsonHeaders(key), body: '{"name":"dog"}' },
      ],
      ['/v1/categories', 'GET /v1/categories 401', {}],
      ['/v1/pets/7', `GET /v1/pets/:petId ${MISSING_PET_STATUS}`, { headers: jsonHeaders(key) }],
      ['/readyz', 'GET /readyz 200', {}],
      ['/nowhere', 'GET not_found 404', {}],
      ['/docs/swagger-ui.css', 'GET unknown 200', {}],
    ];
    const expected: [string, string][] = [];
    for (const [path, line, options] of sent) {
      const { headers } = await sendRequest(url + path, options);
      expected.push([headers['x-request-id'] as string, line]);
    }
    const [rejection] = await (await RawConnection.open(url)).send('NO HTTP\r\n\r\n').closed();
    expected.push([rejection!.headers['x-request-id']!, '- unknown 400']);
    await service.stop();

    const lines = parseLog(service);
    for (const [id, line] of expected) {
      const matches = lines.filter(({ requestId }) => requestId === id);
      expect(matches).toEqual([
        expect.objectContaining({
          level: 'debug',
          message: expect.stringMatching(new RegExp(`^${line}( \\d+\\.\\d ms)?$`)) as string,
        }),
      ]);
    }
  });

  it('has only startup, migration, key change, 5xx and graceful shutdown lines at info level', async () => {
    const key = `bootstrap-${randomSecret()}`;
    const service = await start({ NODE_ENV: 'production', BOOTSTRAP_API_KEY: key });
    const url = await service.waitUntilListening();
    const other = await createKey();
    for (const used of [key, other, 'wrong'])
      await sendRequest(`${url}/v1/categories`, { headers: jsonHeaders(used) });
    const options = { env: { DATABASE_URL: database.url }, cwd: directory };
    await runKeys(['revoke', '2'], options);
    await waitFor(
      () => sendRequest(`${url}/v1/categories`, { headers: jsonHeaders(other) }),
      ({ status }) => status === 401,
      10_000,
    );
    await executeSql('ALTER TABLE "categories" RENAME TO "hidden"');
    const failed = await sendRequest(`${url}/v1/categories`, {
      method: 'POST',
      headers: jsonHeaders(key),
      body: '{"name":"dog"}',
    });
    expect(failed.status).toBe(500);
    await service.stop();

    const lines = parseLog(service);
    const messages = (level: string): string[] =>
      lines.filter((line) => line.level === level).map(({ message }) => message);
    const { migrations } = collectSchema(FEATURES);
    const applied = (migrations as { name: string }[]).map(
      ({ name }) => `Applied migration ${name}`,
    );
    expect(applied).toContainEqual(expect.stringMatching(/^Applied migration CreateCategories/));
    expect(messages('log')).toEqual([
      ...applied,
      'Created API key 1 (bootstrap)',
      expect.stringMatching(/^Listening on http/),
      'API key 2 (test0) is revoked, rejecting request',
      'Received SIGTERM, shutting down',
      'Shutdown complete',
    ]);
    expect(messages('error')).toEqual(['Request failed']);
    expect(lines.find(({ level }) => level === 'error')).toMatchObject({
      method: 'POST',
      route: '/v1/categories',
      requestId: failed.headers['x-request-id'],
      error: {
        message: expect.stringMatching(/categories/) as string,
        stack: expect.stringContaining('\n') as string,
      },
    });
    expect(messages('debug')).toEqual([]);
  });
});
