/** Jest runs the sources as ES modules; swc strips the types and emits the decorator metadata that Nest reads. */
const common = {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      {
        jsc: {
          target: 'es2022',
          parser: { syntax: 'typescript', decorators: true },
          transform: { legacyDecorator: true, decoratorMetadata: true },
        },
        module: { type: 'es6' },
        sourceMaps: 'inline',
      },
    ],
  },
};

/** The same files run on both databases, but for those that say in their name which one they are about. */
export default {
  testTimeout: 20_000,
  projects: [
    {
      ...common,
      displayName: 'sqlite',
      globals: { TEST_DATABASE: 'sqlite' },
      testMatch: ['<rootDir>/test/**/*.test.ts'],
      testPathIgnorePatterns: ['\\.postgres\\.test\\.ts$'],
    },
    {
      ...common,
      displayName: 'postgres',
      globals: { TEST_DATABASE: 'postgres' },
      globalSetup: '<rootDir>/test/support/postgres.ts',
      globalTeardown: '<rootDir>/test/support/postgres-teardown.ts',
      testMatch: ['<rootDir>/test/**/*.test.ts'],
      testPathIgnorePatterns: ['\\.sqlite\\.test\\.ts$'],
    },
  ],
};
