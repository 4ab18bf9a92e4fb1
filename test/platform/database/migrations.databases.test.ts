import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { NestExpressApplication } from '@nestjs/platform-express';
import Database from 'better-sqlite3';
import type { Type } from '@nestjs/common';
import { type QueryRunner, Table, TableColumn } from 'typeorm';
import type { BetterSqlite3Driver } from 'typeorm/driver/better-sqlite3/BetterSqlite3Driver.js';
import { createApp } from '../../../src/platform/application/create-app.js';
import { main as keysCommand } from '../../../src/cli/keys.js';
import { main as migrationsCommand } from '../../../src/cli/migrations.js';
import { collectSchema, createDataSource } from '../../../src/platform/application/data-source.js';
import { FEATURES } from '../../../src/features.js';
import { PRODUCT } from '../../../src/product.js';
import { ApiKeysService } from '../../../src/platform/auth/keys/api-keys.service.js';
import { loadConfig } from '../../../src/platform/config/config.js';
import { generateKey } from '../../../src/platform/config/key-format.js';
import {
  createServiceDataSource,
  databaseOptions,
} from '../../../src/platform/database/connection/create-data-source.js';
import { idColumn } from '../../../src/platform/database/statements/columns.js';
import type { ServiceDataSource } from '../../../src/platform/database/connection/service-data-source.js';
import { Feature } from '../../../src/platform/feature.decorator.js';
import { createDatabase, type TestDatabase, toRoot } from '../support/app.js';
import { DATABASE, describeOnPostgres, describeOnSqlite } from '../support/databases.js';
import { runCommand } from '../support/cli.js';
import { CategoriesClient, sendRequest } from '../support/http-client.js';
import { MemoryLogger } from '../support/memory-logger.js';
import { connectToPostgres, queryPostgres, waitUntilBlocked } from '../support/postgres-client.js';
import { dumpSchema } from '../support/schema-dump.js';
import { readBlocks } from '../support/snippets.js';
import { waitFor } from '../support/wait.js';

const { jest } = import.meta;

let database: TestDatabase;
let env: { readonly DATABASE_URL: string };
let dataSources: ServiceDataSource[];
beforeEach(async () => {
  database = await createDatabase();
  env = { DATABASE_URL: database.url };
  dataSources = [];
});
afterEach(async () => {
  jest.restoreAllMocks();
  for (const dataSource of dataSources) if (dataSource.isInitialized) await dataSource.destroy();
  await database.drop();
});

function connect(): ServiceDataSource {
  const dataSource = createDataSource({ database: database.config, product: PRODUCT }, FEATURES);
  dataSources.push(dataSource);
  return dataSource;
}

/** Returns a connection to the migrated database. */
async function connectMigrated(): Promise<ServiceDataSource> {
  const dataSource = connect();
  await dataSource.initialize();
  await dataSource.migrate();
  return dataSource;
}

/** The names of all migrations, in the order of their timestamps. */
const ALL_NAMES = collectSchema(FEATURES)
  .migrations.map(({ name }) => name)
  .toSorted((a, b) => Number(a.slice(-13)) - Number(b.slice(-13)));

const readAppliedMigrations = async (dataSource: ServiceDataSource): Promise<string[]> => {
  const rows: { name: string }[] = await dataSource.query(
    'SELECT "name" FROM "migrations" ORDER BY "id"',
  );
  return rows.map(({ name }) => name);
};

