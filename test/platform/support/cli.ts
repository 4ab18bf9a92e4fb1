import { type ChildProcess, execFile } from 'node:child_process';
import { getBuiltFile } from './build.js';

const { jest } = import.meta;

/** The exit code and output of a command. The code is null if a signal ended it. */
export interface CommandResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running command. */
export interface RunningCommand {
  readonly kill: (signal: NodeJS.Signals) => void;
  /** Resolves once the process has exited and its output has been read. */
  readonly result: Promise<CommandResult>;
}

/** The complete environment of a command and its working directory, where it looks for `.env`. */
interface SpawnOptions {
  readonly env: NodeJS.ProcessEnv;
  readonly cwd?: string;
}

/** Records what this process prints, instead of printing it. */
export function captureOutput(stream: 'stdout' | 'stderr') {
  const output = { text: '', spy: jest.spyOn(process[stream], 'write') };
  output.spy.mockImplementation((text) => {
    output.text += String(text);
    return true;
  });
  return output;
}

/**
 * Runs a command of `src/cli` in this process, which saves the second that a new process takes to start.
 * Two commands must not run at the same time: both would replace the environment, the output and the
 * working directory.
 *
 * @param main the `main` of the command's module
 * @param env the complete environment
 * @param cwd the working directory; by default that of the tests
 */
export async function runCommand(
  main: (args: readonly string[]) => Promise<void>,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  cwd = process.cwd(),
): Promise<CommandResult> {
  const before = { env: process.env, exitCode: process.exitCode };
  const directory = process.cwd();
  const [stdout, stderr] = [captureOutput('stdout'), captureOutput('stderr')];
  process.env = env;
  process.exitCode = 0;
  process.chdir(cwd);
  try {
    await main(args);
    return { code: process.exitCode, stdout: stdout.text, stderr: stderr.text };
  } finally {
    for (const { spy } of [stdout, stderr]) spy.mockRestore();
    process.chdir(directory);
    Object.assign(process, before);
  }
}

/** Starts a program, by default with the environment of the tests and in their working directory. */
export function startProgram(
  file: string,
  args: readonly string[],
  options: Partial<SpawnOptions> & { readonly timeout?: number } = {},
): RunningCommand {
  let child!: ChildProcess;
  const result = new Promise<CommandResult>((resolve) => {
    child = execFile(file, args, { ...options, maxBuffer: 2 ** 26 }, (error, stdout, stderr) => {
      const code = error === null ? 0 : Number.isInteger(error.code) ? Number(error.code) : null;
      resolve({ code, stdout, stderr });
    });
  });
  return { kill: (signal) => child.kill(signal), result };
}

/**
 * Starts a built command of `src/cli` in a child process.
 *
 * @param name the name of its file
 */
export function spawnCommand(
  name: string,
  args: readonly string[],
  { env, ...options }: SpawnOptions,
): RunningCommand {
  const script = getBuiltFile(`src/cli/${name}.js`);
  const fixture = getBuiltFile('test/platform/support/fixture.js');
  return startProgram(process.execPath, ['--import', fixture, script, ...args], {
    ...options,
    env: { PATH: process.env['PATH'], ...env },
  });
}
