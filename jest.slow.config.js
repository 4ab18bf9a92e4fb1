/** What takes minutes by nature: repeated SIGKILLs, outages, the generator, a whole Petstore, the image, conformance, fuzzing. */
import { readdirSync } from 'node:fs';
import { createConfig } from './jest.config.js';

/** They add modules to copies of the project, and expect no other than the original ones. */
const TESTS_IN_COPIES = ['generator', 'contract-generator', 'petstore', 'adding-a-module'];

const MODULES = new URL('src/modules/', import.meta.url);
const entities = readdirSync(MODULES, { recursive: true }).filter((path) =>
  path.endsWith('.entity.ts'),
);
const hasOnlyOriginalModules =
  readdirSync(MODULES).toSorted().join() === 'categories,pets,store' && entities.length === 1;

const config = createConfig('slow/', 300_000);
if (!hasOnlyOriginalModules) {
  process.stderr.write(
    `Skipped tests that need the original src/modules: ${TESTS_IN_COPIES.join(', ')}\n`,
  );
  for (const { testPathIgnorePatterns } of config.projects)
    testPathIgnorePatterns.push(`/slow/(${TESTS_IN_COPIES.join('|')})\\.`);
}

export default config;
