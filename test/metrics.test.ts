import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { TestApp } from './support/app.js';
import { sendRequest, jsonHeaders } from './support/http-client.js';
import { matchers } from './support/matchers.js';
import { RawConnection, rawRequest } from './support/raw-connection.js';
import { startAppWithModule } from './support/start-app-with-module.js';
import { StubsModule } from './support/stubs.module.js';
import { waitFor } from './support/wait.js';

expect.extend(matchers);

declare const TEST_DATABASE: 'sqlite' | 'postgres';

const describeOnPostgres = TEST_DATABASE === 'postgres' ? describe : describe.skip;

let app: TestApp;
/** Keeps connections open, so that concurrent create requests arrive together. */
const agent = new Agent({ keepAlive: true });
beforeAll(async () => {
  app = await startAppWithModule(StubsModule);
});
afterAll(async () => {
  agent.destroy();
  await app.stop();
});

/** The value of every series of a scrape, by name and labels. */
type MetricValues = ReadonlyMap<string, number>;

async function scrapeText(): Promise<string> {
  const { status, body } = await sendRequest(`${app.url}/metrics`, {
    headers: jsonHeaders(app.key),
  });
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

const responses = (operation: string, status: number): string =>
  `petstore_http_requests_total{operation="${operation}",status="${status}"}`;
const latency = (part: string, operation: string): string =>
  `petstore_http_request_duration_seconds_${part}{operation="${operation}"}`;

const bucket = (le: string): string =>
  `petstore_http_request_duration_seconds_bucket{operation="createCategory",le="${le}"}`;
const inFlight = async (): Promise<number> =>
  (await scrape()).get('petstore_http_requests_in_flight')!;
const size = (part: string): string => `petstore_create_group_size_${part}{table="categories"}`;

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

describe('GET /metrics', () => {
  it('requires a key in the Authorization header', async () => {
    expect(await app.http().get('/metrics')).toBeError('UNAUTHORIZED');
    expect(await app.http().get('/metrics').auth('wrong', { type: 'bearer' })).toBeError(
      'UNAUTHORIZED',
    );
    expect(await app.http().get(`/metrics?access_token=${app.key}`)).toBeError('UNAUTHORIZED');
    expect(await app.http().get('/v1/metrics').auth(app.key, { type: 'bearer' })).toBeError(
      'NOT_FOUND',
    );
  });

  it('returns the Prometheus text format with one description per family, before its series', async () => {
    await list();
    const response = await app.http().get('/metrics').auth(app.key, { type: 'bearer' });
    expect(response.headers).toMatchObject({
      'content-type': 'text/plain; version=0.0.4; charset=utf-8',
      'cache-control': 'no-store',
    });
    const described = new Map<string, string>();
    const problems: string[] = [];
    for (const line of response.text.split('\n').filter(Boolean)) {
      const [, name, type] = /^# TYPE (\S+) (counter|gauge|histogram|summary)$/.exec(line) ?? [];
      const series = /^(\w+)(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? \S+$/.exec(line)?.[1];
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

  it('counts responses by operation and status', async () => {
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
    const expected: [string, number, number][] = [
      ['listCategories', 200, 4],
      ['listCategories', 401, 1],
      ['createCategory', 201, 2],
      ['createCategory', 400, 1],
      ['getDeprecated', 501, 1],
      ['unmatched', 404, 1],
      ['unmatched', 405, 1],
      ['/livez', 200, 1],
      ['/metrics', 200, 1],
      ['other', 200, 1],
      ['other', 400, 2],
    ];
    expect(
      expected.map(([name, status]) => [name, status, delta(responses(name, status))]),
    ).toEqual(expected);
  });

  it('measures response latency', async () => {
    const begin = performance.now();
    const delta = await metricDelta(() => list(20));
    const seconds = (performance.now() - begin) / 1000;
    expect(delta(latency('count', 'listCategories'))).toBe(20);
    expect(delta(latency('sum', 'listCategories'))).toBeGreaterThan(0);
    expect(delta(latency('sum', 'listCategories'))).toBeLessThan(seconds);
    const buckets = [...(await scrape())].filter(([series]) =>
      /_duration_seconds_bucket\{operation="listCategories",le=/.test(series),
    );
    const counts = buckets.map(([, count]) => count);
    expect(counts.length).toBeGreaterThan(10);
    expect(counts).toEqual(counts.toSorted((a, b) => a - b));
    expect(buckets.at(-1)![0]).toContain('le="+Inf"');
    expect(counts.at(-1)).toBe((await scrape()).get(latency('count', 'listCategories')));
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
    expect(delta(latency('sum', 'createCategory'))).toBeGreaterThan(0.25);
  });

  it('tracks requests in flight, including those aborted by the client', async () => {
    expect(await inFlight()).toBe(1);
    const half = rawRequest({
      method: 'POST',
      headers: [
        `Authorization: Bearer ${app.key}`,
        'Content-Type: application/json',
        'Content-Length: 99',
      ],
      body: '{"name"',
    });
    const waiting = await Promise.all([1, 2, 3].map(() => RawConnection.open(app.url)));
    for (const connection of waiting) connection.send(half);
    await waitFor(inFlight, (count) => count === 4, 5_000);
    for (const connection of waiting) connection.reset();
    await waitFor(inFlight, (count) => count === 1, 5_000);
  });

  it('counts list cache hits and rebuilds', async () => {
    await list();
    const hits = 'petstore_snapshot_hits_total{snapshot="categories"}';
    const rebuilds = 'petstore_snapshot_rebuilds_total{snapshot="categories"}';
    const delta = await metricDelta(async () => {
      await create(1);
      await list(20);
    });
    // On SQLite writing the last-used timestamp of the key, once a minute, also invalidates the cache.
    expect([1, 2]).toContain(delta(rebuilds));
    expect(delta(hits) + delta(rebuilds)).toBe(20);
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
    expect(errors).toBe(delta('petstore_create_group_size_count{table="categories"}'));
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
      await sendRequest(`${app.url}/v1/chosen-${turn}?chosen=${turn}`, { method: 'PROPFIND' });
      await sendRequest(`${app.url}/v1/stubs/deprecated/chosen-${turn}`, {
        headers: jsonHeaders(app.key),
      });
    }
    const text = await scrapeText();
    expect(text).not.toContain('chosen');
    expect(text).not.toContain(app.key);
    const added = [...(await scrape()).keys()].filter((series) => !before.has(series));
    expect(added.filter((series) => !/operation="(getDeprecated|unmatched)"/.test(series))).toEqual(
      [],
    );
  });
});

describeOnPostgres('GET /metrics on PostgreSQL', () => {
  it('reports the connection pool', async () => {
    // The pool has ten connections, so two of the twelve queries wait.
    const sleeps = Array.from({ length: 12 }, () => app.dataSource.query('SELECT pg_sleep(1.5)'));
    const busy = await waitFor(scrape, (now) => now.get('petstore_database_waiting') === 2, 5_000);
    expect(busy.get('petstore_database_connections{state="busy"}')).toBe(10);
    await Promise.all(sleeps);
    expect((await scrape()).get('petstore_database_waiting')).toBe(0);
  });
});
