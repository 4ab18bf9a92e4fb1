import { Agent } from 'node:http';
import { setImmediate as turn, setTimeout as delay } from 'node:timers/promises';
import { createGzip, type Gzip, gunzipSync } from 'node:zlib';
import { readFile } from 'node:fs/promises';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import { CategoryEntity } from '../../../src/modules/categories/category.entity.js';
import {
  BodyTooLargeError,
  CachedJsonResponse,
} from '../../../src/platform/http/responses/cached-json-response.js';
import { CachedList } from '../../../src/platform/database/lists/cached-list.js';
import type { Paging, RowChunks } from '../../../src/platform/database/lists/list-rows.js';
import { ResourceKit } from '../../../src/platform/resource/resource-kit.js';
import { createDatabase, startApp, type TestApp, type TestDatabase } from '../support/app.js';
import { ChaosProxy } from '../support/chaos-proxy.js';
import { advanceTime } from '../support/clock.js';
import { DATABASE, describeOnPostgres } from '../support/databases.js';
import { CategoriesClient, type Category } from '../support/http-client.js';
import { MemoryLogger } from '../support/memory-logger.js';
import { queryPostgres } from '../support/postgres-client.js';
import { rawRequest } from '../support/raw-connection.js';
import { LIST_QUERY, recordStatements, toPage, toResponse } from '../support/queries.js';
import { waitFor } from '../support/wait.js';

const { jest } = import.meta;
const STRONG_ETAG = /^"[\x21\x23-\x7e]+"$/;
const KIB = 1024;
const DOG = { name: 'dog' };

let database: TestDatabase;
let app: TestApp;
let agent: Agent;
let categories: CategoriesClient;
beforeAll(async () => {
  database = await createDatabase();
  app = await startApp({ database });
  agent = new Agent({ keepAlive: true });
  categories = new CategoriesClient(app.url, app.key, agent);
  // Writes the last use of the key, which would invalidate the cache later.
  await categories.list();
});
beforeEach(async () => {
  await app.dataSource.query('DELETE FROM "categories"');
});
afterEach(() => jest.restoreAllMocks());
afterAll(async () => {
  agent.destroy();
  await app.stop();
  await database.drop();
});

/** Backs up the database, and returns a function that restores it under the running service. */
async function backUp({ url }: TestDatabase): Promise<() => Promise<unknown>> {
  // What a dump of the data contains, and how pg_restore --data-only --disable-triggers loads it.
  const tables = ['categories', 'revisions'];
  const run = (toSql: (table: string) => string) => queryPostgres(url, tables.map(toSql).join(';'));
  await run((table) => `CREATE TABLE "copy of ${table}" AS TABLE "${table}"`);
  return async () => {
    await run(
      (table) => `ALTER TABLE "${table}" DISABLE TRIGGER ALL; DELETE FROM "${table}";
        INSERT INTO "${table}" OVERRIDING SYSTEM VALUE TABLE "copy of ${table}";
        ALTER TABLE "${table}" ENABLE TRIGGER ALL`,
    );
    await run((table) => `DROP TABLE "copy of ${table}"`);
  };
}
const insertDirectly = (name: string): Promise<unknown> =>
  app.dataSource.query(`INSERT INTO "categories" ("name") VALUES ('${name}')`);

describe('ETag of GET /v1/categories', () => {
  it('stays the same, and strong, after a rejected create, and changes with every create', async () => {
    const etags = new Set<string>();
    for (const name of ['dog', 'cat', 'cat']) {
      expect((await categories.create(name)).status).toBe(201);
      const first = await categories.list();
      expect(first.headers.etag).toMatch(STRONG_ETAG);
      const second = await categories.list();
      expect(second.headers.etag).toBe(first.headers.etag);
      expect(second.body).toEqual(first.body);
      expect((await categories.create('')).status).toBe(400);
      expect((await categories.list()).headers.etag).toBe(first.headers.etag);
      etags.add(first.headers.etag!);
    }
    expect(etags.size).toBe(3);
  });

  it('stays the same across a restart', async () => {
    await categories.create('dog');
    const before = await categories.list();
    const again = await startApp({ database });
    try {
      const after = await again.categories.list();
      expect(after.body).toEqual(before.body);
      expect(after.headers.etag).toBe(before.headers.etag);
    } finally {
      await again.stop();
    }
  });
});

