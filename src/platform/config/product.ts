import { existsSync, readFileSync } from 'node:fs';

/** The name of the product for people; package.json has the one for machines, of letters and digits. See docs/adopting.md. */
export const TITLE = 'Petstore';

/** The prefixes of API keys, of letters and digits: that of new keys, and those of former names. */
export const KEY_PREFIXES = ['pet'];

const packageJson = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8');
// Only `npm run build` writes it.
const commitFile = new URL('../../commit', import.meta.url);

/** The name of the product in metrics, the realm and other identifiers, its description, and the version of the service. */
export const {
  name: NAME,
  description: DESCRIPTION,
  version: VERSION,
} = JSON.parse(packageJson) as { name: string; description: string; version: string };

/** The commit that the service was built from, if it is known. */
export const COMMIT = (existsSync(commitFile) && readFileSync(commitFile, 'utf8')) || undefined;

/** What `--version` prints: the version, and the commit if it is known. */
export const RELEASE = COMMIT === undefined ? VERSION : `${VERSION} (${COMMIT})`;
