import { copyFile, mkdir, mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { main } from '../src/cli/backup.js';
import { createDataSource } from '../src/data-source.js';
import { startApp, type TestApp } from './support/app.js';
import {
  type CommandResult,
  type RunningCommand,
  runCommand,
  spawnCommand,
} from './support/cli.js';
import { CategoriesClient } from './support/http-client.js';
import type { Category } from './support/http-client.js';
import { LoadGenerator } from './support/load-generator.js';
import { waitFor } from './support/wait.js';

/** Enough rows that the load generator writes many more during the backup. */
const SEED_COUNT = 100_000;

let directory: string;
let databaseFile: string;
/** The destination of the backups. */
let file: string;
let app: TestApp | undefined;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'petstore-backup-'));
  databaseFile = join(directory, 'data', 'petstore.sqlite');
  await mkdir(join(directory, 'backups'));
  file = join(directory, 'backups', 'copy.sqlite');
});
afterEach(async () => {
  await stopService();
  await rm(directory, { recursive: true, force: true });
});

async function startService(): Promise<TestApp> {
  app = await startApp({ config: { database: { type: 'sqlite', file: databaseFile } } });
  return app;
}

async function stopService(): Promise<void> {
  await app?.stop();
  app = undefined;
}

/** Inserts rows with plain SQL, bypassing the service. */
function seed(count: number): void {
  const database = new Database(databaseFile, { timeout: 5_000 });
  const insert = database.prepare('INSERT INTO "categories" ("name", "description") VALUES (?, ?)');
  database.transaction(() => {
    for (let index = 0; index < count; index++) insert.run('seed', 'x'.repeat(100));
  })();
  database.close();
}

/** Creates a database that no process has open. */
async function createSource(count = 1_000): Promise<void> {
  const dataSource = createDataSource({ type: 'sqlite', file: databaseFile });
  await dataSource.initialize();
  await dataSource.migrate();
  await dataSource.destroy();
  seed(count);
}

const runBackup = (destination = file, url = `sqlite:${databaseFile}`): Promise<CommandResult> =>
  runCommand(main, [destination], { DATABASE_URL: url });

const spawnBackup = (execPrefix: string[] = []): RunningCommand =>
  spawnCommand('backup', [file], {
    env: { DATABASE_URL: `sqlite:${databaseFile}` },
    cwd: directory,
    execPrefix,
  });

const listBackups = (): Promise<string[]> => readdir(join(directory, 'backups'));

/** Matches the result of a failed backup: an error message without a stack trace. */
function failure(message: RegExp): CommandResult {
  const stderr = new RegExp(
    `^(?![^]*\\n\\s+at )error: [^\\n]*${message.source}[^\\n]*\\nBackup failed\\.\\n$`,
  );
  return { code: 1, stdout: '', stderr: expect.stringMatching(stderr) as string };
}

