import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ApiKey } from '../src/platform/auth/api-key.entity.js';
import { ApiKeysService } from '../src/platform/auth/api-keys.service.js';
import { createDatabase, startApp, type TestApp, type TestDatabase } from './support/app.js';
import { buildOnce } from './support/build.js';
import { type ProcessResult, runKeys } from './support/cli.js';
import { waitFor } from './support/wait.js';

// Every command is a process of its own, and the first one waits for the compiler.
import.meta.jest.setTimeout(60_000);

const KEY = /^pet_[A-Za-z0-9_-]{43}\n$/;
const HASH = /[0-9a-f]{64}/i;
const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

let directory: string;
let database: TestDatabase;
let app: TestApp;
let keys: ApiKeysService;
beforeAll(async () => {
  await buildOnce();
  // There is no .env file here.
  directory = await mkdtemp(join(tmpdir(), 'petstore-keys-'));
  database = await createDatabase();
  app = await startApp({ database });
  keys = app.app.get(ApiKeysService);
});
afterAll(async () => {
  await app.stop();
  await database.drop();
  await rm(directory, { recursive: true });
});

/** Runs a command on the database of the running service. */
function run(...args: string[]): Promise<ProcessResult> {
  return runKeys(args, { env: { DATABASE_URL: database.url }, cwd: directory });
}

/** Creates a key and gives it. */
async function create(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run('create', ...args);
  expect({ code, stdout, stderr }).toEqual({
    code: 0,
    stdout: expect.stringMatching(KEY) as string,
    stderr: '',
  });
  return stdout.trim();
}

/** The record of a key. */
async function recordOf(key: string): Promise<ApiKey> {
  const hash = createHash('sha256').update(key).digest('hex');
  const record = (await keys.list()).find((candidate) => candidate.hash === hash);
  if (record === undefined) throw new Error('The key is not in the database');
  return record;
}

async function statusWith(key: string): Promise<number> {
  const { status } = await app.http().get('/v1/categories').auth(key, { type: 'bearer' });
  return status;
}

/** What a command leaves behind that fails: why, where errors belong, without a stack, and nothing else. */
function failure(why: RegExp): ProcessResult {
  const stderr = new RegExp(`^(?![^]*\\n\\s+at )[^]*${why.source}`);
  return { code: 1, stdout: '', stderr: expect.stringMatching(stderr) as string };
}

/** A point in time as the table shows it. */
function shown(date: Date | null | undefined): string {
  return date!.toISOString().slice(0, 16).replace('T', ' ');
}

describe('keys create', () => {
  it('prints the key alone, and the running service takes it at once', async () => {
    const key = await create('ci');
    expect(await statusWith(key)).toBe(200);
    expect(await recordOf(key)).toMatchObject({
      name: 'ci',
      expiresAt: null,
      revokedAt: null,
      lastUsedAt: null,
    });
  });

  it.each([
    ['30m', 30 * MINUTE],
    ['12h', 12 * 60 * MINUTE],
    ['90d', 90 * DAY],
    ['4w', 28 * DAY],
    ['1y', 365 * DAY],
  ])('makes a key that expires in %s', async (duration, milliseconds) => {
    const before = Date.now();
    const key = await create('expiring', '--expires-in', duration);
    const after = Date.now();
    const expiresAt = (await recordOf(key)).expiresAt?.getTime();
    expect(expiresAt).toBeGreaterThanOrEqual(before + milliseconds);
    expect(expiresAt).toBeLessThanOrEqual(after + milliseconds);
    expect(await statusWith(key)).toBe(200);
  });

  it.each(['90', '0d', '1.5d', '999999y'])('refuses "%s" as a duration', async (duration) => {
    const count = (await keys.list()).length;
    expect(await run('create', 'never', `--expires-in=${duration}`)).toEqual(
      failure(/--expires-in/),
    );
    expect(await keys.list()).toHaveLength(count);
  });

  it.each([
    ['blank', ' \t '],
    ['of 101 characters', 'n'.repeat(101)],
  ])('refuses a name that is %s', async (_name, name) => {
    const count = (await keys.list()).length;
    expect(await run('create', name)).toEqual(failure(/name/));
    expect(await keys.list()).toHaveLength(count);
  });

  it('takes a name of 100 characters of any script', async () => {
    const name = "Zoë's 犬 ".padEnd(100, 'n');
    expect(await recordOf(await create(name))).toMatchObject({ name });
  });

  it('brings a new database up to date by itself', async () => {
    const fresh = await createDatabase();
    const environment = { env: { DATABASE_URL: fresh.url }, cwd: directory };
    expect(await runKeys(['list'], environment)).toEqual({
      code: 0,
      stdout: 'There is no key.\n',
      stderr: '',
    });
    expect((await runKeys(['create', 'first'], environment)).stdout).toMatch(KEY);
    await fresh.drop();
  });
});

