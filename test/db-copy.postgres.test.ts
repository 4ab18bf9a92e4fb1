import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import type { Client } from 'pg';
import { main } from '../src/cli/db-copy.js';
import { createDataSource } from '../src/data-source.js';
import { ApiKey } from '../src/platform/auth/keys/api-key.entity.js';
import { ApiKeysService } from '../src/platform/auth/keys/api-keys.service.js';
import { createDatabase, startApp, type TestDatabase } from './support/app.js';
import {
  type CommandResult,
  type RunningCommand,
  runCommand,
  spawnCommand,
} from './support/cli.js';
import { CategoriesClient } from './support/http-client.js';
import { connectToPostgres, waitUntilBlocked } from './support/postgres-client.js';
import { waitFor } from './support/wait.js';

/** Texts that a copy would corrupt by escaping, normalizing, converting or trimming them. */
const TEXTS = [
  'dog',
  ' \t spaces around \n',
  'CR\r\nLF',
  `quotes ' " \` and \\ backslash \\n $1 ? %s`,
  'NULL',
  'é e\u0301 ﬁ ß İ ı',
  '狗 🐕 👩‍👩‍👧‍👦 שלום',
  '\u{1F415}'.repeat(100),
  '\uFEFF\u200B\u2028\uFFFD\uFFFF',
  '\u0001\u001F\u007F\u0085',
  '0123',
  '[1]',
];

let directory: string;
let file: string;
let target: TestDatabase;
let client: Client;
/** The dump of a target that was migrated and never written to. */
let emptyDump: string[];
beforeAll(async () => {
  await connectTarget();
  await migrateTarget();
  emptyDump = await dumpTarget();
  await dropTarget();
});
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'petstore-db-copy-'));
  file = join(directory, 'petstore.sqlite');
  await connectTarget();
});
afterEach(async () => {
  await dropTarget();
  await rm(directory, { recursive: true, force: true });
});

/** Creates an empty database, and connects to it. */
async function connectTarget(): Promise<void> {
  target = await createDatabase();
  client = await connectToPostgres(target.url);
}

async function dropTarget(): Promise<void> {
  await client.end();
  await target.drop();
}

/** Creates a migrated SQLite database, and lets the test fill or change it. */
async function createSource(
  fill: (source: { sqlite: Database.Database; keys: ApiKeysService }) => unknown = () => undefined,
): Promise<void> {
  const dataSource = createDataSource({ type: 'sqlite', file });
  await dataSource.initialize();
  await dataSource.migrate();
  const sqlite = new Database(file);
  await fill({ sqlite, keys: new ApiKeysService(dataSource.getRepository(ApiKey)) });
  sqlite.close();
  await dataSource.destroy();
}

/** Inserts categories with plain SQL, bypassing the service. */
function insertCategories(
  sqlite: Database.Database,
  rows: readonly { id?: number; name: unknown; description?: string | null }[],
): void {
  const statement = sqlite.prepare(
    'INSERT INTO "categories" ("id", "name", "description") VALUES (?, ?, ?)',
  );
  sqlite.transaction(() => {
    for (const { id = null, name, description = null } of rows)
      statement.run(id, name, description);
  })();
}

/** Creates the schema in the target, like the first start of the service. */
async function migrateTarget(): Promise<void> {
  const dataSource = createDataSource(target.config);
  await dataSource.initialize();
  await dataSource.migrate();
  await dataSource.destroy();
}

const copyOptions = (to = target.url): string[] => ['--from', `sqlite:${file}`, '--to', to];

function runCopy(args = copyOptions()): Promise<CommandResult> {
  return runCommand(main, args, {});
}

function spawnCopy(to?: string): RunningCommand {
  return spawnCommand('db-copy', copyOptions(to), { env: {}, cwd: directory });
}

async function expectCopySuccess(copy = runCopy()): Promise<CommandResult> {
  const result = await copy;
  expect(result).toMatchObject({ code: 0 });
  expect(result.stdout + result.stderr).not.toContain('error');
  return result;
}