describe('GET /v1/categories with If-None-Match', () => {
  it('returns 304 without a body if the list is unchanged, and otherwise the list', async () => {
    await categories.create('dog');
    const { headers, body } = await categories.list();
    for (const method of ['GET', 'HEAD']) {
      const response = await categories.list({ 'if-none-match': headers.etag! }, method);
      const { etag, vary } = headers;
      expect([response.status, response.body.length]).toEqual([304, 0]);
      expect(response.headers).toMatchObject({ etag, vary, 'cache-control': 'private, no-cache' });
      expect(response.headers['content-type']).toBeUndefined();
    }
    for (const ifNoneMatch of ['"other"', '"a,*,b"', '"other", *']) {
      const other = await categories.list({ 'if-none-match': ifNoneMatch });
      expect([other.status, other.headers.etag, other.body]).toEqual([200, headers.etag, body]);
    }
  });
});

/** Inserts more rows than one statement reads, and then calls `change` after each part of the list was read. */
async function changeWhileReading(
  change: () => Promise<unknown>,
  { dataSource }: Pick<TestApp, 'dataSource'> = app,
): Promise<void> {
  const names = Array.from({ length: 4_500 }, () => `('version 0')`);
  await app.dataSource.query(`INSERT INTO "categories" ("name") VALUES ${names.join(', ')}`);
  const readSnapshot = dataSource.readSnapshot.bind(dataSource);
  jest.spyOn(dataSource, 'readSnapshot').mockImplementation((work) =>
    readSnapshot((read) =>
      work(async <Row>(sql: string, parameters: unknown[]) => {
        const rows = await read<Row>(sql, parameters);
        await change();
        return rows;
      }),
    ),
  );
}
const getVersions = async (): Promise<Set<string>> => {
  const list = (await categories.list()).json<Category[]>();
  expect(list.length).toBeGreaterThanOrEqual(2_000);
  expect(list).toEqual(list.toSorted((a, b) => a.id - b.id));
  return new Set(list.map(({ name }) => name));
};

