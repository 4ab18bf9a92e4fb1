import { renameSync, statfsSync, statSync } from 'node:fs';
import { Agent } from 'node:http';
import { dirname } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import type { ApiKey } from '../../../src/platform/auth/keys/api-key.entity.js';
import { ApiKeysService } from '../../../src/platform/auth/keys/api-keys.service.js';
import { DatabaseStartup } from '../../../src/platform/database/connection/database-startup.js';
import { MetricsServer } from '../../../src/platform/metrics/metrics-server.js';
import { MetricsRegistry } from '../../../src/platform/metrics/prometheus-registry.js';
import {
  BodyTooLargeError,
  CachedJsonResponse,
} from '../../../src/platform/http/responses/cached-json-response.js';
import { startApp, useApp } from '../support/app.js';
import { DATABASE, describeOnPostgres, describeOnSqlite } from '../support/databases.js';
import { CategoriesClient, jsonHeaders, sendRequest } from '../support/http-client.js';
import { MemoryLogger } from '../support/memory-logger.js';
import { connectToPostgres } from '../support/postgres-client.js';
import { RawConnection, rawRequest, sendRaw } from '../support/raw-connection.js';
import { StubsModule } from '../support/stubs.module.js';
import { waitFor } from '../support/wait.js';
import { PRODUCT } from '../../../src/product.js';

const { jest } = import.meta;

/** Keeps connections open, so that concurrent create requests arrive together. */
const agent = new Agent({ keepAlive: true });
afterAll(() => agent.destroy());
const app = useApp({ features: [CategoriesModule, StubsModule], config: { metricsPort: 0 } });
let categories: CategoriesClient;
/** The address of the metrics. */
let url: string;
beforeAll(() => {
  categories = new CategoriesClient(app.url, app.key, agent);
  url = app.app.get(MetricsServer).url!;
});

/** The value of every series of a scrape, by name and labels. */
type MetricValues = ReadonlyMap<string, number>;

