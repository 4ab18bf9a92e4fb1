import { copyFile, mkdir, mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { sendRequest, jsonHeaders } from './support/http-client.js';
import { type ProcessResult, runBackup } from './support/cli.js';
import { LoadGenerator, type Row } from './support/load-generator.js';
import { ServiceProcess } from './support/service-process.js';

// Every command runs in its own process, and the first one waits for the build.
import.meta.jest.setTimeout(90_000);

const KEY = 'bootstrap-0123456789-abcdefghijklmnop';
/** Enough rows that the load generator writes many more during the backup. */
const SEED_COUNT = 200_000;

let directory: string;
let databaseFile: string;
let service: ServiceProcess | undefined;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'petstore-backup-'));
  databaseFile = join(directory, 'data', 'petstore.sqlite');
  await mkdir(join(directory, 'backups'));
});
afterEach(async () => {
  await service?.stop();
  service = undefined;
  await rm(directory, { recursive: true, force: true });
});

/** Starts the service and returns its base URL. */
async function startService(): Promise<string> {
  const env = { DATABASE_URL: `sqlite:${databaseFile}`, BOOTSTRAP_API_KEY: KEY };
  service = await ServiceProcess.start(directory, env);
  return service.waitUntilListening();
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

/** Creates a database of many pages that no process has open. */
async function createSource(): Promise<void> {
  await startService();
  await service?.stop();
  seed(1_000);
}

const backupTo = (
  file: string,
  url = `sqlite:${databaseFile}`,
  blocks?: number,
): Promise<ProcessResult> =>
  runBackup(file, { env: { DATABASE_URL: url }, cwd: directory }, blocks);
const backups = (): Promise<string[]> => readdir(join(directory, 'backups'));

async function list(url: string): Promise<Row[]> {
  const { status, body } = await sendRequest(`${url}/v1/categories`, { headers: jsonHeaders(KEY) });
  expect(status).toBe(200);
  return JSON.parse(body.toString()) as Row[];
}

/** Matches the result of a failed backup: an error message without a stack trace. */
function failure(message: RegExp): ProcessResult {
  const stderr = new RegExp(
    `^(?![^]*\\n\\s+at )error: [^\\n]*${message.source}[^\\n]*\\nBackup failed\\.\\n$`,
  );
  return { code: 1, stdout: '', stderr: expect.stringMatching(stderr) as string };
}

describe('backup', () => {
  it('contains every category acknowledged before it started under load, and can be restored', async () => {
    const url = await startService();
    seed(SEED_COUNT);
    const load = new LoadGenerator(KEY);
    load.start(url, { writers: 16, readers: 0 });
    await load.waitForSuccesses(20, 30_000);
    const before = [...load.created];
    const file = join(directory, 'backups', 'copy.sqlite');
    const result = await backupTo(file);
    const after = load.created.length;
    await load.stop();
    expect(result).toMatchObject({ code: 0, stderr: expect.stringContaining('pages') as string });
    expect(load.violations).toEqual([]);
    // Ensures that the load overlapped with the backup.
    expect(before.length).toBeGreaterThanOrEqual(320);
    expect(after).toBeGreaterThan(before.length);

    // Simulate the loss of the database.
    service!.kill('SIGKILL');
    await service!.exited;
    await rm(join(directory, 'data'), { recursive: true });
    await mkdir(join(directory, 'data'));
    await copyFile(file, databaseFile);

    const rows = await list(await startService());
    expect(result.stdout).toMatch(new RegExp(`\\bcategories ${rows.length}\\b`));
    const names = new Map(rows.map(({ id, name }) => [id, name]));
    expect(before.filter(({ id, name }) => names.get(id) !== name)).toEqual([]);
    const created = new Map(load.created.map(({ id, name }) => [id, name]));
    const unexpected = rows.filter(({ id, name }) => name !== 'seed' && created.get(id) !== name);
    // No request was in flight when the service was killed, so every row was acknowledged.
    expect(unexpected).toEqual([]);
    expect(rows.filter(({ name }) => name === 'seed')).toHaveLength(SEED_COUNT);
    const { status, body } = await sendRequest(
      `${await service!.waitUntilListening()}/v1/categories`,
      {
        method: 'POST',
        headers: jsonHeaders(KEY),
        body: '{"name":"new"}',
      },
    );
    expect([status, (JSON.parse(body.toString()) as Row).id]).toEqual([201, rows.at(-1)!.id + 1]);
  });

  it('writes a single file, and concurrent backups do not overwrite each other', async () => {
    await createSource();
    const file = join(directory, 'backups', 'copy.sqlite');
    const results = await Promise.all([backupTo(file), backupTo(file)]);
    expect(results.filter(({ code }) => code === 0)).toHaveLength(1);
    expect(await backups()).toEqual(['copy.sqlite']);
    const copy = new Database(file, { readonly: true });
    expect(copy.pragma('integrity_check', { simple: true })).toBe('ok');
    expect(copy.pragma('journal_mode', { simple: true })).toBe('delete');
    expect(copy.prepare('SELECT COUNT(*) FROM "categories"').pluck().get()).toBe(1_000);
    copy.close();
  });

  it('refuses to overwrite a file', async () => {
    await createSource();
    const file = join(directory, 'backups', 'copy.sqlite');
    await writeFile(file, 'existing');
    expect(await backupTo(file)).toMatchObject({
      code: 1,
      stderr: `error: ${file} already exists, refusing to overwrite.\nBackup failed.\n`,
    });
    expect(await readFile(file, 'utf8')).toBe('existing');
    expect(await backups()).toEqual(['copy.sqlite']);
  });

  it('fails if the database is corrupt', async () => {
    await createSource();
    const file = await open(databaseFile, 'r+');
    const { size } = await file.stat();
    for (let page = 8; page < size / 4096; page += 3) {
      await file.write(Buffer.alloc(2_000, 0xaa), 0, 2_000, page * 4096 + 1_000);
    }
    await file.close();
    const result = await backupTo(join(directory, 'backups', 'copy.sqlite'));
    expect(result.stderr).toMatch(/damaged|malformed/);
    expect(result.code).toBe(1);
    expect(await backups()).toEqual([]);
  });

  it('fails without leaving files when the disk is full', async () => {
    await createSource();
    const result = await backupTo(join(directory, 'backups', 'copy.sqlite'), undefined, 100);
    expect(result.stderr).toMatch(/\nerror: (disk I\/O error|database or disk is full)\n/);
    expect(result.code).toBe(1);
    expect(await backups()).toEqual([]);
  });

  it('rejects an invalid source or destination', async () => {
    const file = join(directory, 'backups', 'copy.sqlite');
    expect(await backupTo(file)).toEqual(failure(/The database .* does not exist/));
    expect(await backupTo(file, 'postgres://admin:hunter2@127.0.0.1:1/petstore')).toEqual(
      failure(/PostgreSQL server: use pg_dump/),
    );
    await createSource();
    expect(await backupTo(join(directory, 'missing', 'copy.sqlite'))).toEqual(
      failure(/The directory .* does not exist/),
    );
    const other = join(directory, 'other.sqlite');
    new Database(other).exec('CREATE TABLE "t" ("id")').close();
    expect(await backupTo(file, `sqlite:${other}`)).toEqual(failure(/is not a petstore database/));
    await writeFile(other, 'This is not a database.'.repeat(100));
    expect(await backupTo(file, `sqlite:${other}`)).toEqual(failure(/file is not a database/));
    expect(await backups()).toEqual([]);
  });
});
