import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';
import {
  CategoriesClient,
  jsonHeaders,
  type RequestOptions,
  sendRequest,
} from './support/http-client.js';
import { LoadGenerator } from './support/load-generator.js';
import { RawConnection, rawRequest } from './support/raw-connection.js';
import { BOOTSTRAP_KEY as KEY, ServiceProcess } from './support/service-process.js';

const USAGE = `Usage: npm run soak -- [--minutes <n>]

Runs two processes of the service on one SQLite file for <n> minutes (default: 10), with clients that
create, list, send invalid requests and disconnect. One process keeps running while its memory is
monitored; the other is alternately shut down and killed. API keys are created and revoked meanwhile.
Exits with 0 if every response was correct and memory did not grow.`;

/** The directory of the build that contains this file. */
const DIST = join(import.meta.dirname, '..');
const RESTART_INTERVAL_MS = 15_000;
const NEW_KEY_INTERVAL_MS = 10_000;
const SAMPLE_INTERVAL_MS = 1_000;
/** The revocation delay of `ApiKeysService` plus a margin. */
const REVOCATION_TIMEOUT_MS = 2_500;
const PROGRESS_TIMEOUT_MS = 30_000;
/** Clients per process. They create few enough rows that the list stays short. */
const CLIENTS = { writers: 4, readers: 4, pause: 800 };
/** How far the median of the last third of the run may exceed that of the second third. */
const MAX_GROWTH = { megabytes: 24, files: 20 };

interface Sample {
  readonly megabytes: number;
  readonly files: number;
}

/** Mostly invalid requests, with their expected status. */
const INVALID_REQUESTS: readonly (RequestOptions & { path: string; status: number })[] = [
  { path: '/v1/categories', status: 401 },
  { path: '/v1/categories', status: 401, headers: jsonHeaders(`${KEY}x`) },
  { path: '/v1/nothing', status: 404, headers: jsonHeaders(KEY) },
  { path: '/v1/categories', status: 405, method: 'DELETE', headers: jsonHeaders(KEY) },
  { path: '/v1/categories', status: 400, method: 'POST', headers: jsonHeaders(KEY), body: '{' },
  { path: '/v1/categories', status: 400, method: 'POST', headers: jsonHeaders(KEY), body: '{}' },
  { path: '/readyz', status: 405, method: 'POST' },
  { path: '/v1/categories', status: 200, headers: jsonHeaders(KEY) },
  { path: '/readyz', status: 200 },
];

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '10' }, help: { type: 'boolean' } },
});
const minutes = Number(values.minutes);
if (values.help === true || !(minutes > 0)) {
  process.stdout.write(`${USAGE}\n`);
  process.exit(values.help === true ? 0 : 1);
}
const directory = await mkdtemp(join(tmpdir(), 'petstore-soak-'));
const services: ServiceProcess[] = [];
try {
  const failures = await soak(directory);
  for (const failure of failures.slice(0, 20)) process.stdout.write(`FAIL: ${failure}\n`);
  process.exitCode = failures.length === 0 ? 0 : 1;
} finally {
  for (const service of services) service.kill('SIGKILL');
  await Promise.all(services.map(({ exited }) => exited));
  await rm(directory, { recursive: true, force: true });
}

