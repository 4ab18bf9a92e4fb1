import { spawnSync } from 'node:child_process';
import { relative } from 'node:path';

/** Checks whether a command exits with 0; it may not be installed or permitted. */
export const commandSucceeds = (
  command: string,
  args: readonly string[] = ['--version'],
  env: NodeJS.ProcessEnv = process.env,
): boolean => spawnSync(command, args, { env, stdio: 'ignore' }).status === 0;

/**
 * Returns `describe` and `it`, which skip their tests if something is missing; a line on standard error then names it.
 *
 * @param requirement what the tests need, such as the name of a program
 */
export function requires(
  requirement: string,
  isMet = commandSucceeds(requirement),
): { readonly describe: jest.Describe; readonly it: jest.It } {
  if (isMet) return { describe, it };
  const file = relative(process.cwd(), expect.getState().testPath!);
  process.stderr.write(`Skipped tests of ${file} that need ${requirement}\n`);
  return { describe: describe.skip, it: it.skip };
}
