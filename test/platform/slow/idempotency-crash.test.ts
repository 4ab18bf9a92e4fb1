import { pathToFileURL } from 'node:url';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { jsonHeaders, sendRequest } from '../support/http-client.js';
import { BOOTSTRAP_KEY, createServices, type Services } from '../support/service-process.js';

/** Ends a process without warning before it writes the record of an Idempotency-Key. */
const CRASH = `import { createRequire } from 'node:module';
  const Database = createRequire('${pathToFileURL(join(process.cwd(), 'package.json')).href}')('better-sqlite3');
  const { prepare } = Database.prototype;
  Database.prototype.prepare = function (sql) {
    if (sql.includes('INSERT INTO "idempotency_records"')) process.kill(process.pid, 'SIGKILL');
    return prepare.call(this, sql);
  };`;

let services: Services;
beforeEach(async () => {
  services = await createServices();
});
afterEach(() => services.close());

/** Sends the create request. @returns the status, and whether the response is a repeated one */
async function create(url: string): Promise<[number, unknown]> {
  const headers = { ...jsonHeaders(BOOTSTRAP_KEY), 'idempotency-key': 'a' };
  const request = { method: 'POST', headers, body: '{"name":"dog"}' };
  const response = await sendRequest(`${url}/v1/categories`, request);
  return [response.status, response.headers['idempotency-replayed']];
}

describe('a create request that is repeated after a crash between its row and its record', () => {
  it('creates one category, because row and record share a transaction', async () => {
    const file = join(services.directory, 'petstore.sqlite');
    const DATABASE_URL = `sqlite:${file}`;
    const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(CRASH)}`;
    const crashing = await services.serve({ env: { DATABASE_URL, NODE_OPTIONS } });
    await expect(create(crashing.url)).rejects.toThrow('socket hang up');
    expect(await crashing.service.exited).toMatchObject({ signal: 'SIGKILL' });

    const { url } = await services.serve({ env: { DATABASE_URL } });
    expect(await create(url)).toEqual([201, undefined]);
    const database = new Database(file, { readonly: true });
    const rows = database.prepare('SELECT "name" FROM "categories"').pluck().all();
    database.close();
    expect(rows).toEqual(['dog']);
  });
});
