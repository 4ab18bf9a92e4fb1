/* oxlint-disable jest/no-standalone-expect, jest/no-disabled-tests, jest/expect-expect -- `itIf` is `it` or `it.skip` */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { type HttpResponse, sendRequest, jsonHeaders } from '../support/http-client.js';
import { LoadGenerator } from '../support/load-generator.js';
import { ServiceProcess } from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

// The first start includes compilation.
import.meta.jest.setTimeout(90_000);

const KEY = 'bootstrap-0123456789-abcdefghijklmnop';
const TIMEOUT_MS = 20_000;

let directory: string;
let file: string;
let services: ServiceProcess[];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'petstore-faults-'));
  file = join(directory, 'petstore.sqlite');
  services = [];
});
afterEach(async () => {
  for (const service of services) service.kill('SIGKILL');
  await Promise.all(services.map(({ exited }) => exited));
  rmSync(directory, { recursive: true, force: true });
});

async function start(
  env: NodeJS.ProcessEnv = {},
  execPrefix: readonly string[] = [],
): Promise<ServiceProcess> {
  const service = await ServiceProcess.start(
    directory,
    { DATABASE_URL: `sqlite:${file}`, BOOTSTRAP_API_KEY: KEY, NODE_ENV: 'production', ...env },
    execPrefix,
  );
  services.push(service);
  return service;
}

const list = (base: string): Promise<HttpResponse> =>
  sendRequest(`${base}/v1/categories`, { headers: jsonHeaders(KEY) });
const create = (base: string, name: string, description = 'x'.repeat(900)): Promise<HttpResponse> =>
  sendRequest(`${base}/v1/categories`, {
    method: 'POST',
    headers: jsonHeaders(KEY),
    body: JSON.stringify({ name, description }),
  });
const parseNames = ({ body }: HttpResponse): string[] =>
  (JSON.parse(body.toString()) as { name: string }[]).map(({ name }) => name);

function expectUnavailable(response: HttpResponse): void {
  expect(JSON.parse(response.body.toString())).toEqual({
    code: 'SERVICE_UNAVAILABLE',
    message: expect.stringMatching(/\S/),
    status: 503,
  });
  expect(response.status).toBe(503);
  expect(response.headers['retry-after']).toMatch(/^[1-9]\d*$/);
}

/** Creates categories until a request is rejected and returns the names of those created. */
async function createUntilFull(base: string): Promise<string[]> {
  const stored: string[] = [];
  for (let index = 0; index < 2_000; index++) {
    const response = await create(base, `fill ${index}`);
    if (response.status !== 201) {
      expectUnavailable(response);
      return stored;
    }
    stored.push(`fill ${index}`);
  }
  throw new Error('No create request was rejected');
}

/** Checks whether a command exits with 0; it may not be installed or permitted. */
const commandSucceeds = (command: string, ...args: string[]): boolean =>
  spawnSync(command, args, { stdio: 'ignore' }).status === 0;

/** Runs a test if the condition holds; otherwise skips it and names its requirement. */
const itIf = (condition: boolean, requirement: string) =>
  condition
    ? it
    : (name: string, test: () => Promise<void>) => it.skip(`${name} (needs ${requirement})`, test);

const canMount = ((): boolean => {
  const probe = mkdtempSync(join(tmpdir(), 'petstore-mount-'));
  const mounted = commandSucceeds('mount', '-t', 'tmpfs', 'tmpfs', probe);
  if (mounted) execFileSync('umount', [probe]);
  rmSync(probe, { recursive: true });
  return mounted;
})();
const hasPrlimit = commandSucceeds('prlimit', '--version');
const isRoot = process.getuid?.() === 0;
/** Drops the capabilities with which root bypasses file permissions. */
const UNPRIVILEGED = isRoot ? ['setpriv', '--inh-caps=-all', '--bounding-set=-all'] : [];
const respectsFilePermissions =
  !isRoot || commandSucceeds(UNPRIVILEGED[0]!, ...UNPRIVILEGED.slice(1), 'true');

function limitFileSize(pid: number, bytes: number | 'unlimited'): void {
  execFileSync('prlimit', ['--pid', String(pid), `--fsize=${bytes}:unlimited`]);
}

