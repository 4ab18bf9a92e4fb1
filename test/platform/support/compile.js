/**
 * Jest's global setup: compiles the service, its commands and the tools once for each run, in half a
 * second, for the tests that start processes. JavaScript, because Jest cannot import from a setup in
 * TypeScript.
 */
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import swcJest from '@swc/jest';
import { swcOptions } from '../../../jest.config.js';

const transformer = swcJest.createTransformer(swcOptions);
const ROOT = join(import.meta.dirname, '..', '..', '..');
/** Inside node_modules, so that the compiled files can resolve the dependencies. */
const CACHE = join(ROOT, 'node_modules', '.cache', 'petstore-test');

/** Sets `TEST_BUILD` to a directory that contains `src/main.js`. */
export default async function setup() {
  await mkdir(CACHE, { recursive: true });
  await removeOldBuilds();
  const directory = join(CACHE, String(process.pid));
  await compile(directory);
  process.env['TEST_BUILD'] = directory;
}

async function compile(directory) {
  const folders = ['src', 'tools/openapi', 'examples', 'test/platform/support'].map(
    async (folder) => {
      const names = await readdir(join(ROOT, folder), { recursive: true });
      return names
        .filter((name) => !/^(test|node_modules)\b/.test(name))
        .map((name) => join(folder, name));
    },
  );
  for (const path of ['ormconfig.ts', ...(await Promise.all(folders)).flat()]) {
    const output = join(directory, path);
    await mkdir(dirname(output), { recursive: true });
    if (!path.endsWith('.ts') || path.endsWith('.d.ts')) continue;
    const source = await readFile(join(ROOT, path), 'utf8');
    const { code } = transformer.process(source, join(ROOT, path), { supportsStaticESM: true });
    await writeFile(output.replace(/\.ts$/, '.js'), code);
  }
  // Inside node_modules, the project's package.json does not apply.
  await copyFile(join(ROOT, 'package.json'), join(directory, 'package.json'));
}

/** Removes the builds of test runs that have ended; they are named by the process. */
async function removeOldBuilds() {
  for (const name of await readdir(CACHE)) {
    if (!isRunning(Number(name))) await rm(join(CACHE, name), { recursive: true, force: true });
  }
}

function isRunning(pid) {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