describe('GET /v1/categories', () => {
  it.each<[string, string, object[]]>([
    ['an insert', `INSERT INTO "categories" ("name") VALUES ('cat')`, [DOG, { name: 'cat' }]],
    [
      'an update of only a description',
      `UPDATE "categories" SET "description" = 'barks'`,
      [{ ...DOG, description: 'barks' }],
    ],
    ['a delete', 'DELETE FROM "categories" WHERE "id" > 0', []],
    [
      'the deletion of all rows at once',
      DATABASE === 'sqlite' ? 'DELETE FROM "categories"' : 'TRUNCATE "categories" CASCADE',
      [],
    ],
  ])('reflects %s outside the service', async (_change, statement, expected) => {
    await categories.create('dog');
    expect(await categories.getNames()).toEqual(['dog']);
    await app.dataSource.query(statement);
    const list = await categories.getAll();
    expect(list).toEqual(expected.map((row) => ({ id: expect.any(Number) as number, ...row })));
  });

  it('includes a change in all responses to concurrent requests that follow it', async () => {
    await categories.list();
    for (const names of [['dog'], ['dog', 'cat']]) {
      await insertDirectly(names.at(-1)!);
      const responses = await Promise.all(Array.from({ length: 50 }, () => categories.list()));
      for (const response of responses)
        expect(response.json()).toMatchObject(names.map((name) => ({ name })));
    }
  });

  it.each([
    ['they are changed once while they are read', []],
    // Which no statement after the first one reads.
    [
      'all but 2,000 are deleted while they are read',
      [
        `DELETE FROM "categories" WHERE "id" NOT IN
      (SELECT "id" FROM "categories" ORDER BY "id" LIMIT 2000)`,
      ],
    ],
  ])('contains the rows of one moment if %s, however long it is', async (_change, statements) => {
    let changes = 0;
    await changeWhileReading(async () => {
      if (++changes > 1) return;
      for (const statement of [...statements, `UPDATE "categories" SET "name" = 'version 1'`])
        await app.dataSource.query(statement);
    });
    expect(await getVersions()).toEqual(new Set(['version 0']));
    expect(changes).toBeGreaterThan(2);
    expect(await getVersions()).toEqual(new Set(['version 1']));
  });

  it('includes every acknowledged create if its rows change whenever they are read', async () => {
    let created = 0;
    await changeWhileReading(() => categories.create(`created ${++created}`));
    for (let reads = 0; reads < 2; reads++) {
      const before = Array.from({ length: created }, (_, index) => `created ${index + 1}`);
      expect([...(await getVersions())]).toEqual(expect.arrayContaining(['version 0', ...before]));
      expect(created).toBeGreaterThan(before.length);
    }
    jest.restoreAllMocks();
    expect((await getVersions()).size).toBe(1 + created);
  });

  it('lets other requests run after each part, however long it is', async () => {
    const turns: number[] = [];
    let count = 0;
    await changeWhileReading(async () => void turns.push(count));
    const list = categories.list().finally(() => (count = Infinity));
    for (; count < Infinity; count++) await turn();
    expect((await list).json()).toHaveLength(4_500);
    expect([turns.length, new Set(turns).size]).toEqual([3, 3]);
  });

  it('rejects a list that is too large for a minute without reading it again', async () => {
    const repository = app.dataSource.getRepository(CategoryEntity);
    const build = jest.fn(() => Promise.reject(new BodyTooLargeError('The list is too large.')));
    const list = new CachedList(repository, build, app.app.get(ResourceKit));
    for (let reads = 0; reads < 3; reads++) {
      await expect(list.get()).rejects.toThrow('The list is too large.');
      await insertDirectly('dog');
    }
    expect(build).toHaveBeenCalledTimes(1);
    advanceTime(Date.now() + 60_001);
    await expect(list.get()).rejects.toThrow('The list is too large.');
    expect(build).toHaveBeenCalledTimes(2);
  });

  it('rejects a list above 256 MiB', async () => {
    const text = 'd'.repeat(KIB * KIB);
    function* readChunks(count: number): Generator<string[]> {
      for (let chunk = 0; chunk < count; chunk++) yield [text];
    }
    const build = (chunks: number) => CachedJsonResponse.ofList(readChunks(chunks), (row) => row);
    expect((await build(2)).toJSON()).toEqual([text, text]);
    await expect(build(256)).rejects.toThrow('The list is larger than 268435456 bytes');
  });

  it('filters a list, however long it is', async () => {
    const rows = Array.from({ length: 2_500 }, (_, index) => `('${index % 2 ? 'dog' : 'cat'}')`);
    await app.dataSource.query(`INSERT INTO "categories" ("name") VALUES ${rows.join(', ')}`);
    const repository = app.dataSource.getRepository(CategoryEntity);
    const list = new CachedList(repository, toResponse, app.app.get(ResourceKit));
    const get = async (filters: { name: string | string[] }) =>
      toPage<CategoryEntity>(await list.get(filters)).rows;
    for (const name of ['dog', 'cat', 'dog']) {
      const names = (await get({ name })).map((row) => row.name);
      expect(names).toEqual(Array.from({ length: 1_250 }, () => name));
    }
    await insertDirectly('dog');
    const dogs = await get({ name: 'dog' });
    expect(dogs).toHaveLength(1_251);
    expect(dogs).toEqual(dogs.toSorted((a, b) => a.id - b.id));
    expect(await get({ name: ['dog', 'cat'] })).toHaveLength(2_501);
  });
});

