import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PetstoreDataSource } from '../src/platform/database/petstore-data-source.js';
import { databaseOptions } from '../src/platform/database/data-source-options.js';
import { createDatabase, type TestDatabase } from './support/app.js';
import { buildOnce } from './support/build.js';
import { dumpSchema } from './support/schema-dump.js';

const MAX_ID = Number.MAX_SAFE_INTEGER;

let database: TestDatabase;
let dataSources: PetstoreDataSource[];
beforeEach(async () => {
  database = await createDatabase();
  dataSources = [];
});
afterEach(async () => {
  for (const dataSource of dataSources) if (dataSource.isInitialized) await dataSource.destroy();
  await database.drop();
});

function connect(): PetstoreDataSource {
  const dataSource = new PetstoreDataSource(databaseOptions(database.config));
  dataSources.push(dataSource);
  return dataSource;
}

async function migrated(): Promise<PetstoreDataSource> {
  const dataSource = connect();
  await dataSource.open();
  return dataSource;
}

const allMigrations = ({ migrations }: PetstoreDataSource): string[] =>
  migrations.map((migration) => migration.constructor.name);

const takenMigrations = async (dataSource: PetstoreDataSource): Promise<string[]> => {
  const rows: { name: string }[] = await dataSource.query(
    'SELECT "name" FROM "migrations" ORDER BY "id"',
  );
  return rows.map(({ name }) => name);
};

describe('The migrations', () => {
  it('leave no trace when they are taken back, and bring the same when they are taken again', async () => {
    const dataSource = await migrated();
    const count = dataSource.migrations.length;
    expect(count).toBeGreaterThan(0);
    const up = await dumpSchema(dataSource);
    expect(up.filter((thing) => thing.includes('"categories"'))).not.toEqual([]);

    for (let left = count; left > 0; left--) {
      expect(await takenMigrations(dataSource)).toHaveLength(left);
      await dataSource.undoLastMigration();
    }
    expect(await takenMigrations(dataSource)).toEqual([]);
    const down = await dumpSchema(dataSource);
    // TypeORM keeps its own table.
    expect(down.filter((thing) => !/migrations|sqlite_sequence/.test(thing))).toEqual([]);

    expect(await dataSource.runMigrations()).toHaveLength(count);
    expect(await dumpSchema(dataSource)).toEqual(up);
  });

  it('can each be taken back and again', async () => {
    const dataSource = await migrated();
    const up = await dumpSchema(dataSource);
    for (let steps = 1; steps <= dataSource.migrations.length; steps++) {
      for (let step = 0; step < steps; step++) await dataSource.undoLastMigration();
      expect(await dataSource.runMigrations()).toHaveLength(steps);
      expect(await dumpSchema(dataSource)).toEqual(up);
    }
    expect(up).not.toEqual([]);
  });

  it('leave nothing for a synchronisation of the schema to change', async () => {
    const dataSource = await migrated();
    const { upQueries, downQueries } = await dataSource.driver.createSchemaBuilder().log();
    expect(upQueries.map(({ query }) => query)).toEqual([]);
    expect(downQueries.map(({ query }) => query)).toEqual([]);
  });

  it('are each taken once, in the order of their names', async () => {
    const dataSource = connect();
    const first = await dataSource.open();
    expect(first.map(({ name }) => name)).toEqual(allMigrations(dataSource));
    const taken = await takenMigrations(dataSource);
    const timestamps = taken.map((name) => Number(/\d{13}$/.exec(name)));
    expect(timestamps).toHaveLength(first.length);
    expect(timestamps).toEqual(timestamps.toSorted((a, b) => a - b));

    await dataSource.query(`INSERT INTO "categories" ("name") VALUES ('kept')`);
    await dataSource.destroy();
    const again = connect();
    expect(await again.open()).toEqual([]);
    expect(await takenMigrations(again)).toEqual(taken);
    expect(await again.query('SELECT "name" FROM "categories"')).toEqual([{ name: 'kept' }]);
  });

  it('are taken once by two that open the same empty database at the same moment', async () => {
    const [first, second] = [connect(), connect()];
    const taken = await Promise.all([first.open(), second.open()]);
    const names = allMigrations(first);
    expect(taken.flat().map(({ name }) => name)).toEqual(names);
    expect(await takenMigrations(first)).toEqual(names);
    await first.query(`INSERT INTO "categories" ("name") VALUES ('dog')`);
    expect(await second.query('SELECT "name" FROM "categories"')).toEqual([{ name: 'dog' }]);
  });
});

