import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { Controller, Get, Logger } from '@nestjs/common';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { getDataSourceToken } from '@nestjs/typeorm';
import Database from 'better-sqlite3';
import type { DataSource } from 'typeorm';
import { createApp } from '../../../src/platform/application/create-app.js';
import { main as keys } from '../../../src/cli/keys.js';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import { ApiKeysService } from '../../../src/platform/auth/keys/api-keys.service.js';
import { loadConfig } from '../../../src/platform/config/config.js';
import { Feature } from '../../../src/platform/feature.decorator.js';
import { createLogger } from '../../../src/platform/logging/logger.js';
import { createDatabase, type TestDatabase, toRoot } from '../support/app.js';
import { captureOutput, runCommand } from '../support/cli.js';
import { unknownKey } from '../support/fixtures.js';
import { CategoriesClient, jsonHeaders, sendRequest } from '../support/http-client.js';
import { rawRequest, sendRaw } from '../support/raw-connection.js';
import { createServices } from '../support/service-process.js';
import { StubsModule } from '../support/stubs.module.js';
import { waitFor } from '../support/wait.js';
import { PRODUCT } from '../../../src/product.js';

const { jest } = import.meta;

const randomSecret = (): string => randomBytes(24).toString('base64url');
const bearer = (key: string): string => `Authorization: Bearer ${key}`;

/** A line of the JSON log. */
type LogLine = Readonly<
  Record<'level' | 'message' | 'timestamp' | 'requestId' | 'context', string>
>;

/** The contexts in which the platform logs. */
const PLATFORM_CONTEXTS = new Set<string | undefined>([
  PRODUCT.title,
  undefined,
  ...'ApiKeysService ApiKeyVerifier Authentication Database DatabaseStartup Http'.split(' '),
  ...'IdempotencyRecordsCleanup MetricsServer Readiness Transaction'.split(' '),
]);

const parseLog = (output: string): LogLine[] =>
  output.match(/.+/g)!.map((line) => JSON.parse(line) as LogLine);

/** Sends a key in every place of a request where a client may put it, and returns the statuses. */
async function sendKeyEverywhere(url: string, key: string): Promise<number[]> {
  const base = `${url}/v1/categories`;
  const auth = jsonHeaders(key);
  const body = JSON.stringify({ name: key });
  const gets: Record<string, string>[] = [
    auth,
    { 'x-request-id': `trace-${key}`, cookie: `key=${key}`, 'x-api-key': key },
    { authorization: key, referer: `http://${key}@petstore/`, 'user-agent': key },
  ];
  const paths = [
    `/v1/categories?api_key=${key}&access_token=${key}`,
    `/v1/categories/${key}`,
    `/v1/stubs/deprecated/${key}`,
  ];
  const requests = [
    ...gets.map((headers) => sendRequest(base, { headers })),
    ...paths.map((path) => sendRequest(url + path, { headers: auth })),
    ...[body, key, JSON.stringify({ [key]: key })].map((sent) =>
      sendRequest(base, { method: 'POST', headers: auth, body: sent }),
    ),
    sendRequest(base, { method: 'PUT', headers: auth, body }),
  ];
  const rawRequests = [
    rawRequest({ headers: [bearer(key), bearer(key), 'Connection: close'] }),
    rawRequest({ headers: [`Host: ${key}`, bearer(key), 'Connection: close'] }),
    rawRequest({ target: `/v1/%ZZ${key}`, headers: [bearer(key), 'Connection: close'] }),
    rawRequest({ method: key, headers: [bearer(key)] }),
    rawRequest({ headers: [`${key}\u0001: ${key}`] }),
    rawRequest({ headers: [bearer(key), `X-Large: ${key.repeat(500)}`] }),
  ];
  const responses = rawRequests.map(async (bytes) => (await sendRaw(url, bytes))[0]!);
  return (await Promise.all([...requests, ...responses])).map(({ status }) => status);
}

