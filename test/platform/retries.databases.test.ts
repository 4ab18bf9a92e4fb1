import { CategoriesModule } from '../../src/modules/categories/categories.module.js';
import { CategoriesService } from '../../src/modules/categories/categories.service.js';
import type { Category } from '../../src/modules/categories/category.dto.js';
import { startApp, type TestApp, useApp } from './support/app.js';
import { CagesController, CagesModule } from './support/cages.module.js';
import { DATABASE, ISOLATION_LEVELS } from './support/databases.js';
import { createKey } from './support/fixtures.js';
import { recordStatements } from './support/queries.js';

const { jest } = import.meta;
const MISSING_ID = Number.MAX_SAFE_INTEGER;
const ANY_STATEMENT = /./;

const createKeys = (count: number) => Array.from({ length: count }, () => createKey());

/** Returns the code of an error, or `created`. */
const getOutcome = (result: PromiseSettledResult<unknown>): unknown =>
  result.status === 'fulfilled' ? 'created' : (result.reason as { code: string }).code;

const create = ({ app: own }: TestApp, keys: ReturnType<typeof createKeys>): Promise<Category[]> =>
  Promise.all(keys.map((key) => own.get(CategoriesService).create({ name: key.value }, key)));

const getId = (result?: PromiseSettledResult<Category>): unknown =>
  result?.status === 'fulfilled' ? result.value.id : result;

describe.each(ISOLATION_LEVELS)('with the isolation level %s', (isolation) => {
  const app = useApp({ features: [CategoriesModule, CagesModule], isolation });
  afterEach(() => jest.restoreAllMocks());

  describe('create requests that many clients repeat at once', () => {
    it('cost a few statements together, beside new ones', async () => {
      const keys = createKeys(100);
      const first = await create(app, keys);
      const fresh = createKeys(5);
      const statements = recordStatements(app.dataSource, ANY_STATEMENT);
      const repeated = keys.map(({ value }) => createKey(value));
      const created = await create(app, [
        ...repeated.slice(50),
        ...fresh,
        ...repeated.slice(0, 50),
      ]);
      expect(statements.length).toBeLessThanOrEqual(10);
      expect([...created.slice(55), ...created.slice(0, 50)]).toEqual(first);
      expect(repeated.every(({ replays }) => replays === 1)).toBe(true);
      expect(fresh.some(({ replays }) => replays > 0)).toBe(false);
      expect(new Set(created.slice(50, 55).map(({ name }) => name)).size).toBe(5);
      const inserts = recordStatements(app.dataSource, /^INSERT/);
      expect(
        await create(
          app,
          keys.map(({ value }) => createKey(value)),
        ),
      ).toEqual(first);
      // They are expected by now.
      expect(inserts).toEqual([]);
    });

    it('of one key cost a few statements together if the first is in progress', async () => {
      const { value } = createKey();
      const keys = Array.from({ length: 100 }, () => createKey(value));
      const statements = recordStatements(app.dataSource, ANY_STATEMENT);
      const created = await create(app, keys);
      expect(new Set(created.map(({ id }) => id)).size).toBe(1);
      expect(keys.filter(({ replays }) => replays === 1)).toHaveLength(99);
      expect(statements.length).toBeLessThanOrEqual(10);
    });

    it('are repeated, refused or created, each by its key, on two instances', async () => {
      const other =
        DATABASE === 'postgres'
          ? await startApp({
              database: { config: app.config.database, url: '', drop: () => Promise.resolve() },
            })
          : app;
      const stored = createKeys(150);
      const first = await create(app, stored);
      const fresh = createKeys(200);
      const send = async (instance: TestApp) => {
        const keys = [
          ...stored.map(({ value }) => createKey(value)),
          ...stored.map(({ value }) => createKey(value, 'another request')),
          ...fresh.map(({ value }) => createKey(value)),
        ].map((key, index, all) => all[(index * 7) % all.length]!);
        const service = instance.app.get(CategoriesService);
        const results = await Promise.allSettled(
          keys.map((key) => service.create({ name: key.value }, key)),
        );
        return new Map(
          keys.map((key, index) => [`${key.value} ${key.fingerprint}`, results[index]!]),
        );
      };
      const [ours, theirs] = await Promise.all([send(app), send(other)]);
      for (const results of [ours, theirs]) {
        stored.forEach(({ value }, index) => {
          expect(results.get(`${value} a`)).toMatchObject({
            value: { id: first[index]!.id },
          });
          expect(getOutcome(results.get(`${value} another request`)!)).toBe(
            'IDEMPOTENCY_KEY_REUSED',
          );
        });
      }
      for (const { value } of fresh)
        expect(getId(ours.get(`${value} a`))).toBe(getId(theirs.get(`${value} a`)));
      const names = await app.categories.getNames();
      expect(new Set(names).size).toBe(names.length);
      if (other !== app) await other.stop();
    });
  });

  describe('create requests that violate a constraint', () => {
    it.each([
      ['ALREADY_EXISTS', { label: 'taken' }],
      ['VALIDATION_FAILED', { categoryId: MISSING_ID }],
    ])('cost a few statements together if they are refused with %s', async (code, invalid) => {
      const cages = app.app.get(CagesController);
      const newCage = (n: number, properties = {}) => ({
        label: `${code} ${isolation} ${n}`,
        room: code,
        shelfPosition: n,
        ...properties,
      });
      await cages.createCage(newCage(1000, { label: 'taken' })).catch(() => undefined);
      const bodies = Array.from({ length: 100 }, (_, n) => newCage(n, n % 20 === 7 ? {} : invalid));
      const statements = recordStatements(app.dataSource, ANY_STATEMENT);
      const results = await Promise.allSettled(bodies.map((body) => cages.createCage(body)));
      expect(results.map(getOutcome)).toEqual(
        bodies.map((_body, n) => (n % 20 === 7 ? 'created' : code)),
      );
      expect(statements.length).toBeLessThanOrEqual(10);
    });
  });
});
