import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import type { Client } from 'pg';
import {
  Column,
  Entity,
  ForeignKey,
  JoinTable,
  ManyToMany,
  PrimaryColumn,
  PrimaryGeneratedColumn,
} from 'typeorm';
import { copyDatabase, main } from '../src/cli/db-copy.js';
import { createDataSource } from '../src/data-source.js';
import { ApiKeysService } from '../src/platform/auth/keys/api-keys.service.js';
import { databaseOptions } from '../src/platform/database/connection/data-source-options.js';
import { PetstoreDataSource } from '../src/platform/database/connection/petstore-data-source.js';
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

const { jest } = import.meta;

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
const MANY_ROWS = Array.from({ length: 5_000 }, (_, index) => ({ name: `category ${index}` }));

let source: TestDatabase;
let target: TestDatabase;
let file: string;
let client: Client;
beforeEach(async () => {
  source = await createDatabase('sqlite');
  target = await createDatabase();
  file = source.url.replace('sqlite:', '');
  client = await connectToPostgres(target.url);
});
afterEach(async () => {
  await client.end();
  for (const database of [source, target]) await database.drop();
});

/** Creates the schema, like the first start of the service. */
async function migrate({ config }: TestDatabase): Promise<void> {
  const dataSource = await createDataSource(config).initialize();
  await dataSource.migrate();
  await dataSource.destroy();
}

/** Changes the source with plain SQL, bypassing the service. */
function changeSource(change: (sqlite: Database.Database) => void): void {
  const sqlite = new Database(file);
  sqlite.transaction(() => change(sqlite))();
  sqlite.close();
}

/** Creates a source with categories. */
async function createSource(
  rows: readonly { id?: number; name: string; description?: string | null }[] = [{ name: 'dog' }],
): Promise<void> {
  await migrate(source);
  const columns = '("id", "name", "description")';
  changeSource((sqlite) => {
    const insert = sqlite.prepare(`INSERT INTO "categories" ${columns} VALUES (?, ?, ?)`);
    for (const { id = null, name, description = null } of rows) insert.run(id, name, description);
  });
}

const copyOptions = (to = target.url): string[] => ['--from', source.url, '--to', to];

const spawnCopy = (to?: string): RunningCommand =>
  spawnCommand('db-copy', copyOptions(to), { env: {}, cwd: dirname(file) });

async function copy(): Promise<void> {
  expect(await runCommand(main, copyOptions(), {})).toMatchObject({ code: 0, stderr: '' });
}

/** Matches the result of a failed copy: one sentence, without a stack trace. */
const failure = (message: string): CommandResult => ({
  code: 1,
  stdout: expect.any(String) as string,
  stderr: expect.stringMatching(new RegExp(`^error: .*${message}.*\n(Copy failed.\n)?$`)) as string,
});

/** Returns all rows and sequences of the target, one string for each. */
async function dumpTarget(): Promise<string[]> {
  const { rows: tables } = await client.query<{ name: string }>(
    `SELECT "tablename" AS "name" FROM pg_tables
     WHERE "schemaname" = 'public' AND "tablename" NOT IN ('migrations', 'revisions') ORDER BY 1`,
  );
  // The last value of a sequence is null until the first one was assigned.
  const dump = await client.query<{ line: string }>(
    [
      `SELECT "sequencename" || ' ' || coalesce("last_value", 0) AS "line" FROM pg_sequences
       WHERE "sequencename" NOT LIKE 'migrations%'`,
      ...tables.map(({ name }) => `SELECT "t"::text FROM "${name}" AS "t"`),
    ].join(' UNION ALL '),
  );
  return dump.rows.map(({ line }) => line);
}

/** Expects that no copied row is left in the target, and no id was assigned. */
async function expectEmptyTarget(): Promise<void> {
  const dump = await dumpTarget();
  expect(dump.filter((line) => !/^\w+ 0$/.test(line))).toEqual([]);
}

