import { randomUUID } from 'node:crypto';
import { CategoriesService } from '../../../src/modules/categories/categories.service.js';
import { IdempotencyRecord } from '../../../src/platform/idempotency/idempotency-record.entity.js';
import { toRecord } from '../../../src/platform/idempotency/idempotency-records.js';
import { createDatabase, startApp, type TestApp, useApp } from '../support/app.js';
import { DATABASE, describeOnPostgres } from '../support/databases.js';
import { createKey } from '../support/fixtures.js';
import { queryPostgres } from '../support/postgres-client.js';

const { jest } = import.meta;
const TABLE = '"categories"';

const app = useApp();
let cleanUp: string[];
beforeEach(async () => {
  cleanUp = [];
  await app.dataSource.query(`DELETE FROM ${TABLE}`);
});
afterEach(async () => {
  jest.restoreAllMocks();
  for (const statement of cleanUp) await app.dataSource.query(statement);
});

/** Makes the database execute a statement, or one of PL/pgSQL, for each row named `bad`. */
async function onBad(body: string, timing = 'BEFORE INSERT'): Promise<void> {
  if (DATABASE === 'sqlite') {
    await app.dataSource.query(
      `CREATE TRIGGER "refuse" ${timing} ON ${TABLE} WHEN NEW."name" = 'bad' BEGIN ${body}; END`,
    );
    cleanUp.push('DROP TRIGGER "refuse"');
    return;
  }
  await app.dataSource.query(
    `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
     BEGIN IF NEW."name" = 'bad' THEN ${body}; END IF; RETURN NEW; END $$`,
  );
  const isDeferred = timing.startsWith('AFTER');
  await app.dataSource.query(
    `CREATE ${isDeferred ? 'CONSTRAINT' : ''} TRIGGER "refuse" ${timing} ON ${TABLE}
     ${isDeferred ? 'DEFERRABLE INITIALLY DEFERRED' : ''} FOR EACH ROW EXECUTE FUNCTION refuse()`,
  );
  cleanUp.push(`DROP TRIGGER "refuse" ON ${TABLE}`, 'DROP FUNCTION refuse()');
}

/** Creates categories in one batch, and returns what became of them. */
async function createBatch(names: readonly string[], keyed: boolean, own: TestApp) {
  const service = own.app.get(CategoriesService);
  const countRecords = () => own.dataSource.manager.count(IdempotencyRecord);
  const former = await countRecords();
  const results = await Promise.allSettled(
    names.map((name) => service.create({ name }, keyed ? createKey() : undefined)),
  );
  const created = results.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
  return {
    refused: names.filter((_name, index) => results[index]!.status === 'rejected'),
    created: created.toSorted((a, b) => a.id - b.id),
    stored: await own.categories.getAll(),
    records: (await countRecords()) - former,
  };
}

/** Checks that only the rows named `bad` were refused, and that each client got its own row. */
async function expectOnlyBadRefused(names: readonly string[], keyed: boolean, own = app) {
  const good = names.filter((name) => name !== 'bad');
  const { refused, created, stored, records } = await createBatch(names, keyed, own);
  expect(refused).toEqual(names.filter((name) => name === 'bad'));
  expect(created.map(({ name }) => name).toSorted()).toEqual(good.toSorted());
  expect(stored).toEqual(created);
  expect(records).toBe(keyed ? good.length : 0);
}

const BATCH = Array.from({ length: 12 }, (_, index) => (index % 5 === 2 ? 'bad' : `${index}`));

