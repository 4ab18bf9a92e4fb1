import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import { CategoryEntity } from '../../../src/modules/categories/category.entity.js';
import { TransactionConflictError } from '../../../src/platform/database/connection/driver-errors.js';
import { createDatabase, startApp, useApp } from '../support/app.js';
import { CageEntity, CagesModule } from '../support/cages.module.js';
import { MemoryLogger } from '../support/memory-logger.js';
import { connectToPostgres, queryPostgres, waitUntilBlocked } from '../support/postgres-client.js';

describe('a database with a setting that would break promises', () => {
  it.each([
    [
      'default_transaction_isolation',
      'repeatable read',
      /isolation level .* is repeatable read: set default_transaction_isolation .* 'read committed'/,
    ],
    // A commit that no synchronous standby has confirmed is reported as a warning.
    ['client_min_messages', 'error', /sends no warnings: set client_min_messages .* 'warning'/],
  ])('fails startup with what to set: %s = %s', async (setting, value, message) => {
    const database = await createDatabase();
    const name = new URL(database.url).pathname.slice(1);
    const alter = (change: string) =>
      queryPostgres(database.url, `ALTER DATABASE "${name}" ${change}`);
    await alter(`SET ${setting} = '${value}'`);
    await expect(startApp({ database })).rejects.toThrow(message);
    await alter(`RESET ${setting}`);
    await (await startApp({ database })).stop();
    await database.drop();
  });
});

describe('a transaction that conflicts with others again and again', () => {
  const logger = new MemoryLogger();
  const app = useApp({ logger });

  it('repeats at most twice, and then returns 503 without an outage', async () => {
    await app.categories.create('old');
    let runs = 0;
    const transaction = app.dataSource.transaction('REPEATABLE READ', async (manager) => {
      runs++;
      await manager.find(CategoryEntity);
      await app.dataSource.query('UPDATE "categories" SET "name" = "name"');
      await manager.update(CategoryEntity, { name: 'old' }, { name: 'new' });
    });
    await expect(transaction).rejects.toMatchObject({ status: 503, code: 'SERVICE_UNAVAILABLE' });
    expect(runs).toBe(3);
    expect(await app.categories.getNames()).toEqual(['old']);
    expect(logger.text).not.toMatch(/Database (connection )?failed/);
  });
});

describe('a lock that is not available in the lock_timeout of the role', () => {
  it('returns 503, and stores the row once it is', async () => {
    const database = await createDatabase();
    const name = new URL(database.url).pathname.slice(1);
    await queryPostgres(database.url, `ALTER DATABASE "${name}" SET lock_timeout = '50ms'`);
    const app = await startApp({ database });
    const other = await connectToPostgres(database.url);
    await other.query('BEGIN; LOCK TABLE "categories" IN EXCLUSIVE MODE');
    expect(await app.categories.create('locked')).toBeError('SERVICE_UNAVAILABLE');
    await other.query('ROLLBACK');
    await other.end();
    expect((await app.categories.create('free')).status).toBe(201);
    expect(await app.categories.getNames()).toEqual(['free']);
    await app.stop();
    await database.drop();
  });
});

describe('two transactions that wait for each other', () => {
  const app = useApp({ features: [CategoriesModule, CagesModule] });

  it('succeed both, because one is repeated', async () => {
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

  it('succeed if one is a single statement, which is repeated', async () => {
    await app.dataSource.query('DELETE FROM "categories"');
    const ids = await Promise.all(
      ['a', 'b'].map(async (name) => (await app.categories.create(name)).json<{ id: number }>().id),
    );
    const { url } = app.config.database as { url: string };
    const other = await connectToPostgres(url);
    // Only the statement looks for the deadlock, after a second.
    await other.query(`BEGIN; SET LOCAL deadlock_timeout = '10s'`);
    const lock = (id: number | undefined) =>
      other.query(`SELECT 1 FROM "categories" WHERE "id" = ${id} FOR UPDATE`);
    await lock(ids[1]);
    const errors: unknown[] = [];
    app.dataSource.onError((error) => errors.push(error));
    const update = app.dataSource.query('UPDATE "categories" SET "name" = "name" || $1', ['!']);
    await waitUntilBlocked(url, 1);
    await lock(ids[0]);
    await other.query('COMMIT');
    await update;
    await other.end();
    expect(errors).toEqual([expect.any(TransactionConflictError)]);
    expect(await app.categories.getNames()).toEqual(['a!', 'b!']);
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

  it('never wait for each other if all insert into two tables in the same order', async () => {
    const positions = Array.from({ length: 20 }, (_, index) => 100 + index);
    const runs = await Promise.all(positions.map((position) => insert(position)));
    expect(new Set(runs)).toEqual(new Set([1]));
  });
});