/** Expects the copy to fail with an error message on standard error and no stack trace. */
async function expectCopyFailure(message: RegExp, args = copyOptions()): Promise<void> {
  const { code, stderr } = await runCopy(args);
  expect(stderr).toMatch(new RegExp(`error: .*${message.source}`, 'i'));
  expect(stderr).not.toMatch(/^\s+at /m);
  expect(code).toBe(1);
}

/** Returns all rows and sequences of the target, one string for each. */
async function dumpTarget(): Promise<string[]> {
  const dump: string[] = [];
  const { rows: tables } = await client.query<{ name: string }>(
    `SELECT "tablename" AS "name" FROM pg_tables WHERE "schemaname" = 'public' ORDER BY 1`,
  );
  for (const { name } of tables) {
    const { rows } = await client.query<{ row: string }>(
      `SELECT "t"::text AS "row" FROM "${name}" AS "t" ORDER BY 1`,
    );
    dump.push(...rows.map(({ row }) => `${name}: ${row}`));
  }
  // The last value is null until the first one was assigned.
  const { rows: sequences } = await client.query<{ name: string; last: string | null }>(
    `SELECT "sequencename" AS "name", "last_value" AS "last" FROM pg_sequences ORDER BY 1`,
  );
  dump.push(...sequences.map(({ name, last }) => `${name}: ${last}`));
  return dump;
}

/** Returns all rows of the source, by table. */
function dumpSource(): Record<string, unknown[]> {
  const sqlite = new Database(file, { readonly: true });
  try {
    const tables = sqlite
      .prepare<[], string>(`SELECT "name" FROM "sqlite_master" WHERE "type" = 'table'`)
      .pluck()
      .all();
    return Object.fromEntries(
      ['sqlite_master', ...tables].map((table) => [
        table,
        sqlite.prepare(`SELECT * FROM "${table}"`).all(),
      ]),
    );
  } finally {
    sqlite.close();
  }
}

/** Waits until the copy is blocked by a lock of another session. */
const waitUntilCopyBlocked = (): Promise<void> => waitUntilBlocked(target.url, 1, 30_000);

/** Waits until the test has the only connection to the target. */
async function waitUntilDisconnected(): Promise<void> {
  await waitFor(
    async () => {
      const { rows } = await client.query(
        `SELECT "application_name" FROM pg_stat_activity
         WHERE "datname" = current_database() AND "pid" <> pg_backend_pid()
           AND "backend_type" = 'client backend'`,
      );
      return rows as unknown[];
    },
    (rows) => rows.length === 0,
    30_000,
  );
}

