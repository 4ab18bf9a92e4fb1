import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { Agent } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';
import { sendRequest, type RequestOptions, jsonHeaders } from './support/http-client.js';
import { LoadGenerator, type Row } from './support/load-generator.js';
import { RawConnection, rawRequest } from './support/raw-connection.js';
import { ServiceProcess } from './support/service-process.js';

const USAGE = `Usage: npm run soak -- [--minutes <n>]

Runs two processes of the service on one SQLite file for so many minutes (10 unless told), with clients
that create, list, err and vanish. One process stays, and its memory is watched; the other is stopped and
killed in turn. Keys are made and revoked meanwhile. Ends with 0 where every answer was right and the
memory did not grow.`;

/** The build that this file is part of. */
const DIST = join(import.meta.dirname, '..');
const KEY = 'bootstrap-0123456789-abcdefghijklmnop';
/** Milliseconds between two restarts, two keys, and two looks at the memory. */
const RESTART_EVERY = 15_000;
const NEW_KEY_EVERY = 10_000;
const SAMPLE_EVERY = 1_000;
/** Milliseconds after which a revoked key lets nobody in (see `ApiKeysService`), and a little more. */
const REVOKED_AFTER = 2_500;
/** Milliseconds that every client has to be served. */
const LIMIT = 30_000;
/** Clients of each process; together they create few enough rows that the list stays short. */
const CLIENTS = { writers: 4, readers: 4, pause: 800 };
/** By how much the median of the last third of the time may exceed that of the second third. */
const GROWTH_LIMIT = { megabytes: 24, files: 20 };

interface Sample {
  readonly megabytes: number;
  readonly files: number;
}

/** Requests that are refused, and how. */
const REFUSED: readonly (RequestOptions & { path: string; status: number })[] = [
  { path: '/v1/categories', status: 401 },
  { path: '/v1/categories', status: 401, headers: jsonHeaders(`${KEY}x`) },
  { path: '/v1/nothing', status: 404, headers: jsonHeaders(KEY) },
  { path: '/v1/categories', status: 405, method: 'DELETE', headers: jsonHeaders(KEY) },
  { path: '/v1/categories', status: 400, method: 'POST', headers: jsonHeaders(KEY), body: '{' },
  { path: '/v1/categories', status: 400, method: 'POST', headers: jsonHeaders(KEY), body: '{}' },
  { path: '/v1/pets/1', status: 405, method: 'PUT', headers: jsonHeaders(KEY) },
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
  const problems = await soak(directory);
  for (const problem of problems.slice(0, 20)) process.stdout.write(`WRONG: ${problem}\n`);
  process.exitCode = problems.length === 0 ? 0 : 1;
} finally {
  for (const service of services) service.kill('SIGKILL');
  await Promise.all(services.map(({ exited }) => exited));
  await rm(directory, { recursive: true, force: true });
}

