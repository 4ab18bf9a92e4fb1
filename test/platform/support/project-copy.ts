import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative, sep } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { startProgram } from './cli.js';

const ROOT = join(import.meta.dirname, '..', '..', '..');
/** Top-level folders that are neither copied nor compared. */
const IGNORED_FOLDERS = new Set([
  '.git',
  'build',
  'coverage',
  'data',
  'dist',
  'node_modules',
  'test-results',
]);

/** The result of a command that ran in a copy of the project. */
export interface CopyResult {
  readonly failed: boolean;
  /** Standard output followed by standard error, without colors. */
  readonly output: string;
}

/** A copy of the project in a temporary directory, for tests that change its sources. */
export class ProjectCopy {
  private constructor(readonly directory: string) {}

  /**
   * Copies the project, and links its packages.
   *
   * @param commit of the files; by default they are those of the working tree
   */
  static async create(commit?: string): Promise<ProjectCopy> {
    const directory = await mkdtemp(join(tmpdir(), 'petstore-project-'));
    const copy = new ProjectCopy(directory);
    if (commit === undefined) {
      for (const name of await readdir(ROOT)) {
        if (IGNORED_FOLDERS.has(name)) continue;
        await cp(join(ROOT, name), join(directory, name), { recursive: true });
      }
    } else {
      const extract = `git -C '${ROOT}' archive ${commit} | tar -x`;
      const { failed, output } = await copy.run('bash', ['-o', 'pipefail', '-c', extract]);
      if (failed) throw new Error(output);
    }
    // Linked one by one, so that caches are written to a folder of the copy.
    await mkdir(join(directory, 'node_modules'));
    for (const name of await readdir(join(ROOT, 'node_modules'))) {
      if (name === '.cache' || name === '@petstore') continue;
      await symlink(join(ROOT, 'node_modules', name), join(directory, 'node_modules', name));
    }
    // The links to the workspaces, which are relative.
    await cp(
      join(ROOT, 'node_modules', '@petstore'),
      join(directory, 'node_modules', '@petstore'),
      { recursive: true, verbatimSymlinks: true },
    );
    return copy;
  }

  /** Returns the path of a file of the copy. */
  resolve(path: string): string {
    return join(this.directory, path);
  }

  /** Runs a command in the copy, with additional variables. */
  async run(
    file: string,
    args: readonly string[],
    env: NodeJS.ProcessEnv = {},
  ): Promise<CopyResult> {
    const options = {
      cwd: this.directory,
      env: { ...process.env, CI: 'true', NO_COLOR: '1', ...env },
      timeout: 1_700_000,
    };
    const { code, stdout, stderr } = await startProgram(file, args, options).result;
    return { failed: code !== 0, output: stripVTControlCharacters(stdout + stderr) };
  }

  /** Runs a script of package.json. */
  npm(...args: readonly string[]): Promise<CopyResult> {
    return this.run('npm', ['run', '--silent', ...args]);
  }

  /** Runs git, with an author for commits. */
  git(...args: readonly string[]): Promise<CopyResult> {
    return this.run('git', ['-c', 'user.name=test', '-c', 'user.email=test@example.com', ...args]);
  }

  /** Reads every file except build output and packages, by its path. */
  async readFiles(): Promise<Map<string, string>> {
    const files = new Map<string, string>();
    const entries = await readdir(this.directory, { withFileTypes: true });
    const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    for (const folder of ['.', ...folders]) {
      if (IGNORED_FOLDERS.has(folder)) continue;
      const options = { recursive: folder !== '.', withFileTypes: true } as const;
      for (const entry of await readdir(this.resolve(folder), options)) {
        if (!entry.isFile()) continue;
        const path = join(entry.parentPath, entry.name);
        const name = relative(this.directory, path).split(sep).join('/');
        files.set(name, await readFile(path, 'utf8'));
      }
    }
    return files;
  }

  /** Removes the copy. */
  remove(): Promise<void> {
    return rm(this.directory, { recursive: true, force: true });
  }
}

/** Returns the path of a command of the project's packages. */
export function getCommand(name: string): string {
  return join(ROOT, 'node_modules', '.bin', name);
}