describe('the log', () => {
  let database: TestDatabase;
  let app: NestExpressApplication;
  let printed: ReturnType<typeof captureOutput>[];
  /** Returns the output of the application. */
  const getOutput = (): string => printed.map(({ text }) => text).join('');
  beforeEach(async () => {
    database = await createDatabase();
    printed = [captureOutput('stdout'), captureOutput('stderr')];
  });
  afterEach(async () => {
    await app.close();
    jest.restoreAllMocks();
    await database.drop();
  });

  /** Starts the application with the logger of the service and returns its URL. */
  async function start(env: NodeJS.ProcessEnv): Promise<string> {
    const config = loadConfig(PRODUCT, { DATABASE_URL: database.url, LOG_LEVEL: 'debug', ...env });
    app = await createApp(config, toRoot([LogsModule, CategoriesModule, StubsModule]));
    await app.listen(0, config.host);
    return app.getUrl();
  }

  it('contains the request id on every line that is written while a request is handled', async () => {
    const key = `bootstrap-${randomSecret()}`;
    const url = await start({ BOOTSTRAP_API_KEY: key });
    const ids = ['first', 'second', 'third'];
    const requests = ids.map((id) => ({ headers: { ...jsonHeaders(key), 'x-request-id': id } }));
    await Promise.all(requests.map((each) => sendRequest(`${url}/v1/logs`, each)));
    const lines = getOutput()
      .split('\n')
      .filter((line) => line.includes('In the middle'));
    const found = ids.map((id) => lines.filter((line) => line.includes(id)));
    expect(found.map(({ length }) => length)).toEqual([1, 1, 1]);
  });

  it.each(['production', 'development'])('omits API keys at debug level in %s', async (mode) => {
    const bootstrap = `bootstrap-${randomSecret()}`;
    const url = await start({ NODE_ENV: mode, BOOTSTRAP_API_KEY: bootstrap });
    const apiKeys = app.get(ApiKeysService);
    const { key: valid } = await apiKeys.create('valid');
    const { key: expired } = await apiKeys.create('expired', { expiresAt: new Date(1) });
    const truncated = valid.slice(0, -1);
    const unknown = unknownKey();
    const secrets = [bootstrap, valid, expired, truncated, unknown];
    const statuses = [];
    for (const key of secrets) statuses.push(...(await sendKeyEverywhere(url, key)));
    // The requests reach all of these paths.
    expect(new Set(statuses)).toEqual(new Set([200, 201, 400, 401, 404, 405, 431, 501]));

    // A 500 is logged with the database error, which contains the query parameters.
    const dataSource = app.get<DataSource>(getDataSourceToken());
    await dataSource.query('ALTER TABLE "categories" RENAME TO "hidden"');
    for (const key of [bootstrap, valid]) expect(await sendKeyEverywhere(url, key)).toContain(500);
    await dataSource.query('ALTER TABLE "api_keys" RENAME TO "hidden_keys"');
    expect(await sendKeyEverywhere(url, unknown)).toContain(503);
    await app.close();
    expect(getOutput()).toContain('Request failed');
    expectNoLeaks(secrets);
  });

  it('omits API keys and passwords while PostgreSQL is unreachable', async () => {
    const bootstrap = `bootstrap-${randomSecret()}`;
    const password = randomSecret();
    const url = await start({
      BOOTSTRAP_API_KEY: bootstrap,
      DATABASE_URL: `postgres://admin:${password}@127.0.0.1:1/petstore`,
    });
    expect(await sendKeyEverywhere(url, bootstrap)).toContain(503);
    await waitFor(
      () => getOutput(),
      (text) => text.includes('retrying every 1000 ms'),
    );
    await app.close();
    // An outage is logged, not each of its requests.
    expect(getOutput()).not.toContain('Request failed');
    expectNoLeaks([bootstrap, password]);
  });

  function expectNoLeaks(secrets: readonly string[]): void {
    expect(getOutput().length).toBeGreaterThan(1_000);
    expect(getOutput()).toContain('401');
    // A part of the key would also help to guess it.
    expect(secrets.filter((key) => getOutput().includes(key.slice(4, 24)))).toEqual([]);
  }

  it('contains a line with the request id, key and client for each response at debug level', async () => {
    const key = `bootstrap-${randomSecret()}`;
    const env = { NODE_ENV: 'production', BOOTSTRAP_API_KEY: key, TRUST_PROXY: '1' };
    const url = await start(env);
    const headers = { ...jsonHeaders(key), 'x-forwarded-for': '192.0.2.7' };
    const response = await sendRequest(`${url}/v1/categories?secret=1`, { headers });
    await sendRequest(url, { headers: { ...headers, 'x-forwarded-for': 'secret' } });
    // Some proxies add the port.
    const address = '192.0.2.7:50001';
    const other = await sendRequest(url, { headers: { ...headers, 'x-forwarded-for': address } });
    const [rejection] = await sendRaw(url, 'NO HTTP\r\n\r\n');
    await app.close();

    const getLines = (id: unknown) =>
      parseLog(getOutput()).filter(({ requestId }) => requestId === id);
    expect(getLines(response.headers['x-request-id'])).toEqual([
      expect.objectContaining({
        level: 'debug',
        method: 'GET',
        route: '/v1/categories',
        status: 200,
        durationMs: expect.any(Number) as number,
        apiKeyId: 1,
        clientIp: '192.0.2.7',
      }),
    ]);
    expect(getLines(other.headers['x-request-id'])).toMatchObject([{ clientIp: address }]);
    expect(getLines(rejection!.headers['x-request-id'])).toMatchObject([{ status: 400 }]);
    expect(getOutput()).not.toContain('secret');
  });
});

