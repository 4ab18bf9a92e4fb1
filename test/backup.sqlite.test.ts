import { copyFile, mkdir, mkdtemp, open, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { sendRequest, jsonHeaders } from './support/http-client.js';
import { type ProcessResult, runBackup } from './support/cli.js';
import { LoadGenerator, type Row } from './support/load-generator.js';
import { ServiceProcess } from './support/service-process.js';

// Every command is a process of its own, and the first one waits for the compiler.
import.meta.jest.setTimeout(90_000);

const KEY = 'bootstrap-0123456789-abcdefghijklmnop';
/** So many that a backup takes many creates long. */
const SEEDS = 200_000;

let directory: string;
let store: string;
let service: ServiceProcess | undefined;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'petstore-backup-'));
  store = join(directory, 'store', 'petstore.sqlite');
  await mkdir(join(directory, 'backups'));
});
afterEach(async () => {
  await service?.stop();
  service = undefined;
  await rm(directory, { recursive: true, force: true });
});

async function serve(): Promise<string> {
  const env = { DATABASE_URL: `sqlite:${store}`, BOOTSTRAP_API_KEY: KEY };
  service = await ServiceProcess.start(directory, env);
  return service.waitUntilListening();
}

/** Fills the store, as somebody with SQLite's shell would. */
function seed(count: number): void {
  const database = new Database(store, { timeout: 5_000 });
  const insert = database.prepare('INSERT INTO "categories" ("name", "description") VALUES (?, ?)');
  database.transaction(() => {
    for (let index = 0; index < count; index++) insert.run('seed', 'x'.repeat(100));
  })();
  database.close();
}

/** A store of some pages, which no process uses. */
async function makeStore(): Promise<void> {
  await serve();
  await service?.stop();
  seed(1_000);
}

const backupTo = (file: string, url = `sqlite:${store}`, blocks?: number): Promise<ProcessResult> =>
  runBackup(file, { env: { DATABASE_URL: url }, cwd: directory }, blocks);
const backups = (): Promise<string[]> => readdir(join(directory, 'backups'));

async function list(url: string): Promise<Row[]> {
  const { status, body } = await sendRequest(`${url}/v1/categories`, { headers: jsonHeaders(KEY) });
  expect(status).toBe(200);
  return JSON.parse(body.toString()) as Row[];
}

/** What a backup leaves behind that fails: why, and no stack. */
function failure(why: RegExp): ProcessResult {
  const stderr = new RegExp(
    `^(?![^]*\\n\\s+at )error: [^\\n]*${why.source}[^\\n]*\\nNothing was backed up\\.\\n$`,
  );
  return { code: 1, stdout: '', stderr: expect.stringMatching(stderr) as string };
}

describe('A backup', () => {
  it('of a store that is written to has every create that was answered before it began, and is restored by a copy', async () => {
    const url = await serve();
    seed(SEEDS);
    const load = new LoadGenerator(KEY);
    load.start(url, { writers: 16, readers: 0 });
    await load.waitForSuccesses(20, 30_000);
    const before = [...load.created];
    const file = join(directory, 'backups', 'copy.sqlite');
    const outcome = await backupTo(file);
    const after = load.created.length;
    await load.stop();
    expect(outcome).toMatchObject({ code: 0, stderr: expect.stringContaining('pages') as string });
    expect(load.violations).toEqual([]);
    // Otherwise nothing was written meanwhile, and the test shows nothing.
    expect(before.length).toBeGreaterThanOrEqual(320);
    expect(after).toBeGreaterThan(before.length);

    // The store is lost, at once and whole.
    service!.kill('SIGKILL');
    await service!.exited;
    await rm(join(directory, 'store'), { recursive: true });
    await mkdir(join(directory, 'store'));
    await copyFile(file, store);

    const rows = await list(await serve());
    expect(outcome.stdout).toMatch(new RegExp(`\\bcategories ${rows.length}\\b`));
    const names = new Map(rows.map(({ id, name }) => [id, name]));
    expect(before.filter(({ id, name }) => names.get(id) !== name)).toEqual([]);
    const created = new Map(load.created.map(({ id, name }) => [id, name]));
    const strangers = rows.filter(({ id, name }) => name !== 'seed' && created.get(id) !== name);
    // A create may be stored, and copied, whose answer the kill has cut off; there was none here.
    expect(strangers).toEqual([]);
    expect(rows.filter(({ name }) => name === 'seed')).toHaveLength(SEEDS);
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

  it('is one file, and two at the same time do not overwrite each other', async () => {
    await makeStore();
    const file = join(directory, 'backups', 'copy.sqlite');
    const outcomes = await Promise.all([backupTo(file), backupTo(file)]);
    expect(outcomes.filter(({ code }) => code === 0)).toHaveLength(1);
    expect(await backups()).toEqual(['copy.sqlite']);
    const copy = new Database(file, { readonly: true });
    expect(copy.pragma('integrity_check', { simple: true })).toBe('ok');
    expect(copy.pragma('journal_mode', { simple: true })).toBe('delete');
    expect(copy.prepare('SELECT COUNT(*) FROM "categories"').pluck().get()).toBe(1_000);
    copy.close();
  });

  it('never overwrites a file', async () => {
    await makeStore();
    const file = join(directory, 'backups', 'copy.sqlite');
    await writeFile(file, 'mine');
    expect(await backupTo(file)).toMatchObject({
      code: 1,
      stderr: `error: ${file} exists already, and is left as it is.\nNothing was backed up.\n`,
    });
    expect(await readFile(file, 'utf8')).toBe('mine');
    expect(await backups()).toEqual(['copy.sqlite']);
  });

  it('of a damaged store fails', async () => {
    await makeStore();
    const file = await open(store, 'r+');
    const { size } = await file.stat();
    for (let page = 8; page < size / 4096; page += 3) {
      await file.write(Buffer.alloc(2_000, 0xaa), 0, 2_000, page * 4096 + 1_000);
    }
    await file.close();
    const outcome = await backupTo(join(directory, 'backups', 'copy.sqlite'));
    expect(outcome.stderr).toMatch(/damaged|malformed/);
    expect(outcome.code).toBe(1);
    expect(await backups()).toEqual([]);
  });

  it('for which there is no room fails, and leaves nothing', async () => {
    await makeStore();
    const outcome = await backupTo(join(directory, 'backups', 'copy.sqlite'), undefined, 100);
    expect(outcome.stderr).toMatch(/\nerror: (disk I\/O error|database or disk is full)\n/);
    expect(outcome.code).toBe(1);
    expect(await backups()).toEqual([]);
  });

  it('fails clearly where there is nothing to copy, or no place for it', async () => {
    const file = join(directory, 'backups', 'copy.sqlite');
    expect(await backupTo(file)).toEqual(failure(/The store .* does not exist/));
    expect(await backupTo(file, 'postgres://admin:hunter2@127.0.0.1:1/petstore')).toEqual(
      failure(/PostgreSQL server: use pg_dump/),
    );
    await makeStore();
    expect(await backupTo(join(directory, 'nowhere', 'copy.sqlite'))).toEqual(
      failure(/The directory .* does not exist/),
    );
    const other = join(directory, 'other.sqlite');
    new Database(other).exec('CREATE TABLE "t" ("id")').close();
    expect(await backupTo(file, `sqlite:${other}`)).toEqual(failure(/no store of this service/));
    await writeFile(other, 'This is no database.'.repeat(100));
    expect(await backupTo(file, `sqlite:${other}`)).toEqual(failure(/file is not a database/));
    expect(await backups()).toEqual([]);
  });
});
