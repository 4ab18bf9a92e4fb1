import { copyFile, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { Table, TableColumn } from 'typeorm';
import { CategoriesService } from '../../../src/modules/categories/categories.service.js';
import { idColumn } from '../../../src/platform/database/statements/columns.js';
import { createDatabase, startApp, type TestApp } from '../support/app.js';
import { createKey } from '../support/fixtures.js';
import { waitFor } from '../support/wait.js';

let directory: string;
let file: string;
let app: TestApp;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'petstore-sqlite-'));
  file = join(directory, 'missing', 'nested folder', 'pets.sqlite');
  app = await startApp({ config: { database: { type: 'sqlite', file } } });
});
afterAll(async () => {
  await app.stop();
  await rm(directory, { recursive: true });
});

describe('SQLite database', () => {
  it.each([
    ['journal_mode', 'wal'],
    // 2 is FULL (https://sqlite.org/pragma.html#pragma_synchronous).
    ['synchronous', 2],
    ['foreign_keys', 1],
  ])('opens with %s = %s', async (pragma, value) => {
    expect(await app.dataSource.query(`PRAGMA ${pragma}`)).toEqual([{ [pragma]: value }]);
  });

  it('creates its file and the parent directories', () => {
    const database = new Database(file, { readonly: true, fileMustExist: true });
    expect(database.prepare('SELECT count(*) FROM "migrations"').pluck().get()).toBeGreaterThan(0);
    database.close();
  });

  it.each([0, 1])(
    'never assigns ids of deleted rows again after a migration recreated a table of %d rows',
    async (count) => {
      const queryRunner = app.dataSource.createQueryRunner();
      const columns = [idColumn(queryRunner, 'pk_cats'), { name: 'name', type: 'text' }];
      await queryRunner.createTable(new Table({ name: 'cats', columns }));
      await queryRunner.query(`INSERT INTO "cats" ("name") VALUES ('a'), ('b'), ('c')`);
      await queryRunner.query(`DELETE FROM "cats" WHERE "id" > ?`, [count]);
      await queryRunner.addColumn(
        'cats',
        new TableColumn({ name: 'color', type: 'text', isNullable: true }),
      );
      await queryRunner.query(`INSERT INTO "cats" ("name", "color") VALUES ('d', 'black')`);
      const rows: { id: number }[] = await queryRunner.query('SELECT "id" FROM "cats"');
      expect(rows.map(({ id }) => id)).toEqual(count === 0 ? [4] : [1, 4]);
      await queryRunner.dropTable('cats');
    },
  );
});

const getReadiness = async (): Promise<number> => (await app.send('GET', '/readyz')).status;

describe('GET /readyz', () => {
  it.each(['', '-wal', '-shm'])(
    'responds with 503 while pets.sqlite%s is moved',
    async (suffix) => {
      expect(await getReadiness()).toBe(200);
      await rename(file + suffix, `${file}.moved`);
      await waitFor(getReadiness, (status) => status === 503);
      await rename(`${file}.moved`, file + suffix);
      await waitFor(getReadiness, (status) => status === 200);
    },
  );
});

describe('a graceful shutdown', () => {
  it.each<[string, { deleted?: string[]; isRead?: boolean; files?: number }]>([
    ['of a WAL that another process reads', { isRead: true, files: 3 }],
    ['of a WAL that is deleted with its index', { deleted: ['-wal', '-shm'] }],
    ['of a deleted WAL that another process reads', { deleted: ['-wal'], isRead: true, files: 2 }],
  ])(
    'moves the rows %s to the database file (durability)',
    async (_rows, { deleted = [], isRead = false, files = 1 }) => {
      const database = await createDatabase('sqlite');
      const other = await startApp({ database });
      const path = other.dataSource.options.database as string;
      const reader = new Database(path, { readonly: true });
      if (isRead) reader.pragma('data_version');
      else reader.close();
      await other.categories.create('before');
      await other.categories.list();
      for (const suffix of deleted) await rm(path + suffix);
      await other.categories.create('after');
      expect(await other.categories.getNames()).toEqual(['before', 'after']);
      await other.stop();
      expect(await readdir(dirname(path))).toHaveLength(files);
      await copyFile(path, `${path}.copy`);
      const copy = new Database(`${path}.copy`);
      const names = copy.prepare('SELECT "name" FROM "categories" ORDER BY "id"').pluck().all();
      expect(names).toEqual(['before', 'after']);
      copy.close();
      reader.close();
      await database.drop();
    },
  );
});

describe('POST /v1/categories', () => {
  it('waits while another connection is writing to the database', async () => {
    const other = new Database(file);
    try {
      other.exec('BEGIN IMMEDIATE');
      other.exec(`INSERT INTO "categories" ("name") VALUES ('theirs')`);
      let isDone = false;
      const response = app.categories.create('ours').finally(() => (isDone = true));
      await delay(300);
      expect(isDone).toBe(false);
      other.exec('COMMIT');
      expect((await response).status).toBe(201);
      expect(await app.categories.getNames()).toEqual(['theirs', 'ours']);
    } finally {
      other.close();
    }
  });
});

describe('a create request (durability)', () => {
  it.each([
    ['without', undefined],
    ['with', createKey()],
  ])('commits before it is acknowledged, %s an Idempotency-Key', async (_with, key) => {
    const other = new Database(file, { readonly: true });
    const count = other.prepare<[], number>('SELECT count(*) FROM "categories"').pluck();
    const before = count.get()!;
    await app.app.get(CategoriesService).create({ name: 'dog' }, key);
    // In the same turn of the event loop, so that no later commit can be visible.
    expect(count.get()).toBe(before + 1);
    other.close();
  });
});
