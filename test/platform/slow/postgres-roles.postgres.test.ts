import { randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { main as keysCommand } from '../../../src/cli/keys.js';
import { main as migrationsCommand } from '../../../src/cli/migrations.js';
import { runCommand } from '../support/cli.js';
import { jsonHeaders, sendRequest } from '../support/http-client.js';
import { LoadGenerator } from '../support/load-generator.js';
import { queryPostgres } from '../support/postgres-client.js';
import { BOOTSTRAP_KEY, createServices, type Services } from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

const GUIDE = join(import.meta.dirname, '..', '..', '..', 'docs', 'install.md');
const server = process.env['TEST_DATABASE_URL']!;
/** Stands for the name in the names of the guide. */
const name = `test_${randomUUID().replaceAll('-', '')}`;

/** Returns the URL of the database for a role with its password in the guide. */
const getUrl = (username: string, password: string): string =>
  Object.assign(new URL(server), { username, password, pathname: name }).href;
const owner = getUrl(`${name}_owner`, 'secret-1');
const user = getUrl(name, 'secret-2');
const admin = Object.assign(new URL(server), { pathname: name }).href;

let services: Services;
beforeAll(async () => {
  const [, sql] = /```sql\n(CREATE ROLE \w+_owner.*?)```/s.exec(await readFile(GUIDE, 'utf8'))!;
  const [before, after] = sql!.replaceAll('api', name).split(`\\connect ${name}\n`);
  // One query for all would be a transaction.
  for (const statement of before!.split(';')) await queryPostgres(server, statement);
  await queryPostgres(admin, after!);
  const migrated = await runCommand(migrationsCommand, ['run'], { DATABASE_URL: owner });
  if (migrated.code !== 0) throw new Error(migrated.stderr);
  services = await createServices({ MIGRATIONS: 'off' });
});
afterAll(async () => {
  await services.close();
  await queryPostgres(server, `DROP DATABASE ${name} WITH (FORCE)`);
  for (const role of [name, `${name}_new`, `${name}_user`, `${name}_owner`])
    await queryPostgres(server, `DROP ROLE IF EXISTS ${role}`);
});

describe('a PostgreSQL role that may only read and write rows', () => {
  it('serves requests and runs commands while the owner migrates', async () => {
    const { service, url, categories } = await services.serve({ env: { DATABASE_URL: user } });
    const create = async (): Promise<number> => {
      const headers = { ...jsonHeaders(BOOTSTRAP_KEY), 'idempotency-key': 'role' };
      const request = { method: 'POST', headers, body: '{"name":"dog"}' };
      return (await sendRequest(`${url}/v1/categories`, request)).status;
    };
    expect([await create(), await create()]).toEqual([201, 201]);
    expect(await categories.getNames()).toEqual(['dog']);
    expect((await sendRequest(`${url}/readyz`)).status).toBe(200);
    const env = { DATABASE_URL: user, MIGRATIONS: 'off' };
    for (const args of [
      ['create', 'role'],
      ['rotate', '2', '--overlap', '1d'],
      ['list'],
      ['revoke', '3'],
    ])
      expect(await runCommand(keysCommand, args, env)).toMatchObject({ code: 0 });
    await service.stop();
    expect(service.output).not.toMatch(/ (WARN|ERROR|FATAL) /);
  });

  it('fails to change the schema', async () => {
    for (const sql of ['CREATE TABLE "t" ()', 'DROP TABLE "categories"', 'TRUNCATE "categories"'])
      await expect(queryPostgres(user, sql)).rejects.toMatchObject({ code: '42501' });
  });
});

describe('a rotation of the PostgreSQL password', () => {
  it('fails no request if a second role takes over in a rolling restart', async () => {
    const file = join(services.directory, 'database-url');
    const load = new LoadGenerator(BOOTSTRAP_KEY);
    const serve = async (url: string) => {
      await writeFile(file, `${url}\n`);
      const instance = await services.serve({ env: { DATABASE_URL_FILE: file } });
      await waitFor(
        () => sendRequest(`${instance.url}/readyz`),
        ({ status }) => status === 200,
      );
      load.start(instance.url, { writers: 4, readers: 2 });
      await load.waitForSuccesses(20);
      return instance;
    };
    await queryPostgres(admin, 'TRUNCATE "categories", "idempotency_records"');
    const former = await serve(user);
    await queryPostgres(server, `CREATE ROLE ${name}_new LOGIN PASSWORD 'n' IN ROLE ${name}_user`);
    const next = await serve(getUrl(`${name}_new`, 'n'));
    load.allowShutdown(former.url);
    await former.service.stop();
    await queryPostgres(server, `DROP ROLE ${name}`);
    await load.waitForSuccesses(20);
    await load.stop();
    load.verifyFinalState(await next.categories.getAll());
    expect(load.violations).toEqual([]);
  });
});
