import { createHook } from 'node:async_hooks';
import { Agent } from 'node:http';
import { setImmediate as turn } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { createDataSource } from '../src/data-source.js';
import { coalesce } from '../src/platform/database/coalesce.js';
import { startApp, type TestApp } from './support/app.js';
import { type HttpResponse, sendRequest, jsonHeaders } from './support/http-client.js';
import { LIST_QUERY, recordQueries } from './support/queries.js';

const { jest } = import.meta;

const STRONG_ETAG = /^"[\x21\x23-\x7e]+"$/;
const KIB = 1024;

let app: TestApp;
let agent: Agent;
beforeAll(async () => {
  app = await startApp();
  agent = new Agent({ keepAlive: true });
});
beforeEach(() => app.dataSource.query('DELETE FROM "categories"'));
afterEach(() => jest.restoreAllMocks());
afterAll(async () => {
  agent.destroy();
  await app.stop();
});

const list = (headers: Record<string, string> = {}, method = 'GET'): Promise<HttpResponse> =>
  sendRequest(`${app.url}/v1/categories`, {
    method,
    headers: { authorization: `Bearer ${app.key}`, ...headers },
    agent,
  });

const create = (name: string, description?: string): Promise<HttpResponse> =>
  sendRequest(`${app.url}/v1/categories`, {
    method: 'POST',
    headers: jsonHeaders(app.key),
    body: JSON.stringify({ name, description }),
    agent,
  });

const parse = ({ body }: HttpResponse): unknown => JSON.parse(body.toString());
const getNames = (response: HttpResponse): string[] =>
  (parse(response) as { name: string }[]).map(({ name }) => name);
const getIds = (response: HttpResponse): number[] =>
  (parse(response) as { id: number }[]).map(({ id }) => id);
const getId = (response: HttpResponse): number => (parse(response) as { id: number }).id;

/** Waits for a random number of event loop turns. */
async function pause(): Promise<void> {
  for (let turns = Math.floor(Math.random() * 8); turns > 0; turns--) await turn();
}
const insertDirectly = (name: string): Promise<unknown> =>
  app.dataSource.query(`INSERT INTO "categories" ("name") VALUES ('${name}')`);

describe('ETag of GET /v1/categories', () => {
  it('is strong and stays the same while the list is unchanged', async () => {
    await create('dog');
    const first = await list();
    expect(first.headers.etag).toMatch(STRONG_ETAG);
    const second = await list();
    expect(second.headers.etag).toBe(first.headers.etag);
    expect(second.body).toEqual(first.body);
  });

  it('changes with every create', async () => {
    const etags = [(await list()).headers.etag];
    for (const name of ['dog', 'cat', 'cat']) {
      expect((await create(name)).status).toBe(201);
      etags.push((await list()).headers.etag);
    }
    expect(new Set(etags).size).toBe(4);
  });

  it('stays the same when a create request is rejected', async () => {
    const before = await list();
    expect((await create('')).status).toBe(400);
    expect((await list()).headers.etag).toBe(before.headers.etag);
  });

  it('stays the same across a restart', async () => {
    await create('dog');
    const before = await list();
    const database = { config: app.config.database, url: '', drop: async () => undefined };
    const again = await startApp({ database });
    try {
      const after = await sendRequest(`${again.url}/v1/categories`, {
        headers: { authorization: `Bearer ${app.key}` },
      });
      expect(after.body).toEqual(before.body);
      expect(after.headers.etag).toBe(before.headers.etag);
    } finally {
      await again.stop();
    }
  });
});