describe('migration runner', () => {
  it('applies and reverts each migration, so that the schema before it is restored', async () => {
    const dataSource = await connect().initialize();
    const all = ALL_NAMES.map((name) =>
      dataSource.migrations.find((migration) => migration.constructor.name === name)!,
    );
    // TypeORM does not drop its own table; the modes of the triggers have a test of their own.
    const dump = async (): Promise<string[]> =>
      (await dumpSchema(dataSource))
        .filter((object) => !/"?(migrations|sqlite_sequence)/.test(object))
        .map((object) => object.replace(/"tgenabled":"."/, ''));
    const schemas: string[][] = [];
    for (const [index] of all.entries()) {
      schemas.push(await dump());
      Object.assign(dataSource, { migrations: all.slice(0, index + 1) });
      expect(await dataSource.migrate()).toHaveLength(1);
    }
    for (const schema of schemas.toReversed()) {
      await dataSource.revertMigration();
      expect(await dump()).toEqual(schema);
    }
  });

  it('applies each migration once when two connections open the same empty database', async () => {
    const [first, second] = [connect(), connect()];
    const applied = await Promise.all(
      [first, second].map(async (dataSource) => (await dataSource.initialize()).migrate()),
    );
    expect(applied.flat().map(({ name }) => name)).toEqual(ALL_NAMES);
    expect(await readAppliedMigrations(second)).toEqual(ALL_NAMES);
  });
});

describe('Changing a table with rows in docs/adding-a-module.md', () => {
  it('keeps the rows, and has the columns that the statements say', async () => {
    const blocks = await readBlocks('docs/adding-a-module.md');
    const { code } = blocks.find((each) => each.code.startsWith('// Wider.'))!;
    // oxlint-disable-next-line typescript/no-implied-eval
    const run = new Function('queryRunner', 'TableColumn', `return (async () => {${code}})()`) as (
      queryRunner: QueryRunner,
      Column: typeof TableColumn,
    ) => Promise<void>;
    class CreateSuppliers1795000000001 {
      up(queryRunner: QueryRunner): Promise<void> {
        const columns = [
          idColumn(queryRunner, 'pk_suppliers'),
          { name: 'name', type: 'varchar', length: '10' },
        ];
        return queryRunner.createTable(new Table({ name: 'suppliers', columns }));
      }
    }
    class ChangeSuppliers1795000000002 {
      up(queryRunner: QueryRunner): Promise<void> {
        return run(queryRunner, TableColumn);
      }
    }
    // A team may have a table with this name.
    const dataSource = createDataSource({ database: database.config, product: PRODUCT }, []);
    dataSources.push(dataSource);
    await dataSource.initialize();
    await dataSource.migrate();
    const [create, change] = [
      new CreateSuppliers1795000000001(),
      new ChangeSuppliers1795000000002(),
    ];
    Object.assign(dataSource, { migrations: [...dataSource.migrations, create] });
    await dataSource.migrate();
    await dataSource.query(`INSERT INTO "suppliers" ("name") VALUES ('one'), ('two')`);
    Object.assign(dataSource, { migrations: [...dataSource.migrations, change] });
    await dataSource.migrate();
    const long = 'l'.repeat(200);
    await dataSource.query(`INSERT INTO "suppliers" ("name") VALUES ('${long}')`);
    const rows = await dataSource.query('SELECT "name", "city" FROM "suppliers" ORDER BY "id"');
    expect(rows).toEqual([
      { name: 'one', city: '' },
      { name: 'two', city: '' },
      { name: long, city: null },
    ]);
  });
});

const ignore = (): void => undefined;

/** Runs the migrations of features one by one, and returns what would lose rows, or changes a table of the platform. */
async function findUnsafeStatements(features: readonly Type[]): Promise<string[]> {
  const schema = collectSchema(features);
  const dataSource = createServiceDataSource(
    databaseOptions({ database: database.config, product: PRODUCT }, schema),
  );
  dataSources.push(dataSource);
  await dataSource.initialize();
  const own = new Set(collectSchema([]).migrations.map(({ name }) => name));
  const queries: string[] = [];
  Object.assign(dataSource, {
    logger: {
      log: ignore,
      logMigration: ignore,
      logSchemaBuild: ignore,
      logQueryError: ignore,
      logQuerySlow: ignore,
      logQuery: (query: string) => queries.push(query),
    },
  });
  const statements: { migration: string; query: string; table: string }[] = [];
  const all = dataSource.migrations.toSorted((a, b) => getTimestamp(a) - getTimestamp(b));
  for (const [index, { constructor }] of all.entries()) {
    queries.length = 0;
    Object.assign(dataSource, { migrations: all.slice(0, index + 1) });
    await dataSource.migrate();
    for (const query of queries.flatMap((text) => text.split(/;\s*/))) {
      const [, table = ''] = CHANGES_TABLE.exec(query) ?? [];
      if (table !== '') statements.push({ migration: constructor.name, query, table });
    }
  }
  // Some alter the tables of features, too.
  const ownTables = new Set(
    statements
      .filter(({ migration, query }) => own.has(migration) && /^\s*CREATE/i.test(query))
      .map(({ table }) => table),
  );
  return statements.flatMap(({ migration, query, table }) => {
    if (own.has(migration)) return [];
    if (ownTables.has(table)) return `${migration} changes a table of the platform: ${query}`;
    const dropped = new Set(
      statements
        .filter((other) => other.migration === migration && other.table === table)
        .flatMap((other) => findColumns(other.query, 'DROP')),
    );
    return findColumns(query, 'ADD')
      .filter((column) => dropped.has(column))
      .map(() => `${migration} drops a column, and adds it without its values: ${query}`);
  });
}

const CHANGES_TABLE =
  /^\s*(?:ALTER|DROP|CREATE)(?: UNLOGGED)? TABLE (?:IF (?:NOT )?EXISTS )?(?:ONLY )?(?:"?\w+"?\.)?"?(\w+)/i;

/** Returns the columns that a statement drops or adds. */
const findColumns = (query: string, verb: 'DROP' | 'ADD'): string[] =>
  Array.from(
    query.matchAll(
      RegExp(`\\b${verb} (?!CONSTRAINT)(?:COLUMN )?(?:IF (?:NOT )?EXISTS )?"?(\\w+)`, 'gi'),
    ),
    ([, column]) => column!.toLowerCase(),
  );

const getTimestamp = ({ constructor }: object): number => Number(constructor.name.slice(-13));

/** Returns what is unsafe in a migration of a table with a column `name`. */
async function findUnsafeIn(change: (queryRunner: QueryRunner) => Promise<void>): Promise<string> {
  class ChangeToys1800000000000 {
    async up(queryRunner: QueryRunner): Promise<void> {
      await queryRunner.createTable(new Table({ name: 'test_toys', columns: [NAME, KIND] }));
      await change(queryRunner);
    }
    async down(): Promise<void> {}
  }
  @Feature({ tag: [], migrations: [ChangeToys1800000000000] })
  class ToysModule {}
  return (await findUnsafeStatements([...FEATURES, ToysModule])).join('\n');
}

const NAME = { name: 'name', type: 'varchar', length: '10', isNullable: true };
const KIND = { ...NAME, name: 'kind' };
const DROPS = 'ChangeToys1800000000000 drops a column, and adds it without its values: ';
const CHANGES = 'ChangeToys1800000000000 changes a table of the platform: ';

describe('the migrations of the features', () => {
  it('drop no column that they add again, and change no table of the platform', async () => {
    expect(await findUnsafeStatements(FEATURES)).toEqual([]);
  });

  it('fail startup if TypeORM drops a column, to change it', async () => {
    const unsafe = await findUnsafeIn((queryRunner) =>
      queryRunner.changeColumn('test_toys', 'name', new TableColumn({ ...NAME, length: '20' })),
    );
    // SQLite copies the rows of a table that is changed.
    expect(unsafe.startsWith(DROPS)).toBe(database.config.type === 'postgres');
  });

  it.each([
    'ALTER TABLE test_toys DROP COLUMN name; ALTER TABLE test_toys ADD COLUMN name text',
    'alter table "test_toys" drop "name"; alter table test_toys add name text',
    ...(DATABASE === 'sqlite'
      ? []
      : [
          'ALTER TABLE public.test_toys DROP COLUMN IF EXISTS name, ADD COLUMN IF NOT EXISTS "name" text',
        ]),
  ])('fail startup if they drop a column, and add it again: %s', async (sql) => {
    const unsafe = await findUnsafeIn(async ({ manager }) => {
      for (const statement of sql.split('; ')) await manager.query(statement);
    });
    expect(unsafe).toMatch(RegExp(`^${DROPS}`));
  });

  it.each(DATABASE === 'sqlite' ? ['api_keys', 'migrations'] : ['rate_limits', 'revisions'])(
    'fail startup if they change the table %s of the platform',
    async (table) => {
      const add = `ALTER TABLE ${table} ADD COLUMN nick text`;
      expect(await findUnsafeIn(({ manager }) => manager.query(add))).toBe(CHANGES + add);
    },
  );

  it('pass if they drop a column for good', async () => {
    const drop = 'ALTER TABLE "test_toys" DROP COLUMN "name"';
    expect(await findUnsafeIn(({ manager }) => manager.query(drop))).toBe('');
  });
});

// On SQLite the type of the ids differs from the entities (see IdColumn). The migrations are the same.
describeOnPostgres('the schema of the migrations', () => {
  it('equals the schema of the entities, so that synchronization changes nothing', async () => {
    const dataSource = await connectMigrated();
    const { upQueries, downQueries } = await dataSource.driver.createSchemaBuilder().log();
    expect(upQueries.map(({ query }) => query)).toEqual([]);
    expect(downQueries.map(({ query }) => query)).toEqual([]);
  });
});

describeOnPostgres('a migration', () => {
  it('makes the triggers of revisions fire in all sessions, and reverts that', async () => {
    const dataSource = await connectMigrated();
    const readModes = (): Promise<unknown> =>
      dataSource.query(`SELECT DISTINCT "tgenabled" AS "mode" FROM pg_trigger
        WHERE "tgfoid" = 'raise_revision'::regproc`);
    let reverted: string | undefined;
    while (reverted !== 'AlwaysRaiseRevisions1763600000008')
      reverted = (await dataSource.revertMigration())!.name;
    expect(await readModes()).toEqual([{ mode: 'O' }]);
    await dataSource.migrate();
    expect(await readModes()).toEqual([{ mode: 'A' }]);
  });

  it('takes longer than the statement_timeout of the role without an error', async () => {
    const other = await connectToPostgres(database.url);
    const { pathname } = new URL(database.url);
    await other.query(`ALTER DATABASE "${pathname.slice(1)}" SET statement_timeout = 500`);
    await other.query('SELECT pg_advisory_lock(7738378831)');
    const dataSource = await connect().initialize();
    const migration = dataSource.migrate();
    // Longer than the timeout.
    await delay(600);
    await other.end();
    expect(await migration).toHaveLength(dataSource.migrations.length);
  });

  it('waits for that of another process before it is reverted', async () => {
    const dataSource = await connectMigrated();
    const other = await connectToPostgres(database.url);
    await other.query('SELECT pg_advisory_lock(7738378831)');
    const revert = dataSource.revertMigration();
    await waitUntilBlocked(database.url, 1);
    expect(await readAppliedMigrations(dataSource)).toEqual(ALL_NAMES);
    await other.end();
    expect((await revert)!.name).toBe(ALL_NAMES.at(-1));
    expect(await readAppliedMigrations(dataSource)).toEqual(ALL_NAMES.slice(0, -1));
  });
});

/** Returns why the service does not start. */
async function start(migrations = 'auto', config = database.config): Promise<string> {
  const app = await createApp(
    { ...loadConfig(PRODUCT, { MIGRATIONS: migrations }), database: config },
    toRoot(FEATURES),
    { logger: false },
  );
  const error = await app.init().then(String, String);
  await app.close();
  return error;
}

describe('a migration that the database rejects', () => {
  it('fails startup, leaves the database unchanged, and succeeds once the conflict is removed', async () => {
    const dataSource = await connect().initialize();
    await dataSource.query('CREATE TABLE "categories" ("unrelated" text)');
    const before = await dumpSchema(dataSource);
    // TypeORM prints it.
    jest.spyOn(console, 'log').mockImplementation();
    expect(await start()).toMatch(
      /Error: Migration CreateCategories1763600000002 failed: .*categories.* already exists/,
    );
    // TypeORM may have created its own table.
    const after = (await dumpSchema(dataSource)).filter((object) => !object.includes('migrations'));
    expect(after).toEqual(before);
    await dataSource.query('DROP TABLE "categories"');
    await dataSource.migrate();
    expect(await readAppliedMigrations(dataSource)).toEqual(ALL_NAMES);
  });

  it('fails startup and the command by its name if a table of the platform was dropped', async () => {
    const dataSource = await connectMigrated();
    const last = ALL_NAMES.find((name) => name.startsWith('AddApiKeySuccessors'));
    await dataSource.query(`DELETE FROM "migrations" WHERE "name" = '${last}'`);
    await dataSource.query('DROP TABLE "api_keys"');
    // TypeORM prints it.
    jest.spyOn(console, 'log').mockImplementation();
    expect(await start()).toMatch(/Migration AddApiKeySuccessors\d+ failed: .*api_keys/);
    const { code, stderr } = await runCommand(migrationsCommand, ['run'], env);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: Migration AddApiKeySuccessors\d+ failed: .*api_keys.*\n$/);
  });

  it.each([
    DATABASE === 'postgres'
      ? ['auto', 'DROP TABLE "revisions"', 'revisions']
      : ['auto', 'DROP TABLE "idempotency_records"', 'idempotency_records'],
    ['off', 'DROP TABLE "api_keys"', 'api_keys'],
    ['auto', 'ALTER TABLE "api_keys" RENAME COLUMN "scopes" TO "moved"', 'scopes'],
  ])('fails startup if its changes were undone, MIGRATIONS=%s: %s', async (mode, sql, name) => {
    await (await connectMigrated()).query(sql);
    expect(await start(mode)).toMatch(new RegExp(`The database schema is outdated.*${name}`));
  });

  it('appears by its name in the error of a revert, and stays applied', async () => {
    class ChangeToys1800000000000 {
      async up(): Promise<void> {}
      down({ manager }: QueryRunner): Promise<void> {
        return manager.query('DROP TABLE "missing"');
      }
    }
    const dataSource = await connectMigrated();
    Object.assign(dataSource, {
      migrations: [...dataSource.migrations, new ChangeToys1800000000000()],
    });
    await dataSource.migrate();
    const message = /^Migration ChangeToys1800000000000 failed: .*missing/;
    await expect(dataSource.revertMigration()).rejects.toThrow(message);
    expect(await readAppliedMigrations(dataSource)).toContain('ChangeToys1800000000000');
  });
});

