import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import type { OutgoingHttpHeaders, Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Module, type Type } from '@nestjs/common';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { OpenAPIObject } from '@nestjs/swagger';
import { getDataSourceToken } from '@nestjs/typeorm';
import request from 'supertest';
import { type AppOptions, createApp } from '../../../src/platform/application/create-app.js';
import { ApiKeysService } from '../../../src/platform/auth/keys/api-keys.service.js';
import { type Config, loadConfig } from '../../../src/platform/config/config.js';
import type { ServiceDataSource } from '../../../src/platform/database/connection/service-data-source.js';
import { FEATURES } from '../../../src/features.js';
import { getVariables } from '../../../src/platform/feature.decorator.js';
import { DATABASE } from './databases.js';
import { CategoriesClient, type HttpResponse, jsonHeaders, sendRequest } from './http-client.js';
import { queryPostgres } from './postgres-client.js';
import { PRODUCT } from '../../../src/product.js';

/** An isolated database for a test, not migrated yet. */
export interface TestDatabase {
  readonly config: Config['database'];
  /** The `DATABASE_URL` for a process that uses this database. */
  readonly url: string;
  drop(): Promise<void>;
}

/** The real application, listening on a free port of the loopback interface. */
export interface TestApp {
  readonly app: NestExpressApplication;
  readonly config: Config;
  readonly server: Server;
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  /** A valid API key. */
  readonly key: string;
  /** A client with this key. */
  readonly categories: CategoriesClient;
  readonly dataSource: ServiceDataSource;
  /** The `DATABASE_URL` for a command that uses its database. */
  readonly databaseUrl: string;
  /**
   * Sends a request with this key, unless another one is given.
   *
   * @param request.body an object, sent as JSON, or what to send as such
   */
  send(
    method: string,
    path: string,
    request?: { key?: string; headers?: OutgoingHttpHeaders; body?: object | string | Buffer },
  ): Promise<HttpResponse>;
  /** Returns its OpenAPI document. */
  getDocument(): Promise<OpenAPIObject>;
  /** A supertest client without a key. */
  http(): ReturnType<typeof request>;
  /** Stops the application, and drops the database if `startApp` created it. */
  stop(): Promise<void>;
}

/** Creates a database, by default of the type under test. */
export function createDatabase(type = DATABASE): Promise<TestDatabase> {
  return type === 'postgres' ? createPostgresDatabase() : createSqliteDatabase();
}

async function createSqliteDatabase(): Promise<TestDatabase> {
  const directory = await mkdtemp(join(tmpdir(), 'petstore-test-'));
  const file = join(directory, 'petstore.sqlite');
  return {
    config: { type: 'sqlite', file },
    url: `sqlite:${file}`,
    drop: () => rm(directory, { recursive: true, force: true }),
  };
}

async function createPostgresDatabase(): Promise<TestDatabase> {
  const server = process.env['TEST_DATABASE_URL']!;
  const name = `test_${randomUUID().replaceAll('-', '')}`;
  await queryPostgres(server, `CREATE DATABASE ${name}`);
  const url = Object.assign(new URL(server), { pathname: `/${name}` }).href;
  return {
    config: { type: 'postgres', url },
    url,
    drop: async () => {
      await queryPostgres(server, `DROP DATABASE ${name} WITH (FORCE)`);
    },
  };
}

/** Returns the `DATABASE_URL` of a database. */
const toUrl = (database: Config['database']): string =>
  database.type === 'sqlite' ? `sqlite:${database.file}` : database.url;

/** Creates the root module of a service with features. */
export function toRoot(features: readonly Type[]): Type {
  class Root {}
  Module({ imports: [...features] })(Root);
  return Root;
}

/**
 * Starts the application.
 *
 * @param options.database a database that outlives the application; by default a new one is created
 * @param options.config overrides of the default configuration
 * @param options.environment the variables that are set
 * @param options.features by default those of src/features.ts, and the categories
 */
export async function startApp(
  options: {
    database?: Pick<TestDatabase, 'config'>;
    config?: Partial<Config>;
    environment?: NodeJS.ProcessEnv;
    features?: readonly Type[];
  } & AppOptions = {},
): Promise<TestApp> {
  const { features = FEATURES, ...others } = options;
  const created = options.database === undefined ? await createDatabase() : undefined;
  const config: Config = {
    ...loadConfig(PRODUCT, options.environment ?? {}, getVariables(features)),
    port: 0,
    database: (options.database ?? created!).config,
    ...options.config,
  };
  const app = await createApp(config, toRoot(features), { logger: false, ...others });
  await app.listen(config.port, config.host);
  const url = await app.getUrl();
  const { key } = await app.get(ApiKeysService).create('test');
  const dataSource = app.get<ServiceDataSource>(getDataSourceToken());
  return {
    app,
    config,
    server: app.getHttpServer(),
    url,
    key,
    categories: new CategoriesClient(url, key),
    dataSource,
    databaseUrl: toUrl(config.database),
    send: (method, path, { key: sent = key, headers = {}, body } = {}) =>
      sendRequest(url + path, {
        method,
        headers: {
          ...(body === undefined ? { authorization: `Bearer ${sent}` } : jsonHeaders(sent)),
          ...headers,
        },
        ...(body !== undefined && {
          body: typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body),
        }),
      }),
    getDocument: async () => (await sendRequest(`${url}/openapi.json`)).json(),
    http: () => request(url),
    stop: async () => {
      await app.close();
      await created?.drop();
    },
  };
}

/**
 * Starts the application before the tests of a file or a `describe` block, and stops it after them.
 *
 * @returns the application, whose properties are set when the tests run
 */
export function useApp(options: Parameters<typeof startApp>[0] = {}): TestApp {
  const app = {} as TestApp;
  beforeAll(async () => {
    Object.assign(app, await startApp(options));
  });
  afterAll(() => app.stop());
  return app;
}
