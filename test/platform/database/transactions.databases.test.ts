import { setTimeout as delay } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { Client } from 'pg';
import type { EntityManager } from 'typeorm';
import { CategoryEntity } from '../../../src/modules/categories/category.entity.js';
import { CategoriesService } from '../../../src/modules/categories/categories.service.js';
import { DatabaseUnavailableError } from '../../../src/platform/database/connection/driver-errors.js';
import type {
  ServiceDataSource,
  ServiceQueryRunner,
} from '../../../src/platform/database/connection/service-data-source.js';
import { useApp } from '../support/app.js';
import { createKey } from '../support/fixtures.js';
import { DATABASE, describeOnPostgres, describeOnSqlite } from '../support/databases.js';

const { jest } = import.meta;
afterEach(() => jest.restoreAllMocks());

const app = useApp();
let dataSource: ServiceDataSource;
beforeEach(async () => {
  ({ dataSource } = app);
  await dataSource.query(`DELETE FROM "categories"`);
});

/** The message if nothing was stored. */
const UNAVAILABLE = 'Service temporarily unavailable. Please retry later.';

/** Inserts a pair of rows, with a pause between them in which other requests run. */
async function insertPair(manager: EntityManager, name: string): Promise<void> {
  await manager.insert(CategoryEntity, { name: `${name} a` });
  await delay(1);
  await manager.insert(CategoryEntity, { name: `${name} b` });
}

