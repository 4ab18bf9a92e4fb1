import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { NEW_CATEGORY } from './categories.js';
import { AUTHORIZATION, onCore, ROOT, type Server } from './servers.js';

/** A load of list requests, at the highest rate or at a fixed one (requests per second), or of create requests. */
export interface Load {
  readonly servers: readonly Server[];
  readonly connections: number;
  readonly seconds: number;
  readonly create?: boolean;
  /** In place of PLACEHOLDER, each request has one of so many numbers as `values`. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly values?: number;
  readonly rate?: number | undefined;
}

/** The result of a load; latencies in milliseconds. */
export type LoadResult = Record<'requests' | 'seconds' | 'p50' | 'p99', number>;

/** Sends a load from a process of its own. @throws {Error} if a response is not a 2xx, or a connection fails */
export async function runLoad(load: Load): Promise<LoadResult> {
  const headers = { ...AUTHORIZATION, ...load.headers };
  const options = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`]);
  return load.rate === undefined ? runWrk(load, options) : runH2load(load, load.rate, options);
}

async function runWrk(load: Load, headers: readonly string[]): Promise<LoadResult> {
  const { servers, connections, seconds, create = false, values = 1e9 } = load;
  const options = [`-t${servers.length}`, `-c${connections}`, `-d${seconds}`, '--timeout', '60'];
  const script = ['-s', join(ROOT, 'tools/bench/load.lua'), servers[0]!.url, '--'];
  const args = [servers.map(({ port }) => port).join(), String(values)];
  if (create) args.push(JSON.stringify(NEW_CATEGORY));
  const output = await run('wrk', ...options, ...headers, ...script, ...args);
  const line = output.trimEnd().split('\n').at(-1)!;
  const { failed, ...result } = JSON.parse(line) as LoadResult & { failed: number };
  if (failed > 0) throw new Error(`${failed} failed requests: ${output}`);
  return result;
}

async function runH2load(load: Load, rate: number, headers: string[]): Promise<LoadResult> {
  const { servers, connections, seconds } = load;
  const log = join(ROOT, 'build/h2load.log');
  rmSync(log, { force: true });
  const options = ['--h1', `-n${rate * seconds}`, `-c${connections}`, `--log-file=${log}`];
  await run('h2load', ...options, `--rps=${rate / connections}`, ...headers, servers[0]!.url);
  // The start, the status and the duration of each request; times in microseconds.
  const lines = readFileSync(log, 'utf8').trim().split('\n');
  const requests = lines.map((line) => line.split('\t').map(Number) as [number, number, number]);
  const failed = rate * seconds - requests.filter(([, status]) => status === 200).length;
  if (failed > 0) throw new Error(`${failed} failed requests`);
  const latencies = requests.map(([, , duration]) => duration / 1000).toSorted((a, b) => a - b);
  const at = (share: number): number => latencies[Math.floor(latencies.length * share)]!;
  const elapsed = (requests.at(-1)![0] - requests[0]![0]) / 1e6;
  return { requests: requests.length, seconds: elapsed, p50: at(0.5), p99: at(0.99) };
}

async function run(...command: string[]): Promise<string> {
  const child = spawn(...onCore('load', ...command), { stdio: ['ignore', 'pipe', 'inherit'] });
  const [output] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  if (child.exitCode === 0) return output;
  throw new Error(`${command[0]} failed, or is not installed. ${output}`.trim());
}
