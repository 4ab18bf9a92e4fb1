import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { buildOnce } from './build.js';
import { waitFor } from './wait.js';

/** Generous because other tests run at the same time. */
const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 30_000;

/** Runs the built service in a child process. */
export class ServiceProcess {
  stdout = '';
  stderr = '';
  /** Resolves once the process has exited and its output has been read. */
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
   * @param cwd the working directory
   * @param env the environment; only `PATH` is inherited
   * @param execPrefix a command that execs the service, such as `strace -D`
   * @param main the path of main.js; by default the sources are compiled
   */
  static async start(
    cwd: string,
    env: NodeJS.ProcessEnv,
    execPrefix: readonly string[] = [],
    main?: string,
  ): Promise<ServiceProcess> {
    const script = main ?? join(await buildOnce(), 'src', 'main.js');
    const command = [...execPrefix, process.execPath, script];
    return new ServiceProcess(command, cwd, { PATH: process.env['PATH'], PORT: '0', ...env });
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** Standard output followed by standard error. */
  get output(): string {
    return this.stdout + this.stderr;
  }

  /** Waits until the service listens and returns `http://127.0.0.1:<port>`. */
  async waitUntilListening(): Promise<string> {
    await waitFor(
      () => this.address ?? this.child.exitCode,
      (found) => found !== null,
      START_TIMEOUT_MS,
    );
    if (this.address === undefined) throw new Error(`The service exited:\n${this.output}`);
    return this.address;
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** Shuts the service down, by SIGKILL if SIGTERM takes too long, and ignores the exit code. */
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
