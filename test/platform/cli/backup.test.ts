import { copyFile, mkdir, mkdtemp, open, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import Database from 'better-sqlite3';
import { main } from '../../../src/cli/backup.js';
import { startApp, type TestApp } from '../support/app.js';
import { runCommand, spawnCommand } from '../support/cli.js';
import { CategoriesClient, type Category } from '../support/http-client.js';
import { LoadGenerator } from '../support/load-generator.js';
import { waitFor } from '../support/wait.js';
import { PRODUCT } from '../../../src/product.js';

const SEED_COUNT = 10_000;

let directory: string;
let databaseFile: string;
/** The file of the backup. */
let file: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'petstore-backup-'));
  databaseFile = join(directory, 'data', `${PRODUCT.name}.sqlite`);
  await mkdir(join(directory, 'backups'));
  file = join(directory, 'backups', 'copy.sqlite');
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const startService = (): Promise<TestApp> =>
  startApp({ config: { database: { type: 'sqlite', file: databaseFile } } });

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
  await (await startService()).stop();
  seed(count);
}

const getEnvironment = () => ({ DATABASE_URL: `sqlite:${databaseFile}` });

const spawnBackup = () => spawnCommand('backup', [file], { env: getEnvironment(), cwd: directory });
const runBackup = () => runCommand(main, [file], getEnvironment(), directory);
const listBackups = () => readdir(join(directory, 'backups'));

describe('npm run backup', () => {
  it('copies every category acknowledged before it started under load, and can be restored', async () => {
    let service = await startService();
    const { key } = service;
    seed(SEED_COUNT);
    const load = new LoadGenerator(key);
    load.start(service.url, { writers: 16, readers: 0, pause: 20 });
    await load.waitForSuccesses(20);
    const before = [...load.created];
    const result = await spawnBackup().result;
    // The load overlapped with the backup.
    expect(load.created.length).toBeGreaterThan(before.length);
    await load.stop();
    expect(result).toMatchObject({ code: 0, stderr: '' });
    expect(load.violations).toEqual([]);

    // The database is lost.
    await service.stop();
    await rm(join(directory, 'data'), { recursive: true });
    await mkdir(join(directory, 'data'));
    await copyFile(file, databaseFile);

    service = await startService();
    // The key is part of the backup.
    const categories = new CategoriesClient(service.url, key);
    // On a busy machine, it takes longer to read all rows than a request may wait.
    const list = await waitFor(
      () => categories.list(),
      ({ status }) => status === 200,
    );
    const rows = list.json<Category[]>();
    const { size } = await stat(file);
    expect(result.stdout).toBe(`Copied ${size} bytes to ${file}, integrity verified\n`);
    const restored = new Set(rows.map(({ id, name }) => `${id} ${name}`));
    expect(before.filter(({ id, name }) => !restored.has(`${id} ${name}`))).toEqual([]);
    expect(rows.filter(({ name }) => name === 'seed')).toHaveLength(SEED_COUNT);
    const response = await categories.create('new');
    expect([response.status, response.json<Category>().id]).toEqual([201, rows.at(-1)!.id + 1]);
    await service.stop();
  });

  it('writes a single file that only its owner can read, and never overwrites one', async () => {
    await createSource();
    const named = file;
    file = ` ${relative(directory, file)} `;
    const concurrent = await Promise.all([spawnBackup().result, spawnBackup().result]);
    expect(concurrent.filter(({ code }) => code === 0)).toHaveLength(1);
    file = named;
    expect(await runBackup()).toEqual({
      code: 1,
      stdout: '',
      stderr: `error: ${file} already exists, refusing to overwrite.\n`,
    });
    expect(await listBackups()).toEqual(['copy.sqlite']);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const copy = new Database(file, { readonly: true });
    expect(copy.pragma('journal_mode', { simple: true })).toBe('delete');
    expect(copy.prepare('SELECT COUNT(*) FROM "categories"').pluck().get()).toBe(1_000);
    copy.close();
  });

  it('fails without leaving files if the database is corrupt', async () => {
    await createSource();
    const handle = await open(databaseFile, 'r+');
    const { size } = await handle.stat();
    for (let page = 8; page < size / 4096; page += 3) {
      await handle.write(Buffer.alloc(2_000, 0xaa), 0, 2_000, page * 4096 + 1_000);
    }
    await handle.close();
    expect(await runBackup()).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/damaged|malformed/) as string,
    });
    expect(await listBackups()).toEqual([]);
  });

  it('rejects a PostgreSQL database', async () => {
    const result = await runCommand(main, [file], { DATABASE_URL: 'postgres://a@b/c' }, directory);
    expect(result).toMatchObject({ code: 1, stderr: expect.stringContaining('pg_dump') as string });
    expect(await listBackups()).toEqual([]);
  });

  it('leaves no file after SIGTERM, and after SIGKILL none that blocks the next backup', async () => {
    await createSource();
    new Database(databaseFile).exec('DROP TABLE "categories"').close();
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      expect(await listBackups()).toEqual([]);
      const lock = new Database(databaseFile);
      lock.pragma('locking_mode = EXCLUSIVE');
      lock.exec('BEGIN IMMEDIATE');
      const command = spawnBackup();
      await waitFor(listBackups, ({ length }) => length > 0);
      command.kill(signal);
      lock.close();
      await command.result;
    }
    const [draft, ...others] = await listBackups();
    expect([draft, others]).toEqual([expect.stringMatching(/^copy\.sqlite\..*\.part$/), []]);
    expect(await runBackup()).toMatchObject({ code: 0 });
    expect(await listBackups()).toEqual(['copy.sqlite', draft]);
  });
});
