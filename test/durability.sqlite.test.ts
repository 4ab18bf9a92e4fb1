/* oxlint-disable jest/no-standalone-expect, jest/no-disabled-tests -- `it` where strace and prlimit are installed */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { type HttpResponse, sendRequest, jsonHeaders } from './support/http-client.js';
import { LoadGenerator, type Row } from './support/load-generator.js';
import { RawConnection, rawRequest } from './support/raw-connection.js';
import { ServiceProcess } from './support/service-process.js';
import { waitFor } from './support/wait.js';

// The first service waits for the compiler; others are killed and started many times.
import.meta.jest.setTimeout(180_000);

const KEY = 'bootstrap-0123456789-abcdefghijklmnop';
const LIMIT = 30_000;

let directory: string;
let services: ServiceProcess[];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'petstore-crashes-'));
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
    { BOOTSTRAP_API_KEY: KEY, NODE_ENV: 'production', ...env },
    through,
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
const rowsIn = ({ body }: HttpResponse): Row[] => JSON.parse(body.toString()) as Row[];

it('Twenty kills under load lose no create that was answered, and give no id twice', async () => {
  const load = new LoadGenerator(KEY);
  for (let round = 0; round < 20; round++) {
    const service = await start();
    const base = await service.waitUntilListening();
    load.start(base, { writers: 16, readers: 2 });
    await load.waitForSuccesses(2, LIMIT);
    // At another moment of the work each time.
    await delay(Math.random() * 50);
    load.allowDisconnects(base);
    service.kill('SIGKILL');
    expect(await service.exited).toMatchObject({ signal: 'SIGKILL' });
  }
  await load.stop();
  const base = await (await start()).waitUntilListening();
  load.verifyFinalState(rowsIn(await list(base)));
  expect(load.violations).toEqual([]);
  expect(load.created.length).toBeGreaterThan(20 * 16 * 2);
});

const hasPrlimit = spawnSync('prlimit', ['--version'], { stdio: 'ignore' }).status === 0;
const hasStrace = spawnSync('strace', ['-f', 'true'], { stdio: 'ignore' }).status === 0;

/**
 * The system calls that matter, in their order: a write to the log of the database, a sync of it, and
 * an answer 201.
 */
function callsIn(trace: string): string[] {
  return trace.split('\n').flatMap((line) => {
    if (/ pwrite64\(.*petstore\.sqlite-wal>/.test(line)) return ['write'];
    if (/ (fsync|fdatasync)\(.*petstore\.sqlite-wal>\) += 0/.test(line)) return ['sync'];
    if (/ (write|writev|sendto)\(.*HTTP\/1\.1 201 /.test(line)) return ['answer'];
    return [];
  });
}

(hasStrace ? it : it.skip)(
  'A create is answered after its commit has reached the disk (needs strace)',
  async () => {
    const trace = join(directory, 'trace');
    // -D: the service stays the process that is started here.
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
      expect((await create(base, `alone ${index}`)).status).toBe(201);
    }
    const group = await Promise.all(Array.from({ length: 40 }, (_, i) => create(base, `g ${i}`)));
    expect(group.map(({ status }) => status)).toEqual(group.map(() => 201));
    await service.stop();

    const calls = await waitFor(
      () => callsIn(readFileSync(trace, 'utf8')),
      (found) => found.filter((call) => call === 'answer').length === 45,
      LIMIT,
    );
    const isSafe = calls.map((call, index) => {
      const before = calls.slice(0, index);
      return call !== 'answer' || before.lastIndexOf('sync') > before.lastIndexOf('write');
    });
    expect(isSafe).not.toContain(false);
    // Each of the first five has a commit, and so a sync, of its own.
    const answers = calls.flatMap((call, index) => (call === 'answer' ? [index] : []));
    for (let index = 1; index < 5; index++) {
      const between = calls.slice(answers[index - 1], answers[index]);
      expect(between).toContain('write');
      expect(between).toContain('sync');
    }
  },
);

/** Fails on SIGUSR2, in the process of the service. */
const FAULTS = {
  exception: `process.on('SIGUSR2', () => { throw new Error('an odd fault'); });`,
  rejection: `process.on('SIGUSR2', () => void Promise.reject(new Error('an odd fault')));`,
  'rejection with no error': `process.on('SIGUSR2', () => void Promise.reject('an odd fault'));`,
};

it.each([
  ['exception', '', /An exception was not caught/],
  ['rejection', '', /A promise was rejected/],
  // The flag would let a service go on that has failed.
  ['rejection', '--unhandled-rejections=warn', /A promise was rejected/],
  ['rejection with no error', '', /A promise was rejected/],
] as const)(
  'An %s that nobody handles ends the service with a line in the log: %s',
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
    expect(last).toMatch(/an odd fault/);
  },
);

