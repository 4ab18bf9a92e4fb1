import { join } from 'node:path';

/**
 * Returns the path of a compiled file.
 *
 * @param path relative to the project, such as `src/main.js`
 */
export function getBuiltFile(path: string): string {
  return join(process.env['TEST_BUILD']!, path);
}