describeOnPostgres('a list that takes several statements', () => {
  it('keeps later requests waiting for a hung server no longer than a transaction', async () => {
    const proxy = await ChaosProxy.listen(database.url);
    const url = proxy.proxiedUrl(database.url);
    const other = await startApp({ database: { config: { type: 'postgres', url } } });
    let reads = 0;
    await changeWhileReading(async () => void (++reads === 1 && proxy.blackhole()), other);
    const startedAt = performance.now();
    const list = () => other.send('GET', '/v1/categories', { key: app.key });
    await waitFor(list, ({ status }) => status === 200);
    expect(reads).toBeGreaterThan(1);
    expect(performance.now() - startedAt).toBeLessThan(15_000);
    await other.stop();
    await proxy.close();
  });
});

/** Creates a list whose JSON is exactly `bytes` long. */
async function fill(bytes: number): Promise<void> {
  const { id } = (await categories.create('dog', '')).json<Category>();
  const frame = JSON.stringify([{ id, name: 'dog', description: '' }]).length;
  await app.dataSource.query(
    `UPDATE "categories" SET "description" = '${'d'.repeat(bytes - frame)}'`,
  );
  expect((await categories.list()).body).toHaveLength(bytes);
}

describe('GET /v1/categories with gzip', () => {
  const gzip = { 'accept-encoding': 'gzip' };

  it('compresses the list, with an ETag of its own', async () => {
    await fill(KIB + 1);
    const plain = await categories.list();
    const response = await categories.list(gzip);
    expect(response.headers).toMatchObject({
      'content-encoding': 'gzip',
      'content-type': plain.headers['content-type'],
      'content-length': String(response.body.length),
      etag: expect.stringMatching(STRONG_ETAG) as string,
    });
    expect(gunzipSync(response.body)).toEqual(plain.body);
    // Each content coding has its own ETag (RFC 9110, section 8.8.3.3).
    const etags = [response.headers.etag!, plain.headers.etag!];
    const statuses: number[] = [];
    for (const headers of [gzip, {}])
      for (const etag of etags)
        statuses.push((await categories.list({ ...headers, 'if-none-match': etag })).status);
    expect(statuses).toEqual([304, 200, 200, 304]);
  });

  it.each([
    ['gzip, deflate, br', 'gzip'],
    ['deflate, gzip;q=0.5', 'gzip'],
    ['identity;q=0.5, gzip', 'gzip'],
    ['X-Gzip;q=0.5, br', 'gzip'],
    ['x-gzip;q=0, *', undefined],
    ['gzip;q=0.0, *', undefined],
    ['gzip;q=0.1, identity;q=0.9', undefined],
    ['', undefined],
  ])('honours Accept-Encoding: %j', async (accepted, encoding) => {
    await fill(KIB + 1);
    const response = await categories.list({ 'accept-encoding': accepted });
    expect(response.status).toBe(200);
    expect(response.headers['content-encoding']).toBe(encoding);
    expect(response.headers.vary).toMatch(/\baccept-encoding\b/i);
  });

  it('compresses the list again for the next request if a compression failed', async () => {
    await fill(KIB + 1);
    const prototype = Object.getPrototypeOf(createGzip()) as Gzip;
    jest.spyOn(prototype, 'end').mockImplementationOnce(function (this: Gzip) {
      return this.destroy(new Error('out of memory'));
    });
    expect(await categories.list(gzip)).toBeError('INTERNAL_ERROR');
    const response = await categories.list(gzip);
    expect([response.status, response.headers['content-encoding']]).toEqual([200, 'gzip']);
  });
});

/** Returns a list of categories whose responses are about `bytes` long, and count twice in memory, because of gzip. */
function getList(bytes = 0): CachedList<CategoryEntity> {
  const padding = 'x'.repeat(bytes);
  const build = (chunks: RowChunks<object>) => toResponse(chunks, { padding } as Paging);
  const repository = app.dataSource.getRepository(CategoryEntity);
  return new CachedList(repository, build, app.app.get(ResourceKit));
}