describe('GET /v1/categories with If-None-Match', () => {
  it.each([
    ['the ETag', (etag: string) => etag],
    ['the weak ETag', (etag: string) => `W/${etag}`],
    ['a list that contains the ETag', (etag: string) => `"other", ${etag}`],
    ['a list that contains the weak ETag', (etag: string) => `W/"other" ,W/${etag}, "more"`],
    ['a wildcard', () => '*'],
  ])('returns 304 without a body for %s', async (_label, header) => {
    await create('dog');
    const { headers } = await list();
    for (const method of ['GET', 'HEAD']) {
      const response = await list({ 'if-none-match': header(headers.etag!) }, method);
      expect(response.status).toBe(304);
      expect(response.body).toHaveLength(0);
      expect(response.headers.etag).toBe(headers.etag);
      expect(response.headers['cache-control']).toBe('private, no-cache');
      expect(response.headers.vary).toBe(headers.vary);
      expect(response.headers['content-type']).toBeUndefined();
      expect(response.headers['x-request-id']).toBeDefined();
    }
  });

  it.each([
    ['another ETag', () => '"other"'],
    ['a list of other ETags', () => '"other", W/"more"'],
    ['an empty value', () => ''],
    ['the ETag without its quotes', (etag: string) => etag.replaceAll('"', '')],
    ['the ETag in another case', (etag: string) => etag.toLowerCase()],
    ['a longer ETag', (etag: string) => etag.replace(/"$/, 'x"')],
  ])('returns 200 with the list for %s', async (_label, header) => {
    await create('dog');
    const plain = await list();
    const response = await list({ 'if-none-match': header(plain.headers.etag!) });
    expect(response.status).toBe(200);
    expect(response.body).toEqual(plain.body);
    expect(response.headers.etag).toBe(plain.headers.etag);
  });

  it('returns 200 with the list after the list changed', async () => {
    const { headers } = await list();
    await create('dog');
    const response = await list({ 'if-none-match': headers.etag! });
    expect(response.status).toBe(200);
    expect(getNames(response)).toEqual(['dog']);
  });

  it('returns 401 without a key', async () => {
    const { headers } = await list();
    const response = await sendRequest(`${app.url}/v1/categories`, {
      headers: { 'if-none-match': headers.etag! },
    });
    expect(response.status).toBe(401);
    expect(response.headers.etag).toBeUndefined();
  });
});

describe('GET /v1/categories', () => {
  it('includes every create acknowledged before the request was sent', async () => {
    const WRITERS = 6;
    const CREATES = 30;
    const READERS = 6;
    const acknowledged: number[] = [];
    const failures: unknown[] = [];
    const counts = { reads: 0, unchanged: 0, writing: WRITERS };

    const write = async (writer: number): Promise<void> => {
      for (let index = 0; index < CREATES; index++) {
        const response = await create(`${writer}-${index}`);
        if (response.status === 201) acknowledged.push(getId(response));
        else failures.push(response.status);
        await pause();
      }
      counts.writing--;
    };
    const read = async (): Promise<void> => {
      const known = new Map<string, Set<number>>();
      let last = '';
      do {
        const before = [...acknowledged];
        const response = await list(last === '' ? {} : { 'if-none-match': last });
        counts.reads++;
        last = response.headers.etag!;
        if (response.status === 304) counts.unchanged++;
        else known.set(last, new Set(getIds(response)));
        const missed = before.filter((id) => known.get(last)?.has(id) !== true);
        if (missed.length > 0) failures.push({ missed, status: response.status });
        await pause();
      } while (counts.writing > 0);
    };
    await Promise.all([
      ...Array.from({ length: WRITERS }, (_, writer) => write(writer)),
      ...Array.from({ length: READERS }, () => read()),
    ]);

    expect(failures).toEqual([]);
    expect(acknowledged).toHaveLength(WRITERS * CREATES);
    expect(counts.reads).toBeGreaterThan(READERS * 2);
    const ids = getIds(await list());
    expect(ids).toEqual(acknowledged.toSorted((a, b) => a - b));
  }, 30_000);

  it('reflects rows changed outside the service', async () => {
    await create('dog');
    expect(getNames(await list())).toEqual(['dog']);
    await insertDirectly('cat');
    expect(getNames(await list())).toEqual(['dog', 'cat']);
    await app.dataSource.query(`UPDATE "categories" SET "name" = 'hound' WHERE "name" = 'dog'`);
    expect(getNames(await list())).toEqual(['hound', 'cat']);
    await app.dataSource.query(`DELETE FROM "categories" WHERE "name" = 'cat'`);
    expect(getNames(await list())).toEqual(['hound']);
  });

  it('reflects creates on another instance that shares the database', async () => {
    expect(getNames(await list())).toEqual([]);
    const database = { config: app.config.database, url: '', drop: async () => undefined };
    const otherInstance = await startApp({ database });
    try {
      for (const name of ['dog', 'cat', 'rabbit']) {
        const { status } = await sendRequest(`${otherInstance.url}/v1/categories`, {
          method: 'POST',
          headers: jsonHeaders(app.key),
          body: JSON.stringify({ name }),
        });
        expect(status).toBe(201);
        expect(getNames(await list()).at(-1)).toBe(name);
      }
      await create('hamster');
      const listed = await sendRequest(`${otherInstance.url}/v1/categories`, {
        headers: { authorization: `Bearer ${app.key}` },
      });
      expect(getNames(listed)).toEqual(['dog', 'cat', 'rabbit', 'hamster']);
    } finally {
      await otherInstance.stop();
    }
  });

  it('reflects only committed changes of another connection', async () => {
    const other = createDataSource(app.config.database);
    await other.initialize();
    await other.migrate();
    const runner = other.createQueryRunner();
    try {
      await list();
      await runner.startTransaction();
      await runner.query(`INSERT INTO "categories" ("name") VALUES ('dog')`);
      expect(getNames(await list())).toEqual([]);
      await runner.rollbackTransaction();
      expect(getNames(await list())).toEqual([]);
      await runner.startTransaction();
      await runner.query(`INSERT INTO "categories" ("name") VALUES ('cat')`);
      expect(getNames(await list())).toEqual([]);
      await runner.commitTransaction();
      expect(getNames(await list())).toEqual(['cat']);
    } finally {
      await runner.release();
      await other.destroy();
    }
  });

  it('does not query the categories again while the list is unchanged', async () => {
    await create('dog');
    await list();
    const queries = recordQueries(app.dataSource, LIST_QUERY);
    for (let reads = 0; reads < 10; reads++) expect((await list()).status).toBe(200);
    expect(queries).toEqual([]);
    await insertDirectly('cat');
    expect(getNames(await list())).toEqual(['dog', 'cat']);
    expect(queries).toHaveLength(1);
  });

  it('shares one query among concurrent requests after a change', async () => {
    await list();
    const queries = recordQueries(app.dataSource, LIST_QUERY);
    for (const names of [['dog'], ['dog', 'cat']]) {
      await insertDirectly(names.at(-1)!);
      const responses = await Promise.all(Array.from({ length: 50 }, () => list()));
      expect(responses).toHaveLength(50);
      for (const response of responses) expect(getNames(response)).toEqual(names);
    }
    expect(queries).toHaveLength(2);
  });

  it('returns 500 when the query fails and recovers with the next request', async () => {
    await create('dog');
    await list();
    await insertDirectly('cat');
    await app.dataSource.query('ALTER TABLE "categories" RENAME TO "hidden"');
    const failed = await Promise.all([list(), list(), list()]);
    expect(failed).toHaveLength(3);
    for (const response of failed) {
      expect(response.status).toBe(500);
      expect(parse(response)).toEqual({
        code: 'INTERNAL_ERROR',
        message: expect.not.stringMatching(/categories|hidden|SQL|table/i),
        status: 500,
      });
      expect(response.headers.etag).toBeUndefined();
      expect(response.headers['cache-control']).toBe('no-store');
    }
    await app.dataSource.query('ALTER TABLE "hidden" RENAME TO "categories"');
    const recovered = await list();
    expect(recovered.status).toBe(200);
    expect(getNames(recovered)).toEqual(['dog', 'cat']);
  });
});

/** Creates a list whose JSON is exactly `bytes` long. */
async function fill(bytes: number): Promise<void> {
  const id = getId(await create('dog', ''));
  const frame = JSON.stringify([{ id, name: 'dog', description: '' }]).length;
  await app.dataSource.query(
    `UPDATE "categories" SET "description" = '${'d'.repeat(bytes - frame)}'`,
  );
  expect((await list()).body).toHaveLength(bytes);
}

describe('GET /v1/categories with gzip', () => {
  const gzip = { 'accept-encoding': 'gzip' };

  it('compresses the list for clients that accept gzip, with a separate ETag', async () => {
    await fill(KIB + 1);
    const plain = await list();
    const response = await list(gzip);
    expect(response.status).toBe(200);
    expect(response.headers['content-encoding']).toBe('gzip');
    expect(response.headers['content-type']).toBe(plain.headers['content-type']);
    expect(response.headers['content-length']).toBe(String(response.body.length));
    expect(response.headers.vary).toMatch(/\baccept-encoding\b/i);
    expect(response.headers.etag).toMatch(STRONG_ETAG);
    expect(response.headers.etag).not.toBe(plain.headers.etag);
    expect(response.body.length).toBeLessThan(plain.body.length);
    expect(gunzipSync(response.body)).toEqual(plain.body);
  });

  it('returns 304 only for the ETag of the gzip representation', async () => {
    await fill(KIB + 1);
    const plain = await list();
    const compressed = await list(gzip);
    const unchanged = await list({ ...gzip, 'if-none-match': compressed.headers.etag! });
    expect(unchanged.status).toBe(304);
    expect(unchanged.body).toHaveLength(0);
    expect(unchanged.headers.etag).toBe(compressed.headers.etag);
    expect(unchanged.headers.vary).toMatch(/\baccept-encoding\b/i);
    // Each content coding has its own ETag (RFC 9110, section 8.8.3.3).
    expect((await list({ ...gzip, 'if-none-match': plain.headers.etag! })).status).toBe(200);
    expect((await list({ 'if-none-match': compressed.headers.etag! })).status).toBe(200);
  });

  it('does not compress a list smaller than 1 KiB', async () => {
    await fill(KIB - 1);
    const response = await list(gzip);
    expect(response.headers['content-encoding']).toBeUndefined();
    expect(response.body).toHaveLength(KIB - 1);
  });

  it('sends the uncompressed list without Accept-Encoding', async () => {
    await fill(KIB + 1);
    const plain = await list();
    expect(plain.headers['content-encoding']).toBeUndefined();
    expect(plain.headers['content-length']).toBe(String(KIB + 1));
    expect(plain.headers.vary).toMatch(/\baccept-encoding\b/i);
  });

  it.each([
    ['gzip', 'gzip'],
    ['gzip, deflate, br', 'gzip'],
    ['deflate, gzip;q=0.5', 'gzip'],
    ['br;q=1.0, gzip;q=0.8, *;q=0.1', 'gzip'],
    ['identity;q=0.5, gzip', 'gzip'],
    ['gzip;q=0', undefined],
    ['gzip;q=0.0, *', undefined],
    ['deflate, br', undefined],
    ['identity', undefined],
    ['gzip;q=0.1, identity;q=0.9', undefined],
    ['', undefined],
  ])('honours Accept-Encoding: %j', async (accepted, encoding) => {
    await fill(KIB + 1);
    const response = await list({ 'accept-encoding': accepted });
    expect(response.status).toBe(200);
    expect(response.headers['content-encoding']).toBe(encoding);
    expect(response.headers.vary).toMatch(/\baccept-encoding\b/i);
  });

  it('compresses each version of the list once, on first request', async () => {
    let compressions = 0;
    const hook = createHook({
      init: (_id, type) => {
        if (type === 'ZLIB') compressions++;
      },
    }).enable();
    try {
      await fill(KIB + 1);
      await list();
      expect(compressions).toBe(0);
      const responses = await Promise.all(Array.from({ length: 20 }, () => list(gzip)));
      expect(new Set(responses.map(({ headers }) => headers.etag)).size).toBe(1);
      await list(gzip);
      expect(compressions).toBe(1);
      await create('cat');
      await list(gzip);
      expect(compressions).toBe(2);
    } finally {
      hook.disable();
    }
  });

  it('reflects every change, like the uncompressed list', async () => {
    await fill(KIB + 1);
    const before = await list(gzip);
    await create('cat');
    const after = await list({ ...gzip, 'if-none-match': before.headers.etag! });
    expect(after.status).toBe(200);
    expect(gunzipSync(after.body)).toEqual((await list()).body);
    expect(gunzipSync(after.body).toString()).toContain('"cat"');
  });
});

/** Creates a task whose runs the test resolves or rejects. */
function controlled(): {
  task: () => Promise<number>;
  runs: { resolve: (value: number) => void; reject: (error: Error) => void }[];
} {
  const runs: ReturnType<typeof controlled>['runs'] = [];
  const task = (): Promise<number> =>
    new Promise((resolve, reject) => {
      runs.push({ resolve, reject });
    });
  return { task, runs };
}

describe('coalesce', () => {
  it('shares one run among simultaneous calls', async () => {
    const { task, runs } = controlled();
    const call = coalesce(task);
    const calls = [call(), call(), call()];
    await turn();
    expect(runs).toHaveLength(1);
    runs[0]!.resolve(1);
    expect(await Promise.all(calls)).toEqual([1, 1, 1]);
  });

  it('shares the next run among calls made during a run', async () => {
    const { task, runs } = controlled();
    const call = coalesce(task);
    const first = call();
    await turn();
    const second = call();
    await turn();
    const third = call();
    await turn();
    expect(runs).toHaveLength(1);
    runs[0]!.resolve(1);
    expect(await first).toBe(1);
    await turn();
    expect(runs).toHaveLength(2);
    const fourth = call();
    runs[1]!.resolve(2);
    expect(await Promise.all([second, third])).toEqual([2, 2]);
    await turn();
    expect(runs).toHaveLength(3);
    runs[2]!.resolve(3);
    expect(await fourth).toBe(3);
  });

  it('starts a new run for a call made after a run', async () => {
    let runs = 0;
    const call = coalesce(async () => ++runs);
    expect(await call()).toBe(1);
    expect(await call()).toBe(2);
  });

  it('rejects only the calls that share the failed run', async () => {
    const { task, runs } = controlled();
    const call = coalesce(task);
    const failed = Promise.allSettled([call(), call()]);
    await turn();
    const next = call();
    const error = new Error('broken');
    runs[0]!.reject(error);
    expect(await failed).toEqual([
      { status: 'rejected', reason: error },
      { status: 'rejected', reason: error },
    ]);
    await turn();
    runs[1]!.resolve(2);
    expect(await next).toBe(2);
  });

  it('recovers after a task that throws synchronously', async () => {
    let broken = true;
    const call = coalesce(() => {
      if (broken) throw new Error('broken');
      return Promise.resolve('recovered');
    });
    await expect(call()).rejects.toThrow('broken');
    broken = false;
    expect(await call()).toBe('recovered');
  });

  it('never overlaps runs', async () => {
    let running = 0;
    let runs = 0;
    const overlaps: number[] = [];
    const call = coalesce(async () => {
      if (++running > 1) overlaps.push(running);
      runs++;
      await turn();
      running--;
    });
    const calls: Promise<void>[] = [];
    for (let index = 0; index < 50; index++) {
      calls.push(call());
      if (index % 3 === 0) await turn();
    }
    await Promise.all(calls);
    expect(overlaps).toEqual([]);
    expect(runs).toBeGreaterThan(1);
    expect(runs).toBeLessThan(50);
  });
});
