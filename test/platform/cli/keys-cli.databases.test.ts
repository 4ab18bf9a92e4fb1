import { createHash } from 'node:crypto';
import { main as keysCommand } from '../../../src/cli/keys.js';
import { main as migrationsCommand } from '../../../src/cli/migrations.js';
import type { ApiKey } from '../../../src/platform/auth/keys/api-key.entity.js';
import { ApiKeysService } from '../../../src/platform/auth/keys/api-keys.service.js';
import { createDatabase, startApp, useApp } from '../support/app.js';
import { type CommandResult, runCommand, spawnCommand } from '../support/cli.js';
import { DATABASE } from '../support/databases.js';
import { CategoriesClient } from '../support/http-client.js';
import { waitFor } from '../support/wait.js';
import { PRODUCT } from '../../../src/product.js';

const KEY_PATTERN = new RegExp(`^${PRODUCT.keyPrefixes[0]}_[A-Za-z0-9]{49}\n$`);
const HASH_PATTERN = /[0-9a-f]{64}/i;
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const TIMEOUT_MS = 30_000;

const app = useApp();
let keys: ApiKeysService;
beforeAll(() => {
  keys = app.app.get(ApiKeysService);
});

/** Runs a `keys` command on the database of the running service. */
function run(...args: string[]): Promise<CommandResult> {
  return runCommand(keysCommand, args, { DATABASE_URL: app.databaseUrl });
}

/** Creates a key with `keys create` and returns it. */
async function createKey(...args: string[]): Promise<string> {
  const result = await run('create', ...args);
  expect(result).toEqual(success(/^Created API key \d+ \(.+\)\.\n$/));
  return result.stdout.trim();
}

/** Returns the database record of a key. */
async function findRecord(key: string): Promise<ApiKey> {
  const hash = createHash('sha256').update(key).digest('hex');
  const record = (await keys.list()).find((candidate) => candidate.hash === hash);
  if (record === undefined) throw new Error('The key is not in the database');
  return record;
}

/** Sends a request with the key and returns the status. */
async function requestStatus(key: string): Promise<number> {
  return (await new CategoriesClient(app.url, key).list()).status;
}

/** Matches the result of a command that prints a key, and a message to stderr. */
function success(message: RegExp): CommandResult {
  return {
    code: 0,
    stdout: expect.stringMatching(KEY_PATTERN) as string,
    stderr: expect.stringMatching(message) as string,
  };
}

/** Matches the result of a failed command: only an error message without a stack trace. */
function failure(message: RegExp): CommandResult {
  const stderr = new RegExp(`^(?![^]*\\n\\s+at )[^]*${message.source}`);
  return { code: 1, stdout: '', stderr: expect.stringMatching(stderr) as string };
}

/** Checks that a date is at a time, or as long after it as a test may take. */
function expectTime(date: Date | null, from: number): void {
  expect(date!.getTime()).toBeGreaterThanOrEqual(from);
  expect(date!.getTime()).toBeLessThanOrEqual(from + TIMEOUT_MS);
}

describe('keys create', () => {
  it('prints only the key, which the running service accepts immediately', async () => {
    const name = `Zoë's 犬 ❤️${'😀'.repeat(90)}`;
    expect(Array.from(name)).toHaveLength(100);
    const key = await createKey(name);
    expect(await findRecord(key)).toMatchObject({ name, expiresAt: null, lastUsedAt: null });
    expect(await requestStatus(key)).toBe(200);
  });

  it.each([
    ['30m', 30 * MINUTE_MS],
    ['4w', 28 * DAY_MS],
    ['1y', 365 * DAY_MS],
  ])('creates a key that expires in %s', async (duration, milliseconds) => {
    const before = Date.now();
    const key = await createKey('expiring', '--expires-in', duration);
    expectTime((await findRecord(key)).expiresAt, before + milliseconds);
    expect(await requestStatus(key)).toBe(200);
  });

  it('migrates a new database, unlike list, which reports that it has no keys', async () => {
    const fresh = await createDatabase();
    const env = { DATABASE_URL: fresh.url };
    const { stderr } = await runCommand(keysCommand, ['list'], env);
    expect(stderr).toMatch(DATABASE === 'sqlite' ? /does not exist/ : /schema is outdated/);
    await runCommand(migrationsCommand, ['run'], env);
    expect((await runCommand(keysCommand, ['list'], env)).stdout).toBe('No API keys found.\n');
    await runCommand(migrationsCommand, ['revert'], env);
    // In a process of its own, which would log the migration.
    const created = await spawnCommand('keys', ['create', 'first'], { env }).result;
    expect(created.stdout).toMatch(KEY_PATTERN);
    await fresh.drop();
  });
});

