import { randomUUID } from 'node:crypto';
import type { Pool, PoolClient } from 'pg';
import type { PostgresDriver } from 'typeorm/driver/postgres/PostgresDriver.js';
import type { Category } from '../../src/modules/categories/category.dto.js';
import { CategoriesService } from '../../src/modules/categories/categories.service.js';
import type { PostgresDataSource } from '../../src/platform/database/connection/postgres.js';
import type { IdempotencyKey } from '../../src/platform/idempotency/idempotency-key.decorator.js';
import { startApp, type TestApp } from './support/app.js';
import { createKey } from './support/fixtures.js';
import { MemoryLogger } from './support/memory-logger.js';
import { waitFor } from './support/wait.js';

const WARNING = 'Statements are not prepared any more';

let app: TestApp;
let logger: MemoryLogger;
let pool: Pool;
let held: PoolClient;

/** Starts the application with two connections, and leaves one of them to its requests. */
async function start(preparedStatements: 'auto' | 'off' = 'auto'): Promise<void> {
  logger = new MemoryLogger();
  app = await startApp({ logger, config: { preparedStatements, databasePoolSize: 2 } });
  pool = (app.dataSource.driver as PostgresDriver).master as Pool;
  held = await pool.connect();
}
afterEach(async () => {
  held.release();
  await app.stop();
});

const getWarnings = (): string[] =>
  logger.entries
    .flatMap(({ level, values }) => (level === 'warn' ? String(values[0]) : []))
    .filter((line) => line.startsWith(WARNING));

const getPreparedNames = (): string[] => [
  ...(app.dataSource as PostgresDataSource).preparedNames.values(),
];

/** Returns the prepared statements of the connection, with how often they were run. */
async function listPrepared(): Promise<[string, number][]> {
  const rows: { statement: string; runs: number }[] = await app.dataSource.query(
    `SELECT "statement", ("generic_plans" + "custom_plans")::integer AS "runs"
     FROM pg_prepared_statements ORDER BY "statement" COLLATE "C"`,
  );
  return rows.map(({ statement, runs }) => [statement, runs]);
}

const create = (name: string, key?: IdempotencyKey): Promise<Category> =>
  app.app.get(CategoriesService).create({ name }, key);

/** Creates a category with a key, and one without, which are in the list once each. */
async function createTwo(): Promise<void> {
  const name = randomUUID();
  const created = [await create(name, createKey()), await create(name)];
  const list = await app.categories.getAll();
  expect(list.filter((each) => each.name === name)).toEqual(created);
}

describe('prepared statements', () => {
  it('are those of create and list requests, which a connection parses once', async () => {
    await start();
    for (let creates = 0; creates < 3; creates++) await createTwo();
    const prepared = await listPrepared();
    expect(prepared.map(([statement]) => statement)).toEqual([
      expect.stringMatching(/^INSERT INTO "categories"/),
      expect.stringMatching(/FROM "revisions"/),
      expect.stringMatching(/^WITH "rows" AS \(INSERT INTO "categories"/),
    ]);
    expect(prepared.map(([, runs]) => runs)).toEqual([3, 3, 3]);
  });

  it('have names for traces that begin with the command, and stay the same after a restart', async () => {
    const names: string[][] = [];
    for (let starts = 0; starts < 2; starts++) {
      if (starts > 0) {
        held.release();
        await app.stop();
      }
      await start();
      await createTwo();
      names.push(getPreparedNames());
    }
    expect(names[0]!.map((name) => name.split(' ')[0])).toEqual(['WITH', 'INSERT', 'SELECT']);
    expect(names[1]).toEqual(names[0]);
  });

  it('do not include those of several rows, or of a transaction', async () => {
    await start();
    await Promise.all(['a', 'b', 'c'].map((name) => create(name)));
    const texts = (await listPrepared()).map(([statement]) => statement);
    expect(texts.join('\n')).not.toContain('INSERT');
  });

  it('are not used with PREPARED_STATEMENTS=off', async () => {
    await start('off');
    await createTwo();
    expect(await listPrepared()).toEqual([]);
  });

  it('are used again after the connections were lost', async () => {
    await start();
    await createTwo();
    const end =
      'SELECT pg_terminate_backend("pid") FROM pg_stat_activity WHERE "datname" = current_database()';
    await app.dataSource.query(end).catch(() => undefined);
    await waitFor(
      () => app.categories.list(),
      ({ status }) => status === 200,
    );
    await createTwo();
    expect(await listPrepared()).not.toEqual([]);
    expect(getWarnings()).toEqual([]);
  });

  /** What changes under a session that has prepared statements. */
  const CHANGES = [
    ['26000', 'DISCARD ALL'],
    ['26000', 'DEALLOCATE ALL'],
    // The result has another type.
    ['0A000', 'ALTER TABLE "categories" ALTER "id" TYPE numeric'],
    ['0A000', 'ALTER TABLE "revisions" ALTER "value" TYPE numeric'],
    // A parameter would have another type.
    ['42804', 'ALTER TABLE "categories" ALTER "name" TYPE uuid USING "name"::uuid'],
  ];

  it.each(CHANGES)('are given up after %s, because of %s', async (code, statement) => {
    await start();
    await createTwo();
    await app.dataSource.query(statement);
    for (let creates = 0; creates < 3; creates++) await createTwo();
    expect(getWarnings()).toEqual([expect.stringContaining(`(${code})`)]);
    expect(getPreparedNames()).toEqual([]);
  });

  it('are given up after 42P05, because a session has another one with the name', async () => {
    await start();
    await createTwo();
    for (const name of getPreparedNames()) await held.query(`PREPARE "${name}" AS SELECT 1`);
    const used = await pool.connect();
    held.release();
    await createTwo();
    held = used;
    expect(getWarnings()).toEqual([expect.stringContaining('(42P05)')]);
  });
});