describe('the cache of lists', () => {
  it('keeps one copy of a list, whatever the order of its filters and their values', async () => {
    await insertDirectly('dog');
    const list = getList();
    const description = 'brown';
    const lists = await Promise.all([
      list.get({ name: ['dog', 'cat'], description }),
      list.get({ name: ['cat', 'dog'], description }),
      list.get({ description: [description], name: ['cat', 'dog', 'cat'] }),
    ]);
    expect(new Set(lists).size).toBe(1);
    expect(await list.get({ name: 'dog' })).toBe(await list.get({ name: ['dog', 'dog'] }));
    const page = await list.getPage({ limit: 2 }, { name: ['dog', 'cat'] });
    expect(await list.getPage({ limit: 2 }, { name: ['cat', 'dog', 'cat'] })).toBe(page);
    expect(await list.get({ name: ['cat', 'dog'] })).not.toBe(lists[0]);
    expect(await list.get({ name: [] })).not.toBe(await list.get());
  });

  it('keeps at most 64 MiB of all lists and first pages, those that were used last', async () => {
    const queries = recordStatements(app.dataSource, LIST_QUERY);
    const [first, second] = [getList(3_000_000), getList(3_000_000)];
    const read = (count: number) => first.get({ name: ['dog', `name ${count}`] });
    for (let count = 0; count < 11; count++) await read(count);
    expect(queries).toHaveLength(11);
    await read(1);
    expect(queries).toHaveLength(11);
    // Requests for another list, all at the same time.
    await Promise.all([second.get(), second.get(), second.getPage({ limit: 2 })]);
    expect(queries).toHaveLength(13);
    for (const count of [1, 10, 9]) await read(count);
    expect(queries).toHaveLength(13);
    await read(0);
    expect(queries).toHaveLength(14);
  });
});

/** Requests the list, and reads of the response only what the test asks for. */
async function openReader(): Promise<{
  read: (bytes: number) => Promise<void>;
  /** Reads the rest, and returns whether the response is complete. */
  end: () => Promise<boolean>;
}> {
  // A busy machine may take longer to read the rows than a request may wait.
  await waitFor(async () => (await categories.list()).status === 200);
  const { hostname, port } = new URL(app.url);
  const socket = connect(Number(port), hostname).on('error', () => undefined);
  const closed = new Promise((resolve) => socket.once('close', resolve));
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  const headers = ['Connection: close', `Authorization: Bearer ${app.key}`];
  socket.write(rawRequest({ headers }));
  const read = async (bytes: number): Promise<void> => {
    for (let count = 0; count < bytes;) {
      const [chunk] = (await once(socket.resume(), 'data')) as [Buffer];
      count += chunk.length;
    }
    socket.pause();
  };
  await read(1);
  return {
    read,
    end: async () => {
      socket.resume();
      await closed;
      return Buffer.concat(chunks).toString().endsWith(']');
    },
  };
}

/** Changes the list, which keeps its size. */
const renameAll = (name: string): Promise<unknown> =>
  app.dataSource.query(`UPDATE "categories" SET "name" = '${name}'`);