/** Runs statements of SQLite as a migration does. */
const toMigration =
  (sql: string) =>
  async ({ dataSource }: QueryRunner): Promise<void> => {
    const { databaseConnection } = dataSource.driver as BetterSqlite3Driver;
    (databaseConnection as Database.Database).exec(sql);
  };

/** Connects to the migrated SQLite database with another migration. */
async function connectTo(up: string, down = ''): Promise<ServiceDataSource> {
  class ChangeToys1800000000000 {
    up = toMigration(up);
    down = toMigration(down);
  }
  @Feature({ tag: [], migrations: [ChangeToys1800000000000] })
  class ToysModule {}
  const schema = collectSchema([...FEATURES, ToysModule]);
  const dataSource = createServiceDataSource(
    databaseOptions({ database: database.config, product: PRODUCT }, schema),
  );
  dataSources.push(dataSource);
  return dataSource.initialize();
}

/** Changes the SQLite database without a check of foreign keys. */
function changeUnchecked(sql: string): void {
  const other = new Database(database.url.slice('sqlite:'.length));
  other.pragma('foreign_keys = OFF');
  other.exec(sql);
  other.close();
}

describeOnSqlite('a migration after which rows refer to missing rows', () => {
  const TABLE = 'CREATE TABLE "test_toys" ("category_id" integer REFERENCES "categories" ("id"))';
  const INSERT = 'INSERT INTO "test_toys" VALUES (7), (8)';
  const RECREATE = `DROP TABLE "categories"; CREATE TABLE "categories" ("id" integer PRIMARY KEY, "name" varchar(100))`;
  const ERROR = /^The migration leaves rows of test_toys that refer to missing rows of categories/;

  const SEED = `INSERT INTO "categories" ("id", "name") VALUES (7, 'cat'), (8, 'dog')`;

  it.each([
    ['inserts them', `${TABLE}; ${INSERT}`, ''],
    ['recreates the other table', RECREATE, `${TABLE}; ${SEED}; ${INSERT}`],
    ['adds to those of before', `INSERT INTO "test_toys" VALUES (9)`, `${TABLE}; ${INSERT}`],
  ])('fails if it %s, and leaves the database unchanged', async (_how, up, before) => {
    await connectMigrated();
    changeUnchecked(before);
    const dataSource = await connectTo(up);
    const schema = await dumpSchema(dataSource);
    await expect(dataSource.migrate()).rejects.toThrow(ERROR);
    expect(await dumpSchema(dataSource)).toEqual(schema);
    expect(await readAppliedMigrations(dataSource)).toEqual(ALL_NAMES);
    expect(await dataSource.query('PRAGMA foreign_keys')).toEqual([{ foreign_keys: 1 }]);
  });

  it('fails if it is reverted so, and stays applied', async () => {
    await connectMigrated();
    const dataSource = await connectTo(`${TABLE}; ${SEED}; ${INSERT}`, RECREATE);
    await dataSource.migrate();
    await expect(dataSource.revertMigration()).rejects.toThrow(ERROR);
    expect(await readAppliedMigrations(dataSource)).toHaveLength(ALL_NAMES.length + 1);
  });

  it('succeeds if the references were wrong before', async () => {
    await connectMigrated();
    changeUnchecked(`${TABLE}; ${INSERT}`);
    const dataSource = await connectTo('DELETE FROM "test_toys" WHERE "category_id" = 8');
    expect(await dataSource.migrate()).toHaveLength(1);
  });
});

