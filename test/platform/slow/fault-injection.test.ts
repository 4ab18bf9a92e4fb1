/* oxlint-disable jest/no-standalone-expect, jest/no-disabled-tests, jest/expect-expect -- `requires` returns `it` or `it.skip` */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  openSync,
  readFileSync,
  readSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import type { NestExpressApplication } from '@nestjs/platform-express';
import Database from 'better-sqlite3';
import { createApp } from '../../../src/platform/application/create-app.js';
import { loadConfig } from '../../../src/platform/config/config.js';
import { toRoot } from '../support/app.js';
import { CategoriesClient, type HttpResponse, sendRequest } from '../support/http-client.js';
import { MemoryLogger } from '../support/memory-logger.js';
import { commandSucceeds, requires } from '../support/requirements.js';
import { BOOTSTRAP_KEY, createServices, type Services } from '../support/service-process.js';
import { waitFor } from '../support/wait.js';
import { FEATURES } from '../../../src/features.js';
import { PRODUCT } from '../../../src/product.js';

let services: Services;
let apps: NestExpressApplication[];
let file: string;
beforeEach(async () => {
  services = await createServices({ NODE_ENV: 'production' });
  apps = [];
  file = join(services.directory, 'petstore.sqlite');
});
afterEach(async () => {
  await Promise.all(apps.map((app) => app.close()));
  await services.close();
});

/** Starts the application on the file, in this process. */
async function serve(
  logger: MemoryLogger | false = false,
): Promise<{ url: string; categories: CategoriesClient }> {
  const config = loadConfig(PRODUCT, {
    DATABASE_URL: `sqlite:${file}`,
    BOOTSTRAP_API_KEY: BOOTSTRAP_KEY,
  });
  const app = await createApp(config, toRoot(FEATURES), { logger });
  await app.listen(0, config.host);
  apps.push(app);
  const url = await app.getUrl();
  return { url, categories: new CategoriesClient(url, BOOTSTRAP_KEY) };
}

function expectUnavailable(response: HttpResponse): void {
  expect(response).toBeError('SERVICE_UNAVAILABLE');
  expect(response.headers['retry-after']).toMatch(/^[1-9]\d*$/);
}

/** Waits until `/readyz` responds with a status. */
async function waitForReadiness(url: string, expected: number): Promise<void> {
  await waitFor(
    () => sendRequest(`${url}/readyz`),
    ({ status }) => status === expected,
  );
}

/** Creates categories until a request is rejected and returns the names of those created. */
async function createUntilFull(categories: CategoriesClient): Promise<string[]> {
  const stored: string[] = [];
  for (let index = 0; index < 2_000; index++) {
    const response = await categories.create(`fill ${index}`, 'x'.repeat(900));
    if (response.status !== 201) {
      expectUnavailable(response);
      return stored;
    }
    stored.push(`fill ${index}`);
  }
  throw new Error('No create request was rejected');
}

const prlimit = requires('prlimit');
const isRoot = process.getuid?.() === 0;
/** Drops the capabilities with which root bypasses file permissions. */
const UNPRIVILEGED = isRoot ? ['setpriv', '--inh-caps=-all', '--bounding-set=-all'] : [];
const respectsFilePermissions =
  !isRoot || commandSucceeds(UNPRIVILEGED[0]!, [...UNPRIVILEGED.slice(1), 'true']);

function limitFileSize(pid: number, bytes: number | 'unlimited'): void {
  execFileSync('prlimit', ['--pid', String(pid), `--fsize=${bytes}:unlimited`]);
}

describe('a full disk', () => {
  prlimit.it(
    'returns 503 to creates and /readyz, also without logs, still lists, and recovers with space',
    async () => {
      const log = join(services.directory, 'service.log');
      writeFileSync(log, '');
      const service = services.start({
        env: { DATABASE_URL: `sqlite:${file}`, LOG_LEVEL: 'debug' },
        execPrefix: ['sh', '-c', `exec "$@" > ${log} 2>&1`, 'sh'],
      });
      const url = await waitFor(
        () => /Listening on (http:\/\/[\w.:]+)/.exec(readFileSync(log, 'utf8'))?.[1] ?? '',
        (found) => found !== '',
      );
      const categories = new CategoriesClient(url, BOOTSTRAP_KEY);
      limitFileSize(service.pid, 100_000);
      const stored = await createUntilFull(categories);
      expect(stored.length).toBeGreaterThan(0);
      // Each request is logged, so the log file reaches the same limit.
      while (statSync(log).size < 100_000)
        expectUnavailable(await categories.create('rejected', 'x'.repeat(900)));
      // The check may still find space for its own write.
      await waitFor(
        async () => {
          expectUnavailable(await categories.create('rejected', 'x'.repeat(900)));
          return (await sendRequest(`${url}/readyz`)).status;
        },
        (status) => status === 503,
      );
      expect(await categories.getNames()).toEqual(stored);

      limitFileSize(service.pid, 'unlimited');
      await waitForReadiness(url, 200);
      expect((await categories.create('after')).status).toBe(201);
      expect(await categories.getNames()).toEqual([...stored, 'after']);
      service.kill('SIGTERM');
      expect(await service.exited).toMatchObject({ code: 0 });
      // Logging has resumed too.
      expect(readFileSync(log, 'utf8')).toMatch(/Received SIGTERM, shutting down/);
      const again = await serve();
      expect(await again.categories.getNames()).toEqual([...stored, 'after']);
    },
  );
});

