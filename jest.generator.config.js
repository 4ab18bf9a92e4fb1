/** The generator's tests, which generate modules in copies of the project: they take minutes. */
import { readdirSync } from 'node:fs';
import { basename } from 'node:path';
import { createConfig, GENERATOR } from './jest.config.js';

const modules = readdirSync(new URL('src/modules/', import.meta.url), { recursive: true })
  .filter((path) => /\.(module|entity)\.ts$/.test(path))
  .map((path) => basename(path));
const ORIGINAL = 'categories.module.ts,category.entity.ts,pets.module.ts,store.module.ts';

// The slow ones add modules to copies of the project, and expect no other than the original ones.
const hasOnlyOriginalModules = modules.toSorted().join() === ORIGINAL;
if (!hasOnlyOriginalModules)
  process.stderr.write('Skipped slow tests of the generator that need the original src/modules\n');

export default createConfig(hasOnlyOriginalModules ? '{,slow/}' : '', 600_000, [GENERATOR]);