describe('keys list', () => {
  it('prints a row for each key, without keys, hashes or control characters', async () => {
    const key = await createKey('list-revoked', '--scope', 'write', 'read');
    const { id } = await findRecord(key);
    await keys.revoke(id);
    await keys.create('red\u001b[31m\u009b\u202e\u200b\nnext');
    const { stdout, ...result } = await run('list');
    expect(result).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(
      /^id +name +scopes +requests\/min +created +expires +revoked +last used\n/,
    );
    const { createdAt, revokedAt } = await findRecord(key);
    const [created, revoked] = [createdAt, revokedAt!].map(
      (date) => `${date.toISOString().slice(0, 16)}Z`,
    );
    const row = new RegExp(`^${id} +list-revoked +read write +${created} +${revoked}$`, 'm');
    expect(stdout).toMatch(row);
    expect(stdout).toMatch(/red.*next/);
    expect(stdout.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    for (const { name } of (await keys.list()).slice(0, -1)) expect(stdout).toContain(name);
    expect(stdout).not.toMatch(HASH_PATTERN);
    for (const each of [key, app.key]) expect(stdout).not.toContain(each.slice(4));
  });
});

describe('keys list --name --limit', () => {
  it('prints the newest keys with a name, in the order of their creation', async () => {
    for (let n = 0; n < 3; n++) await keys.create('many');
    await keys.create('another');
    const ids = (await keys.list('many')).map(({ id }) => id);
    const { stdout } = await run('list', '--name', 'many', '--limit', '2', '--json');
    const listed = JSON.parse(stdout) as { id: number }[];
    expect(listed.map(({ id }) => id)).toEqual(ids.slice(1));
    expect((await run('list', '--name', 'none')).stdout).toBe('No API keys found.\n');
    expect(await run('list', '--limit', '0')).toEqual(failure(/must be an integer from 1/));
  });
});

const rotate = ({ id }: ApiKey): Promise<CommandResult> =>
  run('rotate', String(id), '--overlap', '1h');

describe('keys rotate', () => {
  it('creates a key of the same kind, and lets the old one expire after the overlap', async () => {
    const old = await createKey('rotated', '--expires-in', '90d', '--scope', 'read');
    const { id, createdAt, expiresAt } = await findRecord(old);
    const lifetime = expiresAt!.getTime() - createdAt.getTime();
    // A little less: the key was created after its expiry was set.
    expect(Math.round(lifetime / 60_000)).toBe((90 * DAY_MS) / 60_000);
    const before = Date.now();
    const result = await run('rotate', String(id), '--overlap', '7d');
    expect(result).toEqual(success(/^Created API key \d+ \(rotated\)\.\nAPI key \d+ expires/));
    const key = result.stdout.trim();
    const renewed = await findRecord(key);
    expect(renewed).toMatchObject({ name: 'rotated', scopes: 'read', requestsPerMinute: null });
    expectTime(renewed.expiresAt, before + lifetime);
    expectTime((await findRecord(old)).expiresAt, before + 7 * DAY_MS);
    for (const each of [old, key]) expect(await requestStatus(each)).toBe(200);
  });

  it('does not extend a key that expires before the overlap ends', async () => {
    const old = await createKey('short', '--expires-in', '1d');
    const { id, expiresAt } = await findRecord(old);
    expect((await run('rotate', String(id), '--overlap', '7d')).code).toBe(0);
    expect((await findRecord(old)).expiresAt).toEqual(expiresAt);
  });

  it('rejects a key that was replaced, and names its successor, which can be rotated', async () => {
    const old = await findRecord(await createKey('permanent'));
    const successor = await findRecord((await rotate(old)).stdout.trim());
    expect(await rotate(old)).toEqual(
      failure(new RegExp(`^error: API key ${old.id} was replaced by API key ${successor.id}: `)),
    );
    const third = await findRecord((await rotate(successor)).stdout.trim());
    // The first rotation has not shortened the lifetime of the key.
    expect(third).toMatchObject({ expiresAt: null, successorId: null });
  });

  it('replaces a key only once if several instances rotate it at once', async () => {
    const { record } = await keys.create('contended');
    const other = await startApp({ database: { config: app.config.database } });
    const services = [keys, other.app.get(ApiKeysService)];
    const rotations = await Promise.allSettled(
      Array.from({ length: 6 }, (_, n) => services[n % 2]!.rotate(record.id, DAY_MS)),
    );
    await other.stop();
    const [replaced, successor, ...others] = (await keys.list()).filter(
      ({ name }) => name === 'contended',
    );
    expect(others).toEqual([]);
    expect(replaced!.successorId).toBe(successor!.id);
    const refused = rotations.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []));
    const message = `API key ${record.id} was replaced by API key ${successor!.id}: rotate that one.`;
    expect(refused.map(({ message: text }: Error) => text)).toEqual(Array(5).fill(message));
  });
});

