import { type SpawnOptions, spawn, spawnSync } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';

/** What to send to a server, and which answers are right. */
export interface Load {
  /** The instances of the server, over which the connections are spread evenly. */
  readonly urls: readonly string[];
  readonly key: string;
  /** Connections, each with one request under way. */
  readonly connections: number;
  /** How long to send, in whole seconds; with `requests` the longest it may take. */
  readonly seconds: number;
  /** Stops after that many answers, divided among the instances; 0 stops by time alone. */
  readonly requests: number;
  /** 0: lists alone; 1: creates alone; n: every nth request is a create. */
  readonly createEvery: number;
  /** Sent with lists as `If-None-Match` where it is not empty. */
  readonly etag: string;
  /** The body of a create. */
  readonly createBody: string;
  /** The status that answers a list: 200 or 304. */
  readonly listStatus: number;
  /** Bytes of the body that answers a list before anything is created. */
  readonly listLength: number;
  /** Bytes of the body that answers a create, without the digits of the id. */
  readonly createdLength: number;
  /** The highest id when the load starts. */
  readonly lastId: number;
}

/** What was sent and answered. */
export interface LoadResult {
  /** Answers that the generator counted, and those of them that were checked. */
  readonly requests: number;
  readonly checked: number;
  readonly seconds: number;
  /** Latency in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Creates that were answered rightly. */
  readonly created: number;
  /** Answers with a wrong status or body length, and what the first one looked like. */
  readonly wrong: number;
  readonly firstWrong: string;
  /** Connections that failed or were cut, and requests that had no answer in time. */
  readonly socketErrors: number;
}

export type Generator = 'wrk' | 'autocannon';

const SCRIPT = fileURLToPath(new URL('../../bench/load.lua', import.meta.url));
const AUTOCANNON = fileURLToPath(new URL('./autocannon.js', import.meta.url));

/** Whether there are two cores, and `taskset` to choose between them. */
export const CAN_PIN =
  availableParallelism() >= 2 &&
  ['0', '1'].every((core) => spawnSync('taskset', ['-c', core, 'true']).status === 0);

/** The command that runs another one on one core, where that can be chosen. */
export function pinned(core: 0 | 1, command: string, args: readonly string[]): [string, string[]] {
  return CAN_PIN ? ['taskset', ['-c', String(core), command, ...args]] : [command, [...args]];
}

/** Moves a process that runs to one core, where that can be chosen. */
export function pin(core: 0 | 1, pid: number): void {
  if (CAN_PIN) spawnSync('taskset', ['-cp', String(core), String(pid)]);
}

/** How all processes share the cores, for the report. */
export const PINNING = CAN_PIN
  ? 'the server on core 0 (two instances share it), the load generator and PostgreSQL on core 1 (taskset)'
  : 'not pinned (no taskset, or one core)';

/** The version of wrk where it is installed. */
export function findWrk(): string | undefined {
  const { stdout, error } = spawnSync('wrk', ['-v'], { encoding: 'utf8' });
  return error ? undefined : (stdout.split('\n')[0] ?? '').replace(/ \[.*/, '').trim();
}

/**
 * Sends the load from a process of its own, pinned to core 1.
 * @throws Error when an answer was wrong or missing
 */
export async function runLoad(generator: Generator, load: Load): Promise<LoadResult> {
  const result = generator === 'wrk' ? await loadWithWrk(load) : await loadWithAutocannon(load);
  if (result.wrong > 0) {
    const count = `${result.wrong} of ${result.requests} answers were wrong`;
    throw new Error(`${count}, the first one with ${result.firstWrong}; ${rightAnswers(load)}`);
  }
  if (result.socketErrors > 0) throw new Error(`${result.socketErrors} socket errors or timeouts`);
  if (result.checked === 0 || result.checked !== result.requests) {
    throw new Error(`${result.requests} answers came, but ${result.checked} were checked`);
  }
  return result;
}

function rightAnswers({ createEvery, listStatus, listLength, createdLength }: Load): string {
  const list = `${listStatus} with ${listLength} bytes`;
  const create = `201 with ${createdLength} bytes and the digits of the id`;
  if (createEvery === 0) return `right is ${list}`;
  return createEvery === 1
    ? `right is ${create}`
    : `right is ${list}, more after creates, or ${create}`;
}

async function loadWithWrk(load: Load): Promise<LoadResult> {
  const { urls, connections, seconds } = load;
  // One thread an instance.
  const options = [`-t${urls.length}`, `-c${connections}`, `-d${seconds}`, '--timeout', '60'];
  // In the order in which load.lua reads them.
  const scriptArgs = [
    load.key,
    load.etag,
    load.createBody,
    load.createEvery,
    load.listStatus,
    load.listLength,
    load.createdLength,
    load.lastId,
    Math.ceil(load.requests / urls.length),
    connections / urls.length,
    urls.map((url) => new URL(url).port).join(),
  ].map(String);
  const [command, args] = pinned(1, 'wrk', [
    ...options,
    '-s',
    SCRIPT,
    urls[0] ?? '',
    '--',
    ...scriptArgs,
  ]);
  return runGenerator(command, args, (output, stop) => {
    if (output.includes('limit reached')) stop();
  });
}

async function loadWithAutocannon(load: Load): Promise<LoadResult> {
  return runGenerator(...pinned(1, process.execPath, [AUTOCANNON, JSON.stringify(load)]));
}

/** Runs a generator to its end; the last line that it writes is a LoadResult as JSON. */
function runGenerator(
  command: string,
  args: string[],
  onOutput?: (chunk: string, stop: () => void) => void,
): Promise<LoadResult> {
  return new Promise((resolve, reject) => {
    const options: SpawnOptions = { stdio: ['ignore', 'pipe', 'pipe'] };
    const child = spawn(command, args, options);
    let output = '';
    let errors = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      onOutput?.(chunk.toString(), () => child.kill('SIGINT'));
    });
    child.stderr?.on('data', (chunk: Buffer) => (errors += chunk.toString()));
    child.on('error', reject);
    child.on('close', (code) => {
      const line = output.trimEnd().split('\n').at(-1) ?? '';
      if (code === 0 && line.startsWith('{')) resolve(JSON.parse(line) as LoadResult);
      else reject(new Error(`the load generator failed (${code}): ${errors || output}`));
    });
  });
}
