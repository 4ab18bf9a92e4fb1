/** The options of the commands that read a contract. */
import { basename } from 'node:path';
import { type Command, InvalidArgumentError } from 'commander';
import { toKebabCase } from './names.js';

export const addPrefixOption = (command: Command): Command =>
  command.option('--prefix <path>', 'of the paths instead of /v1, such as /api/v2', parsePrefix);

/** Returns the name of a module: by default, that of the file up to the first dot. */
export const toModuleName = (contract: string, name?: string): string =>
  toKebabCase(name ?? basename(contract).split('.')[0]!);

/** @throws {InvalidArgumentError} if it is not a path, or the platform has it */
export function parsePrefix(prefix: string): string {
  const isPath = /^(\/[\w-][\w.-]*)+$/.test(prefix);
  if (!isPath || /^\/(v1|docs|examples|livez|readyz|openapi\.\w+)(\/|$)/.test(prefix))
    throw new InvalidArgumentError('must be a path such as /api/v2, and not one of the platform.');
  return prefix;
}
