import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { NEW_CATEGORY } from './categories.js';
import { AUTHORIZATION, ROOT, type Server } from './servers.js';

/** A load of list requests, or of create requests, at the highest rate. */
export interface Load {
  readonly server: Server;
  readonly connections: number;
  readonly seconds: number;
  readonly create: boolean;
  /** In place of PLACEHOLDER, each request has one of so many numbers as `values`. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly values?: number;
}

type Result = Record<'requests' | 'seconds' | 'p99' | 'failed', number>;

/** Starts a process that sends a load, and that SIGINT ends. @throws {Error} if a response is not a 2xx, or a connection fails */
export function startLoad(load: Load): { child: ChildProcess; result: Promise<Result> } {
  const { server, connections, seconds, create, headers, values = 1e9 } = load;
  const all = Object.entries({ ...AUTHORIZATION, ...headers });
  const options = ['-t1', `-c${connections}`, `-d${seconds}`, '--timeout', '60'];
  const script = ['-s', join(ROOT, 'tools/bench/load.lua'), server.url, '--', String(values)];
  const args = [...options, ...all.flatMap(([name, value]) => ['-H', `${name}: ${value}`])];
  if (create) script.push(JSON.stringify(NEW_CATEGORY));
  const child = spawn('wrk', [...args, ...script], { stdio: ['ignore', 'pipe', 'inherit'] });
  const read = async (): Promise<Result> => {
    const [output] = await Promise.all([text(child.stdout), once(child, 'exit')]);
    if (child.exitCode !== 0) throw new Error(`wrk failed: ${output}`);
    const result = JSON.parse(output.trimEnd().split('\n').at(-1)!) as Result;
    if (result.failed > 0) throw new Error(`failed requests: ${output}`);
    return result;
  };
  return { child, result: read() };
}