const insert = (
  dataSource: PetstoreDataSource,
  columns: string,
  values: string,
): Promise<unknown> => dataSource.query(`INSERT INTO "categories" (${columns}) VALUES (${values})`);
const newestId = async (dataSource: PetstoreDataSource): Promise<number> => {
  const rows: { id: number | string }[] = await dataSource.query(
    'SELECT max("id") AS "id" FROM "categories"',
  );
  return Number(rows[0]!.id);
};

describe('The schema', () => {
  it('gives ids that ascend and are never given again', async () => {
    const dataSource = await migrated();
    await insert(dataSource, '"name"', `'first'`);
    const first = await newestId(dataSource);
    expect(first).toBe(1);
    await dataSource.query('DELETE FROM "categories"');
    await insert(dataSource, '"name"', `'second'`);
    const second = await newestId(dataSource);
    expect(second).toBeGreaterThan(first);
    await dataSource.query('DELETE FROM "categories"');
    await dataSource.destroy();
    const again = await migrated();
    await insert(again, '"name"', `'third'`);
    expect(await newestId(again)).toBeGreaterThan(second);
  });

  it('takes ids up to the highest that JSON numbers carry, and none beyond', async () => {
    const dataSource = await migrated();
    await insert(dataSource, '"id", "name"', `${MAX_ID}, 'the highest'`);
    expect(await newestId(dataSource)).toBe(MAX_ID);
    await expect(insert(dataSource, '"id", "name"', `9007199254740992, 'beyond'`)).rejects.toThrow(
      /ck_categories_id/,
    );
  });

  it.each([
    ['a category without a name', `INSERT INTO "categories" ("description") VALUES ('x')`],
    ['an id twice', `INSERT INTO "categories" ("id", "name") VALUES (5, 'a'), (5, 'b')`],
    [
      'a key twice',
      `INSERT INTO "api_keys" ("name", "hash", "created_at") VALUES ('a', 'x', 0), ('b', 'x', 0)`,
    ],
    ['a key without a hash', `INSERT INTO "api_keys" ("name", "created_at") VALUES ('a', 0)`],
  ])('refuses %s', async (_what, sql) => {
    const dataSource = await migrated();
    await expect(dataSource.query(sql)).rejects.toThrow(/constraint/i);
  });
});

describe("TypeORM's command line, with ormconfig.ts", () => {
  const ROOT = fileURLToPath(new URL('..', import.meta.url));

  async function typeorm(...options: string[]): Promise<{ failed: boolean; output: string }> {
    const cli = join(ROOT, 'node_modules/typeorm/cli.js');
    const dataSource = join(await buildOnce(), 'ormconfig.js');
    return new Promise((resolve) => {
      execFile(
        process.execPath,
        [cli, ...options, '-d', dataSource],
        { env: { PATH: process.env['PATH'], DATABASE_URL: database.url }, timeout: 60_000 },
        (error, stdout, stderr) => resolve({ failed: error !== null, output: stdout + stderr }),
      );
    });
  }

  it('runs, shows and reverts the migrations, and finds nothing to generate', async () => {
    const dataSource = connect();
    const names = databaseOptions(database.config).migrations as { name: string }[];
    expect(await typeorm('migration:run')).toMatchObject({ failed: false });
    await dataSource.initialize();
    expect(await takenMigrations(dataSource)).toEqual(names.map(({ name }) => name));

    const generated = await typeorm('migration:generate', join(ROOT, 'never-written'));
    expect(generated.output).toMatch(/No changes in database schema were found/);

    expect(await typeorm('migration:revert')).toMatchObject({ failed: false });
    expect(await takenMigrations(dataSource)).toHaveLength(names.length - 1);
    const shown = await typeorm('migration:show');
    expect(shown.output).toMatch(new RegExp(`\\[ \\].*${names.at(-1)!.name}`));
  }, 120_000);
});