describe('MIGRATIONS=off', () => {
  const logger = new MemoryLogger();
  let app: NestExpressApplication;
  beforeEach(async () => {
    const config = { ...loadConfig(PRODUCT, { MIGRATIONS: 'off' }), database: database.config };
    app = await createApp(config, toRoot(FEATURES), { logger });
    await app.listen(0, '127.0.0.1');
  });
  afterEach(() => app.close());

  const getStatus = async (path: string): Promise<number> => {
    const headers = { authorization: `Bearer ${generateKey(PRODUCT.keyPrefixes[0])}` };
    return (await sendRequest((await app.getUrl()) + path, { headers })).status;
  };

  it('starts without migrating, and is ready once the schema is migrated explicitly', async () => {
    expect(await getStatus('/readyz')).toBe(503);
    expect(await getStatus('/livez')).toBe(200);
    expect(await getStatus('/v1/categories')).toBe(503);
    expect(logger.text).toMatch(/The database schema is outdated\. Migrate it with: .*migrations/);
    const dataSource = connect();
    await dataSource.initialize();
    expect(await dumpSchema(dataSource)).toEqual([]);

    await dataSource.migrate();
    await waitFor(
      () => getStatus('/readyz'),
      (status) => status === 200,
    );
    const { key } = await app.get(ApiKeysService).create('test');
    expect(await new CategoriesClient(await app.getUrl(), key).getAll()).toEqual([]);
  });
});

