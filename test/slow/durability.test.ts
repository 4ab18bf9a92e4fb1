/* oxlint-disable jest/no-standalone-expect, jest/no-disabled-tests -- some tests need strace or prlimit */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { type HttpResponse, sendRequest, jsonHeaders } from '../support/http-client.js';
import { LoadGenerator, type Row } from '../support/load-generator.js';
import { RawConnection, rawRequest } from '../support/raw-connection.js';
import { ServiceProcess } from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

// The first start includes compilation; later tests kill and restart the service many times.
import.meta.jest.setTimeout(180_000);

const KEY = 'bootstrap-0123456789-abcdefghijklmnop';
const TIMEOUT_MS = 30_000;

let directory: string;
let services: ServiceProcess[];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'petstore-durability-'));
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
    { BOOTSTRAP_API_KEY: KEY, NODE_ENV: 'production', ...env },
    execPrefix,
  );
  services.push(service);
  return service;
}

const list = (base: string): Promise<HttpResponse> =>
  sendRequest(`${base}/v1/categories`, { headers: jsonHeaders(KEY) });
const create = (base: string, name: string): Promise<HttpResponse> =>
  sendRequest(`${base}/v1/categories`, {
    method: 'POST',
    headers: jsonHeaders(KEY),
    body: JSON.stringify({ name }),
  });
const parseRows = ({ body }: HttpResponse): Row[] => JSON.parse(body.toString()) as Row[];

const hasPrlimit = spawnSync('prlimit', ['--version'], { stdio: 'ignore' }).status === 0;
const hasStrace = spawnSync('strace', ['-f', 'true'], { stdio: 'ignore' }).status === 0;

