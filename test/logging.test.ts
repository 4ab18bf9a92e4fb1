import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { Controller, Get, Logger } from '@nestjs/common';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { ApiOperation, ApiTags } from '@nestjs/swagger';
import { getDataSourceToken } from '@nestjs/typeorm';
import Database from 'better-sqlite3';
import type { DataSource } from 'typeorm';
import { createApp } from '../src/app.js';
import { main as keys } from '../src/cli/keys.js';
import { collectSchema } from '../src/data-source.js';
import { FEATURES } from '../src/features.js';
import { CategoriesModule } from '../src/modules/categories/categories.module.js';
import { ApiKeysService } from '../src/platform/auth/keys/api-keys.service.js';
import { loadConfig } from '../src/platform/config/config.js';
import { VERSION } from '../src/platform/config/version.js';
import { Feature } from '../src/platform/feature.decorator.js';
import { createDatabase, type TestDatabase } from './support/app.js';
import { runCommand } from './support/cli.js';
import { CategoriesClient, jsonHeaders, sendRequest } from './support/http-client.js';
import { RawConnection, rawRequest } from './support/raw-connection.js';
import { createServices } from './support/service-process.js';
import { StubsModule } from './support/stubs.module.js';
import { waitFor } from './support/wait.js';

const { jest } = import.meta;

const TIMEOUT_MS = 30_000;

const randomSecret = (): string => randomBytes(24).toString('base64url');
const bearer = (key: string): string => `Authorization: Bearer ${key}`;

/** A line of the JSON log. */
interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly requestId?: string;
}

const parseLog = (output: string): LogLine[] =>
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
    sendRequest(`${url}/v1/stubs/deprecated/${key}`, { headers: auth }),
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
  let database: TestDatabase;
  let app: NestExpressApplication;
  /** What the logger of the application has written. */
  let output: string;
  beforeEach(async () => {
    database = await createDatabase();
    output = '';
    for (const stream of [process.stdout, process.stderr]) {
      jest.spyOn(stream, 'write').mockImplementation((text) => {
        output += String(text);
        return true;
      });
    }
  });
  afterEach(async () => {
    await app.close();
    jest.restoreAllMocks();
    await database.drop();
  });

  /** Starts the application with the logger of the service and returns its URL. */
  async function start(env: NodeJS.ProcessEnv): Promise<string> {
    const config = loadConfig({ DATABASE_URL: database.url, LOG_LEVEL: 'debug', ...env });
    app = await createApp(config, { features: [CategoriesModule, StubsModule] });
    await app.listen(0, config.host);
    return app.getUrl();
  }

  it.each(['production', 'development'])(
    'has the request id on every line that is written while a request is handled (%s)',
    async (mode) => {
      const key = `bootstrap-${randomSecret()}`;
      const config = loadConfig({
        DATABASE_URL: database.url,
        BOOTSTRAP_API_KEY: key,
        NODE_ENV: mode,
      });
      app = await createApp(config, { features: [LogsModule, CategoriesModule] });
      await app.listen(0, config.host);
      const address = `${await app.getUrl()}/v1/logs`;
      const ids = ['first', 'second', 'third'];
      await Promise.all(
        ids.map((id) =>
          sendRequest(address, { headers: { ...jsonHeaders(key), 'x-request-id': id } }),
        ),
      );
      const lines = output.split('\n').filter((line) => line.includes('In the middle'));
      expect(lines.map((line) => ids.find((id) => line.includes(id)))).toEqual(ids);
    },
  );

  it.each(['production', 'development'])(
    'contains no API keys or passwords at debug level (%s)',
    async (mode) => {
      const bootstrap = `bootstrap-${randomSecret()}`;
      const url = await start({ NODE_ENV: mode, BOOTSTRAP_API_KEY: bootstrap });
      const apiKeys = app.get(ApiKeysService);
      const { key: valid } = await apiKeys.create('valid');
      const { key: expired } = await apiKeys.create('expired', { expiresAt: new Date(1) });
      const truncated = valid.slice(0, -1);
      const unknown = `pet_${randomBytes(32).toString('base64url')}`;
      const secrets = [bootstrap, valid, expired, truncated, unknown];
      const statuses = new Set<number>();
      for (const key of secrets) {
        for (const status of await sendKeyEverywhere(url, key)) statuses.add(status);
      }
      // Ensures that the requests exercise all of these paths.
      expect(statuses).toEqual(new Set([200, 201, 400, 401, 404, 405, 431, 501]));

      // Every 500 is logged with the database error, which contains the query parameters.
      const dataSource = app.get<DataSource>(getDataSourceToken());
      await dataSource.query('ALTER TABLE "categories" RENAME TO "hidden"');
      for (const key of [bootstrap, valid])
        expect(await sendKeyEverywhere(url, key)).toContain(500);
      await dataSource.query('ALTER TABLE "api_keys" RENAME TO "hidden_keys"');
      expect(await sendKeyEverywhere(url, unknown)).toContain(500);
      await app.close();
      expect(output).toContain('Request failed');
      expectNoLeaks(secrets);
    },
  );

  it.each(['production', 'development'])(
    'contains no API keys or passwords at debug level while PostgreSQL is unreachable (%s)',
    async (mode) => {
      const bootstrap = `bootstrap-${randomSecret()}`;
      const password = randomSecret();
      const url = await start({
        NODE_ENV: mode,
        BOOTSTRAP_API_KEY: bootstrap,
        DATABASE_URL: `postgres://admin:${password}@127.0.0.1:1/petstore`,
      });
      expect(await sendKeyEverywhere(url, bootstrap)).toContain(503);
      await waitFor(
        () => output,
        (text) => text.includes('retrying in'),
        TIMEOUT_MS,
      );
      await app.close();
      expectNoLeaks([bootstrap, password]);
    },
  );

  function expectNoLeaks(secrets: readonly string[]): void {
    expect(output.length).toBeGreaterThan(1_000);
    expect(output).toContain('401');
    // Checks for a part of the key, because a partial key also helps to guess it.
    expect(secrets.filter((key) => output.includes(key.slice(4, 24)))).toEqual([]);
  }

  it('has a line with the request id, the key and the client for each response at debug level', async () => {
    const key = `bootstrap-${randomSecret()}`;
    const env = { NODE_ENV: 'production', BOOTSTRAP_API_KEY: key, TRUST_PROXY: '1' };
    const url = await start(env);
    const headers = { ...jsonHeaders(key), 'x-forwarded-for': '192.0.2.7' };
    const sent: [string, string, object][] = [
      ['/v1/categories?secret=1', 'GET /v1/categories 200', { headers }],
      ['/v1/categories', 'HEAD /v1/categories 200', { method: 'HEAD', headers }],
      [
        '/v1/categories',
        'POST /v1/categories 201',
        { method: 'POST', headers, body: '{"name":"dog"}' },
      ],
      ['/v1/categories', 'GET /v1/categories 401', {}],
      ['/v1/stubs/deprecated/7', 'GET /v1/stubs/deprecated/:id 501', { headers }],
      ['/readyz', 'GET /readyz 200', {}],
      ['/nowhere', 'GET not_found 404', {}],
      ['/docs/swagger-ui.css', 'GET unknown 200', {}],
    ];
    const expected: [string | undefined, string][] = [];
    for (const [path, line, options] of sent) {
      const response = await sendRequest(url + path, options);
      expected.push([response.headers['x-request-id'] as string, line]);
    }
    const [rejection] = await (await RawConnection.open(url)).send('NO HTTP\r\n\r\n').closed();
    expected.push([rejection!.headers['x-request-id'], '- unknown 400']);
    await app.close();

    const lines = parseLog(output);
    for (const [id, line] of expected) {
      expect(lines.filter(({ requestId }) => requestId === id)).toEqual([
        expect.objectContaining({
          level: 'debug',
          message: expect.stringMatching(new RegExp(`^${line} \\d+\\.\\d ms$`)) as string,
        }),
      ]);
    }
    expect(lines.find(({ requestId }) => requestId === expected[0]![0])).toMatchObject({
      method: 'GET',
      route: '/v1/categories',
      status: 200,
      durationMs: expect.any(Number) as number,
      apiKeyId: 1,
      clientIp: '192.0.2.7',
    });
  });
});

