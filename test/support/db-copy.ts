import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { buildOnce } from './build.js';
import type { ProcessResult } from './cli.js';

/** A running `db:copy` process. */
export class DbCopy {
  /** Resolves once the process has exited and its output has been read. */
  readonly result: Promise<ProcessResult>;
  private readonly child: ChildProcess;

  private constructor(script: string, args: readonly string[], cwd: string) {
    const env = { PATH: process.env['PATH'] };
    const child = spawn(process.execPath, [script, ...args], {
      cwd,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    this.child = child;
    this.result = once(child, 'close').then(([code]) => ({
      code: code as number | null,
      stdout,
      stderr,
    }));
  }

  /**
   * Starts the built command.
   *
   * @param cwd the working directory, from which `.env` is read
   */
  static async start(args: readonly string[], cwd: string): Promise<DbCopy> {
    return new DbCopy(join(await buildOnce(), 'src', 'cli', 'db-copy.js'), args, cwd);
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }
}
