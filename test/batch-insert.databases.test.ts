import { Agent } from 'node:http';
import { CategoriesService } from '../src/modules/categories/categories.service.js';
import type { Category, NewCategory } from '../src/modules/categories/category.dto.js';
import { startApp, type TestApp } from './support/app.js';
import { CategoriesClient, type HttpResponse, sendRequest } from './support/http-client.js';
import { matchers } from './support/matchers.js';
import { INSERT_QUERY, recordQueries } from './support/queries.js';

declare const TEST_DATABASE: 'sqlite' | 'postgres';

const { jest } = import.meta;
expect.extend(matchers);

const describeOnSqlite = TEST_DATABASE === 'sqlite' ? describe : describe.skip;
const MAX_ID = Number.MAX_SAFE_INTEGER;
const MAX_BATCH_SIZE = 500;
const CONNECTIONS = 64;

let app: TestApp;
let categories: CategoriesService;
let agent: Agent;
beforeAll(async () => {
  app = await startApp();
  categories = app.app.get(CategoriesService);
  agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
});
beforeEach(async () => {
  await app.dataSource.query('DROP INDEX IF EXISTS "unique_name"');
  await app.dataSource.query('DELETE FROM "categories"');
});
afterEach(() => jest.restoreAllMocks());
afterAll(async () => {
  agent.destroy();
  await app.stop();
});

const post = ({ name, description }: NewCategory): Promise<HttpResponse> =>
  new CategoriesClient(app.url, app.key, agent).create(name, description);

const newCategories = (count: number): NewCategory[] =>
  Array.from({ length: count }, (_, index) => ({
    name: `category ${index}`,
    // Every row is distinguishable, also by a missing or an empty description.
    ...(index % 3 === 0 ? {} : { description: index % 3 === 1 ? '' : `number ${index}` }),
  }));

const withIds = (bodies: readonly NewCategory[], ids: readonly number[]): Category[] =>
  bodies.map((body, index) => Object.assign({ id: ids[index]! }, body));

/** Opens the agent's connections. Node accepts one per event loop turn, so requests on new ones would not arrive together. */
async function openConnections(): Promise<void> {
  const opened = Array.from({ length: CONNECTIONS }, () =>
    sendRequest(`${app.url}/livez`, { agent }),
  );
  await Promise.all(opened);
}

const ascending = (ids: number[]): number[] => ids.toSorted((a, b) => a - b);

/** Makes the database reject any further category with this name. */
async function rejectName(name: string): Promise<void> {
  await app.dataSource.query(`INSERT INTO "categories" ("name") VALUES ('${name}')`);
  await app.dataSource.query(
    `CREATE UNIQUE INDEX "unique_name" ON "categories" ("name") WHERE "name" = '${name}'`,
  );
}

describe('BatchInserter with concurrent create requests', () => {
  it('inserts all rows with one INSERT, in order of arrival', async () => {
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    const bodies = newCategories(40);
    const created = await Promise.all(bodies.map((body) => categories.create(body)));
    expect(inserts).toHaveLength(1);
    expect(created).toHaveLength(40);
    const ids = created.map(({ id }) => id);
    expect(new Set(ids).size).toBe(40);
    expect(ids).toEqual(ascending(ids));
    expect(created).toEqual(withIds(bodies, ids));
    expect(await app.categories.getAll()).toEqual(created);
  });

  it('splits into batches of at most 500 rows', async () => {
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    const bodies = newCategories(2 * MAX_BATCH_SIZE + 1);
    const created = await Promise.all(bodies.map((body) => categories.create(body)));
    expect(inserts.map((sql) => sql.match(/\([^()]*\d[^()]*\)|\(\?[^()]*\)/g)?.length)).toEqual([
      MAX_BATCH_SIZE,
      MAX_BATCH_SIZE,
      1,
    ]);
    const ids = created.map(({ id }) => id);
    expect(new Set(ids).size).toBe(2 * MAX_BATCH_SIZE + 1);
    for (const start of [0, MAX_BATCH_SIZE]) {
      const batch = ids.slice(start, start + MAX_BATCH_SIZE);
      expect(batch).toHaveLength(MAX_BATCH_SIZE);
      expect(batch).toEqual(ascending(batch));
    }
    expect(created).toEqual(withIds(bodies, ids));
    expect(await app.categories.getAll()).toHaveLength(2 * MAX_BATCH_SIZE + 1);
  });

  it('inserts a separate row for each of several identical requests', async () => {
    const created = await Promise.all(
      [1, 2, 3].map(() => categories.create({ name: 'dog', description: 'alike' })),
    );
    expect(new Set(created.map(({ id }) => id)).size).toBe(3);
    expect(await app.categories.getAll()).toEqual(created);
  });

  it('batches HTTP requests, returns distinct ids and lists every row', async () => {
    await openConnections();
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    const bodies = newCategories(200);
    const responses = await Promise.all(bodies.map((body) => post(body)));
    expect(responses.map(({ status }) => status)).toEqual(bodies.map(() => 201));
    const created = responses.map((response) => response.json<Category>());
    const ids = created.map(({ id }) => id);
    expect(new Set(ids).size).toBe(200);
    expect(created).toEqual(withIds(bodies, ids));
    expect(inserts.length).toBeLessThan(50);
    expect(await app.categories.getAll()).toEqual(created.toSorted((a, b) => a.id - b.id));
  });
});