it('A service that was held up for longer than its timeouts goes on, and answers what came meanwhile', async () => {
  const service = await start();
  const base = await service.waitUntilListening();
  const load = new LoadGenerator(KEY);
  load.start(base, { writers: 8, readers: 4, pause: 20 });
  await load.waitForSuccesses(3, LIMIT);
  service.kill('SIGSTOP');
  const waiting = await RawConnection.open(base);
  waiting.send(rawRequest({ headers: [`Authorization: Bearer ${KEY}`] }));
  // Longer than the 5 seconds that headers may take.
  await delay(6_000);
  service.kill('SIGCONT');
  expect((await waiting.nextResponse(1, LIMIT)).status).toBe(200);
  waiting.close();
  await load.waitForSuccesses(3, LIMIT);
  await load.stop();
  load.verifyFinalState(rowsIn(await list(base)));
  expect(load.violations).toEqual([]);
});

describe('Clients', () => {
  let base: string;
  let service: ServiceProcess;
  beforeEach(async () => {
    service = await start();
    base = await service.waitUntilListening();
  });

  const openFiles = (): number => readdirSync(`/proc/${service.pid}/fd`).length;

  it('that vanish in the middle of a request or an answer leave nothing behind', async () => {
    // The list is to be larger than what a socket takes at once.
    const database = new Database(join(directory, 'data', 'petstore.sqlite'));
    database.exec(`
      WITH RECURSIVE "n"("i") AS (SELECT 1 UNION ALL SELECT "i" + 1 FROM "n" WHERE "i" < 8000)
      INSERT INTO "categories" ("name", "description") SELECT 'large', hex(zeroblob(500)) FROM "n"`);
    database.close();
    // From the first list on, the service watches the file.
    expect(rowsIn(await list(base))).toHaveLength(8_000);
    const before = openFiles();
    const authorization = `Authorization: Bearer ${KEY}`;
    const wholeRequest = rawRequest({ headers: [authorization] });
    const halfRequest = rawRequest({
      method: 'POST',
      headers: [authorization, 'Content-Type: application/json', 'Content-Length: 1000'],
      body: '{"name":"never',
    });
    for (let round = 0; round < 50; round++) {
      const pair = await Promise.all([RawConnection.open(base), RawConnection.open(base)]);
      await Promise.all([
        pair[0].send(wholeRequest).flushed(),
        pair[1].send(halfRequest).flushed(),
      ]);
      if (round % 2 === 0) await waitFor(() => pair[0].received.length, Boolean, LIMIT);
      for (const connection of pair) connection.reset();
    }
    await waitFor(openFiles, (files) => files < before + 10, LIMIT);
    const rows = rowsIn(await list(base));
    expect(rows).toHaveLength(8_000);
    expect(rows.filter(({ name }) => name !== 'large')).toEqual([]);
    expect(service.output).not.toMatch(/"level":"(error|fatal)"/);
  });

  // Both ends of each connection are files of processes with the same limit.
  const files = Number(
    /Max open files +\d+ +(\d+)/.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? 10_500,
  );
  const idleCount = Math.min(10_000, files - 500);

  it(`${idleCount} of them that are idle hold up neither the others nor the stop`, async () => {
    const idle: RawConnection[] = [];
    // One that has sent nothing yet is closed after 5 seconds, as one whose request does not come.
    const request = rawRequest({ target: '/livez' });
    const open = async (): Promise<RawConnection> => {
      const connection = await RawConnection.open(base);
      await connection.send(request).nextResponse(1, LIMIT);
      return connection;
    };
    while (idle.length < idleCount) {
      const size = Math.min(250, idleCount - idle.length);
      idle.push(...(await Promise.all(Array.from({ length: size }, open))));
    }
    await waitFor(openFiles, (count) => count > idleCount, LIMIT);
    expect((await create(base, 'dog')).status).toBe(201);
    expect(rowsIn(await list(base))).toMatchObject([{ name: 'dog' }]);
    expect(idle.filter(({ ended }) => ended)).toEqual([]);
    const begin = performance.now();
    service.kill('SIGTERM');
    expect(await service.exited).toEqual({ code: 0, signal: null });
    expect(performance.now() - begin).toBeLessThan(10_000);
    for (const connection of idle) connection.close();
  });
});

(hasPrlimit ? it : it.skip)(
  'More clients than there are file descriptors end nothing, and some are served again when others leave (needs prlimit)',
  async () => {
    const service = await start();
    const base = await service.waitUntilListening();
    expect((await create(base, 'dog')).status).toBe(201);
    execFileSync('prlimit', ['--pid', String(service.pid), '--nofile=80:80']);
    const crowd = await Promise.all(Array.from({ length: 200 }, () => RawConnection.open(base)));
    await waitFor(
      () => readdirSync(`/proc/${service.pid}/fd`).length,
      (count) => count === 80,
      LIMIT,
    );
    for (const connection of crowd) connection.close();
    await waitFor(
      () => readdirSync(`/proc/${service.pid}/fd`).length,
      (count) => count < 60,
      LIMIT,
    );
    expect((await create(base, 'cat')).status).toBe(201);
    expect(rowsIn(await list(base))).toMatchObject([{ name: 'dog' }, { name: 'cat' }]);
    service.kill('SIGTERM');
    expect(await service.exited).toEqual({ code: 0, signal: null });
  },
);
