import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { CategoriesService } from '../../src/modules/categories/categories.service.js';
import type { Category, NewCategory } from '../../src/modules/categories/category.dto.js';
import { useApp } from './support/app.js';
import { describeOnSqlite } from './support/databases.js';
import { INSERT_QUERY, recordQueries, recordStatements } from './support/queries.js';

const { jest } = import.meta;
const MAX_ID = Number.MAX_SAFE_INTEGER;

const app = useApp();
let categories: CategoriesService;
beforeAll(() => {
  categories = app.app.get(CategoriesService);
});
beforeEach(async () => {
  await app.dataSource.query('DROP INDEX IF EXISTS "unique_name"');
  await app.dataSource.query('DELETE FROM "categories"');
});
afterEach(() => jest.restoreAllMocks());

/** Returns bodies that are all different, also by a missing or an empty description. */
const newCategories = (count: number): NewCategory[] =>
  Array.from({ length: count }, (_, index) => ({
    name: `category ${index}`,
    ...(index % 3 === 0 ? {} : { description: index % 3 === 1 ? '' : `number ${index}` }),
  }));

const ascending = <Row extends { id: number }>(rows: readonly Row[]): Row[] =>
  rows.toSorted((a, b) => a.id - b.id);

/** Checks that each body has become a row of its own, and that the list contains these rows. */
async function expectCreated(created: readonly Category[], bodies: readonly NewCategory[]) {
  expect(created).toEqual(
    bodies.map((body, index) => Object.assign({ id: created[index]!.id }, body)),
  );
  expect(new Set(created.map(({ id }) => id)).size).toBe(bodies.length);
  expect(await app.categories.getAll()).toEqual(ascending(created));
}

/** Makes the database reject any further category with this name. */
async function rejectName(name: string): Promise<void> {
  await app.dataSource.query(`INSERT INTO "categories" ("name") VALUES ('${name}')`);
  await app.dataSource.query(
    `CREATE UNIQUE INDEX "unique_name" ON "categories" ("name") WHERE "name" = '${name}'`,
  );
}

/** Creates categories at once, and returns the outcome of each. */
const createAll = (names: readonly string[]): Promise<PromiseSettledResult<Category>[]> =>
  Promise.allSettled(names.map((name) => categories.create({ name })));

describe('BatchInserter with concurrent create requests', () => {
  it.each([
    ['one INSERT', 40, [40]],
    ['batches of at most 500 rows', 1_001, [500, 500, 1]],
  ])('inserts all rows with %s, in order of arrival', async (_label, count, sizes) => {
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    const bodies = newCategories(count);
    const created = await Promise.all(bodies.map((body) => categories.create(body)));
    expect(inserts.map((sql) => sql.split('), (').length)).toEqual(sizes);
    await expectCreated(created, bodies);
    const first = created.slice(0, sizes[0]);
    expect(first).toEqual(ascending(first));
  });

  it('inserts the rows that arrive while a batch is inserted with the next one', async () => {
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    const locked = Promise.withResolvers<void>();
    const release = Promise.withResolvers<void>();
    const transaction = app.dataSource.transaction(async (manager) => {
      await manager.query('DELETE FROM "categories"');
      locked.resolve();
      await release.promise;
    });
    await locked.promise;
    const created: Promise<Category>[] = [];
    for (const body of newCategories(4)) {
      created.push(categories.create(body));
      await delay(5);
    }
    release.resolve();
    await Promise.all([transaction, ...created]);
    expect(inserts.map((sql) => sql.split('), (').length)).toEqual([1, 3]);
  });
});

describe('BatchInserter with a single create request', () => {
  it('inserts immediately, and reports a row that the database rejects without a retry', async () => {
    await rejectName('duplicate');
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    expect((await categories.create({ name: 'dog' })).name).toBe('dog');
    expect(inserts).toHaveLength(1);
    await expect(categories.create({ name: 'duplicate' })).rejects.toThrow(
      'Another resource has the same name.',
    );
    expect(inserts).toHaveLength(2);
    expect(await app.categories.getNames()).toEqual(['duplicate', 'dog']);
  });
});

