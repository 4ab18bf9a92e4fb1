import { realpathSync } from 'node:fs';
import { type Command, CommanderError } from 'commander';
import { ConfigError, loadEnvFile } from '../platform/config/config.js';
import { getRelease } from '../platform/config/product.js';
import { PRODUCT } from '../product.js';

/** Returns whether Node was started with a module, as `import.meta.main` does from Node 24.2. */
export function isMain({ filename }: ImportMeta): boolean {
  const [, script] = process.argv;
  return script !== undefined && realpathSync(script) === filename;
}

/** Runs a command: loads `.env`, and on an error prints it and sets the exit code 1. */
export async function runCommand(command: Command, args: readonly string[]): Promise<void> {
  command.version(getRelease(PRODUCT));
  // Commander would end the process; a subcommand does not inherit a later override.
  for (const each of [command, ...command.commands]) each.exitOverride();
  // Tests run several commands in one process.
  process.stdout.off('error', exitWithError).on('error', exitWithError);
  try {
    loadEnvFile();
    await command.parseAsync(args, { from: 'user' });
  } catch (error) {
    // Commander has printed the error, or the help.
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode;
      return;
    }
    const message =
      error instanceof ConfigError ? error.message : `error: ${getMessage(error as Error)}`;
    process.stderr.write(`${message}\n`);
    process.exitCode = 1;
  }
}

/** Prints an error of standard output, such as EPIPE of `keys list | head`, and ends the process. */
function exitWithError({ message }: Error): void {
  process.stderr.write(`error: ${message}\n`);
  process.exit(1);
}

/** Returns the message of the innermost cause: that of an `ApiError` is written for HTTP clients. */
function getMessage({ message, cause }: Error): string {
  return cause instanceof Error ? getMessage(cause) : message;
}
