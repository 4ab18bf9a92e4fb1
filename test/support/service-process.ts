import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { buildOnce } from './build.js';
import { waitFor } from './wait.js';

/** Generous: other tests run at the same time. */
const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 30_000;

/** The built service as a process of its own. */
export class ServiceProcess {
  stdout = '';
  stderr = '';
  /** Resolves when the process has ended and its output was read. */
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  private readonly child: ChildProcess;

  private constructor(command: readonly string[], cwd: string, env: NodeJS.ProcessEnv) {
    const child = spawn(command[0]!, command.slice(1), {
      cwd,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout.setEncoding('utf8').on('data', (text: string) => (this.stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    this.child = child;
    this.exited = once(child, 'close').then(([code, signal]) => ({
      code: code as number | null,
      signal: signal as NodeJS.Signals | null,
    }));
  }

  /**
   * Starts the service on a free port.
   *
   * @param cwd its working directory
   * @param env its environment; nothing but `PATH` is inherited
   * @param execPrefix a command that runs the service in its own place, such as `prlimit`
   * @param root the directory of the build
   */
  static async start(
    cwd: string,
    env: NodeJS.ProcessEnv,
    execPrefix: readonly string[] = [],
    root?: string,
  ): Promise<ServiceProcess> {
    const main = join(root ?? (await buildOnce()), 'src', 'main.js');
    const command = [...execPrefix, process.execPath, main];
    return new ServiceProcess(command, cwd, { PATH: process.env['PATH'], PORT: '0', ...env });
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** Everything that the process has written. */
  get output(): string {
    return this.stdout + this.stderr;
  }

  /** Waits until it listens, and gives `http://127.0.0.1:<port>`. */
  async waitUntilListening(): Promise<string> {
    await waitFor(
      () => this.address ?? this.child.exitCode,
      (found) => found !== null,
      START_TIMEOUT_MS,
    );
    if (this.address === undefined) throw new Error(`The service ended:\n${this.output}`);
    return this.address;
  }

  /** Sends a signal. */
  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** Stops it, and checks nothing. */
  async stop(): Promise<void> {
    this.kill('SIGTERM');
    const timer = setTimeout(() => this.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await this.exited;
    clearTimeout(timer);
  }

  private get address(): string | undefined {
    return /Listening on (http:\/\/[\w.:[\]]+)/.exec(this.output)?.[1];
  }
}
