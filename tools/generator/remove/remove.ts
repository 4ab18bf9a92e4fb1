import { spawnSync } from 'node:child_process';
import { type Rule, SchematicsException, type Tree } from '@angular-devkit/schematics';
import {
  FEATURES_PATH,
  getRecordPath,
  readFile,
  type Record,
  type RecordedFile,
} from '../resource/record.js';
import { formatSource, organizeImports, removeElement } from '../resource/source.js';

/** The options of schema.json. */
interface Options {
  readonly name: string;
  readonly discardChanges: boolean;
}

/**
 * Undoes the generation of a resource, including the replacement of stubs. A resource that is committed is
 * not removed, because its migration may have run on other databases.
 */
export function remove({ name, discardChanges }: Options): Rule {
  return async (tree) => {
    const recordPath = getRecordPath(name);
    if (!tree.exists(recordPath)) {
      throw new SchematicsException(
        `${name} was not generated in this working copy, or is removed already: there is no ${recordPath.slice(1)}.`,
      );
    }
    const { table, module, files } = JSON.parse(tree.readText(recordPath)) as Record;
    checkNotCommitted(files);
    checkNotReferenced(tree, files, table);
    checkUnchanged(tree, files, discardChanges);
    for (const { path, before, after } of files) {
      const current = readFile(tree, path);
      if (before === null) {
        if (current !== null) tree.delete(path);
      } else if (current === null) tree.create(path, before);
      else if (current === after) tree.overwrite(path, before);
      else {
        const rest = organizeImports(removeElement(current, 'FEATURES', module));
        tree.overwrite(path, await formatSource(tree, rest));
      }
    }
    tree.delete(recordPath);
  };
}

const list = (files: readonly RecordedFile[]): string =>
  files.map(({ path }) => path.slice(1)).join(', ');

/** @throws {SchematicsException} if a generated file is in the last commit */
function checkNotCommitted(files: readonly RecordedFile[]): void {
  const created = files.filter(({ before }) => before === null).map(({ path }) => path.slice(1));
  // Outside of a git repository nothing is committed.
  const { stdout } = spawnSync('git', ['ls-tree', '-r', '--name-only', 'HEAD', '--', ...created], {
    encoding: 'utf8',
  });
  const [committed] = (stdout ?? '').split('\n');
  if (committed === undefined || committed === '') return;
  throw new SchematicsException(
    `${committed} is committed, so its migration may have run elsewhere. ` +
      'Remove the resource with a migration that drops its table.',
  );
}

/** @throws {SchematicsException} if another resource has a foreign key to the table */
function checkNotReferenced(tree: Tree, files: readonly RecordedFile[], table: string): void {
  const own = new Set(files.map(({ path }) => path));
  tree.getDir('/src/modules').visit((path) => {
    if (!path.endsWith('.entity.ts') || own.has(path)) return;
    if (tree.readText(path).includes(`@ForeignKey('${table}'`))
      throw new SchematicsException(`${path.slice(1)} references ${table}. Remove it first.`);
  });
}

/** @throws {SchematicsException} if files were changed that cannot be restored, or should not be deleted */
function checkUnchanged(tree: Tree, files: readonly RecordedFile[], discardChanges: boolean): void {
  const changed = files.filter(
    ({ path, after }) => path !== FEATURES_PATH && readFile(tree, path) !== after,
  );
  const updated = changed.filter(({ before }) => before !== null);
  if (updated.length > 0) {
    throw new SchematicsException(
      `Changed since the resource was generated: ${list(updated)}. ` +
        'Undo those changes, or remove the resources that were generated later, first.',
    );
  }
  if (changed.length > 0 && !discardChanges) {
    throw new SchematicsException(
      `Changed since the resource was generated: ${list(changed)}. ` +
        'Add --discard-changes to delete them nevertheless.',
    );
  }
}