describe('createLogger', () => {
  it.each(['parameters', 'detail', 'body', 'input'])(
    'omits the %s of an error, which may quote what a client sent',
    (property) => {
      const output = captureOutput('stderr');
      for (const production of [true, false])
        createLogger({ logLevel: 'info', product: PRODUCT, production }).error(
          'Failed',
          Object.assign(new Error('the cause'), { [property]: 'SECRET' }),
        );
      output.spy.mockRestore();
      expect(output.text).toMatch(/the cause[^]*the cause/);
      expect(output.text).not.toContain('SECRET');
    },
  );
});

/** Logs a line in the middle of a request. */
@Controller('logs')
class LogsController {
  @Get()
  async write(): Promise<void> {
    await setImmediate();
    new Logger('Logs').log('In the middle of a request');
  }
}

@Feature({ tag: { name: 'logs', description: 'Logs.' }, controllers: [LogsController] })
class LogsModule {}

describe('the log of a service process', () => {
  it('contains only startup, migration, key, 5xx and graceful shutdown lines at info level', async () => {
    const services = await createServices({ NODE_ENV: 'production' });
    const file = join(services.directory, 'petstore.sqlite');
    const env = { DATABASE_URL: `sqlite:${file}` };
    const { service, url, categories } = await services.serve({ env });
    const other = await runCommand(keys, ['create', 'other'], env);
    const otherCategories = new CategoriesClient(url, other.stdout.trim());
    expect((await otherCategories.list()).status).toBe(200);
    await runCommand(keys, ['revoke', '2'], env);
    await waitFor(
      () => otherCategories.list(),
      ({ status }) => status === 401,
    );
    const database = new Database(file);
    database.exec('ALTER TABLE "categories" RENAME TO "hidden"');
    database.close();
    const failed = await categories.create('dog');
    expect(failed.status).toBe(500);
    await service.stop();
    await services.close();

    // The lines of standard output come before those of standard error. A module may log, too.
    const lines = parseLog(service.output).filter(
      ({ context, message }) =>
        PLATFORM_CONTEXTS.has(context) && !message.startsWith('Applied migration '),
    );
    expect(lines.map(({ level, message }) => `${level} ${message.split(' ')[0]}`)).toEqual([
      'warn Created',
      'info Created',
      'info Listening',
      'info API',
      'warn Rejected',
      'info Received',
      'info Shutdown',
      'error Request',
    ]);
    for (const { timestamp } of lines) expect(new Date(timestamp).toISOString()).toBe(timestamp);
    expect(lines.find(({ level }) => level === 'error')).toMatchObject({
      method: 'POST',
      route: '/v1/categories',
      requestId: failed.headers['x-request-id'],
      error: {
        message: expect.stringMatching(/categories/) as string,
        stack: expect.stringContaining('\n') as string,
      },
    });
  });
});
