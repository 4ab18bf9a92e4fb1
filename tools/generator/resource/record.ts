import type { Tree } from '@angular-devkit/schematics';

/** What the generator changed for a resource. `remove` undoes it. */
export interface Record {
  readonly table: string;
  /** The class that src/features.ts lists. */
  readonly module: string;
  readonly files: readonly RecordedFile[];
}

/** The texts of a file before and after it was changed; null if there was no file. */
export interface RecordedFile {
  readonly path: string;
  readonly before: string | null;
  readonly after: string | null;
}

/** The file that lists the features: the only one that other resources change, too. */
export const FEATURES_PATH = '/src/features.ts';

/**
 * Returns the path of the record of a resource, which git ignores.
 *
 * @param name such as `pets` or `store/orders`
 */
export function getRecordPath(name: string): string {
  return `/build/generated/${name.replaceAll('/', '.')}.json`;
}

/** Returns the text of a file, or null if there is no file. */
export const readFile = (tree: Tree, path: string): string | null =>
  tree.exists(path) ? tree.readText(path) : null;