describe('keys list --json', () => {
  it('prints everything but the keys and their hashes', async () => {
    const key = await createKey('shown', '--requests-per-minute', '600');
    const { id, createdAt } = await findRecord(key);
    const { stdout } = await run('list', '--json');
    const list = JSON.parse(stdout) as { id: number }[];
    expect(list.find((each) => each.id === id)).toEqual({
      id,
      name: 'shown',
      scopes: ['read', 'write'],
      requestsPerMinute: 600,
      createdAt: createdAt.toISOString(),
      expiresAt: null,
      revokedAt: null,
      successorId: null,
      lastUsedAt: null,
    });
    expect(stdout).not.toMatch(HASH_PATTERN);
  });
});

describe('keys revoke', () => {
  it('makes the running service reject the key (revocation)', async () => {
    const key = await createKey('revoked');
    expect(await requestStatus(key)).toBe(200);
    const { id } = await findRecord(key);
    const stdout = `API key ${id} revoked.\n`;
    expect(await run('revoke', String(id))).toEqual({ code: 0, stdout, stderr: '' });
    const status = await waitFor(
      () => requestStatus(key),
      (current) => current !== 200,
    );
    expect(status).toBe(401);
    expect((await findRecord(key)).revokedAt).toBeInstanceOf(Date);
    expect(await run('revoke', String(id))).toEqual(failure(/not found or already revoked/));
    const count = (await keys.list()).length;
    const rotated = await run('rotate', String(id), '--overlap', '1d');
    expect(rotated).toEqual(failure(/not found, or not/));
    expect(await keys.list()).toHaveLength(count);
  });
});

describe('keys', () => {
  it.each<[readonly string[], RegExp]>([
    [[], /Usage: keys[^]+create[^]+list[^]+rotate[^]+revoke/],
    // An unquoted name with a space.
    [['create', 'two', 'words'], /too many arguments/],
    [['create', '\u3000'], /1 to 100 characters/],
    [['create', '😀'.repeat(101)], /1 to 100 characters/],
    [['create', 'a\u202eb'], /invisible characters/],
    [['create', 'never', '--scope', 'admin'], /Allowed choices/],
    [['create', 'never', '--expires-in=0d'], /--expires-in/],
    [['create', 'never', '--expires-in=999999y'], /--expires-in/],
    [['create', 'never', '--requests-per-minute=1000001'], /an integer from 0 to 1000000/],
    [['revoke', '999999'], /API key 999999 not found/],
    [['revoke', '9007199254740993'], /must be an integer/],
  ])('fails without a change on %j', async (args, message) => {
    const before = await keys.list();
    expect(await run(...args)).toEqual(failure(message));
    expect(await keys.list()).toEqual(before);
  });
});

describe('a database that keys cannot reach', () => {
  it('appears in the error without its password', async () => {
    const env = { DATABASE_URL: 'postgres://admin:hunter2@127.0.0.1:1/petstore' };
    const result = await spawnCommand('keys', ['list'], { env }).result;
    expect(result).toEqual(failure(/^error: .*ECONNREFUSED/));
    expect(result.stderr).not.toContain('hunter2');
  });
});
