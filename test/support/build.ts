import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const ROOT = join(import.meta.dirname, '..', '..');
/** Inside node_modules, so that the built files can resolve the dependencies. */
const CACHE = join(ROOT, 'node_modules', '.cache', 'petstore-test');
const LOCK = join(CACHE, 'lock');
/** Age in milliseconds after which a lock is stale, left behind by a killed process. */
const LOCK_TIMEOUT_MS = 120_000;
/** Milliseconds that older builds are kept, because another test run may still use them. */
const BUILD_TTL_MS = 3_600_000;

let built: Promise<string> | undefined;

/**
 * Compiles the sources as `npm run build` does, but without checking the types, unless a build of the
 * same sources, by this or another process, is cached.
 *
 * @returns the directory of the build, which contains `src/main.js`
 * @throws {Error} with the compiler's messages
 */
export function buildOnce(): Promise<string> {
  built ??= build();
  return built;
}

async function build(): Promise<string> {
  const output = join(CACHE, await hashSources());
  await mkdir(CACHE, { recursive: true });
  // The lock only avoids duplicate work; renaming makes a build appear atomically.
  while (!existsSync(output)) {
    if (await acquireLock()) {
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
  const buildFiles = ['ormconfig.ts', 'tsconfig.json', 'tsconfig.tools.json', 'package-lock.json'];
  for (const file of [...sources, ...buildFiles.map((name) => join(ROOT, name))]) {
    hash.update(`${file}\0`).update(await readFile(file));
  }
  return hash.digest('hex').slice(0, 16);
}

async function compile(output: string): Promise<void> {
  const draft = `${output}.${process.pid}`;
  const compiler = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const options = ['--noCheck', '--incremental', 'false', '--tsBuildInfoFile', 'null'];
  try {
    await promisify(execFile)(
      process.execPath,
      [compiler, '-p', 'tsconfig.tools.json', ...options, '--outDir', draft],
      { cwd: ROOT },
    );
  } catch (error) {
    throw new Error(`Build failed:\n${(error as { stdout?: string }).stdout}`, {
      cause: error,
    });
  }
  // As the assets of nest-cli.json.
  const styles = 'src/platform/openapi/swagger-ui.css';
  await copyFile(join(ROOT, styles), join(draft, styles));
  // Inside node_modules, the project's package.json does not apply.
  await writeFile(join(draft, 'package.json'), '{ "type": "module" }\n');
  await rename(draft, output).catch(async (error: unknown) => {
    if (!existsSync(output)) throw error;
    await rm(draft, { recursive: true });
  });
}

async function acquireLock(): Promise<boolean> {
  try {
    await mkdir(LOCK);
    return true;
  } catch {
    if (await isOlderThan(LOCK, LOCK_TIMEOUT_MS)) await rm(LOCK, { recursive: true, force: true });
    return false;
  }
}

async function removeOldBuilds(): Promise<void> {
  for (const name of await readdir(CACHE)) {
    const directory = join(CACHE, name);
    if (directory !== LOCK && (await isOlderThan(directory, BUILD_TTL_MS))) {
      await rm(directory, { recursive: true, force: true });
    }
  }
}

async function isOlderThan(path: string, milliseconds: number): Promise<boolean> {
  const status = await stat(path).catch(() => undefined);
  return status !== undefined && Date.now() - status.mtimeMs > milliseconds;
}
