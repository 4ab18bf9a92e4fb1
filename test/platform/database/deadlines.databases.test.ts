import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { QueryRunner } from 'typeorm';
import { CategoryEntity } from '../../../src/modules/categories/category.entity.js';
import { CategoriesService } from '../../../src/modules/categories/categories.service.js';
import { ApiKeyVerifier } from '../../../src/platform/auth/api-key-verifier.js';
import { ApiKeysService } from '../../../src/platform/auth/keys/api-keys.service.js';
import { DatabaseStartup } from '../../../src/platform/database/connection/database-startup.js';
import { Deadline, withDeadline } from '../../../src/platform/database/connection/deadline.js';
import { DatabaseUnavailableError } from '../../../src/platform/database/connection/driver-errors.js';
import { PgQueryRunner } from '../../../src/platform/database/connection/postgres.js';
import { SqliteQueryRunner } from '../../../src/platform/database/connection/sqlite.js';
import type { IdempotencyKey } from '../../../src/platform/idempotency/idempotency-key.decorator.js';
import { transactionOnce } from '../../../src/platform/idempotency/idempotency-records.js';
import { requestContext } from '../../../src/platform/logging/logger.js';
import { CreateQueue } from '../../../src/platform/idempotency/create-queue.js';
import { ResourceKit } from '../../../src/platform/resource/resource-kit.js';
import { useApp } from '../support/app.js';
import { advanceTime } from '../support/clock.js';
import { DATABASE } from '../support/databases.js';
import { createKey } from '../support/fixtures.js';

const { jest } = import.meta;

/** Delays each statement that contains a text. */
function delayStatements(milliseconds: number, text = ''): void {
  const { prototype } = DATABASE === 'postgres' ? PgQueryRunner : SqliteQueryRunner;
  // oxlint-disable-next-line typescript/unbound-method -- called on each runner
  const { query } = prototype;
  jest.spyOn(prototype, 'query').mockImplementation(async function (this: QueryRunner, ...args) {
    if (args[0].includes(text)) await delay(milliseconds);
    return query.apply(this as never, args);
  });
}

/** Handles a request that may wait for the database a little longer. */
const handle = <T>(databaseTimeLeft: number, work: () => Promise<T>, headersSent = false) =>
  requestContext.run({ id: 'a', databaseTimeLeft, res: { headersSent } }, work);

