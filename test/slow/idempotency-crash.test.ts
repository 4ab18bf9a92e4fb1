import { join } from 'node:path';
import Database from 'better-sqlite3';
import { getBuiltFile } from '../support/build.js';
import { jsonHeaders, sendRequest } from '../support/http-client.js';
import { BOOTSTRAP_KEY, createServices, type Services } from '../support/service-process.js';

let services: Services;
beforeEach(async () => {
  services = await createServices({
    NODE_OPTIONS: `--import=${getBuiltFile('test/support/intercepted.module.js')}`,
  });
});
afterEach(() => services.close());

describe('a create request that is repeated after a crash between its row and its record', () => {
  it.each([
    [
      'one category, with the record in the transaction of the row',
      'categories',
      'INSERT INTO "idempotency_records"',
      1,
    ],
    ['two, with a record that an interceptor writes', 'intercepted', 'UPDATE "responses"', 2],
  ])('creates %s', async (_result, path, statement, count) => {
    const file = join(services.directory, 'petstore.sqlite');
    const env = { DATABASE_URL: `sqlite:${file}` };
    const create = async (url: string): Promise<[number, unknown]> => {
      const headers = { ...jsonHeaders(BOOTSTRAP_KEY), 'idempotency-key': 'a' };
      const request = { method: 'POST', headers, body: '{"name":"dog"}' };
      const response = await sendRequest(`${url}/v1/${path}`, request);
      return [response.status, response.headers['idempotency-replayed']];
    };
    const crashing = await services.serve({ env: { ...env, CRASH_BEFORE: statement } });
    const database = new Database(file);
    database.exec('CREATE TABLE "responses" ("key" text PRIMARY KEY, "response" text)');
    await expect(create(crashing.url)).rejects.toThrow('socket hang up');
    expect(await crashing.service.exited).toMatchObject({ signal: 'SIGKILL' });

    const { url } = await services.serve({ env });
    expect(await create(url)).toEqual([201, undefined]);
    const rows = database.prepare(`SELECT "name" FROM "categories"`).pluck().all();
    database.close();
    expect(rows).toEqual(Array.from({ length: count }, () => 'dog'));
  });
});