describe('keys list', () => {
  it('shows a row for each key, and neither a key nor a hash', async () => {
    const expiring = await create('listed-expiring', '--expires-in', '90d');
    const revoked = await create('listed-revoked');
    const { id } = await recordOf(revoked);
    await keys.revoke(id);

    const { code, stdout, stderr } = await run('list');
    expect(code).toBe(0);
    expect(stderr).toBe('');
    const row = (name: string): string | undefined =>
      stdout.split('\n').find((line) => line.includes(name));
    expect(stdout).toMatch(/name.*created.*expires.*revoked.*last used/);
    const { expiresAt, createdAt } = await recordOf(expiring);
    expect(row('listed-expiring')).toContain(shown(createdAt));
    expect(row('listed-expiring')).toContain(shown(expiresAt));
    expect(row('listed-revoked')).toContain(shown((await recordOf(revoked)).revokedAt));
    expect(row('listed-revoked')).toMatch(new RegExp(`\\b${id}\\b`));

    const records = await keys.list();
    expect(records.length).toBeGreaterThanOrEqual(2);
    for (const { name } of records) expect(stdout).toContain(name);
    expect(stdout).not.toMatch(HASH);
    expect(stdout).not.toContain('pet_');
    for (const key of [expiring, revoked, app.key]) expect(stdout).not.toContain(key.slice(4));
  });

  it('keeps a name with control characters from drawing on the terminal', async () => {
    await keys.create('red\u001b[31m\nnext');
    const { stdout } = await run('list');
    expect(stdout).toContain('red');
    expect(stdout).not.toContain('\u001b');
    expect(stdout.split('\n').find((line) => line.includes('red'))).toContain('next');
  });
});

describe('keys revoke', () => {
  it('makes the running service refuse the key within 5 seconds', async () => {
    const key = await create('revoked');
    expect(await statusWith(key)).toBe(200);
    const { id } = await recordOf(key);
    expect(await run('revoke', String(id))).toEqual({
      code: 0,
      stdout: `Key ${id} is revoked.\n`,
      stderr: '',
    });
    expect(
      await waitFor(
        () => statusWith(key),
        (status) => status !== 200,
        5_000,
      ),
    ).toBe(401);
    expect((await recordOf(key)).revokedAt).toBeInstanceOf(Date);
    expect(await run('revoke', String(id))).toEqual(failure(/no key \d+ that could be revoked/));
  });

  it('fails where there is no such key', async () => {
    expect(await run('revoke', '999999')).toEqual(failure(/no key 999999 that could be revoked/));
  });

  it.each(['1.5', '9007199254740993'])('refuses "%s" as an id', async (id) => {
    expect(await run('revoke', id)).toEqual(failure(/whole number/));
  });
});

describe('a command that is none', () => {
  it.each([
    ['an unknown command', ['destroy'], /unknown command/],
    ['create without a name', ['create'], /missing required argument 'name'/],
    ['a name that is not quoted', ['create', 'two', 'words'], /too many arguments/],
    ['no command', [], /Usage: keys/],
  ])('fails with %s', async (_name, args, message) => {
    expect(await run(...args)).toEqual(failure(message));
  });

  it('explains itself with --help', async () => {
    const { code, stdout } = await run('--help');
    expect(code).toBe(0);
    for (const command of ['create', 'list', 'revoke']) expect(stdout).toContain(command);
  });
});

describe('the configuration', () => {
  it('is refused by name, with every problem at once and without the values', async () => {
    const outcome = await runKeys(['list'], {
      env: { DATABASE_URL: 'mysql://admin:hunter2@db/x', BOOTSTRAP_API_KEY: 'tooshort' },
      cwd: directory,
    });
    expect(outcome).toEqual(failure(/DATABASE_URL/));
    expect(outcome.stderr).toContain('BOOTSTRAP_API_KEY');
    expect(outcome.stderr).not.toContain('hunter2');
    expect(outcome.stderr).not.toContain('tooshort');
  });

  it('can stand in a .env file', async () => {
    const cwd = await mkdtemp(join(tmpdir(), 'petstore-keys-'));
    await writeFile(join(cwd, '.env'), `DATABASE_URL=${database.url}\n`);
    const { stdout } = await runKeys(['create', 'from-env-file'], { env: {}, cwd });
    expect(stdout).toMatch(KEY);
    expect(await statusWith(stdout.trim())).toBe(200);
    await rm(cwd, { recursive: true });
  });

  it('may name a database that cannot be opened: the command says so', async () => {
    const env = { DATABASE_URL: `sqlite:${directory}` };
    expect(await runKeys(['list'], { env, cwd: directory })).toEqual(failure(/^error: \S/));
  });

  it('may name a server that does not answer: the command says so, without the password', async () => {
    const env = { DATABASE_URL: 'postgres://admin:hunter2@127.0.0.1:1/petstore' };
    const outcome = await runKeys(['list'], { env, cwd: directory });
    expect(outcome).toEqual(failure(/^error: \S/));
    expect(outcome.stderr).not.toContain('hunter2');
  });
});
