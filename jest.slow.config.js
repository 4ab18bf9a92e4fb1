/** What takes minutes by nature: repeated SIGKILLs, outages, the generator, the image, conformance, fuzzing. */
import { readdirSync } from 'node:fs';
import { basename } from 'node:path';
import { createConfig } from './jest.config.js';

/** Its slow tests add modules to copies of the project, and expect no other than the original ones. */
const GENERATOR = '/tools/generator/test/slow/';

const modules = readdirSync(new URL('src/modules/', import.meta.url), { recursive: true })
  .filter((path) => /\.(module|entity)\.ts$/.test(path))
  .map((path) => basename(path));
const ORIGINAL = 'categories.module.ts,category.entity.ts,pets.module.ts,store.module.ts';
const hasOnlyOriginalModules = modules.toSorted().join() === ORIGINAL;

const config = createConfig('slow/', 600_000);
if (!hasOnlyOriginalModules) {
  process.stderr.write(`Skipped tests that need the original src/modules: ${GENERATOR}\n`);
  for (const { testPathIgnorePatterns } of config.projects) testPathIgnorePatterns.push(GENERATOR);
}

export default config;
