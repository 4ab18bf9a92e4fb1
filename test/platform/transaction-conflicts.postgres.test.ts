import type { Client } from 'pg';
import type { Repository } from 'typeorm';
import { CategoriesModule } from '../../src/modules/categories/categories.module.js';
import { CategoriesService } from '../../src/modules/categories/categories.service.js';
import { CategoryEntity } from '../../src/modules/categories/category.entity.js';
import { ApiKeysService } from '../../src/platform/auth/keys/api-keys.service.js';
import type { IdempotencyKey } from '../../src/platform/idempotency/idempotency-key.decorator.js';
import { transactionOnce } from '../../src/platform/idempotency/idempotency-records.js';
import {
  deleteReturning,
  insertReturning,
  updateReturning,
} from '../../src/platform/database/statements/row-statements.js';
import { createDatabase, startApp, type TestApp, type TestDatabase } from './support/app.js';
import { CageEntity, CagesModule } from './support/cages.module.js';
import { createKey } from './support/fixtures.js';
import { MemoryLogger } from './support/memory-logger.js';
import { connectToPostgres, queryPostgres, waitUntilBlocked } from './support/postgres-client.js';

type Write = (app: TestApp, categories: Repository<CategoryEntity>) => Promise<unknown>;

const create = ({ app }: TestApp, name: string, key?: IdempotencyKey): Promise<unknown> =>
  app.get(CategoriesService).create({ name }, key);

/** Each write of the kit, on a table with a row named `old`, and the names afterwards. */
const WRITES: [string, string[], Write][] = [
  ['a batch', ['old', 'new'], (app) => create(app, 'new')],
  ['a batch with a key', ['old', 'new'], (app) => create(app, 'new', createKey())],
  [
    'transactionOnce',
    ['old', 'new'],
    ({ dataSource }) =>
      transactionOnce(dataSource, createKey(), async (manager) => {
        await manager.insert(CategoryEntity, { name: 'new' });
        return 'inserted';
      }),
  ],
  [
    'insertReturning',
    ['old', 'new'],
    (_app, categories) => insertReturning(categories, { name: 'new', description: null }),
  ],
  [
    'updateReturning',
    ['new'],
    (_app, categories) => updateReturning(categories, { name: 'old' }, { name: 'new' }),
  ],
  ['deleteReturning', [], (_app, categories) => deleteReturning(categories, { name: 'old' })],
];

describe.each(['repeatable read', 'serializable'])(
  'with default_transaction_isolation = %s,',
  (isolation) => {
    let database: TestDatabase;
    let app: TestApp;
    let other: Client;
    let logger: MemoryLogger;
    beforeAll(async () => {
      database = await createDatabase();
      const name = new URL(database.url).pathname.slice(1);
      await queryPostgres(
        database.url,
        `ALTER DATABASE "${name}" SET default_transaction_isolation = '${isolation}'`,
      );
      logger = new MemoryLogger();
      app = await startApp({ database, logger });
      other = await connectToPostgres(database.url);
    });
    afterAll(async () => {
      await other.end();
      await app.stop();
      await database.drop();
    });
    beforeEach(async () => {
      await other.query('DELETE FROM "categories"');
      await other.query(`INSERT INTO "categories" ("name") VALUES ('old')`);
    });

    it.each(WRITES)(
      '%s that conflicts with another transaction is repeated',
      async (_name, names, write) => {
        await other.query('BEGIN');
        await other.query('UPDATE "categories" SET "name" = "name"');
        // It lasts for two seconds only.
        const isBlocked = waitUntilBlocked(database.url, 1);
        const written = write(app, app.dataSource.getRepository(CategoryEntity));
        await isBlocked;
        await other.query('COMMIT');
        await written;
        expect(await app.categories.getNames()).toEqual(names);
      },
    );

    it('a transaction is repeated at most twice, and then fails with 503, which is not an outage', async () => {
      let runs = 0;
      const transaction = app.dataSource.transaction(async (manager) => {
        runs++;
        await manager.find(CategoryEntity);
        await other.query('UPDATE "categories" SET "name" = "name"');
        await manager.update(CategoryEntity, { name: 'old' }, { name: 'new' });
      });
      await expect(transaction).rejects.toMatchObject({ status: 503, code: 'SERVICE_UNAVAILABLE' });
      expect(runs).toBe(3);
      expect(await app.categories.getNames()).toEqual(['old']);
      expect(logger.text).not.toMatch(/Database (connection )?failed/);
    });

    it('the rotation of a key that conflicts with another transaction is logged once', async () => {
      const keys = app.app.get(ApiKeysService);
      const { record } = await keys.create('rotated');
      logger.entries.length = 0;
      await other.query('BEGIN');
      await other.query('UPDATE "api_keys" SET "name" = "name"');
      const rotation = keys.rotate(record.id, 0);
      await waitUntilBlocked(database.url, 1);
      await other.query('COMMIT');
      const { record: created } = (await rotation)!;
      expect(logger.entries.map(({ values }) => values[0])).toEqual([
        `Created API key ${created.id} (rotated)`,
        expect.stringMatching(`^Rotated API key ${record.id} `),
      ]);
    });
  },
);

describe('two transactions that wait for each other', () => {
  let app: TestApp;
  beforeAll(async () => {
    app = await startApp({ features: [CategoriesModule, CagesModule] });
  });
  afterAll(() => app.stop());

  it('both succeed, because one is repeated', async () => {
    const ids = await Promise.all(
      ['a', 'b'].map(async (name) => (await app.categories.create(name)).json<{ id: number }>().id),
    );
    const barrier = Promise.withResolvers<void>();
    let waiting = 0;
    const rename = (name: string, order: number[]): Promise<void> =>
      app.dataSource.transaction(async (manager) => {
        await manager.query(`SET LOCAL deadlock_timeout = '10ms'`);
        const sql = 'SELECT 1 FROM "categories" WHERE "id" = $1 FOR UPDATE';
        await manager.query(sql, [order[0]]);
        if (++waiting === 2) barrier.resolve();
        await barrier.promise;
        await manager.query(sql, [order[1]]);
        await manager.update(CategoryEntity, { id: order[0] }, { description: name });
      });
    await Promise.all([rename('first', ids), rename('second', ids.toReversed())]);
    // On a busy machine they may meet again.
    expect(waiting).toBeGreaterThanOrEqual(3);
    expect((await app.categories.getAll()).map(({ description }) => description)).toEqual([
      'first',
      'second',
    ]);
  });

  /** Inserts a row of its own into both tables, in the same order, and returns how often the transaction ran. */
  const insert = async (position: number): Promise<number> => {
    let runs = 0;
    await app.dataSource.transaction(async (manager) => {
      runs++;
      await manager.query(`SET LOCAL deadlock_timeout = '10ms'`);
      const row = { name: 'x', label: `cage ${position}`, room: 'hall', shelfPosition: position };
      await manager.insert(CategoryEntity, row);
      await manager.insert(CageEntity, row);
    });
    return runs;
  };

  it('do not exist if all insert into two tables in the same order', async () => {
    const positions = Array.from({ length: 20 }, (_, index) => 100 + index);
    const runs = await Promise.all(positions.map((position) => insert(position)));
    expect(new Set(runs)).toEqual(new Set([1]));
  });
});
