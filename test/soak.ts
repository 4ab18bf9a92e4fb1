import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import {
  CategoriesClient,
  jsonHeaders,
  type RequestOptions,
  sendRequest,
} from './support/http-client.js';
import { LoadGenerator } from './support/load-generator.js';
import { RawConnection, rawRequest } from './support/raw-connection.js';
import { BOOTSTRAP_KEY as KEY, ServiceProcess } from './support/service-process.js';

const SAMPLE_INTERVAL_MS = 1_000;
const PROGRESS_TIMEOUT_MS = 30_000;
/** They create few enough rows that the list stays short. */
const CLIENTS = { writers: 4, readers: 4, pause: 800 };
/** How far the median of the last third of the run may exceed that of the second third. */
const MAX_GROWTH = { megabytes: 24, files: 20 };

type Sample = Record<keyof typeof MAX_GROWTH, number>;

/** Mostly invalid requests, with their expected status. */
const REQUESTS: readonly (RequestOptions & { path: string; status: number })[] = [
  { path: '/v1/categories', status: 401 },
  { path: '/v1/categories', status: 401, headers: jsonHeaders(`${KEY}x`) },
  { path: '/v1/nothing', status: 404, headers: jsonHeaders(KEY) },
  { path: '/v1/categories', status: 405, method: 'DELETE', headers: jsonHeaders(KEY) },
  { path: '/v1/categories', status: 400, method: 'POST', headers: jsonHeaders(KEY), body: '{' },
  { path: '/readyz', status: 200 },
];

// Runs the service on a SQLite file, with clients that create, list, send invalid requests and
// disconnect. Exits with 0 if every response was correct and memory did not grow.
const { values } = parseArgs({ options: { minutes: { type: 'string', default: '10' } } });
const minutes = Number(values.minutes);
const directory = await mkdtemp(join(tmpdir(), 'petstore-soak-'));
const service = ServiceProcess.start(directory, {
  // All clients share one address, whose invalid keys would soon exceed the rate limit.
  env: { BOOTSTRAP_API_KEY: KEY, NODE_ENV: 'production', AUTH_FAILURES_PER_MINUTE: '0' },
  main: join(import.meta.dirname, '..', 'src', 'main.js'),
});
try {
  const failures = await soak(await service.waitUntilListening());
  for (const failure of failures.slice(0, 20)) process.stdout.write(`FAIL: ${failure}\n`);
  process.exitCode = failures.length === 0 ? 0 : 1;
} finally {
  service.kill('SIGKILL');
  await service.exited;
  await rm(directory, { recursive: true, force: true });
}

/** Runs the soak test, prints the samples and returns the failures. */
async function soak(url: string): Promise<string[]> {
  const failures: string[] = [];
  const samples: Sample[] = [];
  const end = performance.now() + minutes * 60_000;
  const load = new LoadGenerator(KEY);
  load.start(url, CLIENTS);

  /** Repeats an action until the end of the run or its first error, which it records as a failure. */
  const repeat = async (pause: number, action: () => Promise<void>): Promise<void> => {
    try {
      while (performance.now() < end) {
        await action();
        await delay(pause);
      }
    } catch (error) {
      failures.push(String((error as Error).stack));
    }
  };
  const agent = new Agent({ keepAlive: true });
  let turn = 0;
  const sendNext = async (): Promise<void> => {
    const { path, status: expected, ...request } = REQUESTS[turn++ % REQUESTS.length]!;
    const { status } = await sendRequest(url + path, { ...request, agent });
    if (status !== expected) failures.push(`${path} returned ${status} instead of ${expected}`);
  };
  const disconnect = async (): Promise<void> => {
    const headers = [`Authorization: Bearer ${KEY}`, 'Content-Type: application/json'];
    const request = rawRequest({ method: 'POST', headers: [...headers, 'Content-Length: 999'] });
    const connection = await RawConnection.open(url);
    await connection.send(request).flushed();
    connection.reset();
  };
  const sample = async (): Promise<void> => {
    samples.push(await measure(service.pid));
  };
  await Promise.all([
    repeat(2, sendNext),
    repeat(200, disconnect),
    repeat(SAMPLE_INTERVAL_MS, sample),
  ]);
  await load.waitForSuccesses(1, PROGRESS_TIMEOUT_MS);
  await load.stop();
  agent.destroy();
  load.verifyFinalState(await new CategoriesClient(url, KEY).getAll());

  const third = Math.floor(samples.length / 3);
  for (const metric of ['megabytes', 'files'] as const) {
    const [second, last] = [1, 2].map((part) =>
      median(samples.slice(part * third, (part + 1) * third).map((one) => one[metric])),
    ) as [number, number];
    process.stdout.write(`${metric}: median ${second} in the second third, ${last} in the last\n`);
    if (!(last - second <= MAX_GROWTH[metric]))
      failures.push(`${metric} grew from ${second} to ${last}`);
  }
  process.stdout.write(`${load.responses.length} responses, ${load.created.length} created\n`);
  return [...failures, ...load.violations];
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
