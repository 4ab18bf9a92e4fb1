import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getBuiltFile } from './build.js';
import { CategoriesClient } from './http-client.js';
import { waitFor } from './wait.js';

/** Generous because other tests run at the same time. */
const STOP_TIMEOUT_MS = 30_000;

/** An API key for tests of the whole process. */
export const BOOTSTRAP_KEY = 'bootstrap-0123456789-abcdefghijklmnop';

/** How to start a service process. */
export interface ServiceOptions {
  /** The environment; of this process only `PATH` is inherited. */
  readonly env?: NodeJS.ProcessEnv;
  /** A command that execs the service, such as `strace -D`. */
  readonly execPrefix?: readonly string[];
  /** Whether signals go to a process group of its own, which has the processes of the command, too. */
  readonly group?: boolean;
  /** The path of Node; by default that of this process. */
  readonly node?: string;
  /** The path of main.js; by default that of the sources. */
  readonly main?: string;
}

/** Runs the built service in a child process. */
export class ServiceProcess {
  stdout = '';
  stderr = '';
  /** Resolves once the process has exited and its output has been read. */
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  private readonly child: ChildProcess;

  private constructor(
    command: readonly string[],
    cwd: string,
    env: NodeJS.ProcessEnv,
    private readonly group: boolean,
  ) {
    const child = spawn(command[0]!, command.slice(1), {
      cwd,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: group,
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
   * @param cwd the working directory, where it looks for `.env`
   */
  static start(
    cwd: string,
    {
      env = {},
      execPrefix = [],
      group = false,
      node = process.execPath,
      main,
    }: ServiceOptions = {},
  ): ServiceProcess {
    const built = [
      '--import',
      getBuiltFile('test/platform/support/fixture.js'),
      getBuiltFile('src/main.js'),
    ];
    const command = [...execPrefix, node, ...(main === undefined ? built : [main])];
    const environment = { PATH: process.env['PATH'], PORT: '0', ...env };
    return new ServiceProcess(command, cwd, environment, group);
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
    );
    if (this.address === undefined) throw new Error(`The service exited:\n${this.output}`);
    return this.address;
  }

  kill(signal: NodeJS.Signals): void {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    process.kill(this.group ? -this.pid : this.pid, signal);
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

/** A service that listens, with a client that has a valid key. */
export interface RunningService {
  readonly service: ServiceProcess;
  /** `http://127.0.0.1:<port>` */
  readonly url: string;
  readonly categories: CategoriesClient;
}

/** The service processes of the current test, and their working directory. */
export class Services {
  readonly started: ServiceProcess[] = [];

  constructor(
    readonly directory: string,
    private readonly env: NodeJS.ProcessEnv,
  ) {}

  /** Starts a service. Its key is `BOOTSTRAP_KEY`; by default its database is a file in the directory. */
  start({ env, ...options }: ServiceOptions = {}): ServiceProcess {
    const service = ServiceProcess.start(this.directory, {
      ...options,
      env: { BOOTSTRAP_API_KEY: BOOTSTRAP_KEY, ...this.env, ...env },
    });
    this.started.push(service);
    return service;
  }

  /** Starts a service and waits until it listens. */
  async serve(options: ServiceOptions = {}): Promise<RunningService> {
    const service = this.start(options);
    const url = await service.waitUntilListening();
    return { service, url, categories: new CategoriesClient(url, BOOTSTRAP_KEY) };
  }

  /** Kills every service, and removes the directory. */
  async close(): Promise<void> {
    for (const service of this.started) service.kill('SIGKILL');
    await Promise.all(this.started.map(({ exited }) => exited));
    await rm(this.directory, { recursive: true, force: true });
  }
}

/**
 * Creates the directory for the services of a test. Close it after the test.
 *
 * @param env variables that every service gets
 */
export async function createServices(env: NodeJS.ProcessEnv = {}): Promise<Services> {
  return new Services(await mkdtemp(join(tmpdir(), 'petstore-service-')), env);
}
