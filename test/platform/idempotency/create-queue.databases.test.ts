import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { QueryFailedError } from 'typeorm';
import { CategoriesService } from '../../../src/modules/categories/categories.service.js';
import type { Category, NewCategory } from '../../../src/modules/categories/category.dto.js';
import { CategoryEntity } from '../../../src/modules/categories/category.entity.js';
import { ResourceKit } from '../../../src/platform/resource/resource-kit.js';
import { IdempotencyRecord } from '../../../src/platform/idempotency/idempotency-record.entity.js';
import { toRecord } from '../../../src/platform/idempotency/idempotency-records.js';
import { createDatabase, startApp, type TestApp, useApp } from '../support/app.js';
import { DATABASE, describeOnPostgres, describeOnSqlite } from '../support/databases.js';
import { createKey } from '../support/fixtures.js';
import { queryPostgres } from '../support/postgres-client.js';
import { INSERT_QUERY } from '../support/queries.js';

const { jest } = import.meta;
const MAX_ID = Number.MAX_SAFE_INTEGER;
const TABLE = '"categories"';

const app = useApp();
let categories: CategoriesService;
/** Statements that remove what a test added to the schema. */
let cleanUp: string[];
beforeAll(() => {
  categories = app.app.get(CategoriesService);
});
beforeEach(async () => {
  cleanUp = [];
  await app.dataSource.query('DROP INDEX IF EXISTS "unique_name"');
  await app.dataSource.query('DELETE FROM "categories"');
});
afterEach(async () => {
  jest.restoreAllMocks();
  for (const statement of cleanUp) await app.dataSource.query(statement);
});

/** Returns bodies that are all different, also by a missing or an empty description. */
const newCategories = (count: number): NewCategory[] =>
  Array.from({ length: count }, (_, index) => ({
    name: `category ${index}`,
    ...(index % 3 === 0 ? {} : { description: index % 3 === 1 ? '' : `number ${index}` }),
  }));

const ascending = <Row extends { id: number }>(rows: readonly Row[]): Row[] =>
  rows.toSorted((a, b) => a.id - b.id);

/** Makes the database reject any further category with this name. */
async function rejectName(name: string): Promise<void> {
  await app.dataSource.query(`INSERT INTO "categories" ("name") VALUES ('${name}')`);
  await app.dataSource.query(
    `CREATE UNIQUE INDEX "unique_name" ON "categories" ("name") WHERE "name" = '${name}'`,
  );
}

/** Creates categories at once, and returns the outcome of each. */
const createAll = (
  names: readonly string[],
  isKeyed = false,
  service = categories,
): Promise<PromiseSettledResult<Category>[]> =>
  Promise.allSettled(
    names.map((name) => service.create({ name }, isKeyed ? createKey() : undefined)),
  );

/** Delays the statements that insert rows. */
function delayInserts(milliseconds: number): void {
  const query = app.dataSource.query.bind(app.dataSource);
  jest.spyOn(app.dataSource, 'query').mockImplementation(async (sql, ...rest) => {
    const result: unknown = await query(sql, ...rest);
    if (INSERT_QUERY.test(sql)) await delay(milliseconds);
    return result;
  });
}

const createKeys = (count: number) => Array.from({ length: count }, () => createKey());
const repeat = (keys: ReturnType<typeof createKeys>) => keys.map(({ value }) => createKey(value));
const create = (keys: ReturnType<typeof createKeys>): Promise<Category[]> =>
  Promise.all(keys.map((key) => categories.create({ name: key.value }, key)));

describe('concurrent create requests', () => {
  it('create one row each, in the order in which they arrive', async () => {
    const bodies = newCategories(401);
    const created = await Promise.all(bodies.map((body) => categories.create(body)));
    expect(created).toEqual(bodies.map((body, n) => Object.assign({ id: created[n]!.id }, body)));
    expect(created).toEqual(ascending(created));
    expect(await app.categories.getAll()).toEqual(created);
  });
});

