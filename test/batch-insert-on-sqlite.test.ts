import { CategoriesService } from '../src/modules/categories/categories.service.js';
import { startApp } from './support/app.js';

const MAX_ID = Number.MAX_SAFE_INTEGER;

describe('BatchInserter', () => {
  it('stores rows up to the maximum id and rejects the rest of the batch', async () => {
    const app = await startApp();
    try {
      await app.dataSource.query(
        `INSERT INTO "categories" ("id", "name") VALUES (${MAX_ID - 2}, 'third from the end')`,
      );
      const categories = app.app.get(CategoriesService);
      const results = await Promise.allSettled(
        ['second', 'last', 'beyond'].map((name) => categories.create({ name })),
      );
      expect(results).toEqual([
        { status: 'fulfilled', value: { id: MAX_ID - 1, name: 'second' } },
        { status: 'fulfilled', value: { id: MAX_ID, name: 'last' } },
        { status: 'rejected', reason: expect.objectContaining({ message: expect.any(String) }) },
      ]);
      const { body } = await app.http().get('/v1/categories').auth(app.key, { type: 'bearer' });
      expect((body as { id: number }[]).map(({ id }) => id)).toEqual([
        MAX_ID - 2,
        MAX_ID - 1,
        MAX_ID,
      ]);
      const rejected = await app
        .http()
        .post('/v1/categories')
        .auth(app.key, { type: 'bearer' })
        .send({ name: 'beyond' });
      expect(rejected.status).toBe(500);
      expect(rejected.body).toMatchObject({ code: 'INTERNAL_ERROR', status: 500 });
    } finally {
      await app.stop();
    }
  });
});
