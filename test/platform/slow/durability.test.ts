/* oxlint-disable jest/no-standalone-expect, jest/no-disabled-tests -- some tests need strace or prlimit */
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { RawConnection } from '../support/raw-connection.js';
import { commandSucceeds, requires } from '../support/requirements.js';
import { createServices, type Services } from '../support/service-process.js';
import { waitFor } from '../support/wait.js';

let services: Services;
beforeEach(async () => {
  services = await createServices({ NODE_ENV: 'production' });
});
afterEach(() => services.close());

const prlimit = requires('prlimit');
const strace = requires('strace', commandSucceeds('strace', ['-f', 'true']));

/** Extracts, in order, the writes to the WAL file, its syncs and the 201 responses. */
function parseTrace(trace: string): string[] {
  return trace.split('\n').flatMap((line) => {
    if (/ pwrite64\(.*\.sqlite-wal>/.test(line)) return ['write'];
    if (/ (fsync|fdatasync)\(.*\.sqlite-wal>\) += 0/.test(line)) return ['sync'];
    if (/ (write|writev|sendto)\(.*HTTP\/1\.1 201 /.test(line)) return ['response'];
    return [];
  });
}

describe('durability', () => {
  strace.it('sends a 201 response only after the commit is synced to disk', async () => {
    const trace = join(services.directory, 'trace');
    const calls = 'trace=pwrite64,fsync,fdatasync,write,writev,sendto';
    const { service, categories } = await services.serve({
      // -D keeps the service, rather than strace, as the direct child process.
      execPrefix: ['strace', '-D', '-f', '-y', '-s', '40', '-o', trace, '-e', calls],
    });
    const readTrace = (): string[] => parseTrace(readFileSync(trace, 'utf8'));
    expect((await categories.create('first')).status).toBe(201);
    // The last use of the key is written, too.
    await delay(1_000);
    const start = readTrace().length;
    for (let index = 0; index < 5; index++) {
      expect((await categories.create(`single ${index}`)).status).toBe(201);
    }
    const batch = await Promise.all(
      Array.from({ length: 40 }, (_, i) => categories.create(`batch ${i}`)),
    );
    expect(batch.map(({ status }) => status)).toEqual(batch.map(() => 201));
    await service.stop();

    const traced = await waitFor(
      readTrace,
      (found) => found.filter((call) => call === 'response').length === 46,
    );
    const isDurable = traced.map((call, index) => {
      const before = traced.slice(0, index);
      return call !== 'response' || before.lastIndexOf('sync') > before.lastIndexOf('write');
    });
    expect(isDurable).not.toContain(false);
    // The sequential requests have a sync each, before their responses.
    const later = traced.slice(start);
    const responses = later.flatMap((call, index) => (call === 'response' ? [index] : []));
    for (let count = 1; count <= 5; count++) {
      const before = later.slice(0, responses[count - 1]);
      expect(before.filter((call) => call === 'sync').length).toBeGreaterThanOrEqual(count);
    }
  });
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
      const fault = join(services.directory, 'fault.mjs');
      writeFileSync(fault, FAULTS[kind]);
      const { service, categories } = await services.serve({
        env: { NODE_OPTIONS: `${flags} --import ${fault}` },
      });
      expect((await categories.create('before')).status).toBe(201);
      service.kill('SIGUSR2');
      expect(await service.exited).toEqual({ code: 1, signal: null });
      const last = service.output.trim().split('\n').at(-1)!;
      expect(JSON.parse(last)).toMatchObject({ level: 'fatal' });
      expect(last).toMatch(message);
      expect(last).toMatch(/simulated fault/);
    },
  );
});

prlimit.describe('a service that runs out of file descriptors', () => {
  it('survives, and recovers once clients disconnect', async () => {
    const { service, url, categories } = await services.serve();
    const openFiles = (): number => readdirSync(`/proc/${service.pid}/fd`).length;
    expect((await categories.create('dog')).status).toBe(201);
    execFileSync('prlimit', ['--pid', String(service.pid), '--nofile=80:80']);
    const connections = await Promise.all(
      Array.from({ length: 200 }, () => RawConnection.open(url)),
    );
    // A descriptor inherited from this process may have a number above the limit.
    await waitFor(openFiles, (count) => count >= 80);
    for (const connection of connections) connection.close();
    await waitFor(openFiles, (count) => count < 60);
    expect((await categories.create('cat')).status).toBe(201);
    expect(await categories.getNames()).toEqual(['dog', 'cat']);
    service.kill('SIGTERM');
    expect(await service.exited).toEqual({ code: 0, signal: null });
  });
});