describe('a batch with a row that the database rejects', () => {
  it.each([
    [0, false],
    [100, true],
    [199, false],
  ])('stores the others: row %i of 200, with keys: %s', async (position, isKeyed) => {
    await rejectName('duplicate');
    const names = newCategories(199).map(({ name }) => name);
    const batch = names.toSpliced(position, 0, 'duplicate');
    const created = await createAll(batch, isKeyed);
    expect(created.map(({ status }) => status)).toEqual(
      batch.map((name) => (name === 'duplicate' ? 'rejected' : 'fulfilled')),
    );
    expect((await app.categories.getNames()).toSorted()).toEqual(
      ['duplicate', ...names].toSorted(),
    );
  });

  it.each([false, true])(
    'stores the others, if one cannot be converted to a response, with keys: %s',
    async (isKeyed) => {
      const repository = app.dataSource.getRepository(CategoryEntity);
      const resource = app.app.get(ResourceKit).resource(repository, {
        toBody: ({ name }) => new URL(name).host,
      });
      const created = await Promise.allSettled(
        ['http://a', 'b', 'http://c'].map((name) =>
          resource.create({ name }, isKeyed ? createKey() : undefined),
        ),
      );
      expect(created).toMatchObject([{ value: 'a' }, { status: 'rejected' }, { value: 'c' }]);
      expect(await app.categories.getNames()).toEqual(['http://a', 'http://c']);
    },
  );

  it('stores the others, although each statement takes long', async () => {
    await rejectName('duplicate');
    delayInserts(30);
    const names = newCategories(100).map(({ name }) => name);
    const [duplicate, ...others] = await createAll(['duplicate', ...names]);
    expect(duplicate!.status).toBe('rejected');
    expect(others.map(({ status }) => status)).toEqual(names.map(() => 'fulfilled'));
  });

  it.each([false, true])(
    'never makes other clients wait until their deadline, with keys: %s',
    async (isKeyed) => {
      await rejectName('duplicate');
      const end = performance.now() + 3_000;
      const refused: unknown[] = [];
      const createOften = async (
        name: string,
        onError: (error: unknown) => void,
      ): Promise<void> => {
        while (performance.now() < end)
          await categories.create({ name }, isKeyed ? createKey() : undefined).catch(onError);
      };
      const clients = Array.from({ length: 320 }, (_, index) =>
        index % 16 === 0
          ? createOften('valid', (error) => refused.push(error))
          : createOften('duplicate', () => undefined),
      );
      await Promise.all(clients);
      expect(refused).toEqual([]);
    },
  );
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

/** Checks that only the rows named `bad` were refused, and that each client got its own row. */
async function expectOnlyBadRefused(names: readonly string[], keyed: boolean, own = app) {
  const good = names.filter((name) => name !== 'bad');
  const countRecords = () => own.dataSource.manager.count(IdempotencyRecord);
  const former = await countRecords();
  const results = await createAll(names, keyed, own.app.get(CategoriesService));
  const created = results.flatMap((each) => (each.status === 'fulfilled' ? each.value : []));
  expect(created.map(({ name }) => name)).toEqual(good);
  expect(await own.categories.getAll()).toEqual(ascending(created));
  expect((await countRecords()) - former).toBe(keyed ? good.length : 0);
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
        ...'54000 44000 38000 42501 40001 57014 25006 08006'
          .split(' ')
          .map((code): Refusal => [`error ${code}`, [`RAISE EXCEPTION USING ERRCODE = '${code}'`]]),
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

  it('lets others of its batch get the response that another instance stored after the look-up of keys', async () => {
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
    const bad = categories.create({ name: 'bad' }, createKey());
    await expect(categories.create({ name: 'good' }, key)).resolves.toEqual(response);
    await expect(bad).rejects.toThrow('bad');
    expect(await app.categories.getNames()).toEqual([]);
  });

  it('creates its row if the record of its key is deleted before the look-up', async () => {
    const { value } = createKey();
    const first = await categories.create({ name: 'first' }, createKey(value));
    const query = app.dataSource.query.bind(app.dataSource);
    const spy = jest.spyOn(app.dataSource, 'query').mockImplementation(async (sql, ...rest) => {
      if (sql.includes('FROM "idempotency_records"')) {
        spy.mockRestore();
        await query('UPDATE "idempotency_records" SET "created_at" = 0');
        await query('DELETE FROM "idempotency_records"');
      }
      return query(sql, ...rest);
    });
    const second = await categories.create({ name: 'second' }, createKey(value, 'another request'));
    expect(await app.categories.getAll()).toEqual([first, second]);
  });

  it('is refused if its record violates another constraint than that of its key', async () => {
    await app.dataSource.query(
      `CREATE UNIQUE INDEX "one" ON "idempotency_records" ("fingerprint") WHERE "fingerprint" = 'one'`,
    );
    cleanUp.push('DROP INDEX "one"');
    await categories.create({ name: 'first' }, createKey(undefined, 'one'));
    await expect(
      categories.create({ name: 'second' }, createKey(undefined, 'one')),
    ).rejects.toMatchObject({ code: 'ALREADY_EXISTS' });
    expect(await app.categories.getNames()).toEqual(['first']);
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

describe('a batch whose deadline passes', () => {
  describeOnSqlite('before its COMMIT', () => {
    it('stores nothing if no client waits for any of its rows', async () => {
      // The rows wait for a transaction, and have 800 ms left for their own.
      const transaction = app.dataSource.transaction(() => delay(1_500));
      const created = createAll(['one', 'two']);
      delayInserts(1_000);
      await transaction;
      expect(await created).toMatchObject(
        [1, 2].map(() => ({ reason: { code: 'SERVICE_UNAVAILABLE' } })),
      );
      // Waits until the transaction has ended.
      await app.dataSource.transaction(async () => undefined);
      expect(await app.categories.getNames()).toEqual([]);
    });
  });

  describeOnPostgres('after the statement that stores its rows', () => {
    it('reports that they may have been stored', async () => {
      delayInserts(2_500);
      expect(await createAll(['one'])).toMatchObject([
        { reason: { message: expect.stringMatching(/Idempotency-Key/) as string } },
      ]);
      expect(await app.categories.getNames()).toEqual(['one']);
    });
  });
});

describe('a batch during a failure of the database', () => {
  it('rejects each of its rows, and stores those of the next batch', async () => {
    await app.dataSource.query('ALTER TABLE "categories" RENAME TO "hidden"');
    const results = await createAll(['one', 'two', 'three']);
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect(await app.categories.create('four')).toBeError(
      'INTERNAL_ERROR',
      /^(?!.*(categories|table|INSERT|SQL))/i,
    );
    await app.dataSource.query('ALTER TABLE "hidden" RENAME TO "categories"');
    expect((await app.categories.create('five')).status).toBe(201);
    expect(await app.categories.getNames()).toEqual(['five']);
  });
});

describe('a batch that fails with an error that is not of the database', () => {
  const names = ['one', 'two', 'three'];

  it.each([
    ['Received unexpected commandComplete message from backend.', false],
    ['Received unexpected commandComplete message from backend.', true],
    [`Cannot read properties of null (reading 'rows')`, false],
    [`Cannot read properties of null (reading 'rows')`, true],
  ])('stores no row twice: %s, with keys: %s', async (message, isKeyed) => {
    const query = app.dataSource.query.bind(app.dataSource);
    let failures = 0;
    jest.spyOn(app.dataSource, 'query').mockImplementation(async (sql, ...rest) => {
      const result: unknown = await query(sql, ...rest);
      if (!INSERT_QUERY.test(sql) || failures++ > 0) return result;
      throw new QueryFailedError(sql, [], new Error(message));
    });
    const outcomes = await createAll(names, isKeyed);
    const stored = await app.categories.getNames();
    const created = names.filter((_name, index) => outcomes[index]!.status === 'fulfilled');
    expect(stored).toEqual(expect.arrayContaining(created));
    expect(stored).toHaveLength(new Set(stored).size);
  });

  it('stores no row again if the code fails after the commit', async () => {
    const repository = app.dataSource.getRepository(CategoryEntity);
    let failures = 0;
    const resource = app.app.get(ResourceKit).resource(repository, {
      toBody: ({ id, name }) => {
        // Only PostgreSQL commits before there are ids.
        if (DATABASE === 'postgres' && id > 0 && failures++ === 0) throw new Error('once');
        return name;
      },
    });
    await Promise.allSettled(names.map((name) => resource.create({ name })));
    expect(await app.categories.getNames()).toEqual(names);
  });

  it.each([false, true])(
    'stores no row again if a subscriber fails after the commit, with keys: %s',
    async (isKeyed) => {
      const afterTransactionCommit = jest.fn().mockRejectedValueOnce(new Error('once'));
      app.dataSource.subscribers.push({ afterTransactionCommit });
      await createAll(names, isKeyed);
      app.dataSource.subscribers.pop();
      expect(await app.categories.getNames()).toEqual(names);
    },
  );
});

describe('repeated create requests', () => {
  it('return their recorded responses in one batch with new requests', async () => {
    const keys = createKeys(100);
    const first = await create(keys);
    for (let storm = 0; storm < 3; storm++) {
      const [repeated, fresh] = [repeat(keys), createKeys(5)];
      const created = await create([...repeated.slice(50), ...fresh, ...repeated.slice(0, 50)]);
      expect([...created.slice(55), ...created.slice(0, 50)]).toEqual(first);
      expect(repeated.every(({ replays }) => replays === 1)).toBe(true);
      expect(fresh.some(({ replays }) => replays > 0)).toBe(false);
      expect(new Set(created.slice(50, 55).map(({ name }) => name)).size).toBe(5);
    }
  });

  it('create one category if they share a key, also beside a different request with it', async () => {
    const { value } = createKey();
    const keys = Array.from({ length: 100 }, () => createKey(value));
    const [created, other] = await Promise.all([
      create(keys),
      categories.create({ name: 'other' }, createKey(value, 'another request')).catch(String),
    ]);
    expect(new Set(created.map(({ id }) => id)).size).toBe(1);
    expect(keys.filter(({ replays }) => replays === 1)).toHaveLength(99);
    expect(other).toContain('used for a different request');
    expect(await app.categories.getNames()).toEqual([value]);
  });

  it('return the first response beside a rejected row, although their row violates a constraint', async () => {
    await rejectName('duplicate');
    await app.dataSource.query(
      `CREATE UNIQUE INDEX "unique_copy" ON "categories" ("name") WHERE "name" = 'copied'`,
    );
    const { value } = createKey();
    const [bad, ...copies] = await Promise.allSettled([
      categories.create({ name: 'duplicate' }, createKey()),
      ...Array.from({ length: 3 }, () => categories.create({ name: 'copied' }, createKey(value))),
    ]);
    await app.dataSource.query('DROP INDEX "unique_copy"');
    expect(bad.status).toBe('rejected');
    const [first] = copies;
    expect(first!.status).toBe('fulfilled');
    expect(copies).toEqual([first, first, first]);
  });

  it('replay, reject or create by their keys on two instances at once', async () => {
    const other =
      DATABASE === 'postgres' ? await startApp({ database: { config: app.config.database } }) : app;
    const stored = createKeys(150);
    const first = await create(stored);
    const fresh = createKeys(200);
    const send = (instance: TestApp) => {
      const service = instance.app.get(CategoriesService);
      const keys = [
        ...repeat(stored),
        ...stored.map(({ value }) => createKey(value, 'another request')),
        ...repeat(fresh),
      ];
      // In another order.
      const positions = keys.map((_key, index) => (index * 7) % keys.length);
      const results = Promise.allSettled(
        positions.map((n) => service.create({ name: keys[n]!.value }, keys[n])),
      );
      return results.then((all) => positions.map((_n, index) => all[positions.indexOf(index)]!));
    };
    const [ours, theirs] = await Promise.all([send(app), send(other)]);
    for (const results of [ours, theirs]) {
      expect(results.slice(0, 150)).toMatchObject(first.map(({ id }) => ({ value: { id } })));
      expect(results.slice(150, 300)).toMatchObject(
        stored.map(() => ({ reason: { code: 'IDEMPOTENCY_KEY_REUSED' } })),
      );
    }
    expect(ours.slice(300)).toEqual(theirs.slice(300));
    const names = await app.categories.getNames();
    expect(new Set(names).size).toBe(names.length);
    if (other !== app) await other.stop();
  });

  it('create a category if the first one with the key was rejected', async () => {
    await rejectName('duplicate');
    const { value } = createKey();
    const [first, second] = await Promise.allSettled(
      ['duplicate', 'good'].map((name) => categories.create({ name }, createKey(value, name))),
    );
    expect([first?.status, second]).toMatchObject(['rejected', { value: { name: 'good' } }]);
  });
});

// A sequence of PostgreSQL does not follow the ids of rows inserted with an id.
describeOnSqlite('a batch at the maximum id', () => {
  it('stores rows up to it, and rejects the one beyond', async () => {
    await app.dataSource.query(
      `INSERT INTO "categories" ("id", "name") VALUES (${MAX_ID - 2}, 'third from the end')`,
    );
    expect(await createAll(['second', 'last', 'beyond'])).toEqual([
      { status: 'fulfilled', value: { id: MAX_ID - 1, name: 'second' } },
      { status: 'fulfilled', value: { id: MAX_ID, name: 'last' } },
      { status: 'rejected', reason: expect.any(Error) },
    ]);
  });
});