/** Runs the soak test, prints statistics and returns the failures. */
async function soak(cwd: string): Promise<string[]> {
  const failures: string[] = [];
  const counts = { invalidRequests: 0, disconnects: 0, restarts: 0, keys: 0 };
  const samples: Sample[] = [];
  const end = performance.now() + minutes * 60_000;
  const load = new LoadGenerator(KEY);
  const stableProcess = await start(cwd);
  const base = await stableProcess.waitUntilListening();
  load.start(base, CLIENTS);

  /** Repeats an action until the end of the run or its first error, which it records as a failure. */
  const repeat = async (pause: number, action: () => Promise<void>): Promise<void> => {
    try {
      while (performance.now() < end) {
        await action();
        await delay(Math.min(pause, Math.max(0, end - performance.now())));
      }
    } catch (error) {
      failures.push(String((error as Error).stack));
    }
  };
  const agent = new Agent({ keepAlive: true });
  let turn = 0;
  const sendInvalidRequest = async (): Promise<void> => {
    const { path, status, ...request } = INVALID_REQUESTS[turn++ % INVALID_REQUESTS.length]!;
    const response = await sendRequest(base + path, { ...request, agent });
    counts.invalidRequests++;
    if (response.status !== status) {
      failures.push(`${path} returned ${response.status} instead of ${status}`);
    }
  };
  const disconnectMidRequest = async (): Promise<void> => {
    const request = rawRequest({
      method: 'POST',
      headers: [
        `Authorization: Bearer ${KEY}`,
        'Content-Type: application/json',
        'Content-Length: 999',
      ],
      body: '{"name":"never',
    });
    const connection = await RawConnection.open(base);
    await connection.send(request).flushed();
    connection.reset();
    counts.disconnects++;
  };
  const restart = async (): Promise<void> => {
    const service = await start(cwd);
    const url = await service.waitUntilListening();
    load.start(url, CLIENTS);
    await delay(Math.min(RESTART_INTERVAL_MS, Math.max(0, end - performance.now())));
    load.allowDisconnects(url);
    const signal = counts.restarts++ % 2 === 0 ? 'SIGTERM' : 'SIGKILL';
    service.kill(signal);
    const exit = await service.exited;
    if (signal === 'SIGTERM' && exit.code !== 0) {
      failures.push(`A graceful shutdown exited with ${exit.code}`);
    }
  };
  const createAndRevokeKey = async (): Promise<void> => {
    const name = `soak-${counts.keys++}`;
    const key = (await runKeys(cwd, 'create', name)).trim();
    const status = async (): Promise<number> =>
      (await new CategoriesClient(base, key).list()).status;
    const before = await status();
    const id = new RegExp(`(\\d+)\\D+${name}\\D`).exec(await runKeys(cwd, 'list'))?.[1];
    await runKeys(cwd, 'revoke', id ?? 'unknown');
    await delay(REVOCATION_TIMEOUT_MS);
    const after = await status();
    if (before !== 200) failures.push(`A new API key got ${before}`);
    if (after !== 401) failures.push(`A revoked API key got ${after}`);
  };
  const sample = async (): Promise<void> => {
    const { megabytes, files } = await measure(stableProcess.pid);
    samples.push({ megabytes, files });
    if (samples.length % 30 === 0) {
      const responses = load.responses.length + counts.invalidRequests;
      const totals = `${responses} responses, ${load.created.length} created`;
      process.stdout.write(`${samples.length} s: ${totals}, ${megabytes} MB, ${files} files\n`);
    }
  };
  await Promise.all([
    repeat(2, sendInvalidRequest),
    repeat(200, disconnectMidRequest),
    repeat(0, restart),
    repeat(NEW_KEY_INTERVAL_MS, createAndRevokeKey),
    repeat(SAMPLE_INTERVAL_MS, sample),
  ]);
  await load.waitForSuccesses(1, PROGRESS_TIMEOUT_MS);
  await load.stop();
  agent.destroy();
  load.verifyFinalState(await new CategoriesClient(base, KEY).getAll());
  stableProcess.kill('SIGTERM');
  const { code } = await stableProcess.exited;
  if (code !== 0)
    failures.push(`The final graceful shutdown exited with ${code}:\n${stableProcess.output}`);

  const third = Math.floor(samples.length / 3);
  for (const [metric, limit] of Object.entries(MAX_GROWTH)) {
    const medians = [1, 2].map((part) =>
      median(
        samples.slice(part * third, (part + 1) * third).map((one) => one[metric as keyof Sample]),
      ),
    );
    const [second, last] = medians as [number, number];
    process.stdout.write(`${metric}: median ${second} in the second third, ${last} in the last\n`);
    if (!(last - second <= limit)) failures.push(`${metric} grew from ${second} to ${last}`);
  }
  const statuses = new Map<number, number>();
  for (const { status } of load.responses) statuses.set(status, (statuses.get(status) ?? 0) + 1);
  process.stdout.write(
    `${minutes} minutes: ${JSON.stringify({ ...counts, created: load.created.length, statuses: Object.fromEntries(statuses) })}\n`,
  );
  return [...failures, ...load.violations];
}

async function start(cwd: string): Promise<ServiceProcess> {
  const service = ServiceProcess.start(cwd, {
    env: {
      BOOTSTRAP_API_KEY: KEY,
      NODE_ENV: 'production',
      LOG_LEVEL: 'info',
      // All clients share one address, whose invalid keys would soon exceed the rate limit.
      AUTH_FAILURES_PER_MINUTE: '0',
    },
    main: join(DIST, 'src', 'main.js'),
  });
  services.push(service);
  return service;
}

/** Runs the `keys` command and returns its output. */
async function runKeys(cwd: string, ...args: string[]): Promise<string> {
  const script = join(DIST, 'src', 'cli', 'keys.js');
  const { stdout } = await promisify(execFile)(process.execPath, [script, ...args], { cwd });
  return stdout;
}

/** Reads the resident memory and the number of open files of a process from `/proc`. */
async function measure(pid: number): Promise<Sample> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const kilobytes = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]);
  const files = await readdir(`/proc/${pid}/fd`);
  return { megabytes: Math.round(kilobytes / 1024), files: files.length };
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}
