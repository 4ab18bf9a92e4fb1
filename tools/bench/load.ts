import { type SpawnOptions, spawn, spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';

/** The requests to send and the responses to expect. */
export interface Load {
  /** URLs of the target's instances; the connections are distributed evenly among them. */
  readonly urls: readonly string[];
  readonly key: string;
  /** Number of connections, each with one request in flight. */
  readonly connections: number;
  /** Duration in whole seconds; the maximum duration if `requests` is set. */
  readonly durationSeconds: number;
  /** Stops after this number of responses, divided among the instances; 0 stops only by duration. */
  readonly requests: number;
  /** 0: only list requests; 1: only create requests; n: every nth request is a create request. */
  readonly writeInterval: number;
  /** Sent as `If-None-Match` with list requests unless empty. */
  readonly etag: string;
  /** Body of a create request. */
  readonly createBody: string;
  /** Sent as `Idempotency-Key` with create requests, each with its number, unless empty. */
  readonly idempotencyKey: string;
  /** Expected status of a list response: 200 or 304. */
  readonly listStatus: number;
  /** Expected body length in bytes of a list response before anything is created. */
  readonly listLength: number;
  /** Expected body length in bytes of a create response, without the digits of the id. */
  readonly createdLength: number;
  /** The highest id before the load starts. */
  readonly lastId: number;
}

/** The result of one load. */
export interface LoadResult {
  /** Number of responses that the generator counted, and how many of them were checked. */
  readonly requests: number;
  readonly checked: number;
  readonly seconds: number;
  /** Latency in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Number of create requests with the expected response. */
  readonly created: number;
  /** Number of responses with an unexpected status or body length, and a description of the first. */
  readonly failed: number;
  readonly firstFailure: string;
  /** Number of connection errors, dropped connections and timeouts. */
  readonly socketErrors: number;
}

const SCRIPT = fileURLToPath(new URL('../../../tools/bench/load.lua', import.meta.url));

/** Whether there are at least two cores and `taskset` can set the affinity. */
export const supportsAffinity =
  availableParallelism() >= 2 &&
  ['0', '1'].every((core) => spawnSync('taskset', ['-c', core, 'true']).status === 0);

/** Wraps a command so that it runs on the given core, if affinity is supported. */
export function withAffinity(
  core: 0 | 1,
  command: string,
  args: readonly string[],
): [string, string[]] {
  return supportsAffinity
    ? ['taskset', ['-c', String(core), command, ...args]]
    : [command, [...args]];
}

/** Moves a running process to the given core, if affinity is supported. */
export function setAffinity(core: 0 | 1, pid: number): void {
  if (supportsAffinity) spawnSync('taskset', ['-cp', String(core), String(pid)]);
}

/** Describes the CPU affinity of all processes for the report. */
export const affinityDescription = supportsAffinity
  ? 'target on core 0 (shared by two instances), load generator and PostgreSQL on core 1 (taskset)'
  : 'no CPU affinity (no taskset, or a single core)';

/** Returns the version of wrk, or undefined if it is not installed. */
export function findWrk(): string | undefined {
  const { stdout, error } = spawnSync('wrk', ['-v'], { encoding: 'utf8' });
  return error ? undefined : (stdout.split('\n')[0] ?? '').replace(/ \[.*/, '').trim();
}

/**
 * Sends the load from a separate process on core 1.
 * @throws {Error} if a response was unexpected or missing
 */
export async function runLoad(load: Load): Promise<LoadResult> {
  const result = await loadWithWrk(load);
  if (result.failed > 0) {
    const count = `${result.failed} of ${result.requests} responses were unexpected`;
    throw new Error(`${count}, the first: ${result.firstFailure}; ${expectedResponses(load)}`);
  }
  if (result.socketErrors > 0) throw new Error(`${result.socketErrors} socket errors or timeouts`);
  if (result.checked === 0 || result.checked !== result.requests) {
    throw new Error(`received ${result.requests} responses but checked ${result.checked}`);
  }
  return result;
}

function expectedResponses({ writeInterval, listStatus, listLength, createdLength }: Load): string {
  const list = `${listStatus} with ${listLength} bytes`;
  const create = `201 with ${createdLength} bytes plus the digits of the id`;
  if (writeInterval === 0) return `expected ${list}`;
  return writeInterval === 1
    ? `expected ${create}`
    : `expected ${list} (more after create requests) or ${create}`;
}

async function loadWithWrk(load: Load): Promise<LoadResult> {
  const { urls, connections, durationSeconds } = load;
  // One thread per instance.
  const loadOptions = [
    `-t${urls.length}`,
    `-c${connections}`,
    `-d${durationSeconds}`,
    '--timeout',
    '60',
  ];
  // In the order in which load.lua reads them.
  const scriptArgs = [
    load.key,
    load.etag,
    load.createBody,
    load.writeInterval,
    load.listStatus,
    load.listLength,
    load.createdLength,
    load.lastId,
    Math.ceil(load.requests / urls.length),
    connections / urls.length,
    urls.map((url) => new URL(url).port).join(),
    load.idempotencyKey,
  ].map(String);
  const [command, args] = withAffinity(1, 'wrk', [
    ...loadOptions,
    '-s',
    SCRIPT,
    urls[0] ?? '',
    '--',
    ...scriptArgs,
  ]);
  const options: SpawnOptions = { stdio: ['ignore', 'pipe', 'pipe'] };
  // The last line of its output is a LoadResult as JSON.
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, options);
    let output = '';
    let errors = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      if (chunk.includes('limit reached')) child.kill('SIGINT');
    });
    child.stderr?.on('data', (chunk: Buffer) => (errors += chunk.toString()));
    child.on('error', reject);
    child.on('close', (code) => {
      const line = output.trimEnd().split('\n').at(-1) ?? '';
      if (code === 0 && line.startsWith('{')) resolve(JSON.parse(line) as LoadResult);
      else reject(new Error(`wrk failed (${code}): ${errors || output}`));
    });
  });
}
