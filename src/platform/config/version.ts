import { existsSync, readFileSync } from 'node:fs';

const packageJson = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8');
// Only `npm run build` writes it.
const commitFile = new URL('../../commit', import.meta.url);

/** The version of the service. */
export const VERSION = (JSON.parse(packageJson) as { version: string }).version;

/** The commit that the service was built from, if it is known. */
export const COMMIT = (existsSync(commitFile) && readFileSync(commitFile, 'utf8')) || undefined;
