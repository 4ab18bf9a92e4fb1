import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { buildOnce } from './build.js';

/** What a process left behind. */
export interface Outcome {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs the built key commands in a process of their own.
 *
 * @param options.env the whole environment of the process
 * @param options.cwd where it looks for a `.env` file
 */
export async function runKeys(
  args: readonly string[],
  options: { env: Record<string, string>; cwd: string },
): Promise<Outcome> {
  const script = join(await buildOnce(), 'src', 'cli', 'keys.js');
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [script, ...args], options);
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.once('error', reject).once('close', (code) => resolve({ code, stdout, stderr }));
  });
}