describe('db:copy', () => {
  it('copies ids and texts unchanged across several batches and id gaps', async () => {
    const COUNT = 2_345;
    await createSource(({ sqlite }) =>
      insertCategories(
        sqlite,
        Array.from({ length: COUNT }, (_, index) => ({
          id: index * 3 + 7 + (index > 1_000 ? 1_000_000_000_000 : 0),
          name: TEXTS[index % TEXTS.length]!,
          description: [null, '', TEXTS[index % 7]!, 'd'.repeat(1_000)][index % 4]!,
        })),
      ),
    );
    const { stdout, stderr } = await expectCopySuccess();
    expect(stdout + stderr).toMatch(new RegExp(`categories\\b.*\\b${COUNT}/${COUNT}\\b`));

    const sqlite = new Database(file, { readonly: true });
    const expected = sqlite
      .prepare(
        `SELECT CAST("id" AS TEXT) AS "id", hex("name") AS "name",
                CASE WHEN "description" IS NULL THEN NULL ELSE hex("description") END AS "description"
         FROM "categories" ORDER BY "categories"."id"`,
      )
      .all();
    sqlite.close();
    const { rows } = await client.query(
      `SELECT "id"::text AS "id", upper(encode(convert_to("name", 'UTF8'), 'hex')) AS "name",
              upper(encode(convert_to("description", 'UTF8'), 'hex')) AS "description"
       FROM "categories" ORDER BY "categories"."id"`,
    );
    expect(expected).toHaveLength(COUNT);
    expect(rows).toEqual(expected);
  });

  it('copies the API keys, including revoked ones, and categories of a used database', async () => {
    const source: TestDatabase = {
      config: { type: 'sqlite', file },
      url: `sqlite:${file}`,
      drop: async () => undefined,
    };
    const before = await startApp({ database: source });
    const keys = before.app.get(ApiKeysService);
    const expired = await keys.create('expired', { expiresAt: new Date(Date.now() - 1) });
    const revoked = await keys.create('revoked', { expiresAt: new Date(Date.now() + 1_000_000) });
    await keys.revoke(revoked.record.id);
    for (const text of TEXTS) {
      expect((await before.categories.create(text, text)).status).toBe(201);
    }
    const list = await before.categories.list();
    expect(list.json()).toHaveLength(TEXTS.length);
    await before.stop();
    const records = await readKeys(source);
    expect(records.find(({ name }) => name === 'test')?.lastUsedAt).toBeInstanceOf(Date);

    await expectCopySuccess();

    expect(await readKeys(target)).toEqual(records);
    const after = await startApp({ database: target });
    try {
      const copied = await new CategoriesClient(after.url, before.key).list();
      expect(copied.status).toBe(200);
      expect(copied.text).toBe(list.text);
      expect(copied.headers['etag']).toBe(list.headers['etag']);
      for (const { key } of [expired, revoked]) {
        expect((await new CategoriesClient(after.url, key).list()).status).toBe(401);
      }
      // `startApp` created one more key.
      expect((await readKeys(target)).at(-1)?.id).toBe(records.at(-1)!.id + 1);
    } finally {
      await after.stop();
    }
  });

  it.each<[string, string, number]>([
    ['after the highest id ever assigned', 'DELETE FROM "categories" WHERE "id" >= 2', 4],
    ['after the highest id ever assigned if no row is left', 'DELETE FROM "categories"', 4],
    ['at 1 if no id was ever assigned', '', 1],
  ])('continues ids %s', async (_case, change, next) => {
    await createSource(({ sqlite }) => {
      if (change !== '')
        insertCategories(sqlite, [{ name: 'dog' }, { name: 'cat' }, { name: 'rabbit' }]);
      sqlite.exec(change);
    });
    await expectCopySuccess();
    const app = await startApp({ database: target });
    try {
      expect((await app.categories.create('hamster')).json()).toEqual({
        id: next,
        name: 'hamster',
      });
    } finally {
      await app.stop();
    }
  });

  it('leaves the source unchanged', async () => {
    await createSource(async ({ sqlite, keys }) => {
      insertCategories(sqlite, [{ name: 'dog' }, { name: 'cat' }]);
      await keys.create('test');
    });
    const before = dumpSource();
    await expectCopySuccess();
    expect(dumpSource()).toEqual(before);
  });

  it('copies a consistent snapshot of a source that is written to during the copy', async () => {
    await createSource(async ({ sqlite, keys }) => {
      insertCategories(sqlite, [{ name: 'dog' }]);
      await keys.create('test');
    });
    await migrateTarget();
    await client.query('BEGIN');
    await client.query('LOCK TABLE "api_keys" IN SHARE MODE');
    const copy = runCopy();
    await waitUntilCopyBlocked();
    const sqlite = new Database(file);
    insertCategories(sqlite, [{ name: 'late' }]);
    sqlite.close();
    await client.query('COMMIT');
    await expectCopySuccess(copy);
    const { rows } = await client.query('SELECT "id", "name" FROM "categories"');
    expect(rows).toEqual([{ id: '1', name: 'dog' }]);
  });
});

async function readKeys({ config }: TestDatabase): Promise<ApiKey[]> {
  const dataSource = createDataSource(config);
  await dataSource.initialize();
  try {
    return await new ApiKeysService(dataSource.getRepository(ApiKey)).list();
  } finally {
    await dataSource.destroy();
  }
}

