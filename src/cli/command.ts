import type { Command } from 'commander';
import { ConfigError, loadEnvFile } from '../platform/config/config.js';

/**
 * Runs a command: loads `.env`, and on an error prints it and sets the exit code 1.
 *
 * @param failure a sentence to print after the error
 */
export async function runCommand(command: Command, failure?: string): Promise<void> {
  try {
    loadEnvFile();
    await command.parseAsync();
  } catch (error) {
    const message =
      error instanceof ConfigError ? error.message : `error: ${getMessage(error as Error)}`;
    process.stderr.write(`${message}\n${failure === undefined ? '' : `${failure}\n`}`);
    process.exitCode = 1;
  }
}

/** The message of the underlying error: that of an `ApiError` is written for HTTP clients. */
function getMessage({ message, cause }: Error): string {
  return cause instanceof Error ? getMessage(cause) : message;
}