/** Starts a copy in a process, and runs an action while the copy waits for a lock on categories. */
async function whileBlocked(
  action: (kill: (signal: NodeJS.Signals) => void) => unknown,
): Promise<CommandResult> {
  await migrate(target);
  await client.query('BEGIN');
  await client.query('LOCK TABLE "categories" IN SHARE MODE');
  const command = spawnCopy();
  await waitUntilBlocked(target.url, 1);
  await action(command.kill);
  await client.query('COMMIT');
  const result = await command.result;
  // PostgreSQL may still be rolling back.
  await waitFor(
    () =>
      client.query(
        `SELECT 1 FROM pg_stat_activity WHERE "datname" = current_database()
           AND "pid" <> pg_backend_pid() AND "backend_type" = 'client backend'`,
      ),
    ({ rowCount }) => rowCount === 0,
  );
  return result;
}

describe('db:copy', () => {
  it('copies ids and texts unchanged across several batches and id gaps', async () => {
    await createSource(
      MANY_ROWS.map((_, index) => ({
        id: index * 3 + 7 + (index > 1_000 ? 1_000_000_000_000 : 0),
        name: TEXTS[index % TEXTS.length]!,
        description: [null, '', TEXTS[index % 7]!, 'd'.repeat(1_000)][index % 4]!,
      })),
    );
    await copy();
    const sqlite = new Database(file, { readonly: true });
    const select = 'SELECT CAST("id" AS text) AS "id", "name", "description" FROM "categories"';
    const expected = sqlite.prepare(`${select} ORDER BY "categories"."id"`).all();
    sqlite.close();
    const { rows } = await client.query(`${select} ORDER BY "categories"."id"`);
    expect(expected).toHaveLength(MANY_ROWS.length);
    expect(rows).toEqual(expected);
  });

  it('copies the API keys, including revoked ones, and categories of a used database', async () => {
    const before = await startApp({ database: source });
    const keys = before.app.get(ApiKeysService);
    const expired = await keys.create('expired', { expiresAt: new Date(Date.now() - 1) });
    const revoked = await keys.create('revoked');
    await keys.revoke(revoked.record.id);
    for (const text of TEXTS) await before.categories.create(text, text);
    const list = await before.categories.list();
    const records = await keys.list();
    await before.stop();

    await copy();
    const after = await startApp({ database: target });
    const copied = await new CategoriesClient(after.url, before.key).list();
    expect([copied.status, copied.text]).toEqual([200, list.text]);
    expect(copied.headers['etag']).toBe(list.headers['etag']);
    for (const { key } of [expired, revoked])
      expect((await new CategoriesClient(after.url, key).list()).status).toBe(401);
    const copiedKeys = await after.app.get(ApiKeysService).list();
    // The last use may have been written after the list was read; `startApp` created one more key.
    for (const [index, { hash, scopes, revokedAt }] of records.entries())
      expect(copiedKeys[index]).toMatchObject({ hash, scopes, revokedAt });
    expect(copiedKeys.at(-1)!.id).toBe(records.at(-1)!.id + 1);
    await after.stop();
  });

  it.each<[string, string, number]>([
    ['after the highest id ever assigned', 'DELETE FROM "categories" WHERE "id" >= 2', 4],
    ['after the highest id ever assigned if no row is left', 'DELETE FROM "categories"', 4],
    [
      'at 1 if no id was ever assigned',
      'DELETE FROM "categories"; DELETE FROM "sqlite_sequence"',
      1,
    ],
  ])('continues ids %s', async (_case, change, next) => {
    await createSource([{ name: 'dog' }, { name: 'cat' }, { name: 'rabbit' }]);
    changeSource((sqlite) => sqlite.exec(change));
    await copy();
    const { rows } = await client.query(
      `INSERT INTO "categories" ("name") VALUES ('hamster') RETURNING "id"::int AS "id"`,
    );
    expect(rows).toEqual([{ id: next }]);
  });

  it('copies a consistent snapshot of a source that is written to during the copy', async () => {
    await createSource(MANY_ROWS);
    const { code } = await whileBlocked(() =>
      changeSource((sqlite) => sqlite.exec(`INSERT INTO "categories" ("name") VALUES ('late')`)),
    );
    const { rows } = await client.query(`SELECT count(*)::int AS "count" FROM "categories"`);
    expect({ code, rows }).toEqual({ code: 0, rows: [{ count: MANY_ROWS.length }] });
  });
});

/** Returns the URL of the target with some parts replaced. */
const withUrl = (changes: object): string => Object.assign(new URL(target.url), changes).href;