/** Logs a line in the middle of a request. */
@ApiTags('logs')
@Controller('logs')
class LogsController {
  private readonly logger = new Logger('Logs');

  @Get()
  @ApiOperation({ operationId: 'writeLogs', summary: 'Write a line' })
  async write(): Promise<void> {
    await setImmediate();
    this.logger.log('In the middle of a request');
  }
}

@Feature({
  tag: { name: 'logs', description: 'The operation of this test.' },
  controllers: [LogsController],
})
class LogsModule {}

describe('log of a service process', () => {
  it('has only startup, migration, key change, 5xx and graceful shutdown lines at info level', async () => {
    const services = await createServices({
      NODE_ENV: 'production',
      TRUST_PROXIES: '1',
    });
    const file = join(services.directory, 'petstore.sqlite');
    const env = { DATABASE_URL: `sqlite:${file}` };
    const { service, url, categories } = await services.serve({ env });
    const other = await runCommand(keys, ['create', 'other'], env);
    const otherCategories = new CategoriesClient(url, other.stdout.trim());
    expect((await categories.list()).status).toBe(200);
    expect((await otherCategories.list()).status).toBe(200);
    expect((await new CategoriesClient(url, 'wrong').list()).status).toBe(401);
    await runCommand(keys, ['revoke', '2'], env);
    await waitFor(
      () => otherCategories.list(),
      ({ status }) => status === 401,
      TIMEOUT_MS,
    );
    const database = new Database(file);
    database.exec('ALTER TABLE "categories" RENAME TO "hidden"');
    database.close();
    const failed = await categories.create('dog');
    expect(failed.status).toBe(500);
    await service.stop();
    await services.close();

    const lines = parseLog(service.output);
    const messages = (level: string): string[] =>
      lines.filter((line) => line.level === level).map(({ message }) => message);
    const applied = collectSchema(FEATURES).migrations.map(
      ({ name }) => `Applied migration ${name}`,
    );
    expect(applied).toContainEqual(expect.stringMatching(/^Applied migration CreateCategories/));
    expect(messages('info')).toEqual([
      ...applied,
      'Created API key 1 (bootstrap)',
      expect.stringMatching(/^Listening on http/),
      'API key 2 (other) is revoked, rejecting request',
      'Received SIGTERM, shutting down',
      'Shutdown complete',
    ]);
    expect(lines.find(({ message }) => message.startsWith('Listening on'))).toMatchObject({
      version: VERSION,
      node: process.version,
      schema: applied.at(-1)!.replace('Applied migration ', ''),
      config: { production: true, logLevel: 'info', database: { type: 'sqlite', file } },
    });
    expect(messages('warn')).toEqual([
      'Unknown variable TRUST_PROXIES: did you mean TRUST_PROXY?',
      `Created database ${file}`,
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
    // Includes compilation.
  });
});
