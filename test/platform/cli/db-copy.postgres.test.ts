import { rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import type { Client } from 'pg';
import { PetsModule } from '../../../examples/petstore/pets/pets.module.js';
import { StoreModule } from '../../../examples/petstore/store/store.module.js';
import { copyDatabase, main } from '../../../src/cli/db-copy.js';
import { main as migrations } from '../../../src/cli/migrations.js';
import { createDataSource } from '../../../src/platform/application/data-source.js';
import { PRODUCT } from '../../../src/product.js';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import { ApiKeysService } from '../../../src/platform/auth/keys/api-keys.service.js';
import { createDatabase, startApp, type TestDatabase } from '../support/app.js';
import { type CommandResult, runCommand, spawnCommand } from '../support/cli.js';
import {
  type Category,
  CategoriesClient,
  jsonHeaders,
  sendRequest,
} from '../support/http-client.js';
import { connectToPostgres, waitUntilBlocked } from '../support/postgres-client.js';
import { waitFor } from '../support/wait.js';

const { jest } = import.meta;

/** Several features, whatever the service has. The command copies the tables of its features. */
const EXAMPLES = [CategoriesModule, PetsModule, StoreModule];

/** Texts that a copy would corrupt by escaping, normalizing, converting or trimming them. */
const TEXTS = [
  'dog',
  'CR\r\nLF',
  `quotes ' " \` and \\ backslash \\n $1 ? %s`,
  'é e\u0301 ﬁ ß İ ı',
  '狗 🐕 👩‍👩‍👧‍👦 שלום',
  '\u{1F415}'.repeat(100),
  '\uFEFF\u200B\u2028\uFFFD\uFFFF',
  '\u0001\u001F\u007F\u0085',
];
/** More rows than an INSERT of the copy has. */
const MANY = 5_000;

let source: TestDatabase;
let target: TestDatabase;
let file: string;
let client: Client;
beforeEach(async () => {
  source = await createDatabase('sqlite');
  target = await createDatabase();
  file = source.url.replace('sqlite:', '');
  client = await connectToPostgres(target.url);
  await writeFile(getTargetFile(), `${target.url}\n`);
});
afterEach(async () => {
  jest.restoreAllMocks();
  await client.end();
  for (const database of [source, target]) await database.drop();
});

/** Creates the schema, like the first start of the service. */
const migrate = ({ url }: TestDatabase): Promise<CommandResult> =>
  runCommand(migrations, ['run'], { DATABASE_URL: url });

/** Changes the source with plain SQL, bypassing the service. */
function changeSource(sql: string): void {
  new Database(file).exec(sql).close();
}

const INSERT_MANY = `INSERT INTO "categories" ("name") WITH RECURSIVE "numbers" AS (
  SELECT 1 AS "number" UNION ALL SELECT "number" + 1 FROM "numbers" WHERE "number" < ${MANY}
) SELECT 'category ' || "number" FROM "numbers"`;

/** Creates a source with many categories. */
async function createSource(): Promise<void> {
  await migrate(source);
  changeSource(INSERT_MANY);
}

/** The file with the URL of the target. */
const getTargetFile = (): string => join(dirname(file), 'target');
const copyOptions = (): string[] => ['--from', source.url, '--to-file', getTargetFile()];

const copy = (): Promise<CommandResult> => runCommand(main, copyOptions(), {});

/** Matches the result of a failed copy: one sentence, without a stack trace. */
const failure = (message: string): CommandResult => ({
  code: 1,
  stdout: expect.any(String) as string,
  stderr: expect.stringMatching(new RegExp(`^error: .*${message}.*\n$`)) as string,
});

const readTarget = async (sql: string): Promise<unknown[]> => (await client.query(sql)).rows;

/** Expects that no copied row is left in the target, and no id was assigned. */
async function expectEmptyTarget(): Promise<void> {
  for (const table of ['categories', 'api_keys'])
    expect(await readTarget(`SELECT * FROM "${table}"`)).toEqual([]);
  const sequences = `SELECT * FROM pg_sequences WHERE "last_value" > 0 AND "sequencename" NOT LIKE 'migrations%'`;
  expect(await readTarget(sequences)).toEqual([]);
}

describe('db:copy', () => {
  it('copies what several features have stored, with the API keys, and continues the ids', async () => {
    const before = await startApp({ database: source, features: EXAMPLES });
    const post = async (path: string, body: object | Buffer): Promise<number> => {
      const isBinary = Buffer.isBuffer(body);
      const { status, text } = await sendRequest(`${before.url}/v1${path}`, {
        method: 'POST',
        headers: {
          ...jsonHeaders(before.key),
          ...(isBinary && { 'content-type': 'application/octet-stream' }),
        },
        body: isBinary ? body : JSON.stringify(body),
      });
      expect([path, status]).toEqual([path, 201]);
      return (JSON.parse(text) as Category).id;
    };
    for (const text of TEXTS) await before.categories.create(text, text);
    changeSource(INSERT_MANY);
    // The highest id that was ever assigned.
    changeSource(`INSERT INTO "categories" ("id", "name") VALUES (1000000000000, 'deleted')`);
    changeSource(`DELETE FROM "categories" WHERE "name" = 'deleted'`);
    const [category] = await before.categories.getAll();
    const petId = await post('/pets', {
      name: `狗 ' " \\`,
      category: { id: category!.id },
      photoUrls: ['https://example.com/1', 'https://example.com/2'],
      tags: [{ name: 'good' }, { name: 'old' }],
    });
    const image = await post(`/pets/${petId}/uploadImage`, Buffer.from([0, 1, 254, 255]));
    const shipDate = '2026-11-01T12:00:00.000Z';
    await post('/store/orders', { petId, quantity: 2, shipDate, complete: true });
    const revoked = await before.app.get(ApiKeysService).create('revoked');
    await before.app.get(ApiKeysService).revoke(revoked.record.id);
    const paths = ['/categories', '/pets', '/store/orders', `/pets/${petId}/images/${image}`];
    const read = ({ url }: { url: string }) =>
      Promise.all(
        paths.map(async (path) => {
          const response = await sendRequest(`${url}/v1${path}`, {
            headers: jsonHeaders(before.key),
          });
          return [response.status, response.body.toString('latin1')];
        }),
      );
    const expected = await read(before);
    await before.stop();

    jest.spyOn(process.stdout, 'write').mockReturnValue(true);
    const config = { database: target.config, product: PRODUCT };
    await createDataSource(config, EXAMPLES).whileConnected((dataSource) =>
      copyDatabase(file, dataSource),
    );
    jest.restoreAllMocks();

    const after = await startApp({ database: target, features: EXAMPLES });
    expect(await read(after)).toEqual(expected);
    expect(expected.map(([status]) => status)).toEqual([200, 200, 200, 200]);
    expect((await after.send('GET', '/v1/categories', { key: revoked.key })).status).toBe(401);
    const created = await new CategoriesClient(after.url, before.key).create('new');
    expect(created.json()).toEqual({ id: 1_000_000_000_001, name: 'new' });
    await after.stop();
  });

  it.each<[string, () => unknown, string]>([
    [
      'a target that has rows',
      () => client.query(`INSERT INTO "categories" ("name") VALUES ('cat')`),
      'not empty.*categories',
    ],
    [
      'a source with an older schema',
      () => changeSource('DELETE FROM "migrations" WHERE "id" = 3'),
      'schema is outdated',
    ],
  ])('rejects %s, and changes nothing', async (_case, change, message) => {
    await createSource();
    await migrate(target);
    await change();
    const before = await readTarget('SELECT * FROM "categories"');
    expect(await copy()).toEqual(failure(message));
    expect(await readTarget('SELECT * FROM "categories"')).toEqual(before);
  });

  it('reports that the file with the URL of the target does not exist', async () => {
    await createSource();
    await rm(getTargetFile());
    expect(await copy()).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('must name a readable file (ENOENT)') as string,
    });
  });

  it('leaves the target empty if it drops a row', async () => {
    await createSource();
    await migrate(target);
    await client.query(
      `CREATE FUNCTION "drop_last"() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN RETURN CASE NEW."name" WHEN 'category ${MANY}' THEN NULL ELSE NEW END; END $$`,
    );
    await client.query(
      'CREATE TRIGGER "drop" BEFORE INSERT ON "categories" FOR EACH ROW EXECUTE FUNCTION "drop_last"()',
    );
    const message = 'The copy of categories has another number of rows than its source.';
    expect(await copy()).toEqual(failure(message));
    await expectEmptyTarget();
  });

  it('leaves the target empty if it is killed, and succeeds when run again', async () => {
    await createSource();
    await migrate(target);
    await client.query('BEGIN');
    await client.query('LOCK TABLE "categories" IN SHARE MODE');
    const command = spawnCommand('db-copy', copyOptions(), { env: {}, cwd: dirname(file) });
    await waitUntilBlocked(target.url, 1);
    command.kill('SIGKILL');
    await command.result;
    await client.query('COMMIT');
    // PostgreSQL may still be rolling back.
    await waitFor(
      () =>
        readTarget(
          `SELECT 1 FROM pg_stat_activity WHERE "datname" = current_database()
             AND "pid" <> pg_backend_pid() AND "backend_type" = 'client backend'`,
        ),
      ({ length }) => length === 0,
    );
    await expectEmptyTarget();
    expect(await copy()).toMatchObject({ code: 0, stderr: '' });
    const count = 'SELECT count(*)::int AS "count" FROM "categories"';
    expect(await readTarget(count)).toEqual([{ count: MANY }]);
  });
});
