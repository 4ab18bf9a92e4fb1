import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { Client } from 'pg';
import { ApiKey } from '../src/platform/auth/api-key.entity.js';
import { ApiKeysService } from '../src/platform/auth/api-keys.service.js';
import { PetstoreDataSource } from '../src/platform/database/petstore-data-source.js';
import { databaseOptions } from '../src/platform/database/data-source-options.js';
import { createDatabase, startApp, type TestDatabase } from './support/app.js';
import { buildOnce } from './support/build.js';
import { DbCopy } from './support/db-copy.js';
import type { ProcessResult } from './support/cli.js';
import { waitFor } from './support/wait.js';

// Every copy is a process of its own, and the first one waits for the compiler.
import.meta.jest.setTimeout(45_000);

const LIMIT = 30_000;

/** Texts that lose something where a copy reads, converts or trims them. */
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
let copies: DbCopy[];
let client: Client;
beforeAll(async () => {
  await buildOnce();
});
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'petstore-db-copy-'));
  file = join(directory, 'petstore.sqlite');
  target = await createDatabase();
  copies = [];
  client = new Client({ connectionString: target.url });
  await client.connect();
});
afterEach(async () => {
  for (const running of copies) {
    running.kill('SIGKILL');
    await running.outcome;
  }
  await client.end();
  await target.drop();
  await rm(directory, { recursive: true, force: true });
});

/** A SQLite store with the schema of the service, changed by hand where a test says so. */
async function makeSource(
  fill: (source: { sqlite: Database.Database; keys: ApiKeysService }) => unknown = () => undefined,
): Promise<void> {
  const dataSource = new PetstoreDataSource(databaseOptions({ type: 'sqlite', file }));
  await dataSource.open();
  const sqlite = new Database(file);
  await fill({ sqlite, keys: new ApiKeysService(dataSource.getRepository(ApiKey)) });
  sqlite.close();
  await dataSource.destroy();
}

/** Inserts categories as somebody does with the `sqlite3` shell. */
function insert(
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

/** Creates the schema in the target, as a first start of the service does. */
async function migrateTarget(): Promise<void> {
  const dataSource = new PetstoreDataSource(databaseOptions(target.config));
  await dataSource.open();
  await dataSource.destroy();
}

async function startCopy(...args: string[]): Promise<DbCopy> {
  const given = args.length > 0 ? args : ['--from', `sqlite:${file}`, '--to', target.url];
  const started = await DbCopy.start(given, directory);
  copies.push(started);
  return started;
}

async function copy(...args: string[]): Promise<ProcessResult> {
  return (await startCopy(...args)).outcome;
}

async function copyWell(): Promise<ProcessResult> {
  const outcome = await copy();
  expect(outcome).toMatchObject({ code: 0 });
  expect(outcome.stdout + outcome.stderr).not.toContain('error');
  return outcome;
}

/** What a copy leaves behind that fails: why, where errors belong, and no stack. */
async function copyBadly(why: RegExp, ...args: string[]): Promise<void> {
  const { code, stderr } = await copy(...args);
  expect(stderr).toMatch(new RegExp(`error: .*${why.source}`, 'i'));
  expect(stderr).not.toMatch(/^\s+at /m);
  expect(code).toBe(1);
}

const TABLES = ['api_keys', 'categories'] as const;

/** Every row of the target, and where its ids go on; undefined where it has no schema. */
async function dumpTarget(): Promise<Record<string, unknown> | undefined> {
  const dump: Record<string, unknown> = {};
  for (const table of TABLES) {
    const { rows: found } = await client.query('SELECT to_regclass($1) AS "table"', [table]);
    if ((found as { table: string | null }[])[0]!.table === null) return undefined;
    const { rows } = await client.query(`SELECT * FROM "${table}" ORDER BY "id"`);
    const { rows: sequences } = await client.query<{ name: string }>(
      `SELECT pg_get_serial_sequence('${table}', 'id') AS "name"`,
    );
    const { rows: state } = await client.query(
      `SELECT "last_value", "is_called" FROM ${sequences[0]!.name}`,
    );
    dump[table] = { rows, state };
  }
  return dump;
}

/** The target as a first start leaves it. */
const EMPTY = Object.fromEntries(
  TABLES.map((table) => [table, { rows: [], state: [{ last_value: '1', is_called: false }] }]),
);

function dumpSource(): Record<string, unknown> {
  const sqlite = new Database(file, { readonly: true });
  try {
    return Object.fromEntries(
      ['sqlite_master', 'sqlite_sequence', 'migrations', ...TABLES].map((table) => [
        table,
        sqlite.prepare(`SELECT * FROM "${table}" ORDER BY 1, 2`).all(),
      ]),
    );
  } finally {
    sqlite.close();
  }
}

/** Waits until the copy waits for a lock that somebody else has. */
async function blocked(): Promise<void> {
  const observer = new Client({ connectionString: target.url });
  await observer.connect();
  try {
    await waitFor(
      async () => {
        const { rowCount } = await observer.query(
          `SELECT 1 FROM pg_stat_activity
           WHERE "datname" = current_database() AND "wait_event_type" = 'Lock'`,
        );
        return rowCount;
      },
      (waiting) => waiting === 1,
      LIMIT,
    );
  } finally {
    await observer.end();
  }
}

/** Waits until the target has no connections but that of the test. */
async function left(): Promise<void> {
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
    LIMIT,
  );
}

