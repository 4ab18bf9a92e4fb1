import { execFileSync } from 'node:child_process';
import Database from 'better-sqlite3';
import { startApp, type TestApp } from './support/app.js';

let app: TestApp;
let file: string;
beforeEach(async () => {
  app = await startApp();
  file = app.dataSource.options.database as string;
});
afterEach(() => app.stop());

async function listNames(): Promise<string[]> {
  const { body } = await app.http().get('/v1/categories').auth(app.key, { type: 'bearer' });
  return (body as { name: string }[]).map(({ name }) => name);
}

describe('GET /v1/categories', () => {
  it('reflects commits of another connection to the file', async () => {
    const other = new Database(file);
    try {
      expect(await listNames()).toEqual([]);
      other.exec(`INSERT INTO "categories" ("name") VALUES ('dog')`);
      expect(await listNames()).toEqual(['dog']);
      other.exec('BEGIN IMMEDIATE');
      other.exec(`INSERT INTO "categories" ("name") VALUES ('cat')`);
      expect(await listNames()).toEqual(['dog']);
      other.exec('COMMIT');
      expect(await listNames()).toEqual(['dog', 'cat']);
      other.exec(`DELETE FROM "categories"`);
      expect(await listNames()).toEqual([]);
    } finally {
      other.close();
    }
  });

  it('reflects writes of another process', async () => {
    expect(await listNames()).toEqual([]);
    const write = `
    const Database = require('better-sqlite3');
    const database = new Database(process.argv[1]);
    database.exec('INSERT INTO "categories" ("name") VALUES (\\'dog\\')');
    database.close();`;
    for (const expected of [['dog'], ['dog', 'dog']]) {
      execFileSync(process.execPath, ['--input-type=commonjs', '-e', write, file]);
      expect(await listNames()).toEqual(expected);
    }
  });

  it('reflects writes before and after a WAL checkpoint', async () => {
    const other = new Database(file);
    try {
      expect(await listNames()).toEqual([]);
      other.exec(`INSERT INTO "categories" ("name") VALUES ('dog')`);
      other.pragma('wal_checkpoint(TRUNCATE)');
      expect(await listNames()).toEqual(['dog']);
      other.exec(`INSERT INTO "categories" ("name") VALUES ('cat')`);
      expect(await listNames()).toEqual(['dog', 'cat']);
    } finally {
      other.close();
    }
  });
});