describe('db:copy with invalid input', () => {
  it.each([
    ['api_keys', `("name", "hash", "created_at") VALUES ('test', 'hash', 1)`],
    ['categories', `("name") VALUES ('dog')`],
  ])('rejects a target that has rows in %s', async (table, row) => {
    await createSource();
    await migrate(target);
    await client.query(`INSERT INTO "${table}" ${row}`);
    const before = await dumpTarget();
    expect(await runCommand(main, copyOptions(), {})).toEqual(failure(`not empty.*${table}`));
    expect(await dumpTarget()).toEqual(before);
  });

  it.each([
    ['an older schema', 'DELETE FROM "migrations" WHERE "id" = 3'],
    ['the schema of another program', 'DROP TABLE "migrations"'],
  ])('rejects a source with %s, and does not change it', async (_case, change) => {
    await createSource();
    changeSource((sqlite) => sqlite.exec(change));
    for (let run = 0; run < 2; run++)
      expect(await runCommand(main, copyOptions(), {})).toEqual(failure('schema is outdated'));
    await expectEmptyTarget();
  });

  it.each<[string, () => string[], string]>([
    ['a missing source', () => ['--from', 'sqlite:no/such', '--to', target.url], 'does not exist'],
    ['a target on SQLite', () => copyOptions('sqlite:other'), 'from sqlite: to postgres:'],
    ['a source on PostgreSQL', () => ['--from', target.url, '--to', target.url], 'from sqlite:'],
    ['no source', () => ['--to', target.url], '--from'],
    ['a wrong password', () => copyOptions(withUrl({ password: 'hunter2' })), 'authentication'],
  ])('rejects %s with one sentence, and changes nothing', async (_case, getArgs, message) => {
    await createSource();
    expect(await runCommand(main, getArgs(), {})).toEqual(failure(message));
    expect(existsSync('no')).toBe(false);
    await expectEmptyTarget();
  });

  it('exits with 1 if the target is unreachable, and reports the cause without the password', async () => {
    await createSource();
    const { stderr, code } = await spawnCopy(withUrl({ port: '1', password: 'hunter2' })).result;
    expect([code, stderr]).toEqual([1, expect.stringMatching(/^error: .*ECONNREFUSED/)]);
    expect(stderr).not.toContain('hunter2');
  });
});

describe('db:copy rollback', () => {
  it.each([
    ['contains a NUL', 'do\0g'],
    ['is too long', 'd'.repeat(101)],
  ])('leaves the target empty if a name in the source %s', async (_case, name) => {
    await createSource([...MANY_ROWS, { name }]);
    expect(await runCommand(main, copyOptions(), {})).toEqual(failure('(0x00|too long)'));
    await expectEmptyTarget();
    changeSource((sqlite) => sqlite.exec(`UPDATE "categories" SET "name" = 'x' WHERE "id" = 5001`));
    await copy();
  });

  it.each<[string, (kill: (signal: NodeJS.Signals) => void) => unknown]>([
    ['it is interrupted with SIGINT', (kill) => kill('SIGINT')],
    ['it is interrupted with SIGKILL', (kill) => kill('SIGKILL')],
    [
      'the connection to it is lost',
      () =>
        client.query(
          `SELECT pg_terminate_backend("pid") FROM pg_stat_activity
           WHERE "datname" = current_database() AND "pid" <> pg_backend_pid()`,
        ),
    ],
  ])('leaves the target empty when %s, and succeeds when run again', async (_case, interrupt) => {
    await createSource(MANY_ROWS);
    expect((await whileBlocked(interrupt)).code).not.toBe(0);
    await expectEmptyTarget();
    await copy();
  });
});

/** References itself, and a table that is declared later. */
@Entity('pets')
class PetEntity {
  @PrimaryGeneratedColumn()
  id!: number;

  @ForeignKey('pets', { name: 'fk_pets_mother_id' })
  @Column('integer', { name: 'mother_id', nullable: true })
  motherId!: number | null;

  @ForeignKey('owners', { name: 'fk_pets_owner' })
  @Column('varchar', { nullable: true })
  owner!: string | null;

  @Column('json', { nullable: true })
  details!: unknown;

  @Column('boolean')
  chipped!: boolean;

  @Column('bigint', { name: 'born_at', nullable: true })
  bornAt!: string | null;

  @Column('date', { nullable: true })
  vaccinated!: string | null;

