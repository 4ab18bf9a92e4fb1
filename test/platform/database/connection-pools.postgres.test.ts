import { useApp } from '../support/app.js';
import { connectToPostgres, waitUntilBlocked } from '../support/postgres-client.js';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import { CagesModule } from '../support/cages.module.js';

const app = useApp({ features: [CategoriesModule, CagesModule] });

describe('transactions that wait for a lock with all of their connections', () => {
  it('keep no list, key or check of readiness waiting', async () => {
    const { url } = app.config.database as { readonly url: string };
    const other = await connectToPostgres(url);
    await other.query('BEGIN; LOCK TABLE "cages"');
    const exchanges = Array.from({ length: 20 }, (_, id) =>
      app.send('POST', `/v1/cages/${id + 1}/exchange`, {
        headers: { 'Idempotency-Key': `${id}` },
        body: { label: 'a', room: 'b', shelfPosition: 1 },
      }),
    );
    // The requests last for two seconds only.
    await waitUntilBlocked(url, 7);
    const [list, invalid, readiness] = await Promise.all([
      app.categories.list(),
      app.send('GET', '/v1/categories', { key: 'k'.repeat(32) }),
      app.send('GET', '/readyz'),
    ]);
    expect([list.status, invalid.status, readiness.status]).toEqual([200, 401, 200]);
    await other.end();
    await Promise.all(exchanges);
  });
});
