/* oxlint-disable jest/no-standalone-expect, jest/no-disabled-tests, jest/expect-expect -- `itWhere` is `it`, or shows that it is not */
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
import { type HttpResponse, sendRequest, jsonHeaders } from './support/http-client.js';
import { LoadGenerator } from './support/load-generator.js';
import { ServiceProcess } from './support/service-process.js';
import { waitFor } from './support/wait.js';

// The first service waits for the compiler.
import.meta.jest.setTimeout(90_000);

const KEY = 'bootstrap-0123456789-abcdefghijklmnop';
const LIMIT = 20_000;

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
  through: readonly string[] = [],
): Promise<ServiceProcess> {
  const service = await ServiceProcess.start(
    directory,
    { DATABASE_URL: `sqlite:${file}`, BOOTSTRAP_API_KEY: KEY, NODE_ENV: 'production', ...env },
    through,
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
const namesIn = ({ body }: HttpResponse): string[] =>
  (JSON.parse(body.toString()) as { name: string }[]).map(({ name }) => name);

function expectUnavailable(answer: HttpResponse): void {
  expect(JSON.parse(answer.body.toString())).toEqual({
    code: 'SERVICE_UNAVAILABLE',
    message: expect.stringMatching(/\S/),
    status: 503,
  });
  expect(answer.status).toBe(503);
  expect(answer.headers['retry-after']).toMatch(/^[1-9]\d*$/);
}

/** Creates until one is refused; gives the names that were stored. */
async function fill(base: string): Promise<string[]> {
  const stored: string[] = [];
  for (let index = 0; index < 2_000; index++) {
    const answer = await create(base, `fill ${index}`);
    if (answer.status !== 201) {
      expectUnavailable(answer);
      return stored;
    }
    stored.push(`fill ${index}`);
  }
  throw new Error('The limit was never reached');
}

/** Whether a command ends well here: what a test needs may not be installed, or not be allowed. */
const works = (command: string, ...args: string[]): boolean =>
  spawnSync(command, args, { stdio: 'ignore' }).status === 0;

/** Runs a test where that is possible, and otherwise shows by its name that it did not run. */
const itWhere = (possible: boolean, needs: string) =>
  possible
    ? it
    : (name: string, test: () => Promise<void>) => it.skip(`${name} (needs ${needs})`, test);

const canMount = ((): boolean => {
  const probe = mkdtempSync(join(tmpdir(), 'petstore-mount-'));
  const mounted = works('mount', '-t', 'tmpfs', 'tmpfs', probe);
  if (mounted) execFileSync('umount', [probe]);
  rmSync(probe, { recursive: true });
  return mounted;
})();
const canLimit = works('prlimit', '--version');
const isRoot = process.getuid?.() === 0;
/** Root without its privileges may do no more with files than their modes say. */
const UNPRIVILEGED = isRoot ? ['setpriv', '--inh-caps=-all', '--bounding-set=-all'] : [];
const obeysModes = !isRoot || works(UNPRIVILEGED[0]!, ...UNPRIVILEGED.slice(1), 'true');

function limitFileSize(pid: number, bytes: number | 'unlimited'): void {
  execFileSync('prlimit', ['--pid', String(pid), `--fsize=${bytes}:unlimited`]);
}

describe('A disk that is full', () => {
  itWhere(canMount, 'the right to mount')(
    'refuses creates with 503, serves the list, and takes creates again when there is room',
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
        const stored = ['first', ...(await fill(base))];
        for (let index = 0; index < 3; index++) expectUnavailable(await create(base, 'refused'));
        expect(namesIn(await list(base))).toEqual(stored);
        expect(service.output).toMatch(/"level":"error".*full/);

        rmSync(ballast);
        expect((await create(base, 'after')).status).toBe(201);
        expect(namesIn(await list(base))).toEqual([...stored, 'after']);

        service.kill('SIGKILL');
        await service.exited;
        const again = await (await start()).waitUntilListening();
        expect(namesIn(await list(again))).toEqual([...stored, 'after']);
      } finally {
        for (const service of services) service.kill('SIGKILL');
        await Promise.all(services.map(({ exited }) => exited));
        execFileSync('umount', [disk]);
      }
    },
  );

  itWhere(canLimit, 'prlimit')(
    'where it holds the log too, does not end the service, which works again when there is room',
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
      const stored = await fill(base);
      expect(stored.length).toBeGreaterThan(0);
      // Each error fills the log, up to the same limit and beyond.
      await waitFor(
        async () => {
          expectUnavailable(await create(base, 'refused'));
          return statSync(log).size;
        },
        (size) => size === 100_000,
        LIMIT,
      );
      for (let index = 0; index < 3; index++) expectUnavailable(await create(base, 'refused'));
      expect(namesIn(await list(base))).toEqual(stored);

      limitFileSize(service.pid, 'unlimited');
      expect((await create(base, 'after')).status).toBe(201);
      expect(namesIn(await list(base))).toEqual([...stored, 'after']);
      service.kill('SIGTERM');
      expect(await service.exited).toMatchObject({ code: 0 });
      // What happens after the limit is in the log again.
      expect(readFileSync(log, 'utf8')).toMatch(/SIGTERM: stopping/);
    },
  );
});

