import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { buildOnce } from './build.js';

/** What a process left behind. */
export interface ProcessResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** How a command runs: its whole environment, and where it looks for a `.env` file. */
interface SpawnOptions {
  readonly env: Record<string, string>;
  readonly cwd: string;
}

/** Runs the built key commands in a process of their own. */
export function runKeys(
  args: readonly string[],
  surroundings: SpawnOptions,
): Promise<ProcessResult> {
  return run('keys', args, surroundings);
}

/**
 * Runs the built backup command in a process of its own.
 *
 * @param blocks how large a file it may write, in blocks of 512 bytes
 */
export function runBackup(
  file: string,
  surroundings: SpawnOptions,
  blocks: number | 'unlimited' = 'unlimited',
): Promise<ProcessResult> {
  return run('backup', [file], surroundings, `ulimit -f ${blocks} && `);
}

async function run(
  name: string,
  args: readonly string[],
  surroundings: SpawnOptions,
  before = '',
): Promise<ProcessResult> {
  const script = join(await buildOnce(), 'src', 'cli', `${name}.js`);
  const command = `${before}exec "$@"`;
  return new Promise((resolve, reject) => {
    const child = spawn(
      '/bin/sh',
      ['-c', command, 'sh', process.execPath, script, ...args],
      surroundings,
    );
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.once('error', reject).once('close', (code) => resolve({ code, stdout, stderr }));
  });
}