describe('db:copy with invalid input', () => {
  it.each<[string, string]>([
    ['api_keys', `("name", "hash", "created_at") VALUES ('test', 'hash', 1)`],
    ['categories', `("name") VALUES ('dog')`],
  ])('rejects a target that has rows in %s', async (table, row) => {
    await createSource(({ sqlite }) => insertCategories(sqlite, [{ id: 5, name: 'cat' }]));
    await migrateTarget();
    await client.query(`INSERT INTO "${table}" ${row}`);
    const before = await dumpTarget();
    expect(before).not.toEqual(emptyDump);
    await expectCopyFailure(new RegExp(`not empty.*${table}`));
    expect(await dumpTarget()).toEqual(before);
  });

  it('rejects a second copy of the same database', async () => {
    await createSource(({ sqlite }) => insertCategories(sqlite, [{ name: 'dog' }]));
    await expectCopySuccess();
    const before = await dumpTarget();
    await expectCopyFailure(/not empty/);
    expect(await dumpTarget()).toEqual(before);
  });

  it('rejects a source with an older schema', async () => {
    await createSource(({ sqlite }) => {
      insertCategories(sqlite, [{ name: 'dog' }]);
      sqlite.exec(`DELETE FROM "migrations" WHERE "id" = (SELECT max("id") FROM "migrations")`);
    });
    const before = dumpSource();
    await expectCopyFailure(/database schema is outdated/);
    expect(dumpSource()).toEqual(before);
    expect(await dumpTarget()).toEqual([]);
  });

  it('rejects a source that is not a petstore database', async () => {
    const sqlite = new Database(file);
    sqlite.exec('CREATE TABLE "other" ("id" INTEGER)');
    sqlite.close();
    await expectCopyFailure(/schema/);
    const after = new Database(file, { readonly: true });
    expect(after.prepare('SELECT "name" FROM "sqlite_master"').pluck().all()).toEqual(['other']);
    after.close();
    expect(await dumpTarget()).toEqual([]);
  });

  it.each(['missing.sqlite', 'missing/petstore.sqlite'])(
    'rejects a missing source without creating it: %s',
    async (missing) => {
      await expectCopyFailure(/(exist|not found|no such|unable to open)/, [
        '--from',
        `sqlite:${join(directory, missing)}`,
        '--to',
        target.url,
      ]);
      const [first] = missing.split('/');
      expect(existsSync(join(directory, first!))).toBe(false);
      expect(await dumpTarget()).toEqual([]);
    },
  );

  it.each<[string, () => string[], RegExp]>([
    ['a target on SQLite', () => copyOptions('sqlite:other'), /postgres/],
    ['a source on PostgreSQL', () => ['--from', target.url, '--to', target.url], /sqlite/],
    ['no source', () => ['--to', target.url], /--from/],
    ['no target', () => ['--from', `sqlite:${file}`], /--to/],
    [
      'a target with a wrong password',
      () => copyOptions(Object.assign(new URL(target.url), { password: 'wrong-0123456789' }).href),
      /password authentication failed/,
    ],
  ])('rejects %s and changes nothing', async (_case, args, message) => {
    await createSource(({ sqlite }) => insertCategories(sqlite, [{ name: 'dog' }]));
    const before = dumpSource();
    const { code, stdout, stderr } = await runCopy(args());
    expect(stderr).toMatch(message);
    expect(stdout + stderr).not.toMatch(/wrong-0123456789|^\s+at /m);
    expect(code).toBe(1);
    expect(dumpSource()).toEqual(before);
    expect(await dumpTarget()).toEqual([]);
  });
});