describe('BatchInserter with a single create request', () => {
  it('inserts immediately', async () => {
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    const dog = await categories.create({ name: 'dog' });
    expect(inserts).toHaveLength(1);
    const cat = await categories.create({ name: 'cat', description: '' });
    expect(inserts).toHaveLength(2);
    expect(await app.categories.getAll()).toEqual([
      { id: dog.id, name: 'dog' },
      { id: cat.id, name: 'cat', description: '' },
    ]);
    expect(cat.id).toBeGreaterThan(dog.id);
  });

  it('reports a row that the database rejects, without a retry', async () => {
    await rejectName('duplicate');
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    await expect(categories.create({ name: 'duplicate' })).rejects.toThrow(/unique/i);
    expect(inserts).toHaveLength(1);
    expect((await categories.create({ name: 'dog' })).name).toBe('dog');
  });
});

describe('BatchInserter with a row that the database rejects', () => {
  it.each([
    ['first', 0],
    ['in the middle', 2],
    ['last', 4],
  ])('stores the other rows in order when the rejected row is %s', async (_label, position) => {
    await rejectName('duplicate');
    const names = ['one', 'two', 'three', 'four'];
    const batch = names.toSpliced(position, 0, 'duplicate');
    const results = await Promise.allSettled(batch.map((name) => categories.create({ name })));
    expect(results.map(({ status }) => status)).toEqual(
      batch.map((name) => (name === 'duplicate' ? 'rejected' : 'fulfilled')),
    );
    const created = results.flatMap((result) =>
      result.status === 'fulfilled' ? [result.value] : [],
    );
    expect(created.map(({ name }) => name)).toEqual(names);
    const ids = created.map(({ id }) => id);
    expect(ids).toEqual(ascending(ids));
    expect((await app.categories.getAll()).slice(1)).toEqual(created);
  });

  it('stores the first of two conflicting rows', async () => {
    await app.dataSource.query('CREATE UNIQUE INDEX "unique_name" ON "categories" ("name")');
    const results = await Promise.allSettled(
      ['dog', 'cat', 'dog'].map((name) => categories.create({ name })),
    );
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
    expect(await app.categories.getAll()).toMatchObject([{ name: 'dog' }, { name: 'cat' }]);
  });

  it('returns an error only for that row, without internal details', async () => {
    await rejectName('duplicate');
    await openConnections();
    const responses = await Promise.all(
      ['one', 'duplicate', 'two', 'three'].map((name) => post({ name })),
    );
    expect(responses.map(({ status }) => status)).toEqual([201, 500, 201, 201]);
    expect(responses[1]).toBeError(
      'INTERNAL_ERROR',
      /^(?!.*(unique|constraint|categories|INSERT|duplicate))/i,
    );
    expect(await app.categories.getAll()).toHaveLength(4);
  });
});

describe('BatchInserter when the database fails', () => {
  it('rejects the whole batch without a retry and recovers with the next batch', async () => {
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    await app.dataSource.query('ALTER TABLE "categories" RENAME TO "hidden"');
    const results = await Promise.allSettled(
      ['one', 'two', 'three'].map((name) => categories.create({ name })),
    );
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(inserts).toHaveLength(1);
    expect(await post({ name: 'four' })).toBeError(
      'INTERNAL_ERROR',
      /^(?!.*(categories|table|INSERT|SQL))/i,
    );
    await app.dataSource.query('ALTER TABLE "hidden" RENAME TO "categories"');
    expect(await app.categories.getAll()).toEqual([]);
    expect((await post({ name: 'five' })).status).toBe(201);
    expect(await app.categories.getAll()).toMatchObject([{ name: 'five' }]);
  });
});

// A sequence of PostgreSQL does not follow the ids of rows inserted with an id.
describeOnSqlite('BatchInserter at the maximum id', () => {
  it('stores rows up to the maximum id and rejects the rest of the batch', async () => {
    await app.dataSource.query(
      `INSERT INTO "categories" ("id", "name") VALUES (${MAX_ID - 2}, 'third from the end')`,
    );
    const results = await Promise.allSettled(
      ['second', 'last', 'beyond'].map((name) => categories.create({ name })),
    );
    expect(results).toEqual([
      { status: 'fulfilled', value: { id: MAX_ID - 1, name: 'second' } },
      { status: 'fulfilled', value: { id: MAX_ID, name: 'last' } },
      { status: 'rejected', reason: expect.objectContaining({ message: expect.any(String) }) },
    ]);
    const ids = (await app.categories.getAll()).map(({ id }) => id);
    expect(ids).toEqual([MAX_ID - 2, MAX_ID - 1, MAX_ID]);
    expect(await post({ name: 'beyond' })).toBeError('INTERNAL_ERROR');
  });
});