describe('a list of 12 MB that changes while connections read it', () => {
  beforeEach(async () => {
    const rows = Array.from({ length: 1_000 }, () => `('dog', '${'d'.repeat(1_000)}')`).join();
    for (let count = 0; count < 12; count++)
      await app.dataSource.query(`INSERT INTO "categories" ("name", "description") VALUES ${rows}`);
  }, 60_000);

  it.each([
    ['removes those that were used least recently from the cache', true],
    ['removes none from it if the former version is not read any more', false],
  ])(
    '%s',
    async (_what, isRead) => {
      const slow = await openReader();
      if (!isRead) await slow.end();
      await categories.create('cat');
      const list = getList(5_000_000);
      const filters = [{ name: 'a' }, { name: 'b' }];
      for (const each of filters) await list.get(each);
      const queries = recordStatements(app.dataSource, LIST_QUERY);
      // A busy machine may take longer to read the rows than a request may wait.
      await waitFor(async () => (await categories.list()).status === 200);
      queries.length = 0;
      for (const each of filters.toReversed()) await list.get(each);
      // The first one is of 24 MB, with gzip, as is the second; these are of 10 MB.
      expect(queries).toHaveLength(isRead ? 1 : 0);
      expect(await slow.end()).toBe(true);
    },
    60_000,
  );

  it.each([
    ['but those of the oldest version if former ones take too much memory', 12, false],
    ['also those of former versions if these take little memory', 7, true],
  ])(
    'reaches all readers, %s: %d MB each',
    async (_which, size, isComplete) => {
      const rows = `SELECT "id" FROM "categories" ORDER BY "id" LIMIT ${size * 1_000}`;
      await app.dataSource.query(`DELETE FROM "categories" WHERE "id" NOT IN (${rows})`);
      const slow = await openReader();
      await renameAll('cat');
      const fast = await openReader();
      await fast.read((size - 6) * KIB * KIB);
      await renameAll('cow');
      const current = await Promise.all(Array.from({ length: 3 }, openReader));
      const ends = await Promise.all([slow, fast, ...current].map((reader) => reader.end()));
      expect(ends).toEqual([isComplete, true, true, true, true]);
    },
    // 12 MB for each of many connections take a while on a busy machine.
    600_000,
  );
});

const toNames = (response: CachedJsonResponse): string[] =>
  toPage<CategoryEntity>(response).rows.map(({ name }) => name);

