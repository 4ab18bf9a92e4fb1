import { Agent } from 'node:http';
import type { Category, NewCategory } from '../src/modules/categories/category.dto.js';
import { CategoriesService } from '../src/modules/categories/categories.service.js';
import { startApp, type TestApp } from './support/app.js';
import { type HttpResponse, sendRequest, jsonHeaders } from './support/http-client.js';
import { INSERT_QUERY, recordQueries } from './support/queries.js';

const { jest } = import.meta;

const GROUP_LIMIT = 500;
const CONNECTIONS = 64;

let app: TestApp;
let categories: CategoriesService;
let agent: Agent;
beforeEach(async () => {
  app = await startApp();
  categories = app.app.get(CategoriesService);
  agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
});
afterEach(async () => {
  jest.restoreAllMocks();
  agent.destroy();
  await app.stop();
});

const post = (body: NewCategory): Promise<HttpResponse> =>
  sendRequest(`${app.url}/v1/categories`, {
    method: 'POST',
    headers: jsonHeaders(app.key),
    body: JSON.stringify(body),
    agent,
  });

const named = (count: number): NewCategory[] =>
  Array.from({ length: count }, (_, index) => ({
    name: `category ${index}`,
    // Each row is to be told apart, also by what it lacks.
    ...(index % 3 === 0 ? {} : { description: index % 3 === 1 ? '' : `number ${index}` }),
  }));

const withIds = (bodies: readonly NewCategory[], ids: readonly number[]): Category[] =>
  bodies.map((body, index) => Object.assign({ id: ids[index]! }, body));

/** Connections are accepted one a turn of the event loop, so those that are to send together are opened before. */
async function openConnections(): Promise<void> {
  const opened = Array.from({ length: CONNECTIONS }, () =>
    sendRequest(`${app.url}/livez`, { agent }),
  );
  await Promise.all(opened);
}

async function stored(): Promise<unknown[]> {
  const { body } = await app.http().get('/v1/categories').auth(app.key, { type: 'bearer' });
  return body as unknown[];
}

const ascending = (ids: number[]): number[] => ids.toSorted((a, b) => a - b);

/** From now on the database refuses a category of that name, as it does of any name given twice. */
async function refuseName(name: string): Promise<void> {
  await app.dataSource.query(`INSERT INTO "categories" ("name") VALUES ('${name}')`);
  await app.dataSource.query(
    `CREATE UNIQUE INDEX "refused_name" ON "categories" ("name") WHERE "name" = '${name}'`,
  );
}

describe('Creates that come together', () => {
  it('become one INSERT, in which each gets its own row in the order of arrival', async () => {
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    const bodies = named(40);
    const created = await Promise.all(bodies.map((body) => categories.create(body)));
    expect(inserts).toHaveLength(1);
    expect(created).toHaveLength(40);
    const ids = created.map(({ id }) => id);
    expect(new Set(ids).size).toBe(40);
    expect(ids).toEqual(ascending(ids));
    expect(created).toEqual(withIds(bodies, ids));
    expect(await stored()).toEqual(created);
  });

  it('become groups of at most 500', async () => {
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    const bodies = named(2 * GROUP_LIMIT + 1);
    const created = await Promise.all(bodies.map((body) => categories.create(body)));
    expect(inserts.map((sql) => sql.match(/\([^()]*\d[^()]*\)|\(\?[^()]*\)/g)?.length)).toEqual([
      GROUP_LIMIT,
      GROUP_LIMIT,
      1,
    ]);
    const ids = created.map(({ id }) => id);
    expect(new Set(ids).size).toBe(2 * GROUP_LIMIT + 1);
    for (const start of [0, GROUP_LIMIT]) {
      const group = ids.slice(start, start + GROUP_LIMIT);
      expect(group).toHaveLength(GROUP_LIMIT);
      expect(group).toEqual(ascending(group));
    }
    expect(created).toEqual(withIds(bodies, ids));
    expect(await stored()).toHaveLength(2 * GROUP_LIMIT + 1);
  });

  it('are each a row of their own, also where they are alike', async () => {
    const created = await Promise.all(
      [1, 2, 3].map(() => categories.create({ name: 'dog', description: 'alike' })),
    );
    expect(new Set(created.map(({ id }) => id)).size).toBe(3);
    expect(await stored()).toEqual(created);
  });

  it('over HTTP all get distinct ids and are in the list, after few INSERTs', async () => {
    // Connections are accepted one a turn of the event loop, so they are opened before.
    const opened = Array.from({ length: CONNECTIONS }, () =>
      sendRequest(`${app.url}/livez`, { agent }),
    );
    await Promise.all(opened);
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    const bodies = named(200);
    const answers = await Promise.all(bodies.map((body) => post(body)));
    expect(answers.map(({ status }) => status)).toEqual(bodies.map(() => 201));
    const created = answers.map(({ body }) => JSON.parse(body.toString()) as { id: number });
    const ids = created.map(({ id }) => id);
    expect(new Set(ids).size).toBe(200);
    expect(created).toEqual(withIds(bodies, ids));
    expect(inserts.length).toBeLessThan(50);
    expect(await stored()).toEqual(created.toSorted((a, b) => a.id - b.id));
  });
});

