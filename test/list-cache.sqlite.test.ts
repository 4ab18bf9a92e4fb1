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

async function names(): Promise<string[]> {
  const { body } = await app.http().get('/v1/categories').auth(app.key, { type: 'bearer' });
  return (body as { name: string }[]).map(({ name }) => name);
}

it('A read shows what another connection to the file committed', async () => {
  const other = new Database(file);
  try {
    expect(await names()).toEqual([]);
    other.exec(`INSERT INTO "categories" ("name") VALUES ('dog')`);
    expect(await names()).toEqual(['dog']);
    other.exec('BEGIN IMMEDIATE');
    other.exec(`INSERT INTO "categories" ("name") VALUES ('cat')`);
    expect(await names()).toEqual(['dog']);
    other.exec('COMMIT');
    expect(await names()).toEqual(['dog', 'cat']);
    other.exec(`DELETE FROM "categories"`);
    expect(await names()).toEqual([]);
  } finally {
    other.close();
  }
});

it('A read shows what another process wrote to the file', async () => {
  expect(await names()).toEqual([]);
  const write = `
    const Database = require('better-sqlite3');
    const database = new Database(process.argv[1]);
    database.exec('INSERT INTO "categories" ("name") VALUES (\\'dog\\')');
    database.close();`;
  for (const expected of [['dog'], ['dog', 'dog']]) {
    execFileSync(process.execPath, ['--input-type=commonjs', '-e', write, file]);
    expect(await names()).toEqual(expected);
  }
});

it('A read shows what was written after a checkpoint took the log into the file', async () => {
  const other = new Database(file);
  try {
    expect(await names()).toEqual([]);
    other.exec(`INSERT INTO "categories" ("name") VALUES ('dog')`);
    other.pragma('wal_checkpoint(TRUNCATE)');
    expect(await names()).toEqual(['dog']);
    other.exec(`INSERT INTO "categories" ("name") VALUES ('cat')`);
    expect(await names()).toEqual(['dog', 'cat']);
  } finally {
    other.close();
  }
});