describe('DataSource.transaction', () => {
  it('stores all rows or none, while other transactions and batched creates run', async () => {
    const numbers = Array.from({ length: 16 }, (_, index) => index);
    const creates = Promise.all(numbers.map((number) => app.categories.create(`single ${number}`)));
    const transact = async (number: number): Promise<string> => {
      const outcome = await dataSource
        .transaction(async (manager) => {
          await insertPair(manager, `pair ${number}`);
          if (number % 4 === 0) throw new Error('rejected by the caller');
        })
        .then(
          () => 'committed',
          ({ message }: Error) => message,
        );
      // On a busy machine, it may wait too long for one of the ten connections.
      return outcome === UNAVAILABLE ? transact(number) : outcome;
    };
    const outcomes = await Promise.all(numbers.map(transact));
    expect((await creates).map(({ status }) => status)).toEqual(numbers.map(() => 201));
    expect(outcomes).toEqual(
      numbers.map((number) => (number % 4 === 0 ? 'rejected by the caller' : 'committed')),
    );
    const names = await app.categories.getNames();
    const committed = numbers.filter((number) => number % 4 !== 0);
    expect(names.toSorted()).toEqual(
      [
        ...numbers.map((number) => `single ${number}`),
        ...committed.flatMap((number) => [`pair ${number} a`, `pair ${number} b`]),
      ].toSorted(),
    );
  });

  it('hides its rows from others before it commits', async () => {
    let others: Promise<number> | undefined;
    const transaction = dataSource.transaction(async (manager) => {
      await manager.insert(CategoryEntity, { name: 'uncommitted' });
      expect(await manager.count(CategoryEntity)).toBe(1);
      others = dataSource.getRepository(CategoryEntity).count();
      await delay(50);
      throw new Error('rolled back');
    });
    await expect(transaction).rejects.toThrow('rolled back');
    expect(await others).toBe(0);
    expect(await app.categories.getNames()).toEqual([]);
  });

  it('rolls back to a savepoint', async () => {
    await dataSource.transaction(async (manager) => {
      await insertPair(manager, 'outer');
      const inner = manager.transaction(async (nested) => {
        await insertPair(nested, 'inner');
        throw new Error('only the inner one');
      });
      await expect(inner).rejects.toThrow('only the inner one');
    });
    expect(await app.categories.getNames()).toEqual(['outer a', 'outer b']);
  });

  it('rolls back what is done at once in a savepoint', async () => {
    await dataSource.transaction(async (manager) => {
      const undone = manager.transaction(async (savepoint) => {
        await Promise.all(['a', 'b'].map((name) => savepoint.insert(CategoryEntity, { name })));
        throw new Error('undone');
      });
      await expect(undone).rejects.toThrow('undone');
    });
    expect(await app.categories.getNames()).toEqual([]);
  });

  it('is rolled back if its query runner is released before its end', async () => {
    const queryRunner = dataSource.createQueryRunner();
    await queryRunner.startTransaction();
    await queryRunner.manager.insert(CategoryEntity, { name: 'open' });
    await queryRunner.release();
    await dataSource.transaction((manager) => manager.insert(CategoryEntity, { name: 'next' }));
    expect(await app.categories.getNames()).toEqual(['next']);
  });

  it('rejects if it cannot be committed, because an error was caught', async () => {
    const transaction = dataSource.transaction(async (manager) => {
      await manager.insert(CategoryEntity, { name: 'caught' });
      await manager.query('SELECT "name" FROM "nothing"').catch(() => undefined);
    });
    const isCommitted = await transaction.then(
      () => true,
      () => false,
    );
    expect(isCommitted).toBe(DATABASE === 'sqlite');
    expect(await app.categories.getNames()).toEqual(isCommitted ? ['caught'] : []);
  });

  it('rolls back with an error if it takes too long, while others continue', async () => {
    const queryRunner = dataSource.createQueryRunner();
    const inserted = Promise.withResolvers<void>();
    const results = await Promise.allSettled([
      dataSource.transaction(async (manager) => {
        await manager.insert(CategoryEntity, { name: 'late' });
        inserted.resolve();
        await delay(2_500);
        // The transaction is over: this must not be stored outside of it.
        await manager.insert(CategoryEntity, { name: 'later' });
      }),
      // Begun on a query runner that is not released.
      (async () => {
        // The first of them makes the other wait.
        await inserted.promise;
        await queryRunner.startTransaction();
        await queryRunner.manager.insert(CategoryEntity, { name: 'late' });
        await delay(2_500);
        await queryRunner.manager.insert(CategoryEntity, { name: 'later' });
      })(),
    ]);
    const [{ reason }] = results as [PromiseRejectedResult, unknown];
    expect(reason).toMatchObject({
      cause: {
        message: expect.stringMatching(/took longer than 2000 ms.*than its manager/) as string,
      },
    });
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect((await app.categories.create('after')).status).toBe(201);
    expect(await app.categories.getNames()).toEqual(['after']);
    await queryRunner.release();
  });

  it('fails instead of hanging if it waits for a statement outside of it', async () => {
    const repository = dataSource.getRepository(CategoryEntity);
    const outcome = dataSource.transaction(async (manager) => {
      await manager.insert(CategoryEntity, { name: 'inside' });
      await repository.update({ name: 'inside' }, { name: 'outside' });
    });
    await expect(outcome).rejects.toThrow(DatabaseUnavailableError);
    expect((await app.categories.create('after')).status).toBe(201);
  });
});

/** Terminates the connection of a transaction, and waits until pg notices it, between two statements. */
async function disconnect({ queryRunner }: EntityManager): Promise<void> {
  const client = (await queryRunner!.connect()) as Client;
  const closed = new Promise((resolve) => void client.once('end', resolve));
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS "pid"');
  await dataSource.query('SELECT pg_terminate_backend($1)', [rows[0]!.pid]);
  await closed;
}