describe('A create that comes alone', () => {
  it('waits for nobody', async () => {
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    const dog = await categories.create({ name: 'dog' });
    expect(inserts).toHaveLength(1);
    const cat = await categories.create({ name: 'cat', description: '' });
    expect(inserts).toHaveLength(2);
    expect(await stored()).toEqual([
      { id: dog.id, name: 'dog' },
      { id: cat.id, name: 'cat', description: '' },
    ]);
    expect(cat.id).toBeGreaterThan(dog.id);
  });

  it('that the database refuses fails alone, after one try', async () => {
    await refuseName('refused');
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    await expect(categories.create({ name: 'refused' })).rejects.toThrow(/unique/i);
    expect(inserts).toHaveLength(1);
    expect((await categories.create({ name: 'dog' })).name).toBe('dog');
  });
});

describe('A group with a row that the database refuses', () => {
  it.each([
    ['first', 0],
    ['in the middle', 2],
    ['last', 4],
  ])('stores the others in their order: %s', async (_where, position) => {
    await refuseName('refused');
    const names = ['one', 'two', 'three', 'four'];
    const group = names.toSpliced(position, 0, 'refused');
    const results = await Promise.allSettled(group.map((name) => categories.create({ name })));
    expect(results.map(({ status }) => status)).toEqual(
      group.map((name) => (name === 'refused' ? 'rejected' : 'fulfilled')),
    );
    const created = results.flatMap((result) =>
      result.status === 'fulfilled' ? [result.value] : [],
    );
    expect(created.map(({ name }) => name)).toEqual(names);
    const ids = created.map(({ id }) => id);
    expect(ids).toEqual(ascending(ids));
    expect((await stored()).slice(1)).toEqual(created);
  });

  it('stores the first of two that exclude each other', async () => {
    await app.dataSource.query('CREATE UNIQUE INDEX "names" ON "categories" ("name")');
    const results = await Promise.allSettled(
      ['dog', 'cat', 'dog'].map((name) => categories.create({ name })),
    );
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
    expect(await stored()).toMatchObject([{ name: 'dog' }, { name: 'cat' }]);
  });

  it('answers that one alone with an error, which gives nothing of the inside away', async () => {
    await refuseName('refused');
    await openConnections();
    const answers = await Promise.all(
      ['one', 'refused', 'two', 'three'].map((name) => post({ name })),
    );
    expect(answers.map(({ status }) => status)).toEqual([201, 500, 201, 201]);
    expect(JSON.parse(answers[1]!.body.toString())).toEqual({
      code: 'INTERNAL_ERROR',
      message: expect.not.stringMatching(/unique|constraint|categories|INSERT|refused/i),
      status: 500,
    });
    expect(await stored()).toHaveLength(4);
  });
});

describe('A group that fails because the database does', () => {
  it('fails as a whole, with no second try, and the next one recovers', async () => {
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    await app.dataSource.query('ALTER TABLE "categories" RENAME TO "hidden"');
    const results = await Promise.allSettled(
      ['one', 'two', 'three'].map((name) => categories.create({ name })),
    );
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(inserts).toHaveLength(1);
    const answer = await post({ name: 'four' });
    expect(answer.status).toBe(500);
    expect(JSON.parse(answer.body.toString())).toEqual({
      code: 'INTERNAL_ERROR',
      message: expect.not.stringMatching(/categories|table|INSERT|SQL/i),
      status: 500,
    });
    await app.dataSource.query('ALTER TABLE "hidden" RENAME TO "categories"');
    expect(await stored()).toEqual([]);
    expect((await post({ name: 'five' })).status).toBe(201);
    expect(await stored()).toMatchObject([{ name: 'five' }]);
  });
});
