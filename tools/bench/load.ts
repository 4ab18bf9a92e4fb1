import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { NEW_CATEGORY } from './categories.js';
import { ROOT, type Row } from './rows.js';
import { AUTHORIZATION } from './servers.js';

type Result = Record<'requests' | 'seconds' | 'p99' | 'failed', number>;

/**
 * Starts a process that sends the requests of a row at the highest rate, and that SIGINT ends.
 *
 * @param keys how many Idempotency-Keys are sent in turn; by default, none
 * @throws {Error} if a response is not a 2xx, or a connection fails
 */
export function startLoad(url: string, { work, connections }: Row, seconds: number, keys?: number) {
  const headers = Object.entries({
    ...AUTHORIZATION,
    ...(work === 'create' && { 'Content-Type': 'application/json' }),
    ...(keys && { 'Idempotency-Key': `${randomUUID()}-PLACEHOLDER` }),
  }).flatMap(([name, value]) => ['-H', `${name}: ${value}`]);
  const options = ['-t1', `-c${connections}`, `-d${seconds}`, '--timeout', '60', ...headers];
  const script = ['-s', join(ROOT, 'tools/bench/load.lua'), url, '--', String(keys)];
  if (work === 'create') script.push(JSON.stringify(NEW_CATEGORY));
  const child = spawn('wrk', [...options, ...script], { stdio: ['ignore', 'pipe', 'inherit'] });
  const read = async (): Promise<Result> => {
    const [output] = await Promise.all([text(child.stdout), once(child, 'exit')]);
    if (child.exitCode !== 0) throw new Error(`wrk failed: ${output}`);
    const result = JSON.parse(output.trimEnd().split('\n').at(-1)!) as Result;
    if (result.failed > 0) throw new Error(`failed requests: ${output}`);
    return result;
  };
  return { child, result: read() };
}
