import { randomUUID } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { CategoriesService } from '../../src/modules/categories/categories.service.js';
import { IdempotencyRecord } from '../../src/platform/idempotency/idempotency-record.entity.js';
import { toRecord } from '../../src/platform/idempotency/idempotency-records.js';
import { createDatabase, startApp, type TestApp, useApp } from './support/app.js';
import {
  DATABASE,
  describeOnPostgres,
  describeOnSqlite,
  ISOLATION_LEVELS,
} from './support/databases.js';
import { createKey } from './support/fixtures.js';
import { queryPostgres } from './support/postgres-client.js';
import { INSERT_QUERY, recordQueries, recordStatements } from './support/queries.js';

const { jest } = import.meta;
let app: TestApp;
const TABLE = '"categories"';
let cleanUp: string[];
beforeEach(async () => {
  cleanUp = [];
  await app.dataSource.query(`DELETE FROM ${TABLE}`);
});
afterEach(async () => {
  jest.restoreAllMocks();
  for (const statement of cleanUp) await app.dataSource.query(statement);
});

/** Makes the database refuse rows named `bad`. */
async function refuse(body: string, timing = 'BEFORE'): Promise<void> {
  if (DATABASE === 'sqlite') {
    await app.dataSource.query(
      `CREATE TRIGGER "refuse" ${timing} INSERT ON ${TABLE} WHEN NEW."name" = 'bad' BEGIN ${body}; END`,
    );
    cleanUp.push('DROP TRIGGER "refuse"');
    return;
  }
  await app.dataSource.query(
    `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
     BEGIN IF NEW."name" = 'bad' THEN ${body}; END IF; RETURN NEW; END $$`,
  );
  await app.dataSource.query(
    `CREATE TRIGGER "refuse" ${timing} INSERT ON ${TABLE} FOR EACH ROW EXECUTE FUNCTION refuse()`,
  );
  cleanUp.push(`DROP TRIGGER "refuse" ON ${TABLE}`, 'DROP FUNCTION refuse()');
}

/** Creates twelve categories in one batch, and returns the names of those that were refused, and of those stored. */
async function createBatch(isKeyed: boolean, { app: own, categories } = app): Promise<object> {
  const names = Array.from({ length: 12 }, (_, index) => (index % 5 === 2 ? 'bad' : `${index}`));
  const service = own.get(CategoriesService);
  const results = await Promise.allSettled(
    names.map((name) => service.create({ name }, isKeyed ? createKey() : undefined)),
  );
  const refused = names.filter((_name, index) => results[index]!.status === 'rejected');
  return { refused, stored: (await categories.getNames()).toSorted() };
}

const ONLY_BAD_REFUSED = {
  refused: ['bad', 'bad'],
  stored: ['0', '1', '10', '11', '3', '4', '5', '6', '8', '9'],
};

const RAISE = DATABASE === 'sqlite' ? `SELECT RAISE(ABORT, 'bad')` : `RAISE EXCEPTION 'bad'`;

const KEYS = [
  ['without keys', false],
  ['with keys', true],
] as const;