describe('migrations command', () => {
  it('applies all pending migrations, and reverts the last one', async () => {
    const applied = ALL_NAMES.map((name) => `Applied migration ${name}\n`).join('');
    const outputs: string[] = [];
    for (const args of ['run', 'run', 'revert'])
      outputs.push((await runCommand(migrationsCommand, [args], env)).stdout);
    expect(outputs).toEqual([
      applied,
      'No migrations are pending.\n',
      `Reverted migration ${ALL_NAMES.at(-1)}\n`,
    ]);
  });
});

describeOnPostgres('a role without privileges', () => {
  let role: string;
  let url: string;
  beforeEach(async () => {
    await connectMigrated();
    role = `r${randomUUID().replaceAll('-', '')}`;
    await queryPostgres(database.url, `CREATE ROLE ${role} LOGIN PASSWORD 'secret'`);
    url = Object.assign(new URL(database.url), { username: role, password: 'secret' }).href;
  });
  afterEach(() => queryPostgres(database.url, `DROP OWNED BY ${role}; DROP ROLE ${role}`));

  /** Returns why the commands fail. */
  async function runCommands(): Promise<string[]> {
    const results = [
      await runCommand(keysCommand, ['list'], { DATABASE_URL: url }),
      await runCommand(migrationsCommand, ['run'], { DATABASE_URL: url }),
    ];
    return results.map(({ code, stderr }) => (code === 1 ? stderr : ''));
  }

  it.each(['off', 'auto'])(
    'fails startup with its name and the tables, MIGRATIONS=%s',
    async (mode) => {
      const denied = 'permission denied for table migrations';
      expect(await start(mode, { type: 'postgres', url })).toContain(`${denied} (42501)`);
      expect(await runCommands()).toEqual([`error: ${denied}\n`, `error: ${denied}\n`]);
      await queryPostgres(database.url, `GRANT SELECT ON "migrations" TO ${role}`);
      expect(await start(mode, { type: 'postgres', url })).toContain(
        'permission denied for table revisions (42501)',
      );
    },
  );

  it.each(['off', 'auto'])(
    'fails startup with its name and the schema, MIGRATIONS=%s',
    async (mode) => {
      const sql = `ALTER SCHEMA public RENAME TO "Pets"; CREATE SCHEMA public;
      GRANT ALL ON ALL TABLES IN SCHEMA "Pets" TO ${role}; ALTER ROLE ${role} SET search_path = '$user', "Pets", public`;
      await queryPostgres(database.url, `${sql}; REVOKE USAGE ON SCHEMA "Pets" FROM PUBLIC`);
      const denied = 'permission denied for schema Pets';
      expect(await start(mode, { type: 'postgres', url })).toContain(`${denied} (42501)`);
      expect(await runCommands()).toEqual([`error: ${denied}\n`, `error: ${denied}\n`]);
    },
  );

  it('learns which schemas were searched if none has the tables', async () => {
    await queryPostgres(database.url, `ALTER ROLE ${role} SET search_path = pg_catalog`);
    const { stderr } = await runCommand(keysCommand, ['list'], { DATABASE_URL: url });
    expect(stderr).toMatch(/outdated\..* The search_path pg_catalog has no table "migrations"\.\n/);
  });
});

describe('keys commands on an outdated schema', () => {
  it.each([
    [['list'], {}],
    [['create', 'x'], { MIGRATIONS: 'off' }],
  ])('%j fails with %j, and changes nothing', async (args, more) => {
    const dataSource = await connectMigrated();
    await dataSource.revertMigration();
    const before = await dumpSchema(dataSource);
    const { code, stderr } = await runCommand(keysCommand, args, { ...env, ...more });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: The database schema is outdated\. Migrate it with: .*\n$/);
    expect(await dumpSchema(dataSource)).toEqual(before);
  });
});