/** What refuses a row, and how. */
type Refusal = [string, [body: string, timing?: string]];
const REFUSALS: Refusal[] =
  DATABASE === 'sqlite'
    ? [
        ...['ABORT', 'FAIL', 'ROLLBACK'].flatMap((action): Refusal[] => [
          [`RAISE(${action})`, [`SELECT RAISE(${action}, 'bad')`]],
          [`RAISE(${action}) after it`, [`SELECT RAISE(${action}, 'bad')`, 'AFTER INSERT']],
        ]),
        ['RAISE(IGNORE), which drops it', ['SELECT RAISE(IGNORE)']],
        ['a constraint at COMMIT', ['INSERT INTO "marks" VALUES (9000000)']],
      ]
    : [
        ['an exception', [`RAISE EXCEPTION 'bad'`]],
        ['an error of class 54', [`RAISE EXCEPTION USING ERRCODE = '54000'`]],
        ['an error of class 44', [`RAISE EXCEPTION USING ERRCODE = '44000'`]],
        ['an error of class 38', [`RAISE EXCEPTION USING ERRCODE = '38000'`]],
        ['a failed assertion', ['ASSERT FALSE']],
        ['a trigger that drops it', ['RETURN NULL']],
        ['a constraint at COMMIT', [`RAISE EXCEPTION 'bad'`, 'AFTER INSERT']],
      ];

describe('a row that the database refuses', () => {
  beforeAll(async () => {
    // An operator adds the triggers beside the running service.
    await app.categories.create('before');
    if (DATABASE === 'sqlite')
      await app.dataSource.query(
        'CREATE TABLE "marks" ("id" INTEGER PRIMARY KEY REFERENCES "categories" DEFERRABLE INITIALLY DEFERRED)',
      );
  });

  // oxlint-disable-next-line jest/expect-expect -- `expectOnlyBadRefused` asserts
  it.each(REFUSALS)(
    'stores nothing, and fails no other row of its batch, by %s',
    async (_name, [body, timing]) => {
      await onBad(body, timing);
      for (const keyed of [false, true]) {
        await expectOnlyBadRefused(BATCH, keyed);
        await app.dataSource.query(`DELETE FROM ${TABLE}`);
        await expectOnlyBadRefused(['bad'], keyed);
      }
    },
  );

  it('returns the response that another instance stored with its key after the look-up', async () => {
    await onBad(DATABASE === 'sqlite' ? `SELECT RAISE(ABORT, 'bad')` : `RAISE EXCEPTION 'bad'`);
    const [key, response] = [createKey(), { id: 7, name: 'of another instance' }];
    const query = app.dataSource.query.bind(app.dataSource);
    const spy = jest.spyOn(app.dataSource, 'query').mockImplementation(async (sql, ...rest) => {
      const result: unknown = await query(sql, ...rest);
      if (!sql.includes('FROM "idempotency_records"')) return result;
      // After the look-up that follows the rejected batch.
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

  it('creates its row if the record of its key is deleted before the look-up', async () => {
    const service = app.app.get(CategoriesService);
    const { value } = createKey();
    const first = await service.create({ name: 'first' }, createKey(value));
    const query = app.dataSource.query.bind(app.dataSource);
    const spy = jest.spyOn(app.dataSource, 'query').mockImplementation(async (sql, ...rest) => {
      if (sql.includes('FROM "idempotency_records"')) {
        spy.mockRestore();
        await query('UPDATE "idempotency_records" SET "created_at" = 0');
        await query('DELETE FROM "idempotency_records"');
      }
      return query(sql, ...rest);
    });
    const second = await service.create({ name: 'second' }, createKey(value, 'another request'));
    expect(await app.categories.getAll()).toEqual([first, second]);
  });

  describeOnPostgres('by a policy', () => {
    it('fails no other row of its batch, and causes no outage alone', async () => {
      const role = `role_${randomUUID().replaceAll('-', '')}`;
      const database = await createDatabase(DATABASE);
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
      await expectOnlyBadRefused(BATCH, true, restricted);
      expect(await restricted.categories.create('bad')).toBeError('INTERNAL_ERROR');
      await restricted.stop();
      await database.drop();
      await queryPostgres(process.env['TEST_DATABASE_URL']!, `DROP ROLE ${role}`);
    });
  });
});