/** Extracts, in order, the writes to the WAL file, its syncs and the 201 responses. */
function parseTrace(trace: string): string[] {
  return trace.split('\n').flatMap((line) => {
    if (/ pwrite64\(.*petstore\.sqlite-wal>/.test(line)) return ['write'];
    if (/ (fsync|fdatasync)\(.*petstore\.sqlite-wal>\) += 0/.test(line)) return ['sync'];
    if (/ (write|writev|sendto)\(.*HTTP\/1\.1 201 /.test(line)) return ['response'];
    return [];
  });
}

describe('durability', () => {
  it('keeps every acknowledged create across 20 SIGKILLs under load', async () => {
    const load = new LoadGenerator(KEY);
    for (let round = 0; round < 20; round++) {
      const service = await start();
      const base = await service.waitUntilListening();
      load.start(base, { writers: 16, readers: 2 });
      await load.waitForSuccesses(2, TIMEOUT_MS);
      // Kills the service at a different point each time.
      await delay(Math.random() * 50);
      load.allowDisconnects(base);
      service.kill('SIGKILL');
      expect(await service.exited).toMatchObject({ signal: 'SIGKILL' });
    }
    await load.stop();
    const base = await (await start()).waitUntilListening();
    load.verifyFinalState(parseRows(await list(base)));
    expect(load.violations).toEqual([]);
    expect(load.created.length).toBeGreaterThan(20 * 16 * 2);
  });

  (hasStrace ? it : it.skip)(
    'sends a 201 response only after the commit is synced to disk (needs strace)',
    async () => {
      const trace = join(directory, 'trace');
      // -D keeps the service, rather than strace, as the direct child process.
      const service = await start({}, [
        'strace',
        '-D',
        '-f',
        '-y',
        '-s',
        '40',
        '-o',
        trace,
        '-e',
        'trace=pwrite64,fsync,fdatasync,write,writev,sendto',
      ]);
      const base = await service.waitUntilListening();
      for (let index = 0; index < 5; index++) {
        expect((await create(base, `single ${index}`)).status).toBe(201);
      }
      const batch = await Promise.all(
        Array.from({ length: 40 }, (_, i) => create(base, `batch ${i}`)),
      );
      expect(batch.map(({ status }) => status)).toEqual(batch.map(() => 201));
      await service.stop();

      const calls = await waitFor(
        () => parseTrace(readFileSync(trace, 'utf8')),
        (found) => found.filter((call) => call === 'response').length === 45,
        TIMEOUT_MS,
      );
      const isDurable = calls.map((call, index) => {
        const before = calls.slice(0, index);
        return call !== 'response' || before.lastIndexOf('sync') > before.lastIndexOf('write');
      });
      expect(isDurable).not.toContain(false);
      // The first five requests were sequential, so each has its own commit and sync.
      const responses = calls.flatMap((call, index) => (call === 'response' ? [index] : []));
      for (let index = 1; index < 5; index++) {
        const between = calls.slice(responses[index - 1], responses[index]);
        expect(between).toContain('write');
        expect(between).toContain('sync');
      }
    },
  );
});

/** Modules that make the service fail when it receives SIGUSR2. */
const FAULTS = {
  exception: `process.on('SIGUSR2', () => { throw new Error('simulated fault'); });`,
  rejection: `process.on('SIGUSR2', () => void Promise.reject(new Error('simulated fault')));`,
  'rejection without an Error': `process.on('SIGUSR2', () => void Promise.reject('simulated fault'));`,
};

describe('fatal errors', () => {
  it.each([
    ['exception', '', /Uncaught exception, exiting/],
    ['rejection', '', /Unhandled promise rejection, exiting/],
    // The service must exit even if this flag turns rejections into warnings.
    ['rejection', '--unhandled-rejections=warn', /Unhandled promise rejection, exiting/],
    ['rejection without an Error', '', /Unhandled promise rejection, exiting/],
  ] as const)(
    'logs an unhandled %s as fatal and exits with code 1 (NODE_OPTIONS: "%s")',
    async (kind, flags, message) => {
      const fault = join(directory, 'fault.mjs');
      writeFileSync(fault, FAULTS[kind]);
      const service = await start({ NODE_OPTIONS: `${flags} --import ${fault}` });
      const base = await service.waitUntilListening();
      expect((await create(base, 'before')).status).toBe(201);
      service.kill('SIGUSR2');
      expect(await service.exited).toEqual({ code: 1, signal: null });
      const last = service.output.trim().split('\n').at(-1)!;
      expect(JSON.parse(last)).toMatchObject({ level: 'fatal' });
      expect(last).toMatch(message);
      expect(last).toMatch(/simulated fault/);
    },
  );
});

describe('a suspended service', () => {
  it('serves pending requests after it resumes, even beyond its timeouts', async () => {
    const service = await start();
    const base = await service.waitUntilListening();
    const load = new LoadGenerator(KEY);
    load.start(base, { writers: 8, readers: 4, pause: 20 });
    await load.waitForSuccesses(3, TIMEOUT_MS);
    service.kill('SIGSTOP');
    const waiting = await RawConnection.open(base);
    waiting.send(rawRequest({ headers: [`Authorization: Bearer ${KEY}`] }));
    // Longer than the headers timeout of 5 seconds.
    await delay(6_000);
    service.kill('SIGCONT');
    expect((await waiting.nextResponse(1, TIMEOUT_MS)).status).toBe(200);
    waiting.close();
    await load.waitForSuccesses(3, TIMEOUT_MS);
    await load.stop();
    load.verifyFinalState(parseRows(await list(base)));
    expect(load.violations).toEqual([]);
  });
});

describe('client connections', () => {
  let base: string;
  let service: ServiceProcess;
  beforeEach(async () => {
    service = await start();
    base = await service.waitUntilListening();
  });

  const openFiles = (): number => readdirSync(`/proc/${service.pid}/fd`).length;

  it('releases all resources of clients that disconnect mid-request or mid-response', async () => {
    // Makes the list larger than the socket buffers.
    const database = new Database(join(directory, 'data', 'petstore.sqlite'));
    database.exec(`
      WITH RECURSIVE "n"("i") AS (SELECT 1 UNION ALL SELECT "i" + 1 FROM "n" WHERE "i" < 8000)
      INSERT INTO "categories" ("name", "description") SELECT 'large', hex(zeroblob(500)) FROM "n"`);
    database.close();
    // The first list request opens the connection that tracks changes of the file.
    expect(parseRows(await list(base))).toHaveLength(8_000);
    const before = openFiles();
    const authorization = `Authorization: Bearer ${KEY}`;
    const completeRequest = rawRequest({ headers: [authorization] });
    const partialRequest = rawRequest({
      method: 'POST',
      headers: [authorization, 'Content-Type: application/json', 'Content-Length: 1000'],
      body: '{"name":"never',
    });
    for (let round = 0; round < 50; round++) {
      const pair = await Promise.all([RawConnection.open(base), RawConnection.open(base)]);
      await Promise.all([
        pair[0].send(completeRequest).flushed(),
        pair[1].send(partialRequest).flushed(),
      ]);
      if (round % 2 === 0) await waitFor(() => pair[0].received.length, Boolean, TIMEOUT_MS);
      for (const connection of pair) connection.reset();
    }
    await waitFor(openFiles, (files) => files < before + 10, TIMEOUT_MS);
    const rows = parseRows(await list(base));
    expect(rows).toHaveLength(8_000);
    expect(rows.filter(({ name }) => name !== 'large')).toEqual([]);
    expect(service.output).not.toMatch(/"level":"(error|fatal)"/);
  });

  // Each connection takes a file descriptor in this process and in the service; both have this limit.
  const files = Number(
    /Max open files +\d+ +(\d+)/.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? 10_500,
  );
  const idleCount = Math.min(10_000, files - 500);

  it(`serves other clients and completes a graceful shutdown despite ${idleCount} idle connections`, async () => {
    const idle: RawConnection[] = [];
    // A request first: the headers timeout closes connections that have not sent one after 5 seconds.
    const request = rawRequest({ target: '/livez' });
    const open = async (): Promise<RawConnection> => {
      const connection = await RawConnection.open(base);
      await connection.send(request).nextResponse(1, TIMEOUT_MS);
      return connection;
    };
    while (idle.length < idleCount) {
      const size = Math.min(250, idleCount - idle.length);
      idle.push(...(await Promise.all(Array.from({ length: size }, open))));
    }
    await waitFor(openFiles, (count) => count > idleCount, TIMEOUT_MS);
    expect((await create(base, 'dog')).status).toBe(201);
    expect(parseRows(await list(base))).toMatchObject([{ name: 'dog' }]);
    expect(idle.filter(({ ended }) => ended)).toEqual([]);
    const begin = performance.now();
    service.kill('SIGTERM');
    expect(await service.exited).toEqual({ code: 0, signal: null });
    expect(performance.now() - begin).toBeLessThan(10_000);
    for (const connection of idle) connection.close();
  });

  (hasPrlimit ? it : it.skip)(
    'survives running out of file descriptors and recovers once clients disconnect (needs prlimit)',
    async () => {
      expect((await create(base, 'dog')).status).toBe(201);
      execFileSync('prlimit', ['--pid', String(service.pid), '--nofile=80:80']);
      const connections = await Promise.all(
        Array.from({ length: 200 }, () => RawConnection.open(base)),
      );
      await waitFor(
        () => readdirSync(`/proc/${service.pid}/fd`).length,
        (count) => count === 80,
        TIMEOUT_MS,
      );
      for (const connection of connections) connection.close();
      await waitFor(
        () => readdirSync(`/proc/${service.pid}/fd`).length,
        (count) => count < 60,
        TIMEOUT_MS,
      );
      expect((await create(base, 'cat')).status).toBe(201);
      expect(parseRows(await list(base))).toMatchObject([{ name: 'dog' }, { name: 'cat' }]);
      service.kill('SIGTERM');
      expect(await service.exited).toEqual({ code: 0, signal: null });
    },
  );
});
