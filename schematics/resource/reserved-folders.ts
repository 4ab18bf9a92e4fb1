/** The folders of `src` that are built once for all; every other one is a feature of a team. */
export const RESERVED_FOLDERS: ReadonlySet<string> = new Set([
  'auth',
  'cli',
  'database',
  'errors',
  'health',
  'http',
  'lifecycle',
  'metrics',
]);