describe('a full disk', () => {
  itIf(canMount, 'permission to mount')(
    'rejects creates with 503, still serves the list, and recovers once space is available',
    async () => {
      const disk = join(directory, 'disk');
      mkdirSync(disk);
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=512k', 'tmpfs', disk]);
      file = join(disk, 'petstore.sqlite');
      try {
        const service = await start();
        const base = await service.waitUntilListening();
        expect((await create(base, 'first')).status).toBe(201);
        const ballast = join(disk, 'ballast');
        execFileSync('sh', ['-c', `dd if=/dev/zero of=${ballast} bs=4k 2>/dev/null || true`]);
        const stored = ['first', ...(await createUntilFull(base))];
        for (let index = 0; index < 3; index++) expectUnavailable(await create(base, 'rejected'));
        expect(parseNames(await list(base))).toEqual(stored);
        expect(service.output).toMatch(/"level":"error".*full/);

        rmSync(ballast);
        expect((await create(base, 'after')).status).toBe(201);
        expect(parseNames(await list(base))).toEqual([...stored, 'after']);

        service.kill('SIGKILL');
        await service.exited;
        const again = await (await start()).waitUntilListening();
        expect(parseNames(await list(again))).toEqual([...stored, 'after']);
      } finally {
        for (const service of services) service.kill('SIGKILL');
        await Promise.all(services.map(({ exited }) => exited));
        execFileSync('umount', [disk]);
      }
    },
  );

  itIf(hasPrlimit, 'prlimit')(
    'does not end the service when logs cannot be written either, and recovers once space is available',
    async () => {
      const log = join(directory, 'service.log');
      writeFileSync(log, '');
      const service = await start({}, ['sh', '-c', `exec "$@" > ${log} 2>&1`, 'sh']);
      const base = await waitFor(
        () => /Listening on (http:\/\/[\w.:]+)/.exec(readFileSync(log, 'utf8'))?.[1] ?? '',
        (found) => found !== '',
        30_000,
      );
      limitFileSize(service.pid, 100_000);
      const stored = await createUntilFull(base);
      expect(stored.length).toBeGreaterThan(0);
      // Each error is logged, so the log file reaches the same limit.
      await waitFor(
        async () => {
          expectUnavailable(await create(base, 'rejected'));
          return statSync(log).size;
        },
        (size) => size === 100_000,
        TIMEOUT_MS,
      );
      for (let index = 0; index < 3; index++) expectUnavailable(await create(base, 'rejected'));
      expect(parseNames(await list(base))).toEqual(stored);

      limitFileSize(service.pid, 'unlimited');
      expect((await create(base, 'after')).status).toBe(201);
      expect(parseNames(await list(base))).toEqual([...stored, 'after']);
      service.kill('SIGTERM');
      expect(await service.exited).toMatchObject({ code: 0 });
      // Logging has resumed too.
      expect(readFileSync(log, 'utf8')).toMatch(/Received SIGTERM, shutting down/);
    },
  );
});

describe('a database locked by another process beyond the busy timeout', () => {
  it('rejects creates with 503, does not block other requests, and accepts creates once unlocked', async () => {
    const service = await start();
    const base = await service.waitUntilListening();
    const load = new LoadGenerator(KEY, { allow503: true });
    load.start(base, { writers: 20, readers: 5, pause: 100 });
    await load.waitForSuccesses(2, TIMEOUT_MS);
    const other = new Database(file);
    try {
      other.exec('BEGIN IMMEDIATE');
      const before = load.responses.length;
      let livezResponses = 0;
      const rejected = load.waitForUnavailable(2, TIMEOUT_MS, 'create');
      const state = { done: false };
      void rejected.finally(() => (state.done = true)).catch(() => undefined);
      // A service that blocks its event loop on the lock would respond only once or twice.
      while (!state.done) {
        expect((await sendRequest(`${base}/livez`)).status).toBe(200);
        livezResponses++;
      }
      await rejected;
      expect(livezResponses).toBeGreaterThan(50);
      const meanwhile = load.responses.slice(before);
      expect(meanwhile.filter(({ kind, status }) => kind === 'list' && status < 400)).not.toEqual(
        [],
      );
    } finally {
      other.exec('ROLLBACK');
      other.close();
    }
    await load.waitForSuccesses(3, TIMEOUT_MS);
    await load.stop();
    load.verifyFinalState(JSON.parse((await list(base)).body.toString()) as never);
    expect(load.violations).toEqual([]);
  });

  it('delays startup, which logs retries and responds with 503 until the lock is released', async () => {
    const first = await start();
    expect((await create(await first.waitUntilListening(), 'dog')).status).toBe(201);
    await first.stop();
    const other = new Database(file);
    other.exec('BEGIN IMMEDIATE');
    const service = await start();
    const base = await service.waitUntilListening();
    expectUnavailable(await sendRequest(`${base}/readyz`));
    expectUnavailable(await list(base));
    expect(service.output).toMatch(/database is locked\), retrying in/);
    other.exec('ROLLBACK');
    other.close();
    await waitFor(
      () => sendRequest(`${base}/readyz`),
      ({ status }) => status === 200,
      TIMEOUT_MS,
    );
    expect(parseNames(await list(base))).toEqual(['dog']);
  });
});