describe('A file that another process locks for longer than the busy timeout', () => {
  it('refuses creates with 503, holds nothing else up, and takes creates again afterwards', async () => {
    const service = await start();
    const base = await service.waitUntilListening();
    const load = new LoadGenerator(KEY, { allow503: true });
    load.start(base, { writers: 20, readers: 5, pause: 100 });
    await load.waitForSuccesses(2, LIMIT);
    const other = new Database(file);
    try {
      other.exec('BEGIN IMMEDIATE');
      const before = load.answers.length;
      let quick = 0;
      const refused = load.waitForUnavailable(2, LIMIT, 'create');
      const state = { over: false };
      void refused.finally(() => (state.over = true)).catch(() => undefined);
      // As many as one after the other get through: a service that waits itself would answer one or two.
      while (!state.over) {
        expect((await sendRequest(`${base}/livez`)).status).toBe(200);
        quick++;
      }
      await refused;
      expect(quick).toBeGreaterThan(50);
      const meanwhile = load.answers.slice(before);
      expect(meanwhile.filter(({ kind, status }) => kind === 'read' && status < 400)).not.toEqual(
        [],
      );
    } finally {
      other.exec('ROLLBACK');
      other.close();
    }
    await load.waitForSuccesses(3, LIMIT);
    await load.stop();
    load.verifyFinalState(JSON.parse((await list(base)).body.toString()) as never);
    expect(load.violations).toEqual([]);
  });

  it('is waited for at the start, which says so and answers 503 meanwhile', async () => {
    const first = await start();
    expect((await create(await first.waitUntilListening(), 'dog')).status).toBe(201);
    await first.stop();
    const other = new Database(file);
    other.exec('BEGIN IMMEDIATE');
    const service = await start();
    const base = await service.waitUntilListening();
    expectUnavailable(await sendRequest(`${base}/readyz`));
    expectUnavailable(await list(base));
    expect(service.output).toMatch(/database is locked\); trying again in/);
    other.exec('ROLLBACK');
    other.close();
    await waitFor(
      () => sendRequest(`${base}/readyz`),
      ({ status }) => status === 200,
      LIMIT,
    );
    expect(namesIn(await list(base))).toEqual(['dog']);
  });
});

describe('A file that cannot be used', () => {
  itWhere(obeysModes, 'setpriv')('ends the start with its name: read-only', async () => {
    const first = await start();
    await first.waitUntilListening();
    await first.stop();
    chmodSync(file, 0o444);
    chmodSync(directory, 0o555);
    const service = await start({}, UNPRIVILEGED);
    const { code } = await service.exited;
    chmodSync(directory, 0o755);
    expect(code).toBe(1);
    expect(service.stderr).toMatch(/The database .*petstore\.sqlite cannot be used: .*readonly/);
  });

  it.each<[string, RegExp, () => void]>([
    ['no database', /not a database/, () => writeFileSync(file, Buffer.alloc(8192, 'garbage '))],
    [
      'in a directory that cannot be made',
      /EEXIST|ENOTDIR/,
      () => {
        writeFileSync(join(directory, 'taken'), '');
        file = join(directory, 'taken', 'petstore.sqlite');
      },
    ],
    ['a directory', /unable to open/, () => mkdirSync(file)],
  ])('ends the start with its name: %s', async (_what, message, prepare) => {
    prepare();
    const service = await start();
    expect((await service.exited).code).toBe(1);
    expect(service.stderr).toMatch(/The database .*petstore\.sqlite cannot be used: /);
    expect(service.stderr).toMatch(message);
  });

  it('corrupted while it is used, refuses with 503, and works again when it is mended', async () => {
    const service = await start();
    const base = await service.waitUntilListening();
    const names = ['one', 'two', 'three'];
    for (const name of names) expect((await create(base, name)).status).toBe(201);
    // What is in the log goes into the file; the root pages of the tables come after the first page.
    const other = new Database(file);
    const changeFile = (): void => {
      other.exec(`UPDATE "categories" SET "description" = 'changed'`);
      other.pragma('wal_checkpoint(TRUNCATE)');
    };
    changeFile();
    const good = Buffer.alloc(statSync(file).size);
    const handle = openSync(file, 'r+');
    readSync(handle, good, 0, good.length, 0);
    const bad = Buffer.from(good);
    bad.fill(0xff, 4096);
    writeSync(handle, bad, 0, bad.length, 0);

    expectUnavailable(await list(base));
    expectUnavailable(await create(base, 'refused'));
    expect((await sendRequest(`${base}/livez`)).status).toBe(200);
    expect(service.output).toMatch(/"level":"error".*malformed/);

    writeSync(handle, good, 0, good.length, 0);
    // The service keeps the pages that it has read until somebody commits.
    other.exec(`UPDATE "categories" SET "description" = 'mended'`);
    other.close();
    expect(namesIn(await list(base))).toEqual(names);
    expect((await create(base, 'after')).status).toBe(201);
    expect(namesIn(await list(base))).toEqual([...names, 'after']);
  });
});

describe('A migration that fails half way', () => {
  it('ends the start, leaves the file as it was, and is taken when the obstacle is gone', async () => {
    const other = new Database(file);
    other.exec('CREATE TABLE "categories" ("theirs" text)');
    const service = await start();
    expect((await service.exited).code).toBe(1);
    expect(service.stderr).toMatch(/The database .* cannot be used: .*categories.* already exists/);
    const tables = other.prepare('SELECT "name" FROM sqlite_master').pluck().all();
    expect(tables).toEqual(['categories']);
    other.exec('DROP TABLE "categories"');
    other.close();
    const base = await (await start()).waitUntilListening();
    expect((await create(base, 'after')).status).toBe(201);
  });
});
