import { createApp } from '../../../src/platform/application/create-app.js';
import { loadConfig } from '../../../src/platform/config/config.js';
import { toRoot } from '../support/app.js';
import { sendRequest } from '../support/http-client.js';
import { MemoryLogger } from '../support/memory-logger.js';
import { type PostgresServer, startPostgres } from '../support/postgres.js';
import { queryPostgres } from '../support/postgres-client.js';
import { kill, restart } from '../support/postgres-faults.js';
import { waitFor } from '../support/wait.js';
import { FEATURES } from '../../../src/features.js';
import { PRODUCT } from '../../../src/product.js';

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
  await queryPostgres(server.url, `CREATE ROLE "tester" LOGIN PASSWORD 'right'`);
});
afterAll(() => server.stop());

describe('startup while the database is unavailable', () => {
  it('retries while the server is down, and then recovers', async () => {
    await kill(server);
    const logger = new MemoryLogger();
    const config = loadConfig(PRODUCT, { DATABASE_URL: server.url });
    const app = await createApp(config, toRoot(FEATURES), { logger });
    try {
      await app.listen(0, config.host);
      const url = await app.getUrl();
      const getReadiness = async () => (await sendRequest(`${url}/readyz`)).status;
      expect(await getReadiness()).toBe(503);
      await waitFor(() => logger.text.includes('retrying every 1000 ms'));
      await restart(server);
      await waitFor(getReadiness, (status) => status === 200);
    } finally {
      await app.close();
    }
  });

  it('fails with the cause if retrying would not help, as with a wrong password', async () => {
    const url = Object.assign(new URL(server.url), { username: 'tester', password: 'wrong' });
    const config = loadConfig(PRODUCT, { DATABASE_URL: url.href });
    const app = await createApp(config, toRoot(FEATURES), { logger: new MemoryLogger() });
    await expect(app.init()).rejects.toThrow('password authentication failed');
    await app.close();
  });
});