describe('an unusable database file', () => {
  itIf(respectsFilePermissions, 'setpriv')(
    'fails startup with an error that names the file: read-only',
    async () => {
      const first = await start();
      await first.waitUntilListening();
      await first.stop();
      chmodSync(file, 0o444);
      chmodSync(directory, 0o555);
      const service = await start({}, UNPRIVILEGED);
      const { code } = await service.exited;
      chmodSync(directory, 0o755);
      expect(code).toBe(1);
      expect(service.stderr).toMatch(/Failed to open database .*petstore\.sqlite: .*readonly/);
    },
  );

  it.each<[string, RegExp, () => void]>([
    ['not a database', /not a database/, () => writeFileSync(file, Buffer.alloc(8192, 'garbage '))],
    [
      'in a directory that cannot be created',
      /EEXIST|ENOTDIR/,
      () => {
        writeFileSync(join(directory, 'occupied'), '');
        file = join(directory, 'occupied', 'petstore.sqlite');
      },
    ],
    ['a directory', /unable to open/, () => mkdirSync(file)],
  ])('fails startup with an error that names the file: %s', async (_cause, message, prepare) => {
    prepare();
    const service = await start();
    expect((await service.exited).code).toBe(1);
    expect(service.stderr).toMatch(/Failed to open database .*petstore\.sqlite: /);
    expect(service.stderr).toMatch(message);
  });

  it('causes 503 responses when corrupted at runtime until it is restored', async () => {
    const service = await start();
    const base = await service.waitUntilListening();
    const names = ['one', 'two', 'three'];
    for (const name of names) expect((await create(base, name)).status).toBe(201);
    // The checkpoint moves the WAL into the file. Table root pages follow the first page.
    const other = new Database(file);
    const changeFile = (): void => {
      other.exec(`UPDATE "categories" SET "description" = 'changed'`);
      other.pragma('wal_checkpoint(TRUNCATE)');
    };
    changeFile();
    const original = Buffer.alloc(statSync(file).size);
    const handle = openSync(file, 'r+');
    readSync(handle, original, 0, original.length, 0);
    const corrupted = Buffer.from(original);
    corrupted.fill(0xff, 4096);
    writeSync(handle, corrupted, 0, corrupted.length, 0);

    expectUnavailable(await list(base));
    expectUnavailable(await create(base, 'rejected'));
    expect((await sendRequest(`${base}/livez`)).status).toBe(200);
    expect(service.output).toMatch(/"level":"error".*malformed/);

    writeSync(handle, original, 0, original.length, 0);
    // SQLite caches the pages it has read until another connection commits.
    other.exec(`UPDATE "categories" SET "description" = 'restored'`);
    other.close();
    expect(parseNames(await list(base))).toEqual(names);
    expect((await create(base, 'after')).status).toBe(201);
    expect(parseNames(await list(base))).toEqual([...names, 'after']);
  });
});

describe('a failing migration', () => {
  it('fails startup, leaves the database unchanged, and succeeds once the conflict is removed', async () => {
    const other = new Database(file);
    other.exec('CREATE TABLE "categories" ("unrelated" text)');
    const service = await start();
    expect((await service.exited).code).toBe(1);
    expect(service.stderr).toMatch(/Failed to open database .*: .*categories.* already exists/);
    const tables = other.prepare('SELECT "name" FROM sqlite_master').pluck().all();
    expect(tables).toEqual(['categories']);
    other.exec('DROP TABLE "categories"');
    other.close();
    const base = await (await start()).waitUntilListening();
    expect((await create(base, 'after')).status).toBe(201);
  });
});