describeOnPostgres('DataSource.transaction on PostgreSQL', () => {
  it('stores nothing if its START is cancelled, whatever comes first', async () => {
    // oxlint-disable-next-line unbound-method -- called with the client below
    const { query } = Client.prototype;
    const cancel = 'SELECT pg_cancel_backend(pg_backend_pid())';
    const spy = jest.spyOn(Client.prototype, 'query').mockImplementation(function (
      this: Client,
      ...[text, ...rest]: any[]
    ) {
      const sent: unknown = String(text).startsWith('START') ? cancel : text;
      return query.apply(this, [sent, ...rest] as never);
    });
    const insert = `INSERT INTO "categories" ("name") VALUES ('alone')`;
    const kinds: ((manager: EntityManager) => Promise<unknown>)[] = [
      (manager) => manager.query(insert),
      ({ queryRunner }) => (queryRunner as ServiceQueryRunner).queryWithNext(insert, []),
      (manager) => manager.transaction((savepoint) => savepoint.query(insert)),
      (manager) => Promise.all([manager.query(insert), manager.query(insert)]),
      async (manager) => {
        await manager.query(insert).catch(() => undefined);
        await manager.query(insert);
      },
    ];
    for (const kind of kinds)
      await expect(dataSource.transaction(kind)).rejects.toThrow(UNAVAILABLE);
    const runner = dataSource.createQueryRunner();
    await runner.startTransaction();
    await expect(runner.query(insert)).rejects.toThrow(UNAVAILABLE);
    await runner.rollbackTransaction();
    await runner.query('SELECT 1');
    await runner.release();
    const categories = app.app.get(CategoriesService);
    const creates = ['a', 'b'].map((name) => categories.create({ name }, createKey()));
    for (const create of creates) await expect(create).rejects.toThrow(UNAVAILABLE);
    spy.mockRestore();
    expect(await app.categories.getNames()).toEqual([]);
  });

  it('returns no connection to the pool that is still in it, because its ROLLBACK was cancelled', async () => {
    const outcome = dataSource.transaction(async (manager) => {
      const runner = manager.queryRunner!;
      const query = runner.query.bind(runner);
      jest
        .spyOn(runner, 'query')
        .mockImplementation(async (text, ...rest): Promise<any> =>
          query(text === 'ROLLBACK' ? 'SELECT 1 / 0' : text, ...rest),
        );
      await manager.query('SELECT 1');
      throw new Error('undone');
    });
    await expect(outcome).rejects.toThrow(/undone|division/);
    for (let n = 0; n < 10; n++) expect((await app.categories.create('next')).status).toBe(201);
  });

  it.each([
    ['a statement', (manager: EntityManager) => manager.query('SELECT 1')],
    ['a savepoint', (manager: EntityManager) => manager.transaction(async () => undefined)],
    ['the COMMIT', () => Promise.resolve()],
  ])('rejects %s after the connection was lost as an outage', async (_name, proceed) => {
    const outcome = dataSource.transaction(async (manager) => {
      await disconnect(manager);
      await proceed(manager);
    });
    await expect(outcome).rejects.toThrow(DatabaseUnavailableError);
    await expect(outcome).rejects.toThrow(/Please retry later\.$/);
  });
});

describeOnSqlite('DataSource.transaction on SQLite', () => {
  it('stores nothing after SQLite has rolled it back by itself', async () => {
    await dataSource.query(`CREATE TRIGGER "roll_back" BEFORE INSERT ON "categories"
      WHEN NEW."name" = 'bad' BEGIN SELECT RAISE(ROLLBACK, 'bad'); END`);
    const transaction = dataSource.transaction(async (manager) => {
      await insertPair(manager, 'before');
      await manager
        .transaction((inner) => inner.insert(CategoryEntity, { name: 'bad' }))
        .catch(() => undefined);
      await insertPair(manager, 'after');
    });
    const other = app.categories.create('other');
    await expect(transaction).rejects.toThrow('bad');
    expect((await other).status).toBe(201);
    expect(await app.categories.getNames()).toEqual(['other']);
  });

  it('rejects a create at its deadline instead of storing it later', async () => {
    const delays = [1_300, 1_300];
    const transactions = Promise.all(
      delays.map((milliseconds) => dataSource.transaction(() => delay(milliseconds))),
    );
    const late = app.app.get(CategoriesService).create({ name: 'late' });
    await expect(late).rejects.toThrow(DatabaseUnavailableError);
    await transactions;
    expect((await app.categories.create('after')).status).toBe(201);
    expect(await app.categories.getNames()).toEqual(['after']);
  });

  it('waits for the write lock of another process', async () => {
    const other = new Database(dataSource.options.database as string);
    other.exec('BEGIN IMMEDIATE');
    const transaction = dataSource.transaction((manager) => insertPair(manager, 'patient'));
    // Reads do not wait.
    expect(await app.categories.getNames()).toEqual([]);
    other.exec('COMMIT');
    other.close();
    await transaction;
    expect(await app.categories.getNames()).toEqual(['patient a', 'patient b']);
  });
});