describe('BatchInserter with one row in 500 that the database rejects', () => {
  it.each([0, 1, 124, 250, 313, 498, 499])(
    'stores the others with one commit and at most 2·log₂(n) + 1 inserts, and lets other work run: %i',
    async (position) => {
      await rejectName('duplicate');
      const names = Array.from({ length: 499 }, (_, index) => `category ${index}`);
      const batch = names.toSpliced(position, 0, 'duplicate');
      const inserts = recordQueries(app.dataSource, INSERT_QUERY);
      const commits = recordStatements(app.dataSource, /^COMMIT$/);
      const counts: Promise<{ count: number | string }[]>[] = [];
      let isDone = false;
      const countOnEachTurn = (): void => {
        // Only a list of the whole batch, or of none of it, is ever seen.
        counts.push(app.dataSource.query('SELECT count(*) AS "count" FROM "categories"'));
        if (!isDone && counts.length < 20) setImmediate(countOnEachTurn);
      };
      const created = createAll(batch).finally(() => (isDone = true));
      setImmediate(countOnEachTurn);
      expect((await created).map(({ status }) => status)).toEqual(
        batch.map((name) => (name === 'duplicate' ? 'rejected' : 'fulfilled')),
      );
      expect(inserts.length).toBeLessThanOrEqual(2 * Math.log2(500) + 1);
      expect(counts.length).toBeGreaterThanOrEqual(inserts.length - 1);
      expect(commits).toHaveLength(1);
      const seen = (await Promise.all(counts)).map(([row]) => Number(row!.count));
      expect(seen.filter((count) => count !== 1 && count !== 500)).toEqual([]);
      expect(await app.categories.getNames()).toEqual(['duplicate', ...names]);
    },
  );
});

describe('BatchInserter while it divides a rejected batch', () => {
  it('gathers the rows that arrive in one batch', async () => {
    await rejectName('duplicate');
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    const first = createAll(['duplicate', ...newCategories(63).map(({ name }) => name)]);
    const later: Promise<Category>[] = [];
    while (later.length < 5) {
      await nextTurn();
      if (inserts.length > 1) later.push(categories.create({ name: `later ${later.length}` }));
    }
    await Promise.all([first, ...later]);
    expect(inserts.at(-1)!.split('), (')).toHaveLength(later.length);
  });
});

describe('BatchInserter when the deadline passes', () => {
  it('rolls back the whole batch, whose requests get 503', async () => {
    await rejectName('duplicate');
    const query = app.dataSource.query.bind(app.dataSource);
    let inserts = 0;
    jest.spyOn(app.dataSource, 'query').mockImplementation(async (sql, ...rest) => {
      // Neither the rejected attempt nor the transaction after it takes as long as it may; the second holds locks.
      if (INSERT_QUERY.test(sql) && [1, 3].includes(++inserts)) await delay(1_300);
      return query(sql, ...rest);
    });
    const results = await createAll(['one', 'two', 'three', 'duplicate', 'five']);
    expect(results).toEqual(
      results.map(() => ({
        status: 'rejected',
        reason: expect.objectContaining({
          code: 'SERVICE_UNAVAILABLE',
          message: expect.stringMatching(/may have taken effect/),
        }),
      })),
    );
    // Waits until the transaction has ended.
    await app.dataSource.query('DROP INDEX "unique_name"');
    expect(await app.categories.getNames()).toEqual(['duplicate']);
    expect(inserts).toBeLessThan(4);
  });

  it('says that the rows may have been stored if the statement that stores them was sent', async () => {
    const query = app.dataSource.query.bind(app.dataSource);
    const sent: Promise<unknown>[] = [];
    jest.spyOn(app.dataSource, 'query').mockImplementation(async (sql, ...rest) => {
      const result = query(sql, ...rest);
      if (INSERT_QUERY.test(sql)) {
        sent.push(result);
        await delay(2_500);
      }
      return result;
    });
    expect(await createAll(['one'])).toMatchObject([
      { reason: { message: expect.stringMatching(/Idempotency-Key/) as string } },
    ]);
    await Promise.all(sent);
    expect(await app.categories.getNames()).toEqual(['one']);
  });
});

describe('BatchInserter when the database fails', () => {
  it('rejects the whole batch without a retry and recovers with the next batch', async () => {
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    await app.dataSource.query('ALTER TABLE "categories" RENAME TO "hidden"');
    const results = await createAll(['one', 'two', 'three']);
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(inserts).toHaveLength(1);
    expect(await app.categories.create('four')).toBeError(
      'INTERNAL_ERROR',
      /^(?!.*(categories|table|INSERT|SQL))/i,
    );
    await app.dataSource.query('ALTER TABLE "hidden" RENAME TO "categories"');
    expect((await app.categories.create('five')).status).toBe(201);
    expect(await app.categories.getNames()).toEqual(['five']);
  });
});

// A sequence of PostgreSQL does not follow the ids of rows inserted with an id.
describeOnSqlite('BatchInserter at the maximum id', () => {
  it('stores rows up to the maximum id and rejects the rest of the batch', async () => {
    await app.dataSource.query(
      `INSERT INTO "categories" ("id", "name") VALUES (${MAX_ID - 2}, 'third from the end')`,
    );
    expect(await createAll(['second', 'last', 'beyond'])).toEqual([
      { status: 'fulfilled', value: { id: MAX_ID - 1, name: 'second' } },
      { status: 'fulfilled', value: { id: MAX_ID, name: 'last' } },
      { status: 'rejected', reason: expect.any(Error) },
    ]);
    const ids = (await app.categories.getAll()).map(({ id }) => id);
    expect(ids).toEqual([MAX_ID - 2, MAX_ID - 1, MAX_ID]);
  });
});
