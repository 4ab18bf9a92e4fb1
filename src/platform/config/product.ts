import { existsSync, readFileSync } from 'node:fs';

/** The identity of a service, which src/product.ts declares. */
export interface Product {
  /** The name for machines, of lower-case letters and digits: the realm, the connections to PostgreSQL, the default database. */
  readonly name: string;
  /** The name for people. */
  readonly title: string;
  /** A sentence, with which the description of the OpenAPI document begins. */
  readonly description: string;
  /** The version of the API. */
  readonly version: string;
  /** The prefixes of API keys, of letters and digits: first that of new keys, then former ones. */
  readonly keyPrefixes: readonly [string, ...string[]];
  /** The paths of files that the service serves as text: a guide for clients, which the OpenAPI document links, and its parts. */
  readonly guide?: readonly string[];
}

// `npm run build` writes this file.
const commitFile = new URL('../../commit', import.meta.url);

/** The commit that the service was built from, if it is known. */
export const COMMIT = (existsSync(commitFile) && readFileSync(commitFile, 'utf8')) || undefined;

/** Returns what `--version` prints: the version, and the commit if it is known. */
export const getRelease = ({ version }: Product): string =>
  COMMIT === undefined ? version : `${version} (${COMMIT})`;