async function scrape(): Promise<MetricValues> {
  const { status, text } = await sendRequest(url);
  expect(status).toBe(200);
  const lines = text.matchAll(/^([^#].*) (\S+)$/gm);
  return new Map(Array.from(lines, ([, series, value]) => [series!, Number(value)]));
}

const IN_FLIGHT = 'http_server_active_requests';

/** Waits until exactly `count` requests are in flight, so that all others have been measured. */
const waitForInFlight = (count: number): Promise<MetricValues> =>
  waitFor(scrape, (values) => values.get(IN_FLIGHT) === count);

/** Measures the increase of series during an action. */
async function metricDelta(action: () => Promise<unknown>): Promise<(series: string) => number> {
  const before = await waitForInFlight(0);
  await action();
  const after = await waitForInFlight(0);
  return (series) => (after.get(series) ?? 0) - (before.get(series) ?? 0);
}

const responses = (method: string, route: string, status: number): string =>
  `http_server_request_duration_seconds_count{http_request_method="${method}",http_route="${route}",http_response_status_code="${status}"}`;
const ofCategories = (name: string): string => `${name}{db_collection_name="categories"}`;
const ofKey = (id: number | string): string => `service_api_key_requests_total{api_key_id="${id}"}`;
const BATCHES = ofCategories(`service_insert_batch_size_count`);
const REBUILDS = ofCategories(`service_list_rebuild_duration_seconds_count`);

async function list(count = 1): Promise<void> {
  for (let turn = 0; turn < count; turn++) await categories.getAll();
}

/** Sends concurrent create requests and returns their statuses. */
async function create(count: number): Promise<number[]> {
  const created = await Promise.all(
    Array.from({ length: count }, (_, index) => categories.create(`n${index}`)),
  );
  return created.map(({ status }) => status);
}

/** Opens a connection and sends a create request without its body. */
async function sendIncompleteCreate(): Promise<RawConnection> {
  const type = 'Content-Type: application/json';
  const headers = [`Authorization: Bearer ${app.key}`, type, 'Content-Length: 15'];
  return (await RawConnection.open(app.url)).send(rawRequest({ method: 'POST', headers }));
}

describe('GET /metrics', () => {
  it('starts the counters of failures at 0 for full disks and operations, not for documentation', async () => {
    const { text } = await sendRequest(url);
    expect(text).toContain(responses('GET', '/v1/categories', 500));
    for (const code of ['SQLITE_FULL', '53100'])
      expect(text).toContain(`service_database_errors_total{db_response_status_code="${code}"} 0`);
    expect(text).not.toMatch(/http_route="\/(docs|examples)\//);
  });

  it('requires no key, on a port of its own', async () => {
    const response = await sendRequest(url);
    expect(response.headers).toMatchObject({
      'content-type': 'text/plain; version=0.0.4; charset=utf-8',
      'cache-control': 'no-store',
    });
    expect(response.text).toMatch(/^process_cpu_seconds_total /m);
    expect(response.text).toContain(`service_build_info{version="${PRODUCT.version}",commit="`);
    expect(await sendRequest(new URL('/', url).href)).toBeError('NOT_FOUND');
    expect(new URL(url).port).not.toBe(new URL(app.url).port);
    expect(await app.http().get('/metrics')).toBeError('NOT_FOUND');
  });

  it('returns and observes nothing without METRICS_PORT', async () => {
    const other = await startApp();
    const { url: address } = other.app.get(MetricsServer);
    expect((await other.categories.create('a')).status).toBe(201);
    expect((await other.categories.list()).status).toBe(200);
    const observed = await other.app.get(MetricsRegistry).metrics();
    await other.stop();
    expect(address).toBeUndefined();
    expect(observed).not.toMatch(/_(count|total)\b/);
  });

  it('measures how long the event loop is active', async () => {
    const active = 'nodejs_eventloop_time_seconds_total{nodejs_eventloop_state="active"}';
    const delta = await metricDelta(async () => {
      for (const end = performance.now() + 200; performance.now() < end;);
    });
    expect(delta(active)).toBeGreaterThan(0.19);
  });

  it('reports whether the database is available', async () => {
    const database = app.app.get(DatabaseStartup);
    for (const isReady of [false, true]) {
      database.isReady = isReady;
      expect((await scrape()).get(`service_database_up`)).toBe(Number(isReady));
    }
  });

  it('counts responses by method, route pattern and status, and sums up their seconds', async () => {
    const begin = performance.now();
    const delta = await metricDelta(async () => {
      await list(3);
      expect(await create(2)).toEqual([201, 201]);
      const call = (path: string, method = 'GET', key = app.key): Promise<unknown> => {
        const body = method === 'POST' ? { body: '{}' } : {};
        return sendRequest(app.url + path, { method, headers: jsonHeaders(key), ...body });
      };
      await call('/v1/categories', 'POST');
      await call('/v1/categories?a=b', 'GET', 'wrong');
      await call('/v1/categories', 'HEAD');
      await call('/v1/categories', 'DELETE');
      await call('/v1/stubs/deprecated/1');
      await call('/livez');
      await call('/nowhere');
      await sendRequest(`${app.url}/docs/swagger-ui.css`);
      await sendRaw(app.url, 'NO HTTP\r\n\r\n');
      await sendRaw(app.url, rawRequest({ headers: ['Host: b'] }));
    });
    const expected: [method: string, route: string, status: number, count: number][] = [
      ['GET', '/v1/categories', 200, 3],
      ['HEAD', '/v1/categories', 200, 1],
      ['GET', '/v1/categories', 401, 1],
      ['POST', '/v1/categories', 201, 2],
      ['POST', '/v1/categories', 400, 1],
      ['DELETE', '/v1/categories', 405, 1],
      ['GET', '/v1/stubs/deprecated/:id', 501, 1],
      ['GET', 'not_found', 404, 1],
      ['GET', '/livez', 200, 1],
      ['GET', 'unknown', 200, 1],
      ['GET', 'unknown', 400, 1],
      ['_OTHER', 'unknown', 400, 1],
    ];
    for (const [method, route, status, count] of expected) {
      const series = responses(method, route, status);
      expect([series, delta(series)]).toEqual([series, count]);
    }
    const seconds = delta(responses('GET', '/v1/categories', 200).replace('_count', '_sum'));
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThan((performance.now() - begin) / 1_000);
  });

  it('tracks requests in flight, and counts those that their client aborts as 499', async () => {
    const delta = await metricDelta(async () => {
      const waiting = await Promise.all([1, 2, 3].map(() => sendIncompleteCreate()));
      await waitForInFlight(3);
      for (const connection of waiting) connection.reset();
    });
    expect(delta(responses('POST', '/v1/categories', 499))).toBe(3);
  });

  it('measures the rebuilds of the cached list', async () => {
    await list();
    const delta = await metricDelta(async () => {
      await create(1);
      await list(20);
    });
    expect(delta(REBUILDS)).toBeGreaterThanOrEqual(1);
    // On SQLite, recording the use of the key, once an hour, also invalidates the cache.
    expect(delta(REBUILDS)).toBeLessThan(10);
    expect(delta(REBUILDS.replace('count', 'sum'))).toBeGreaterThan(0);
  });

  it('measures the sizes and durations of batches', async () => {
    await create(40);
    const delta = await metricDelta(() => create(40));
    expect(delta(BATCHES.replace('count', 'sum'))).toBe(40);
    expect(delta(BATCHES)).toBeGreaterThan(0);
    expect(delta(BATCHES)).toBeLessThan(40);
    const durations = BATCHES.replace('size', 'duration_seconds');
    expect(delta(durations)).toBe(delta(BATCHES));
    expect(delta(durations.replace('count', 'sum'))).toBeGreaterThan(0);
  });

  it('counts failed database operations by the code of the driver', async () => {
    const code = DATABASE === 'sqlite' ? 'SQLITE_ERROR' : '42P01';
    const delta = await metricDelta(async () => {
      await app.dataSource.query('ALTER TABLE "categories" RENAME TO "hidden"');
      expect(new Set(await create(30))).toEqual(new Set([500]));
      await app.dataSource.query('ALTER TABLE "hidden" RENAME TO "categories"');
    });
    const errors = delta(`service_database_errors_total{db_response_status_code="${code}"}`);
    expect(errors).toBeGreaterThan(0);
    await list();
  });

  it('counts rejected rows, but not as errors of the database', async () => {
    const code = DATABASE === 'sqlite' ? 'SQLITE_CONSTRAINT_UNIQUE' : '23505';
    const label = `db_response_status_code="${code}"`;
    const index = `CREATE UNIQUE INDEX "once" ON "categories" ("name") WHERE "name" = 'once'`;
    const delta = await metricDelta(async () => {
      await app.dataSource.query(index);
      for (const status of [201, 409])
        expect((await categories.create('once')).status).toBe(status);
      await app.dataSource.query('DROP INDEX "once"');
    });
    expect(delta(`service_rejected_rows_total{db_collection_name="categories",${label}}`)).toBe(1);
    expect(delta(`service_database_errors_total{${label}}`)).toBe(0);
  });

  it('counts the requests of each key, those of the keys past the first 1,000 as one', async () => {
    const keys = app.app.get(ApiKeysService);
    const { key, record } = await keys.create('counted', { scopes: ['read'] });
    const client = new CategoriesClient(app.url, key);
    const delta = await metricDelta(async () => {
      // A create request is checked before and after its body arrives.
      const statuses = [await client.list(), await client.create('a'), await list()];
      expect(statuses.map((response) => response?.status)).toEqual([200, 403, undefined]);
      const delayed = await sendIncompleteCreate();
      await delay(200);
      expect((await delayed.send('{"name": "dog"}').nextResponse()).status).toBe(201);
    });
    expect(delta(ofKey(record.id))).toBe(2);
    expect(delta(ofKey(1))).toBe(2);
    // Two keys have been counted: with 998 others, they are the first 1,000.
    const many: { key: string; record: ApiKey }[] = [];
    for (let count = 0; count < 1_000; count++) many.push(await keys.create('many'));
    const later = await metricDelta(async () => {
      for (const each of many) await new CategoriesClient(app.url, each.key, agent).list();
    });
    expect([later(ofKey('other')), later(ofKey(many[0]!.record.id))]).toEqual([2, 1]);
  });
});

describeOnPostgres('GET /metrics on PostgreSQL', () => {
  it('reports the connection pool', async () => {
    // Seven of ten connections are for changes; waiting for one fails after two seconds.
    const runners = Array.from({ length: 9 }, () => app.dataSource.createQueryRunner());
    await Promise.all(runners.slice(0, 7).map((runner) => runner.connect()));
    const connected = Promise.all(runners.slice(7).map((runner) => runner.connect()));
    const busy = await app.app.get(MetricsRegistry).metrics();
    await Promise.all(runners.slice(0, 2).map((runner) => runner.release()));
    await connected;
    await Promise.all(runners.map((runner) => runner.release()));
    // The check of the database may have one for reads.
    expect(busy).toMatch(/db_client_connections\{db_client_connection_state="used"\} [78]\n/);
    expect(busy).toContain('db_client_connection_max 10\n');
    expect(busy).toContain('db_client_connection_pending_requests 2\n');
    const idle = await scrape();
    expect(idle.get('db_client_connection_pending_requests')).toBe(0);
    expect(idle.get('db_client_connections{db_client_connection_state="idle"}')).toBeGreaterThan(0);
  });
});

describeOnPostgres('GET /metrics beside an open transaction', () => {
  it('reports the dead rows of the revisions that it keeps', async () => {
    const { url: database } = app.dataSource.options as { url: string };
    const client = await connectToPostgres(database);
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
    for (let commits = 0; commits < 30; commits++) await create(1);
    await waitFor(scrape, (values) => values.get('service_database_dead_revisions')! >= 20);
    await client.end();
  });
});

describeOnSqlite('GET /metrics on SQLite', () => {
  it('reports the sizes of the database, of its WAL and of its disk, and NaN for a file that was moved', async () => {
    const file = app.dataSource.options.database as string;
    const values = await scrape();
    const getBytes = (name: string) => values.get(`service_database_${name}_bytes`)!;
    expect(getBytes('size')).toBe(statSync(file).size);
    expect(getBytes('wal_size')).toBe(statSync(`${file}-wal`).size);
    const { bsize, bavail, blocks } = statfsSync(dirname(file));
    expect(getBytes('disk_size')).toBe(blocks * bsize);
    // Other tests write to the same disk.
    expect(getBytes('disk_free') / (bavail * bsize)).toBeCloseTo(1, 1);
    renameSync(`${file}-wal`, `${file}.moved`);
    expect((await scrape()).get('service_database_wal_size_bytes')).toBeNaN();
    renameSync(`${file}.moved`, `${file}-wal`);
  });
});

describe('a list that is too large', () => {
  it('causes one error a minute, which is logged and counted, and fails nothing else', async () => {
    const logger = new MemoryLogger();
    const other = await startApp({ logger, config: { metricsPort: 0 } });
    const message = 'The list is larger than 268435456 bytes: offer it in pages.';
    const build = jest
      .spyOn(CachedJsonResponse, 'ofList')
      .mockRejectedValue(new BodyTooLargeError(message));
    for (let n = 0; n < 3; n++) expect(await other.categories.list()).toBeError('INTERNAL_ERROR');
    expect(build).toHaveBeenCalledTimes(1);
    build.mockRestore();
    expect(logger.text).toContain(message);
    expect(await other.app.get(MetricsRegistry).metrics()).toContain(
      `${ofCategories('service_too_large_lists_total')} 1\n`,
    );
    expect((await other.categories.create('dog')).status).toBe(201);
    expect((await other.send('GET', '/readyz')).status).toBe(200);
    await other.stop();
  });
});
