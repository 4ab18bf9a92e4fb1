import { Agent, METHODS } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { FEATURES } from '../src/features.js';
import { DatabaseConnection } from '../src/platform/database/database-connection.js';
import { MetricsServer } from '../src/platform/http/server/metrics-server.js';
import { startApp, type TestApp } from './support/app.js';
import { sendRequest, jsonHeaders } from './support/http-client.js';
import { matchers } from './support/matchers.js';
import { RawConnection, rawRequest } from './support/raw-connection.js';
import { StubsModule } from './support/stubs.module.js';
import { waitFor } from './support/wait.js';

expect.extend(matchers);

declare const TEST_DATABASE: 'sqlite' | 'postgres';

const describeOnPostgres = TEST_DATABASE === 'postgres' ? describe : describe.skip;

let app: TestApp;
let url: string;
/** Keeps connections open, so that concurrent create requests arrive together. */
const agent = new Agent({ keepAlive: true });
beforeAll(async () => {
  app = await startApp({
    features: [StubsModule, ...FEATURES],
    config: { metricsPort: 0 },
  });
  url = app.app.get(MetricsServer).url!;
});
afterAll(async () => {
  agent.destroy();
  await app.stop();
});

/** The value of every series of a scrape, by name and labels. */
type MetricValues = ReadonlyMap<string, number>;

async function scrapeText(): Promise<string> {
  const { status, body } = await sendRequest(url);
  expect(status).toBe(200);
  return body.toString();
}

async function scrape(): Promise<MetricValues> {
  const lines = (await scrapeText()).split('\n').filter((line) => /^[^#]/.test(line));
  return new Map(
    lines.map((line) => [
      line.slice(0, line.lastIndexOf(' ')),
      Number(line.slice(line.lastIndexOf(' ') + 1)),
    ]),
  );
}

/** Returns a function that returns the increase of a series during the action. */
async function metricDelta(action: () => Promise<unknown>): Promise<(series: string) => number> {
  const before = await scrape();
  await action();
  const after = await scrape();
  return (series) => (after.get(series) ?? 0) - (before.get(series) ?? 0);
}

const duration = (part: string, method: string, route: string, status: number): string =>
  `http_server_request_duration_seconds_${part}{http_request_method="${method}",http_route="${route}",http_response_status_code="${status}"}`;
const responses = (method: string, route: string, status: number): string =>
  duration('count', method, route, status);
const CREATED = ['POST', '/v1/categories', 201] as const;
const LISTED = ['GET', '/v1/categories', 200] as const;
const bucket = (le: string): string =>
  `http_server_request_duration_seconds_bucket{le="${le}",http_request_method="POST",http_route="/v1/categories",http_response_status_code="201"}`;
const inFlight = async (): Promise<number> =>
  (await scrape()).get('petstore_http_requests_in_flight')!;
const size = (part: string): string => `petstore_insert_batch_size_${part}{table="categories"}`;

async function list(count = 1): Promise<void> {
  for (let turn = 0; turn < count; turn++) {
    const response = await sendRequest(`${app.url}/v1/categories`, {
      headers: jsonHeaders(app.key),
    });
    expect(response.status).toBe(200);
  }
}

/** Sends concurrent create requests and returns their statuses. */
function create(count: number): Promise<number[]> {
  return Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const response = await sendRequest(`${app.url}/v1/categories`, {
        method: 'POST',
        headers: jsonHeaders(app.key),
        body: JSON.stringify({ name: `n${index}` }),
        agent,
      });
      return response.status;
    }),
  );
}

/** A create request whose body never ends. */
const incompleteCreate = (): Buffer =>
  rawRequest({
    method: 'POST',
    headers: [
      `Authorization: Bearer ${app.key}`,
      'Content-Type: application/json',
      'Content-Length: 99',
    ],
    body: '{"name"',
  });