describeOnPostgres('GET /v1/categories', () => {
  const logger = new MemoryLogger();
  let instances: TestApp[];
  let databases: TestDatabase[];
  const start = async (at?: TestDatabase): Promise<TestApp> => {
    const own = at ?? (await createDatabase());
    if (at === undefined) databases.push(own);
    // Replication would need the tables of other features that refer to the categories.
    const instance = await startApp({ database: own, logger, features: [CategoriesModule] });
    instances.push(instance);
    return instance;
  };
  beforeEach(() => {
    logger.entries.length = 0;
    instances = [];
    databases = [];
  });
  afterEach(async () => {
    for (const instance of instances) await instance.stop();
    for (const each of databases) await each.drop();
  });
  /** Returns the statements with which the log says that triggers can be repaired. */
  const getRepairs = (): string[] =>
    logger.entries.flatMap(
      ({ values }) => /CREATE OR REPLACE TRIGGER .*/.exec(String(values[0])) ?? [],
    );
  const query = (sql: string, index = 0) => queryPostgres(databases[index]!.url, sql);

  it('includes a create that was acknowledged while a check before the request was in progress', async () => {
    const { categories: client, dataSource } = await start();
    await client.list();
    const send = dataSource.query.bind(dataSource);
    const { promise: checked, resolve: allow } = Promise.withResolvers<void>();
    const { promise: started, resolve: report } = Promise.withResolvers<void>();
    jest.spyOn(dataSource, 'query').mockImplementationOnce(async (sql, ...rest) => {
      const revisions: unknown = await send(sql, ...rest);
      report();
      await checked;
      return revisions;
    });
    const former = client.getNames();
    await started;
    await query(`INSERT INTO "categories" ("name") VALUES ('dog')`);
    const latter = client.getNames();
    // The request reaches the service.
    await delay(200);
    allow();
    await former;
    expect(await latter).toEqual(['dog']);
  });

  it('caches a list or first page with the revision at which its rows were read, not an earlier one', async () => {
    const { app: nest, dataSource } = await start();
    const repository = dataSource.getRepository(CategoryEntity);
    const send = dataSource.query.bind(dataSource);
    for (const counts of [false, true])
      for (const isPage of [false, true]) {
        await query(`DELETE FROM "categories"; INSERT INTO "categories" ("name") VALUES ('dog')`);
        const restore = await backUp(databases[0]!);
        const list = new CachedList(repository, toResponse, nest.get(ResourceKit), counts);
        const read = async () => toNames(await (isPage ? list.getPage({ limit: 10 }) : list.get()));
        jest.spyOn(dataSource, 'query').mockImplementation(async (sql, ...rest) => {
          if (LIST_QUERY.test(sql)) await query(`UPDATE "categories" SET "name" = 'cat'`);
          return send(sql, ...rest);
        });
        expect(await read()).toEqual(['cat']);
        jest.restoreAllMocks();
        // As a failover does to a server that lacks the change.
        await restore();
        expect(await read()).toEqual(['dog']);
      }
  });

  it.each([
    [
      'restored without triggers',
      `ALTER TABLE "categories" DISABLE TRIGGER ALL; UPDATE "categories" SET "name" = 'cat';
         ALTER TABLE "categories" ENABLE TRIGGER ALL`,
    ],
    [
      'replaced by another',
      `ALTER TABLE "categories" RENAME TO "former";
         CREATE TABLE "categories" (LIKE "former" INCLUDING ALL);
         INSERT INTO "categories" OVERRIDING SYSTEM VALUE SELECT "id", 'cat' FROM "former"`,
    ],
  ])(
    'reflects a table that was %s after the documented UPDATE, and logs at startup how to fix its trigger',
    async (_how, change) => {
      const { categories: client } = await start();
      await client.create('dog');
      expect(await client.getNames()).toEqual(['dog']);
      await query(change);
      const guide = await readFile(join(import.meta.dirname, '../../../docs/runbook.md'), 'utf8');
      await query(/UPDATE "revisions" .*;/.exec(guide)![0]);
      expect(await client.getNames()).toEqual(['cat']);

      expect(getRepairs()).toEqual([]);
      await start(databases[0]);
      expect(getRepairs()).toHaveLength(1);
      await query(getRepairs()[0]!);
      await start(databases[0]);
      expect(getRepairs()).toHaveLength(1);
      await query(`SET session_replication_role = replica; UPDATE "categories" SET "name" = 'cow'`);
      for (const instance of instances)
        expect(await instance.categories.getNames()).toEqual(['cow']);
    },
  );

  it('reflects changes of a session whose random numbers repeat', async () => {
    const { categories: client } = await start();
    await client.create('dog');
    for (const name of ['cat', 'cow']) {
      await query(`SELECT setseed(0.1); UPDATE "categories" SET "name" = '${name}'`);
      expect(await client.getNames()).toEqual([name]);
    }
  });

  it('reflects what logical replication copies and changes, if the revisions are replicated, too', async () => {
    const publisher = await start();
    const subscriber = await start();
    await publisher.categories.create('dog');
    expect(await subscriber.categories.getNames()).toEqual([]);
    const slot = new URL(databases[0]!.url).pathname.slice(1);
    await query('CREATE PUBLICATION "petstore" FOR TABLE "categories", "revisions"');
    // A subscription to its own server would wait for itself.
    await query(`SELECT pg_create_logical_replication_slot('${slot}', 'pgoutput')`);
    await query('TRUNCATE "revisions"', 1);
    await query(
      `CREATE SUBSCRIPTION "${slot}" CONNECTION '${databases[0]!.url}' PUBLICATION "petstore"
         WITH (create_slot = false)`,
      1,
    );
    for (const change of [
      '',
      `UPDATE "categories" SET "name" = 'cat'`,
      'TRUNCATE "categories" CASCADE',
    ]) {
      await query(change);
      const names = await publisher.categories.getNames();
      const sql = `SELECT 1 WHERE (SELECT string_agg("name", ',') FROM "categories") IS NOT DISTINCT FROM nullif('${names.join()}', '')
          AND NOT EXISTS (SELECT FROM pg_subscription_rel WHERE "srsubstate" <> 'r')`;
      await waitFor(
        () => query(sql, 1),
        (rows) => rows.length > 0,
      );
      expect(await subscriber.categories.getNames()).toEqual(names);
    }
    await query(`DROP SUBSCRIPTION "${slot}"`, 1);
  });
});