  @ManyToMany(() => ToyEntity)
  @JoinTable({ name: 'pet_toys' })
  toys!: ToyEntity[];
}

/** Has a text as its primary key. */
@Entity('owners')
class OwnerEntity {
  @PrimaryColumn('varchar')
  name!: string;
}

/** Has ids that the database does not assign. */
@Entity('toys')
class ToyEntity {
  @PrimaryColumn('integer')
  id!: number;
}

/** Creates the tables of these entities, and leaves the connection open. */
async function createTables({ config }: TestDatabase): Promise<PetstoreDataSource> {
  const entities = [PetEntity, OwnerEntity, ToyEntity];
  const dataSource = new PetstoreDataSource(databaseOptions(config, { entities, migrations: [] }));
  await dataSource.initialize();
  await dataSource.synchronize();
  return dataSource;
}

describe('db:copy of the tables of a feature', () => {
  let before: PetstoreDataSource;
  let after: PetstoreDataSource;
  beforeEach(async () => {
    [before, after] = [await createTables(source), await createTables(target)];
    // The command prints the number of rows of each table.
    jest.spyOn(process.stdout, 'write').mockReturnValue(true);
  });
  afterEach(async () => {
    jest.restoreAllMocks();
    for (const dataSource of [before, after]) await dataSource.destroy();
  });

  it('copies each table after those that it references, with JSON, booleans, dates and large integers', async () => {
    const details = { text: "\u{1F415} ' \\", list: [1, null, { deep: true }], number: 1.5 };
    await before.query(`INSERT INTO "owners" VALUES ('Ann'), ('狗')`);
    await before.query(
      `INSERT INTO "pets" ("id", "chipped", "mother_id", "owner", "details", "born_at", "vaccinated")
       VALUES (3, 0, NULL, 'Ann', ?, NULL, NULL), (4, 1, 3, NULL, '[]', NULL, '2026-02-28'),
              (41, 0, NULL, NULL, '"text"', 9007199254740991, NULL)`,
      [JSON.stringify(details)],
    );
    await before.query('INSERT INTO "toys" VALUES (-5), (7)');
    await before.query('INSERT INTO "pet_toys" VALUES (3, 7), (4, -5)');
    await copyDatabase(file, after);
    const columns = `"id", "mother_id", "owner", "details", "chipped", "born_at", "vaccinated"::text`;
    const rows: object[] = await after.query(`SELECT ${columns} FROM "pets" ORDER BY "id"`);
    expect(rows.map((row) => Object.values(row) as unknown[])).toEqual([
      [3, null, 'Ann', details, false, null, null],
      [4, 3, null, [], true, null, '2026-02-28'],
      [41, null, null, 'text', false, '9007199254740991', null],
    ]);
    expect(await after.query('SELECT * FROM "pet_toys" ORDER BY "toysId"')).toEqual([
      { petsId: 4, toysId: -5 },
      { petsId: 3, toysId: 7 },
    ]);
    expect(
      await after.query('INSERT INTO "pets" ("chipped") VALUES (true) RETURNING "id"'),
    ).toEqual([{ id: 42 }]);
  });

  it.each([
    [
      'a row references a missing one',
      `INSERT INTO "pets" ("id", "chipped", "mother_id") VALUES (1, 0, 9)`,
      'fk_pets_mother_id',
    ],
    [
      'the target drops a row',
      `INSERT INTO "owners" ("name") VALUES ('Bob')`,
      'The copy of owners has another number of rows than its source.',
    ],
  ])('copies nothing if %s', async (_case, change, message) => {
    await after.query(
      `CREATE FUNCTION "drop_bob"() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN RETURN CASE NEW."name" WHEN 'Bob' THEN NULL ELSE NEW END; END $$`,
    );
    await after.query(
      'CREATE TRIGGER "drop" BEFORE INSERT ON "owners" FOR EACH ROW EXECUTE FUNCTION "drop_bob"()',
    );
    await before.query(`INSERT INTO "owners" VALUES ('Ann')`);
    await before.query('PRAGMA foreign_keys = OFF');
    await before.query(change);
    await expect(copyDatabase(file, after)).rejects.toThrow(message);
    expect(await after.query('SELECT * FROM "owners"')).toEqual([]);
  });
});