describe('GET /metrics', () => {
  it('requires no key, on a port of its own', async () => {
    expect((await sendRequest(url)).status).toBe(200);
    expect(new URL(url).port).not.toBe(new URL(app.url).port);
    expect(await app.http().get('/metrics')).toBeError('NOT_FOUND');
  });

  it('is not served unless METRICS_PORT is set', async () => {
    const other = await startApp();
    try {
      expect(other.app.get(MetricsServer).url).toBeUndefined();
    } finally {
      await other.stop();
    }
  });

  it.each([
    ['GET', '/', 404, 'NOT_FOUND'],
    ['POST', '/metrics', 405, 'METHOD_NOT_ALLOWED'],
  ])('responds with the Error body to %s %s', async (method, path, status, code) => {
    const response = await sendRequest(new URL(path, url).href, { method });
    expect(response.status).toBe(status);
    expect(JSON.parse(response.body.toString())).toMatchObject({ code, status });
  });

  it('responds with the Error body to what is not valid HTTP', async () => {
    const [response] = await (await RawConnection.open(url)).send('NO HTTP\r\n\r\n').closed();
    expect(JSON.parse(response!.text)).toMatchObject({ code: 'BAD_REQUEST', status: 400 });
  });

  it('is available while the database is not', async () => {
    const database = app.app.get(DatabaseConnection);
    database.isReady = false;
    try {
      expect(await app.http().get('/readyz')).toBeError('SERVICE_UNAVAILABLE');
      expect((await sendRequest(url)).status).toBe(200);
    } finally {
      database.isReady = true;
    }
  });

  it('returns the Prometheus text format with one description per family, before its series', async () => {
    await list();
    const response = await sendRequest(url);
    expect(response.headers).toMatchObject({
      'content-type': 'text/plain; version=0.0.4; charset=utf-8',
      'cache-control': 'no-store',
    });
    const described = new Map<string, string>();
    const problems: string[] = [];
    for (const line of response.body.toString().split('\n').filter(Boolean)) {
      const [, name, type] = /^# TYPE (\S+) (counter|gauge|histogram|summary)$/.exec(line) ?? [];
      const series = /^(\w+)(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? \S+$/.exec(line)?.[1];
      if (name !== undefined && !described.has(name)) described.set(name, type!);
      else if (series === undefined) problems.push(...(/^# HELP \S+ \S/.test(line) ? [] : [line]));
      else if (
        !described.has(series) &&
        described.get(series.replace(/_(bucket|sum|count)$/, '')) !== 'histogram'
      )
        problems.push(line);
    }
    expect(problems).toEqual([]);
    expect(described.size).toBeGreaterThan(30);
  });

  it('counts responses by method, route pattern and status', async () => {
    const delta = await metricDelta(async () => {
      await list(3);
      expect(await create(2)).toEqual([201, 201]);
      const call = (path: string, method = 'GET', key = app.key): Promise<unknown> =>
        sendRequest(app.url + path, {
          method,
          headers: jsonHeaders(key),
          ...(method === 'POST' ? { body: '{}' } : {}),
        });
      await call('/v1/categories', 'POST');
      await call('/v1/categories?a=b', 'GET', 'wrong');
      await call('/v1/categories', 'HEAD');
      await call('/v1/categories', 'DELETE');
      await call('/v1/stubs/deprecated/1');
      await call('/livez');
      await call('/nowhere');
      await sendRequest(`${app.url}/docs/swagger-ui.css`);
      const raw = await RawConnection.open(app.url);
      await raw.send('NO HTTP\r\n\r\n').closed();
      const twoHosts = rawRequest({ headers: ['Host: b', 'Connection: close'] });
      await (await RawConnection.open(app.url)).send(twoHosts).closed();
    });
    const expected: [string, string, number, number][] = [
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
    expect(
      expected.map(([method, route, status]) => [
        method,
        route,
        status,
        delta(responses(method, route, status)),
      ]),
    ).toEqual(expected);
  });

  it('measures response latency', async () => {
    const begin = performance.now();
    const delta = await metricDelta(() => list(20));
    const seconds = (performance.now() - begin) / 1000;
    expect(delta(duration('count', ...LISTED))).toBe(20);
    expect(delta(duration('sum', ...LISTED))).toBeGreaterThan(0);
    expect(delta(duration('sum', ...LISTED))).toBeLessThan(seconds);
  });

  it('includes the time spent waiting for the request body in the latency bucket', async () => {
    const delta = await metricDelta(async () => {
      const body = '{"name":"slow"}';
      const request = rawRequest({
        method: 'POST',
        headers: [
          `Authorization: Bearer ${app.key}`,
          'Content-Type: application/json',
          `Content-Length: ${body.length}`,
          'Connection: close',
        ],
        body,
      });
      const slow = (await RawConnection.open(app.url)).send(request.subarray(0, -5));
      await delay(300);
      expect((await slow.send(request.subarray(-5)).closed())[0]?.status).toBe(201);
    });
    expect([delta(bucket('0.25')), delta(bucket('10'))]).toEqual([0, 1]);
    expect(delta(duration('sum', ...CREATED))).toBeGreaterThan(0.25);
  });

  it('counts a request whose client disconnects before the response as 499', async () => {
    const aborted = duration('count', 'POST', '/v1/categories', 499);
    const before = (await scrape()).get(aborted) ?? 0;
    const connection = await RawConnection.open(app.url);
    connection.send(incompleteCreate());
    await waitFor(inFlight, (count) => count === 1, 5_000);
    connection.reset();
    const after = await waitFor(
      async () => (await scrape()).get(aborted) ?? 0,
      (count) => count > before,
      5_000,
    );
    expect(after - before).toBe(1);
  });

  it('tracks requests in flight, including those aborted by the client', async () => {
    expect(await inFlight()).toBe(0);
    const waiting = await Promise.all([1, 2, 3].map(() => RawConnection.open(app.url)));
    for (const connection of waiting) connection.send(incompleteCreate());
    await waitFor(inFlight, (count) => count === 3, 5_000);
    for (const connection of waiting) connection.reset();
    await waitFor(inFlight, (count) => count === 0, 5_000);
  });

  it('counts list cache hits and misses', async () => {
    await list();
    const hits = 'petstore_list_cache_hits_total{table="categories"}';
    const misses = 'petstore_list_cache_misses_total{table="categories"}';
    const delta = await metricDelta(async () => {
      await create(1);
      await list(20);
    });
    // On SQLite writing the last-used timestamp of the key, once a minute, also invalidates the cache.
    expect([1, 2]).toContain(delta(misses));
    expect(delta(hits) + delta(misses)).toBe(20);
  });

  it('records the batch size of inserts', async () => {
    await create(40);
    const delta = await metricDelta(() => create(40));
    expect(delta(size('sum'))).toBe(40);
    expect(delta(size('count'))).toBeGreaterThan(0);
    expect(delta(size('count'))).toBeLessThan(40);
  });

  it('counts database errors by code, once per failed batch', async () => {
    const code = TEST_DATABASE === 'sqlite' ? 'SQLITE_ERROR' : '42P01';
    await app.dataSource.query('ALTER TABLE "categories" RENAME TO "hidden"');
    let statuses: number[] = [];
    const delta = await metricDelta(async () => {
      statuses = await create(30);
    });
    await app.dataSource.query('ALTER TABLE "hidden" RENAME TO "categories"');
    expect(new Set(statuses)).toEqual(new Set([500]));
    const errors = delta(`petstore_database_errors_total{code="${code}"}`);
    expect(errors).toBe(delta('petstore_insert_batch_size_count{table="categories"}'));
    expect(errors).toBeGreaterThan(0);
    await list();
  });

  it('includes event loop lag and process resource usage', async () => {
    await scrape();
    await delay(50);
    const end = performance.now() + 300;
    while (performance.now() < end);
    await delay(50);
    const values = await scrape();
    expect(values.get('nodejs_eventloop_lag_max_seconds')).toBeGreaterThan(0.2);
    expect(values.get('process_resident_memory_bytes')).toBeGreaterThan(50e6);
    expect(values.get('process_cpu_seconds_total')).toBeGreaterThan(0.1);
    expect(values.get('process_open_fds')).toBeGreaterThan(10);
  });

  it('contains no series or label for client-controlled input', async () => {
    const before = new Set((await scrape()).keys());
    for (let turn = 0; turn < 20; turn++) {
      const method = METHODS[turn]!;
      if (method !== 'CONNECT')
        await sendRequest(`${app.url}/v1/chosen-${turn}?chosen=${turn}`, { method });
      await sendRequest(`${app.url}/v1/stubs/deprecated/chosen-${turn}`, {
        headers: jsonHeaders(app.key),
      });
    }
    const text = await scrapeText();
    expect(text).not.toContain('chosen');
    expect(text).not.toContain(app.key);
    const added = [...(await scrape()).keys()].filter((series) => !before.has(series));
    const known =
      /http_request_method="(DELETE|GET|HEAD|OPTIONS|PATCH|POST|PUT|TRACE|_OTHER)",http_route="(not_found|\/v1\/stubs\/deprecated\/:id)"/;
    expect(added.filter((series) => !known.test(series))).toEqual([]);
  });
});

describeOnPostgres('GET /metrics on PostgreSQL', () => {
  it('reports the connection pool', async () => {
    // The pool has ten connections, so two of the twelve queries wait.
    const sleeps = Array.from({ length: 12 }, () => app.dataSource.query('SELECT pg_sleep(1.5)'));
    const busy = await waitFor(
      scrape,
      (now) => now.get('db_client_connection_pending_requests') === 2,
      5_000,
    );
    expect(busy.get('db_client_connection_count{state="used"}')).toBe(10);
    await Promise.all(sleeps);
    expect((await scrape()).get('db_client_connection_pending_requests')).toBe(0);
  });
});