describe('withDeadline', () => {
  const app = useApp();
  afterEach(() => jest.restoreAllMocks());

  const create = (key?: IdempotencyKey) =>
    app.app.get(CategoriesService).create({ name: 'dog' }, key);

  /** One that no look-up has found yet. */
  let key: string;

  const insert = () =>
    transactionOnce(app.dataSource, createKey(), (manager) =>
      manager.insert(CategoryEntity, { name: 'dog' }),
    );

  const exists = (name: string) => app.dataSource.getRepository(CategoryEntity).existsBy({ name });

  it('limits the time in which a request waits for the database, and no other time', async () => {
    let now = Date.now();
    const pass = (milliseconds: number) => advanceTime((now += milliseconds));
    const wait = async () => {
      const work = Promise.withResolvers<void>();
      const waiting = [withDeadline(work.promise), withDeadline(work.promise)];
      pass(1_500);
      work.resolve();
      await Promise.all(waiting);
    };
    const times: number[] = [];
    pass(0);
    await requestContext.run({ id: 'a' }, async () => {
      for (const work of [wait, wait, async () => pass(1_000), wait]) {
        times.push(new Deadline().remaining);
        await work();
      }
      times.push(new Deadline().remaining);
    });
    expect(times.map(Math.round)).toEqual([2_300, 2_300, 1_000, 1_000, 0]);
  });

  it('leaves to a request the least time of operations that overlap', () => {
    requestContext.run({ id: 'a' }, () => {
      const now = Date.now();
      const deadlines = [0, 1_000].map((pause) => {
        advanceTime(now + pause);
        return new Deadline();
      });
      advanceTime(now + 2_000);
      for (const deadline of deadlines) deadline.saveTimeLeft();
      expect(new Deadline().remaining).toBeCloseTo(2_000);
    });
  });

  it.each<[string, number, () => Promise<unknown>]>([
    // On PostgreSQL, the revision takes the first 300 ms.
    ['a list', DATABASE === 'sqlite' ? 200 : 450, () => app.app.get(CategoriesService).list()],
    ['a batch', 200, () => create()],
    ['a batch with keys', 200, () => create(createKey())],
    ['the look-up of a key', 200, async () => app.app.get(ApiKeyVerifier).verify(key, {})],
  ])(
    'costs the others nothing that share %s with a request whose time is over',
    async (_what, timeLeft, work) => {
      const names = Array.from({ length: 2_500 }, () => `('dog')`);
      await app.dataSource.query(`INSERT INTO "categories" ("name") VALUES ${names.join(', ')}`);
      ({ key } = await app.app.get(ApiKeysService).create('shared'));
      delayStatements(300);
      const [first, ...others] = [
        handle(timeLeft, work),
        ...Array.from({ length: 199 }, () => requestContext.run({ id: 'b' }, work)),
      ];
      await expect(first).rejects.toThrow(DatabaseUnavailableError);
      await expect(Promise.all(others)).resolves.toHaveLength(199);
    },
  );

  it.each([false, true])(
    'says that a row may be stored after its deadline if others wait for its batch, with keys: %s',
    async (isKeyed) => {
      delayStatements(300);
      const service = app.app.get(CategoriesService);
      const name = `late ${isKeyed}`;
      const add = () => service.create({ name }, isKeyed ? createKey() : undefined);
      const [late, other] = [handle(200, add), service.create({ name: 'other' })];
      await expect(late).rejects.toThrow(/may have taken effect/);
      await other;
      jest.restoreAllMocks();
      expect(await exists(name)).toBe(true);
    },
  );

  it('stores no row whose deadline has passed while the keys of its rejected batch were looked up', async () => {
    delayStatements(300, 'FROM "idempotency_records"');
    const service = app.app.get(CategoriesService);
    const { value } = createKey();
    await service.create({ name: 'first' }, createKey(value));
    const late = handle(200, () => service.create({ name: 'too late' }));
    const others = [createKey(value), createKey()].map((each) =>
      service.create({ name: 'other' }, each),
    );
    await expect(late).rejects.toThrow(/Please retry later/);
    await Promise.allSettled(others);
    expect(await exists('too late')).toBe(false);
  });

  it('rejects a row whose deadline passes just before its batch, and inserts the others', async () => {
    const kit = app.app.get(ResourceKit);
    const queue = new CreateQueue(
      app.dataSource.getRepository(CategoryEntity),
      ({ id }) => id,
      kit.metrics,
    );
    const insertion = queue.add({ name: 'late' });
    // A timer may be a little early.
    queue['waiting'][0]!.deadline.expire();
    await expect(queue.add({ name: 'other' })).resolves.toBeGreaterThan(0);
    await expect(insertion).rejects.toThrow(DatabaseUnavailableError);
    expect(await app.categories.getNames()).not.toContain('late');
  });

  it('passes only after what arrived while the event loop was blocked was read', async () => {
    const outcome = handle(50, () => withDeadline(stat('.')));
    const end = performance.now() + 300;
    while (performance.now() < end);
    await expect(outcome).resolves.toBeDefined();
  });

  it('says a transaction with an Idempotency-Key may have taken effect, without looking for its record', async () => {
    delayStatements(1_500, 'COMMIT');
    await expect(handle(1_000, insert)).rejects.toThrow(/may have taken effect/);
  });

  it('limits neither the checks of the database nor what continues after its response', async () => {
    const connection = app.app.get(DatabaseStartup);
    await expect(handle(0, () => connection.checkWritable())).resolves.toBeUndefined();
    await expect(handle(0, () => create())).rejects.toThrow(DatabaseUnavailableError);
    await expect(handle(0, () => create(), true)).resolves.toMatchObject({ name: 'dog' });
  });
});
