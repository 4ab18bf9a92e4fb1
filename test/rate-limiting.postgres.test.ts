import { createDatabase, startApp, type TestApp, type TestDatabase } from './support/app.js';
import { CategoriesClient } from './support/http-client.js';
import { matchers } from './support/matchers.js';

expect.extend(matchers);

const LIMIT = 10;

describe('requests per key with KEY_LIMIT_STORE=database', () => {
  let database: TestDatabase;
  let instances: TestApp[];
  beforeEach(async () => {
    database = await createDatabase();
    const config = { keyLimitStore: 'database', keyRequestsPerMinute: LIMIT } as const;
    instances = [await startApp({ database, config }), await startApp({ database, config })];
  });
  afterEach(async () => {
    for (const instance of instances) await instance.stop();
    await database.drop();
  });

  it('are limited over all instances, for each key separately', async () => {
    const [first, second] = instances as [TestApp, TestApp];
    const clients = instances.map(({ url }) => new CategoriesClient(url, first.key));
    const responses = await Promise.all(
      Array.from({ length: 2 * LIMIT }, (_, index) => clients[index % 2]!.list()),
    );
    const rejected = responses.filter(({ status }) => status !== 200);
    expect(rejected).toHaveLength(LIMIT);
    for (const response of rejected) expect(response).toBeError('TOO_MANY_REQUESTS');
    for (const { headers } of responses)
      expect(headers['ratelimit-policy']).toBe(`"api-key";q=${LIMIT};w=60`);
    expect((await new CategoriesClient(first.url, second.key).list()).status).toBe(200);
  });

  it('are limited by each instance while the database cannot count them', async () => {
    const [first, second] = instances as [TestApp, TestApp];
    await first.dataSource.query('ALTER TABLE "rate_limits" RENAME TO "hidden"');
    for (const { url } of [first, second]) {
      const client = new CategoriesClient(url, first.key);
      const statuses = [];
      for (let request = 0; request <= LIMIT; request++)
        statuses.push((await client.list()).status);
      expect(statuses).toEqual([...Array.from({ length: LIMIT }, () => 200), 429]);
    }
  });
});