describe('a database locked by another process beyond the busy timeout', () => {
  it('rejects creates with 503, does not block other requests, and accepts creates once unlocked', async () => {
    const { url, categories } = await serve();
    const other = new Database(file);
    other.exec('BEGIN IMMEDIATE');
    const state = { isDone: false };
    const created = categories.create('during').finally(() => (state.isDone = true));
    let responses = 0;
    // A service that blocks its event loop on the lock would respond only once or twice.
    for (; !state.isDone; responses++) {
      expect((await sendRequest(`${url}/livez`)).status).toBe(200);
      expect(await categories.getNames()).toEqual([]);
    }
    expectUnavailable(await created);
    expect(responses).toBeGreaterThan(20);
    other.exec('ROLLBACK');
    other.close();
    expect((await categories.create('after')).status).toBe(201);
    expect(await categories.getNames()).toEqual(['after']);
  });
});

describe('an unusable database file', () => {
  requires('setpriv', respectsFilePermissions).it.each([
    ['file', 'auto', 0o444, 0o755],
    ['directory', 'off', 0o644, 0o555],
    ['file and directory', 'auto', 0o444, 0o555],
  ])(
    'fails startup with an error that names the file: %s without write access, MIGRATIONS=%s',
    async (_what, migrations, fileMode, directoryMode) => {
      await serve();
      await apps.pop()!.close();
      chmodSync(file, fileMode);
      chmodSync(services.directory, directoryMode);
      const service = services.start({
        env: { DATABASE_URL: `sqlite:${file}`, MIGRATIONS: migrations },
        execPrefix: UNPRIVILEGED,
      });
      const { code } = await service.exited;
      chmodSync(services.directory, 0o755);
      expect(code).toBe(1);
      expect(service.stderr).toContain(`Failed to open database ${file}: `);
      expect(service.stderr).toMatch(/readonly|unable to open/);
    },
  );

  it('fails startup with an error that names the file: not a database', async () => {
    writeFileSync(file, Buffer.alloc(8192, 'garbage '));
    const message = /Failed to open database .*petstore\.sqlite: .*not a database/;
    await expect(serve()).rejects.toThrow(message);
  });

  it('causes 503 responses when corrupted at runtime until it is restored', async () => {
    const env = { DATABASE_URL: `sqlite:${file}` };
    const { service, url, categories } = await services.serve({ env });
    const names = ['one', 'two', 'three'];
    for (const name of names) expect((await categories.create(name)).status).toBe(201);
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

    expectUnavailable(await categories.list());
    expectUnavailable(await categories.create('rejected'));
    expect((await sendRequest(`${url}/livez`)).status).toBe(200);
    expect(service.output).toMatch(/"level":"error".*malformed/);

    writeSync(handle, original, 0, original.length, 0);
    // SQLite caches the pages it has read until another connection commits.
    other.exec(`UPDATE "categories" SET "description" = 'restored'`);
    other.close();
    expect(await categories.getNames()).toEqual(names);
    expect((await categories.create('after')).status).toBe(201);
    expect(await categories.getNames()).toEqual([...names, 'after']);
  });
});

describe('a graceful shutdown that does not complete', () => {
  it('ignores signals until its delay and ten more seconds have passed, then the next one ends the process', async () => {
    // A server that never reports that it is closed.
    const fault = "import net from 'node:net'; net.Server.prototype.close = function () {};";
    const { service } = await services.serve({
      env: {
        NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(fault)}`,
        SHUTDOWN_DELAY_MS: '1000',
      },
    });
    const startedAt = performance.now();
    const signals = setInterval(() => service.kill('SIGTERM'), 100);
    expect(await service.exited).toEqual({ code: 1, signal: null });
    clearInterval(signals);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(11_000);
    expect(service.stderr).toMatch(/Received SIGTERM, exiting before the shutdown is complete/);
  });
});
