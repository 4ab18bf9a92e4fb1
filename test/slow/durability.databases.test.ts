import { setTimeout as delay } from 'node:timers/promises';
import { createDatabase, startApp, type TestDatabase } from '../support/app.js';
import { sendRequest } from '../support/http-client.js';
import { LoadGenerator } from '../support/load-generator.js';
import { BOOTSTRAP_KEY, createServices, type Services } from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

let database: TestDatabase;
let services: Services;
beforeEach(async () => {
  database = await createDatabase();
  services = await createServices({ DATABASE_URL: database.url, NODE_ENV: 'production' });
});
afterEach(async () => {
  await services.close();
  await database.drop();
});

describe('durability', () => {
  it('keeps every acknowledged create across 10 SIGKILLs under load', async () => {
    const load = new LoadGenerator(BOOTSTRAP_KEY);
    for (let round = 0; round < 10; round++) {
      const { service, url } = await services.serve();
      await waitFor(
        () => sendRequest(`${url}/readyz`),
        ({ status }) => status === 200,
      );
      load.start(url, { writers: 16, readers: 2 });
      await load.waitForSuccesses(2);
      // Kills the service at a different point each time.
      await delay(Math.random() * 50);
      load.allowDisconnects(url);
      service.kill('SIGKILL');
      expect(await service.exited).toEqual({ code: null, signal: 'SIGKILL' });
    }
    await load.stop();
    const app = await startApp({ database });
    load.verifyFinalState(await app.categories.getAll());
    await app.stop();
    expect(load.violations).toEqual([]);
    expect(load.created.length).toBeGreaterThanOrEqual(10 * 16 * 2);
  });
});
