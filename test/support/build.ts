import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const ROOT = join(import.meta.dirname, '..', '..');
/** Below node_modules, so that the built files find the dependencies. */
const CACHE = join(ROOT, 'node_modules', '.cache', 'petstore-test');
const LOCK = join(CACHE, 'lock');
/** Milliseconds after which a lock was left behind by a process that was killed. */
const LOCK_EXPIRES = 120_000;
/** Milliseconds that the build of older sources is kept, for a test run that still uses it. */
const KEEP = 3_600_000;

let built: Promise<string> | undefined;

/**
 * Compiles the sources as `npm run build` does, where no earlier call, of this process or of
 * another, has compiled the same sources.
 *
 * @returns the directory of the build; `src/main.js` is in it
 * @throws {Error} with the compiler's messages
 */
export function buildOnce(): Promise<string> {
  built ??= build();
  return built;
}

async function build(): Promise<string> {
  const output = join(CACHE, await hashSources());
  await mkdir(CACHE, { recursive: true });
  // The lock only spares a second compilation: a build appears whole, by its renaming.
  while (!existsSync(output)) {
    if (await takeLock()) {
      try {
        if (!existsSync(output)) await compile(output);
        await removeOldBuilds();
      } finally {
        await rm(LOCK, { recursive: true, force: true });
      }
    } else {
      await delay(100);
    }
  }
  return output;
}

async function hashSources(): Promise<string> {
  const hash = createHash('sha256');
  const folders = ['src', 'conformance', 'examples'].map((name) =>
    readdir(join(ROOT, name), { recursive: true, withFileTypes: true }),
  );
  const sources = (await Promise.all(folders))
    .flat()
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .toSorted();
  const others = ['ormconfig.ts', 'tsconfig.json', 'tsconfig.build.json', 'package-lock.json'];
  for (const file of [...sources, ...others.map((name) => join(ROOT, name))]) {
    hash.update(`${file}\0`).update(await readFile(file));
  }
  return hash.digest('hex').slice(0, 16);
}

async function compile(output: string): Promise<void> {
  const draft = `${output}.${process.pid}`;
  const compiler = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const options = ['--incremental', 'false', '--tsBuildInfoFile', 'null', '--outDir', draft];
  try {
    await promisify(execFile)(
      process.execPath,
      [compiler, '-p', 'tsconfig.build.json', ...options],
      { cwd: ROOT },
    );
  } catch (error) {
    throw new Error(`The build failed:\n${(error as { stdout?: string }).stdout}`, {
      cause: error,
    });
  }
  // What lies below node_modules does not see the package.json of the project.
  await writeFile(join(draft, 'package.json'), '{ "type": "module" }\n');
  await rename(draft, output).catch(async (error: unknown) => {
    if (!existsSync(output)) throw error;
    await rm(draft, { recursive: true });
  });
}

async function takeLock(): Promise<boolean> {
  try {
    await mkdir(LOCK);
    return true;
  } catch {
    if (await isOlderThan(LOCK, LOCK_EXPIRES)) await rm(LOCK, { recursive: true, force: true });
    return false;
  }
}

async function removeOldBuilds(): Promise<void> {
  for (const name of await readdir(CACHE)) {
    const directory = join(CACHE, name);
    if (directory !== LOCK && (await isOlderThan(directory, KEEP))) {
      await rm(directory, { recursive: true, force: true });
    }
  }
}

async function isOlderThan(path: string, milliseconds: number): Promise<boolean> {
  const status = await stat(path).catch(() => undefined);
  return status !== undefined && Date.now() - status.mtimeMs > milliseconds;
}
