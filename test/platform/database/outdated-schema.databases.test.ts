import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import { startApp, type TestApp } from '../support/app.js';
import { MemoryLogger } from '../support/memory-logger.js';
import { StubsModule } from '../support/stubs.module.js';
import { waitFor } from '../support/wait.js';

let app: TestApp;
let logger: MemoryLogger;
beforeEach(async () => {
  logger = new MemoryLogger();
  app = await startApp({ logger, features: [CategoriesModule, StubsModule] });
});
afterEach(() => app.stop());

const getReadiness = async (): Promise<number> => (await app.send('GET', '/readyz')).status;
const UNKNOWN_KEY = 'k'.repeat(32);

describe('a schema that lacks what the release needs', () => {
  it.each([
    [
      'migrations of the platform were reverted',
      () => app.dataSource.revertMigration().then(() => app.dataSource.revertMigration()),
      () => app.dataSource.migrate(),
    ],
    [
      'a table of the platform is missing',
      () => app.dataSource.query('ALTER TABLE "api_keys" RENAME TO "moved"'),
      () => app.dataSource.query('ALTER TABLE "moved" RENAME TO "api_keys"'),
    ],
  ])(
    'makes requests 503, and the instance unready, with a line that says so, until it is back: %s',
    async (_name, remove, restore) => {
      await remove();
      for (let round = 0; round < 3; round++) {
        const response = await app.send('GET', '/v1/categories', { key: UNKNOWN_KEY });
        expect(response).toBeError('SERVICE_UNAVAILABLE');
      }
      expect(await getReadiness()).toBe(503);
      expect(logger.text.match(/connection failed: The database schema is outdated/)).toHaveLength(
        1,
      );
      expect(logger.text).not.toMatch(/Request failed|\n\s+at /);
      await restore();
      await waitFor(getReadiness, (status) => status === 200);
    },
  );

  it('fails only the requests of a module whose table is missing, with 500', async () => {
    await app.dataSource.query('ALTER TABLE "categories" RENAME TO "moved"');
    expect(await app.categories.create('dog')).toBeError('INTERNAL_ERROR');
    expect(await getReadiness()).toBe(200);
    expect((await app.send('GET', '/v1/stubs/experimental')).status).toBe(501);
  });
});
