import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { buildOnce } from './build.js';

/** The exit code and output of a process. */
export interface ProcessResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The complete environment of a command and its working directory, where it looks for `.env`. */
interface SpawnOptions {
  readonly env: Record<string, string>;
  readonly cwd: string;
}

/** Runs the built `keys` command in a child process. */
export function runKeys(args: readonly string[], options: SpawnOptions): Promise<ProcessResult> {
  return run('keys', args, options);
}

/** Runs the built `migrations` command in a child process. */
export function runMigrations(
  args: readonly string[],
  options: SpawnOptions,
): Promise<ProcessResult> {
  return run('migrations', args, options);
}

/**
 * Runs the built `backup` command in a child process.
 *
 * @param blocks the maximum size of a file that it may write, in blocks of 512 bytes
 */
export function runBackup(
  file: string,
  options: SpawnOptions,
  blocks: number | 'unlimited' = 'unlimited',
): Promise<ProcessResult> {
  return run('backup', [file], options, `ulimit -f ${blocks} && `);
}

async function run(
  name: string,
  args: readonly string[],
  options: SpawnOptions,
  before = '',
): Promise<ProcessResult> {
  const script = join(await buildOnce(), 'src', 'cli', `${name}.js`);
  const command = `${before}exec "$@"`;
  return new Promise((resolve, reject) => {
    const child = spawn(
      '/bin/sh',
      ['-c', command, 'sh', process.execPath, script, ...args],
      options,
    );
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.once('error', reject).once('close', (code) => resolve({ code, stdout, stderr }));
  });
}
