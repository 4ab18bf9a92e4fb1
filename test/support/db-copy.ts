import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { buildOnce } from './build.js';
import type { ProcessResult } from './cli.js';

/** A copy that runs as a process of its own. */
export class DbCopy {
  /** Resolves when the process has ended and its output was read. */
  readonly outcome: Promise<ProcessResult>;
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
    this.outcome = once(child, 'close').then(([code]) => ({
      code: code as number | null,
      stdout,
      stderr,
    }));
  }

  /**
   * Starts the built command.
   *
   * @param cwd where it looks for a `.env` file
   */
  static async start(args: readonly string[], cwd: string): Promise<DbCopy> {
    return new DbCopy(join(await buildOnce(), 'src', 'cli', 'db-copy.js'), args, cwd);
  }

  /** Sends a signal. */
  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }
}