/** Runs it all, reports, and gives what was wrong. */
async function soak(cwd: string): Promise<string[]> {
  const problems: string[] = [];
  const counts = { refused: 0, vanished: 0, restarts: 0, keys: 0 };
  const samples: Sample[] = [];
  const end = performance.now() + minutes * 60_000;
  const load = new LoadGenerator(KEY);
  const stableProcess = await start(cwd);
  const base = await stableProcess.waitUntilListening();
  load.start(base, CLIENTS);

  /** Does something again and again; what it throws is a problem, and its last. */
  const repeat = async (pause: number, act: () => Promise<void>): Promise<void> => {
    try {
      while (performance.now() < end) {
        await act();
        await delay(Math.min(pause, Math.max(0, end - performance.now())));
      }
    } catch (error) {
      problems.push(String((error as Error).stack));
    }
  };
  const agent = new Agent({ keepAlive: true });
  let turn = 0;
  const sendInvalidRequest = async (): Promise<void> => {
    const { path, status, ...request } = REFUSED[turn++ % REFUSED.length]!;
    const answer = await sendRequest(base + path, { ...request, agent });
    counts.refused++;
    if (answer.status !== status) problems.push(`${path} was ${answer.status}, not ${status}`);
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
    counts.vanished++;
  };
  const restart = async (): Promise<void> => {
    const service = await start(cwd);
    const url = await service.waitUntilListening();
    load.start(url, CLIENTS);
    await delay(Math.min(RESTART_EVERY, Math.max(0, end - performance.now())));
    load.allowDisconnects(url);
    const signal = counts.restarts++ % 2 === 0 ? 'SIGTERM' : 'SIGKILL';
    service.kill(signal);
    const exit = await service.exited;
    if (signal === 'SIGTERM' && exit.code !== 0) problems.push(`A stop ended with ${exit.code}`);
  };
  const changeKey = async (): Promise<void> => {
    const name = `soak-${counts.keys++}`;
    const key = (await keys(cwd, 'create', name)).trim();
    const status = async (): Promise<number> =>
      (await sendRequest(`${base}/v1/categories`, { headers: jsonHeaders(key) })).status;
    const before = await status();
    const id = new RegExp(`(\\d+)\\D+${name}\\D`).exec(await keys(cwd, 'list'))?.[1];
    await keys(cwd, 'revoke', id ?? 'unknown');
    await delay(REVOKED_AFTER);
    const after = await status();
    if (before !== 200) problems.push(`A new key was answered ${before}`);
    if (after !== 401) problems.push(`A revoked key was answered ${after}`);
  };
  const sample = async (): Promise<void> => {
    const { megabytes, files } = await measure(stableProcess.pid);
    samples.push({ megabytes, files });
    if (samples.length % 30 === 0) {
      const done = `${load.answers.length + counts.refused} answers, ${load.created.length} creates`;
      process.stdout.write(`${samples.length} s: ${done}, ${megabytes} MB, ${files} files\n`);
    }
  };
  await Promise.all([
    repeat(2, sendInvalidRequest),
    repeat(200, disconnectMidRequest),
    repeat(0, restart),
    repeat(NEW_KEY_EVERY, changeKey),
    repeat(SAMPLE_EVERY, sample),
  ]);
  await load.waitForSuccesses(1, LIMIT);
  await load.stop();
  agent.destroy();
  const answer = await sendRequest(`${base}/v1/categories`, { headers: jsonHeaders(KEY) });
  load.verifyFinalState(JSON.parse(answer.body.toString()) as Row[]);
  stableProcess.kill('SIGTERM');
  const { code } = await stableProcess.exited;
  if (code !== 0) problems.push(`The last stop ended with ${code}:\n${stableProcess.output}`);

  const third = Math.floor(samples.length / 3);
  for (const [what, limit] of Object.entries(GROWTH_LIMIT)) {
    const medians = [1, 2].map((part) =>
      median(
        samples.slice(part * third, (part + 1) * third).map((one) => one[what as keyof Sample]),
      ),
    );
    const [second, last] = medians as [number, number];
    process.stdout.write(`${what}: median ${second} in the second third, ${last} in the last\n`);
    if (!(last - second <= limit)) problems.push(`${what} grew from ${second} to ${last}`);
  }
  const statuses = new Map<number, number>();
  for (const { status } of load.answers) statuses.set(status, (statuses.get(status) ?? 0) + 1);
  process.stdout.write(
    `${minutes} minutes: ${JSON.stringify({ ...counts, created: load.created.length, statuses: Object.fromEntries(statuses) })}\n`,
  );
  return [...problems, ...load.violations];
}

async function start(cwd: string): Promise<ServiceProcess> {
  const service = await ServiceProcess.start(
    cwd,
    {
      BOOTSTRAP_API_KEY: KEY,
      NODE_ENV: 'production',
      LOG_LEVEL: 'info',
      // All clients come from one address, which would soon get 429 for its wrong keys.
      AUTH_FAILURES_PER_MINUTE: '0',
    },
    [],
    DIST,
  );
  services.push(service);
  return service;
}

/** Runs a command for keys; gives what it prints. */
async function keys(cwd: string, ...args: string[]): Promise<string> {
  const script = join(DIST, 'src', 'cli', 'keys.js');
  const { stdout } = await promisify(execFile)(process.execPath, [script, ...args], { cwd });
  return stdout;
}

/** The memory and the open files of a process, as Linux tells them. */
async function measure(pid: number): Promise<Sample> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const kilobytes = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]);
  const files = await readdir(`/proc/${pid}/fd`);
  return { megabytes: Math.round(kilobytes / 1024), files: files.length };
}

function median(numbers: readonly number[]): number {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)] ?? Number.NaN;
}