describe('backup', () => {
  it('contains every category acknowledged before it started under load, and can be restored', async () => {
    const { url, key } = await startService();
    seed(SEED_COUNT);
    const load = new LoadGenerator(key);
    load.start(url, { writers: 16, readers: 0, pause: 20 });
    await load.waitForSuccesses(20, 30_000);
    const before = [...load.created];
    const result = await spawnBackup().result;
    const after = load.created.length;
    await load.stop();
    expect(result).toMatchObject({ code: 0, stderr: expect.stringContaining('pages') as string });
    expect(load.violations).toEqual([]);
    // Ensures that the load overlapped with the backup.
    expect(before.length).toBeGreaterThanOrEqual(320);
    expect(after).toBeGreaterThan(before.length);

    // Simulate the loss of the database.
    await stopService();
    await rm(join(directory, 'data'), { recursive: true });
    await mkdir(join(directory, 'data'));
    await copyFile(file, databaseFile);

    // The key is part of the backup.
    const categories = new CategoriesClient((await startService()).url, key);
    // On a busy machine, it takes longer to read all rows than a request may wait.
    const list = await waitFor(
      () => categories.list(),
      ({ status }) => status === 200,
      60_000,
    );
    const rows = list.json<Category[]>();
    expect(result.stdout).toMatch(new RegExp(`\\bcategories ${rows.length}\\b`));
    const names = new Map(rows.map(({ id, name }) => [id, name]));
    expect(before.filter(({ id, name }) => names.get(id) !== name)).toEqual([]);
    const created = new Map(load.created.map(({ id, name }) => [id, name]));
    const unexpected = rows.filter(({ id, name }) => name !== 'seed' && created.get(id) !== name);
    // The load generator waited for its last responses, so every row was acknowledged.
    expect(unexpected).toEqual([]);
    expect(rows.filter(({ name }) => name === 'seed')).toHaveLength(SEED_COUNT);
    const response = await categories.create('new');
    expect([response.status, response.json<Category>().id]).toEqual([201, rows.at(-1)!.id + 1]);
  });

  it('writes a single file, and concurrent backups do not overwrite each other', async () => {
    await createSource();
    const commands = [spawnBackup(), spawnBackup()];
    const results = await Promise.all(commands.map(({ result }) => result));
    expect(results.filter(({ code }) => code === 0)).toHaveLength(1);
    expect(await listBackups()).toEqual(['copy.sqlite']);
    const copy = new Database(file, { readonly: true });
    expect(copy.pragma('integrity_check', { simple: true })).toBe('ok');
    expect(copy.pragma('journal_mode', { simple: true })).toBe('delete');
    expect(copy.prepare('SELECT COUNT(*) FROM "categories"').pluck().get()).toBe(1_000);
    copy.close();
  });

  it('refuses to overwrite a file', async () => {
    await createSource();
    await writeFile(file, 'existing');
    expect(await runBackup()).toMatchObject({
      code: 1,
      stderr: `error: ${file} already exists, refusing to overwrite.\nBackup failed.\n`,
    });
    expect(await readFile(file, 'utf8')).toBe('existing');
    expect(await listBackups()).toEqual(['copy.sqlite']);
  });

  it('fails if the database is corrupt', async () => {
    await createSource();
    const handle = await open(databaseFile, 'r+');
    const { size } = await handle.stat();
    for (let page = 8; page < size / 4096; page += 3) {
      await handle.write(Buffer.alloc(2_000, 0xaa), 0, 2_000, page * 4096 + 1_000);
    }
    await handle.close();
    const { code, stderr } = await runBackup();
    expect(stderr).toMatch(/damaged|malformed/);
    expect(code).toBe(1);
    expect(await listBackups()).toEqual([]);
  });

  it('fails without leaving files when the disk is full', async () => {
    await createSource();
    // A limit of 100 blocks on the size of every file that the process writes.
    const { code, stderr } = await spawnBackup(['sh', '-c', 'ulimit -f 100 && exec "$@"', 'sh'])
      .result;
    expect(stderr).toMatch(/\nerror: (disk I\/O error|database or disk is full)\n/);
    expect(code).toBe(1);
    expect(await listBackups()).toEqual([]);
  });

  it('leaves no incomplete copy when interrupted with SIGTERM', async () => {
    await createSource(SEED_COUNT);
    const command = spawnBackup();
    await waitFor(listBackups, (names) => names.length > 0, 30_000);
    command.kill('SIGTERM');
    await command.result;
    // It may have finished before the signal.
    expect(['', 'copy.sqlite']).toContain((await listBackups()).join());
  });

  it('rejects an invalid source or destination', async () => {
    expect(await runBackup()).toEqual(failure(/The database .* does not exist/));
    expect(await runBackup(file, 'postgres://admin:hunter2@127.0.0.1:1/petstore')).toEqual(
      failure(/PostgreSQL server: use pg_dump/),
    );
    await createSource();
    expect(await runBackup(join(directory, 'missing', 'copy.sqlite'))).toEqual(
      failure(/The directory .* does not exist/),
    );
    const other = join(directory, 'other.sqlite');
    new Database(other).exec('CREATE TABLE "t" ("id")').close();
    expect(await runBackup(file, `sqlite:${other}`)).toEqual(failure(/is not a petstore database/));
    await writeFile(other, 'This is not a database.'.repeat(100));
    expect(await runBackup(file, `sqlite:${other}`)).toEqual(failure(/file is not a database/));
    expect(await listBackups()).toEqual([]);
  });
});