describe.each(ISOLATION_LEVELS)('with the isolation level %s', (isolation) => {
  const own = useApp({ isolation });
  beforeAll(() => {
    app = own;
  });

  it('repeats the response of another instance that commits the key while a batch is divided', async () => {
    await refuse(RAISE);
    const [key, response] = [createKey(), { id: 7, name: 'of another instance' }];
    const query = app.dataSource.query.bind(app.dataSource);
    const spy = jest.spyOn(app.dataSource, 'query').mockImplementation(async (sql, ...rest) => {
      const result: unknown = await query(sql, ...rest);
      if (!sql.includes('FROM "idempotency_records"')) return result;
      // After the look-up that finds why the batch was rejected.
      spy.mockRestore();
      await app.dataSource.manager.insert(IdempotencyRecord, toRecord(key, response));
      return result;
    });
    const service = app.app.get(CategoriesService);
    const bad = service.create({ name: 'bad' }, createKey());
    await expect(service.create({ name: 'good' }, key)).resolves.toEqual(response);
    await expect(bad).rejects.toThrow('bad');
    expect(await app.categories.getNames()).toEqual([]);
  });

  it('delays new rows by few statements, however many are refused', async () => {
    await refuse(RAISE);
    const service = app.app.get(CategoriesService);
    const inserts = recordQueries(app.dataSource, INSERT_QUERY);
    const refused = Promise.allSettled(
      Array.from({ length: 100 }, () => service.create({ name: 'bad' })),
    );
    while (inserts.length < 2) await nextTurn();
    await service.create({ name: 'good' });
    expect(inserts.length).toBeLessThan(60);
    await refused;
  });

  describeOnPostgres('a row that PostgreSQL refuses', () => {
    it.each(
      [
        ['a trigger that raises an exception', `RAISE EXCEPTION 'bad'`],
        ['an error of class 54', `RAISE EXCEPTION USING ERRCODE = '54000'`],
        ['an error of class 44', `RAISE EXCEPTION USING ERRCODE = '44000'`],
        ['an error of class 38', `RAISE EXCEPTION USING ERRCODE = '38000'`],
        ['a failed assertion', 'ASSERT FALSE'],
      ].flatMap(([name, body]) =>
        KEYS.map(([label, isKeyed]) => [name, label, body!, isKeyed] as const),
      ),
    )('by %s fails no other row of its batch, %s', async (_name, _label, body, isKeyed) => {
      await refuse(body);
      expect(await createBatch(isKeyed)).toEqual(ONLY_BAD_REFUSED);
    });

    it.each(KEYS)('at COMMIT fails no other row of its batch, %s', async (_label, isKeyed) => {
      await app.dataSource.query(
        `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN IF NEW."name" = 'bad' THEN RAISE EXCEPTION 'bad'; END IF; RETURN NULL; END $$`,
      );
      await app.dataSource.query(
        `CREATE CONSTRAINT TRIGGER "refuse" AFTER INSERT ON ${TABLE} DEFERRABLE INITIALLY DEFERRED
       FOR EACH ROW EXECUTE FUNCTION refuse()`,
      );
      cleanUp.push(`DROP TRIGGER "refuse" ON ${TABLE}`, 'DROP FUNCTION refuse()');
      const commits = recordStatements(app.dataSource, /^COMMIT$/);
      expect(await createBatch(isKeyed)).toEqual(ONLY_BAD_REFUSED);
      expect(commits.length).toBeLessThanOrEqual(2);
    });

    it.each(KEYS)('by a policy fails no other row of its batch, %s', async (_label, isKeyed) => {
      const role = `role_${randomUUID().replaceAll('-', '')}`;
      const database = await createDatabase(DATABASE, isolation);
      await queryPostgres(database.url, `CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
      await queryPostgres(database.url, `GRANT ALL ON SCHEMA public TO ${role}`);
      const { href } = Object.assign(new URL(database.url), { username: role, password: 'secret' });
      const restricted = await startApp({
        database: { ...database, config: { type: 'postgres', url: href } },
      });
      await restricted.dataSource.query(`ALTER TABLE ${TABLE} ENABLE ROW LEVEL SECURITY`);
      await restricted.dataSource.query(`ALTER TABLE ${TABLE} FORCE ROW LEVEL SECURITY`);
      await restricted.dataSource.query(
        `CREATE POLICY "no_bad" ON ${TABLE} USING (TRUE) WITH CHECK ("name" <> 'bad')`,
      );
      expect(await createBatch(isKeyed, restricted)).toEqual(ONLY_BAD_REFUSED);
      // One alone is not an outage, either.
      expect(await restricted.categories.create('bad')).toBeError('INTERNAL_ERROR');
      await restricted.stop();
      await database.drop();
      await queryPostgres(
        app.config.database.type === 'postgres' ? app.config.database.url : '',
        `DROP ROLE ${role}`,
      );
    });
  });

  describeOnSqlite('a row that SQLite refuses', () => {
    it.each(
      (['ABORT', 'FAIL'] as const).flatMap((action) =>
        (['BEFORE', 'AFTER'] as const).flatMap((timing) =>
          KEYS.map(([label, isKeyed]) => [action, timing, label, isKeyed] as const),
        ),
      ),
    )(
      'with RAISE(%s) %s the INSERT fails no other row, and stores nothing, %s',
      async (action, timing, _label, isKeyed) => {
        await refuse(`SELECT RAISE(${action}, 'bad')`, timing);
        expect(await createBatch(isKeyed)).toEqual(ONLY_BAD_REFUSED);
      },
    );

    it('alone, with RAISE(FAIL) after the INSERT, stores nothing', async () => {
      const fresh = await startApp();
      await fresh.dataSource.query(
        `CREATE TRIGGER "refuse" AFTER INSERT ON ${TABLE} BEGIN SELECT RAISE(FAIL, 'bad'); END`,
      );
      expect(await fresh.categories.create('bad')).toBeError('INTERNAL_ERROR');
      expect(await fresh.categories.getNames()).toEqual([]);
      await fresh.stop();
    });

    it.each(KEYS)('at COMMIT fails no other row of its batch, %s', async (_label, isKeyed) => {
      await app.dataSource.query(
        'CREATE TABLE "marks" ("id" INTEGER PRIMARY KEY REFERENCES "categories" DEFERRABLE INITIALLY DEFERRED)',
      );
      cleanUp.push('DROP TABLE "marks"');
      await refuse('INSERT INTO "marks" VALUES (9000000)');
      expect(await createBatch(isKeyed)).toEqual(ONLY_BAD_REFUSED);
    });
  });
});