describe('db:copy rollback', () => {
  const VALID_ROWS = Array.from({ length: 1_500 }, (_, index) => ({ name: `category ${index}` }));

  it.each<[string, unknown]>([
    ['contains a NUL', 'do\0g'],
    ['is too long', 'd'.repeat(101)],
    ['is not text', Buffer.from('dog')],
  ])('leaves the target empty if a name in the source %s', async (_case, name) => {
    await createSource(async ({ sqlite, keys }) => {
      await keys.create('test');
      insertCategories(sqlite, [...VALID_ROWS, { name }]);
    });
    const before = dumpSource();
    await expectCopyFailure(/\S/);
    expect(dumpSource()).toEqual(before);
    expect(await dumpTarget()).toEqual(emptyDump);

    const sqlite = new Database(file);
    sqlite.exec(`UPDATE "categories" SET "name" = 'fixed' WHERE "id" = 1501`);
    sqlite.close();
    await expectCopySuccess();
    const { rows } = await client.query(
      'SELECT count(*)::int AS "count", max("id")::int AS "highest" FROM "categories"',
    );
    expect(rows).toEqual([{ count: 1_501, highest: 1_501 }]);
  });

  it('copies all rows or none if an id is below 1', async () => {
    await createSource(({ sqlite }) =>
      insertCategories(sqlite, [{ id: -1, name: 'below' }, ...VALID_ROWS]),
    );
    const { code } = await runCopy();
    const { rows } = await client.query('SELECT count(*)::int AS "count" FROM "categories"');
    expect({ code, rows }).toEqual(
      code === 0
        ? { code: 0, rows: [{ count: VALID_ROWS.length + 1 }] }
        : { code: 1, rows: [{ count: 0 }] },
    );
  });

  // SIGTERM is handled like SIGINT, by the progress bar.
  it.each(['SIGINT', 'SIGKILL'] as const)(
    'leaves the target empty when interrupted with %s, and succeeds when run again',
    async (signal) => {
      await createSource(async ({ sqlite, keys }) => {
        await keys.create('test');
        insertCategories(sqlite, VALID_ROWS);
      });
      await migrateTarget();
      await client.query('BEGIN');
      await client.query('LOCK TABLE "categories" IN SHARE MODE');
      const dbCopy = spawnCopy();
      await waitUntilCopyBlocked();
      dbCopy.kill(signal);
      const { code } = await dbCopy.result;
      expect(code).not.toBe(0);
      await client.query('COMMIT');
      await waitUntilDisconnected();
      expect(await dumpTarget()).toEqual(emptyDump);

      await expectCopySuccess();
      const { rows } = await client.query('SELECT count(*)::int AS "count" FROM "categories"');
      expect(rows).toEqual([{ count: VALID_ROWS.length }]);
    },
  );

  it('leaves the target empty when the connection to it is lost', async () => {
    await createSource(async ({ sqlite, keys }) => {
      await keys.create('test');
      insertCategories(sqlite, VALID_ROWS);
    });
    await migrateTarget();
    await client.query('BEGIN');
    await client.query('LOCK TABLE "categories" IN SHARE MODE');
    const copy = runCopy();
    await waitUntilCopyBlocked();
    await client.query(
      `SELECT pg_terminate_backend("pid") FROM pg_stat_activity
       WHERE "datname" = current_database() AND "pid" <> pg_backend_pid()`,
    );
    const { code, stderr } = await copy;
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: \S.*\nCopy failed\.\n$/m);
    await client.query('COMMIT');
    await waitUntilDisconnected();
    expect(await dumpTarget()).toEqual(emptyDump);
  });
});

describe('db:copy process', () => {
  it('exits with 0 after a copy', async () => {
    await createSource(({ sqlite }) => insertCategories(sqlite, [{ name: 'dog' }]));
    await expectCopySuccess(spawnCopy().result);
    const { rows } = await client.query('SELECT "id", "name" FROM "categories"');
    expect(rows).toEqual([{ id: '1', name: 'dog' }]);
  });

  it('exits with 1 if the target is unreachable, and reports the cause without the password', async () => {
    await createSource(({ sqlite }) => insertCategories(sqlite, [{ name: 'dog' }]));
    const before = dumpSource();
    const unreachable = { port: '1', password: 'wrong-0123456789' };
    const to = Object.assign(new URL(target.url), unreachable).href;
    const { code, stdout, stderr } = await spawnCopy(to).result;
    expect(stderr).toMatch(/ECONNREFUSED/);
    expect(stdout + stderr).not.toMatch(/wrong-0123456789|^\s+at /m);
    expect(code).toBe(1);
    expect(dumpSource()).toEqual(before);
  });
});
