import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';

/** How swc compiles: it strips the types and emits the decorator metadata that Nest reads. */
export const swcOptions = {
  jsc: {
    target: 'es2022',
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true },
  },
  module: { type: 'es6' },
  sourceMaps: 'inline',
};

/** Jest runs the sources as ES modules. */
const common = {
  testEnvironment: 'node',
  setupFilesAfterEnv: ['matchers.ts', 'fixture.ts'].map(
    (name) => `<rootDir>/test/platform/support/${name}`,
  ),
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
  transform: { '^.+\\.ts$': ['@swc/jest', swcOptions] },
  // The compiled tools contain a copy of package.json.
  modulePathIgnorePatterns: ['<rootDir>/build/'],
};

/** The tests of the generator: which generate modules in copies of the project. */
export const GENERATOR = 'tools/generator/test';

/** Everything else. */
const PARENTS = [
  'test/platform{,/!(slow|support)}',
  'test/modules',
  'tools/!(generator)/test',
  'examples/*',
];

/**
 * Tests of what a fork replaces, which it leaves out: once it has a name of its own in src/product.ts, or other modules in
 * src/modules than the original ones.
 */
const OF_THE_ORIGINAL = [
  // Adopts the service.
  'test/platform/slow/adopting',
  // Runs the commands of README.md.
  'test/platform/slow/checkout',
  // Its document describes the original's operations.
  'test/platform/docs/api-types',
  // Checks the committed openapi.json.
  'tools/openapi/test/slow/conformance',
  // Generates modules, whose names a fork may have.
  'tools/generator/test/slow/',
];

const modules = readdirSync(new URL('src/modules/', import.meta.url), { recursive: true })
  .filter((path) => /\.(module|entity)\.ts$/.test(path))
  .map((path) => basename(path));
const isOriginal =
  modules.toSorted().join() ===
    'categories.module.ts,category.entity.ts,pets.module.ts,store.module.ts' &&
  readFileSync(new URL('src/product.ts', import.meta.url), 'utf8').includes("name: 'petstore'");
/** The paths that this checkout leaves out. */
export const LEFT_OUT = isOriginal ? [] : OF_THE_ORIGINAL;

/**
 * Creates the configuration for a set of test files: all of them run on SQLite but those named
 * `*.postgres.test.ts`; these and those named `*.databases.test.ts` run on PostgreSQL.
 *
 * @param folder of the test files, below each parent
 * @param testTimeout time limit of a test in milliseconds, sufficient on a busy machine
 * @param parents of the folders
 */
export const createConfig = (folder, testTimeout = 120_000, parents = PARENTS) => ({
  // Most of the time tests wait: for other processes, or for a timeout.
  maxWorkers: 4,
  // Each test file leaves memory behind. It takes a worker more than the half a second for which Jest waits by default to
  // release it on a busy machine, although nothing keeps the worker running.
  workerIdleMemoryLimit: '800MB',
  workerGracefulExitTimeout: 15_000,
  testTimeout,
  globalSetup: '<rootDir>/test/platform/support/compile.js',
  coverageProvider: 'v8',
  coverageReporters: ['text', 'html'],
  collectCoverageFrom: ['src/**/*.ts'],
  coverageThreshold: { global: { lines: 95.5, branches: 96 } },
  projects: [
    {
      ...common,
      displayName: 'sqlite',
      globals: { TEST_DATABASE: 'sqlite' },
      testMatch: parents.map((parent) => `<rootDir>/${parent}/${folder}*.test.ts`),
      testPathIgnorePatterns: ['\\.postgres\\.test\\.ts$', ...LEFT_OUT],
    },
    {
      ...common,
      displayName: 'postgres',
      globals: { TEST_DATABASE: 'postgres' },
      globalSetup: '<rootDir>/test/platform/support/postgres.ts',
      globalTeardown: '<rootDir>/test/platform/support/postgres-teardown.ts',
      testMatch: parents.map((parent) => `<rootDir>/${parent}/${folder}*.test.ts`),
      testPathIgnorePatterns: ['(?<!\\.(postgres|databases))\\.test\\.ts$', ...LEFT_OUT],
    },
  ],
});

export default createConfig('');