describe('db:copy', () => {
  it('copies ids and texts byte for byte, also with gaps and in several batches', async () => {
    const COUNT = 2_345;
    await makeSource(({ sqlite }) =>
      insert(
        sqlite,
        Array.from({ length: COUNT }, (_, index) => ({
          id: index * 3 + 7 + (index > 1_000 ? 1_000_000_000_000 : 0),
          name: TEXTS[index % TEXTS.length]!,
          description: [null, '', TEXTS[index % 7]!, 'd'.repeat(1_000)][index % 4]!,
        })),
      ),
    );
    const { stdout, stderr } = await copyWell();
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

  it('moves a store that was in use: its keys, revoked ones included, and its categories', async () => {
    const source: TestDatabase = {
      config: { type: 'sqlite', file },
      url: `sqlite:${file}`,
      drop: async () => undefined,
    };
    const before = await startApp({ database: source });
    const keys = before.app.get(ApiKeysService);
    const expired = await keys.create('expired', new Date(Date.now() - 1));
    const revoked = await keys.create('revoked', new Date(Date.now() + 1_000_000));
    await keys.revoke(revoked.record.id);
    for (const text of TEXTS) {
      const { status } = await before
        .http()
        .post('/v1/categories')
        .auth(before.key, { type: 'bearer' })
        .send({ name: text, description: text });
      expect(status).toBe(201);
    }
    const list = await before.http().get('/v1/categories').auth(before.key, { type: 'bearer' });
    expect(list.body).toHaveLength(TEXTS.length);
    await before.stop();
    const records = await readKeys(source);
    expect(records.find(({ name }) => name === 'test')?.lastUsedAt).toBeInstanceOf(Date);

    await copyWell();

    expect(await readKeys(target)).toEqual(records);
    const after = await startApp({ database: target });
    try {
      const copied = await after.http().get('/v1/categories').auth(before.key, { type: 'bearer' });
      expect(copied.status).toBe(200);
      expect(copied.text).toBe(list.text);
      expect(copied.headers['etag']).toBe(list.headers['etag']);
      for (const { key } of [expired, revoked]) {
        const { status } = await after.http().get('/v1/categories').auth(key, { type: 'bearer' });
        expect(status).toBe(401);
      }
      // `startApp` has created one more key.
      expect((await readKeys(target)).at(-1)?.id).toBe(records.at(-1)!.id + 1);
    } finally {
      await after.stop();
    }
  });

  it.each<[string, string, number]>([
    ['after the highest id ever given', 'DELETE FROM "categories" WHERE "id" >= 2', 4],
    ['also where no row is left', 'DELETE FROM "categories"', 4],
    ['with 1 where none was ever given', '', 1],
  ])('continues the ids %s', async (_how, change, next) => {
    await makeSource(({ sqlite }) => {
      if (change !== '') insert(sqlite, [{ name: 'dog' }, { name: 'cat' }, { name: 'rabbit' }]);
      sqlite.exec(change);
    });
    await copyWell();
    const app = await startApp({ database: target });
    try {
      const { body } = await app
        .http()
        .post('/v1/categories')
        .auth(app.key, { type: 'bearer' })
        .send({ name: 'hamster' });
      expect(body).toEqual({ id: next, name: 'hamster' });
    } finally {
      await app.stop();
    }
  });

  it('leaves the source as it was', async () => {
    await makeSource(async ({ sqlite, keys }) => {
      insert(sqlite, [{ name: 'dog' }, { name: 'cat' }]);
      await keys.create('test');
    });
    const before = dumpSource();
    await copyWell();
    expect(dumpSource()).toEqual(before);
  });

  it('copies the store as it was at one moment, should somebody write to it meanwhile', async () => {
    await makeSource(async ({ sqlite, keys }) => {
      insert(sqlite, [{ name: 'dog' }]);
      await keys.create('test');
    });
    await migrateTarget();
    await client.query('BEGIN');
    await client.query('LOCK TABLE "api_keys" IN SHARE MODE');
    const running = await startCopy();
    await blocked();
    const sqlite = new Database(file);
    insert(sqlite, [{ name: 'late' }]);
    sqlite.close();
    await client.query('COMMIT');
    expect(await running.outcome).toMatchObject({ code: 0 });
    const { rows } = await client.query('SELECT "id", "name" FROM "categories"');
    expect(rows).toEqual([{ id: '1', name: 'dog' }]);
  });
});

async function readKeys({ config }: TestDatabase): Promise<ApiKey[]> {
  const dataSource = new PetstoreDataSource(databaseOptions(config));
  await dataSource.initialize();
  try {
    return await new ApiKeysService(dataSource.getRepository(ApiKey)).list();
  } finally {
    await dataSource.destroy();
  }
}

describe('db:copy refuses, and changes nothing,', () => {
  it.each<[string, string]>([
    ['api_keys', `("name", "hash", "created_at") VALUES ('test', 'hash', 1)`],
    ['categories', `("name") VALUES ('dog')`],
  ])('a target that has rows in %s', async (table, row) => {
    await makeSource(({ sqlite }) => insert(sqlite, [{ id: 5, name: 'cat' }]));
    await migrateTarget();
    await client.query(`INSERT INTO "${table}" ${row}`);
    const before = await dumpTarget();
    expect(before).not.toEqual(EMPTY);
    await copyBadly(new RegExp(`not empty.*${table}`));
    expect(await dumpTarget()).toEqual(before);
  });

  it('a second copy of the same store', async () => {
    await makeSource(({ sqlite }) => insert(sqlite, [{ name: 'dog' }]));
    await copyWell();
    const before = await dumpTarget();
    await copyBadly(/not empty/);
    expect(await dumpTarget()).toEqual(before);
  });

  it('a source with an older schema', async () => {
    await makeSource(({ sqlite }) => {
      insert(sqlite, [{ name: 'dog' }]);
      sqlite.exec(`DELETE FROM "migrations" WHERE "id" = (SELECT max("id") FROM "migrations")`);
    });
    const before = dumpSource();
    await copyBadly(/older schema/);
    expect(dumpSource()).toEqual(before);
    expect(await dumpTarget()).toBeUndefined();
  });

  it('a source that is no store of the service', async () => {
    const sqlite = new Database(file);
    sqlite.exec('CREATE TABLE "other" ("id" INTEGER)');
    sqlite.close();
    await copyBadly(/schema/);
    const after = new Database(file, { readonly: true });
    expect(after.prepare('SELECT "name" FROM "sqlite_master"').pluck().all()).toEqual(['other']);
    after.close();
    expect(await dumpTarget()).toBeUndefined();
  });

  it.each(['missing.sqlite', 'missing/petstore.sqlite'])(
    'a source that does not exist, without creating it: %s',
    async (missing) => {
      await copyBadly(
        /(exist|not found|no such|unable to open)/,
        '--from',
        `sqlite:${join(directory, missing)}`,
        '--to',
        target.url,
      );
      const [first] = missing.split('/');
      expect(existsSync(join(directory, first!))).toBe(false);
      expect(await dumpTarget()).toBeUndefined();
    },
  );

  it.each<[string, () => string[], RegExp]>([
    ['a target on SQLite', () => ['--from', `sqlite:${file}`, '--to', 'sqlite:other'], /postgres/],
    ['a source on PostgreSQL', () => ['--from', target.url, '--to', target.url], /sqlite/],
    ['no source', () => ['--to', target.url], /--from/],
    ['no target', () => ['--from', `sqlite:${file}`], /--to/],
    [
      'a target whose password is wrong',
      () => [
        '--from',
        `sqlite:${file}`,
        '--to',
        Object.assign(new URL(target.url), { password: 'wrong-0123456789' }).href,
      ],
      /password authentication failed/,
    ],
    [
      'a target that is not there',
      () => [
        '--from',
        `sqlite:${file}`,
        '--to',
        // A port that nobody listens on.
        Object.assign(new URL(target.url), { port: '1', password: 'wrong-0123456789' }).href,
      ],
      /ECONNREFUSED/,
    ],
  ])('%s', async (_what, args, why) => {
    await makeSource(({ sqlite }) => insert(sqlite, [{ name: 'dog' }]));
    const before = dumpSource();
    const { code, stdout, stderr } = await copy(...args());
    expect(stderr).toMatch(why);
    expect(stdout + stderr).not.toMatch(/wrong-0123456789|^\s+at /m);
    expect(code).toBe(1);
    expect(dumpSource()).toEqual(before);
    expect(await dumpTarget()).toBeUndefined();
  });
});

describe('db:copy leaves the target empty', () => {
  const GOOD = Array.from({ length: 1_500 }, (_, index) => ({ name: `category ${index}` }));

  it.each<[string, unknown]>([
    ['with a NUL', 'do\0g'],
    ['that is too long', 'd'.repeat(101)],
    ['that is no text', Buffer.from('dog')],
  ])('where a name was written into the source by hand %s', async (_what, name) => {
    await makeSource(async ({ sqlite, keys }) => {
      await keys.create('test');
      insert(sqlite, [...GOOD, { name }]);
    });
    const before = dumpSource();
    await copyBadly(/\S/);
    expect(dumpSource()).toEqual(before);
    expect(await dumpTarget()).toEqual(EMPTY);

    const sqlite = new Database(file);
    sqlite.exec(`UPDATE "categories" SET "name" = 'mended' WHERE "id" = 1501`);
    sqlite.close();
    await copyWell();
    const { rows } = await client.query(
      'SELECT count(*)::int AS "count", max("id")::int AS "highest" FROM "categories"',
    );
    expect(rows).toEqual([{ count: 1_501, highest: 1_501 }]);
  });

  it('where it cannot copy each row, as with an id below 1', async () => {
    await makeSource(({ sqlite }) => insert(sqlite, [{ id: -1, name: 'below' }, ...GOOD]));
    const { code } = await copy();
    const { rows } = await client.query('SELECT count(*)::int AS "count" FROM "categories"');
    expect({ code, rows }).toEqual(
      code === 0
        ? { code: 0, rows: [{ count: GOOD.length + 1 }] }
        : { code: 1, rows: [{ count: 0 }] },
    );
  });

  it.each(['SIGINT', 'SIGTERM', 'SIGKILL'] as const)(
    'where it is interrupted with %s, and copies all the next time',
    async (signal) => {
      await makeSource(async ({ sqlite, keys }) => {
        await keys.create('test');
        insert(sqlite, GOOD);
      });
      await migrateTarget();
      await client.query('BEGIN');
      await client.query('LOCK TABLE "categories" IN SHARE MODE');
      const running = await startCopy();
      await blocked();
      running.kill(signal);
      const { code } = await running.outcome;
      expect(code).not.toBe(0);
      await client.query('COMMIT');
      await left();
      expect(await dumpTarget()).toEqual(EMPTY);

      await copyWell();
      const { rows } = await client.query('SELECT count(*)::int AS "count" FROM "categories"');
      expect(rows).toEqual([{ count: GOOD.length }]);
    },
  );

  it('where the connection to the target is lost', async () => {
    await makeSource(async ({ sqlite, keys }) => {
      await keys.create('test');
      insert(sqlite, GOOD);
    });
    await migrateTarget();
    await client.query('BEGIN');
    await client.query('LOCK TABLE "categories" IN SHARE MODE');
    const running = await startCopy();
    await blocked();
    await client.query(
      `SELECT pg_terminate_backend("pid") FROM pg_stat_activity
       WHERE "datname" = current_database() AND "pid" <> pg_backend_pid()`,
    );
    const { code, stderr } = await running.outcome;
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: \S.*\nNothing was copied\.\n$/m);
    await client.query('COMMIT');
    await left();
    expect(await dumpTarget()).toEqual(EMPTY);
  });
});
