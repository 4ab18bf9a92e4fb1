/** Generates clients from the OpenAPI document, compiles them strictly, and calls the service with them. */
import { execFile, spawnSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { FEATURES } from '../../src/features.js';
import { startApp, type TestApp } from '../support/app.js';
import { getCommand } from '../support/project-copy.js';
import { joinSnippets, readSnippets } from '../support/snippets.js';
import { StubsModule } from '../support/stubs.module.js';

/** What npx runs. openapi-typescript and openapi-fetch are dependencies of the project. */
const PACKAGES = [
  '@hey-api/openapi-ts@0.90.10',
  'oazapfts@7.5.0',
  'orval@7.13.2', // 8 requires Node 22
  'typescript@6.0.3', // without a version, npx installs 7, with which @hey-api/openapi-ts fails
];

/** The fixtures, by whether what their generators write compiles with `exactOptionalPropertyTypes`. */
const CLIENTS = { exact: ['openapi-fetch', 'orval'], inexact: ['hey-api', 'oazapfts'] };

const ROOT = join(import.meta.dirname, '..', '..');
const FIXTURES = join(import.meta.dirname, 'fixtures', 'clients');
const COMPILER = join(ROOT, 'node_modules', 'typescript-7', 'bin', 'tsc');

// Without retries, npm notices within a second that there is no registry.
const view = ['view', PACKAGES[0]!, 'version', '--fetch-retries=0', '--fetch-timeout=10000'];
const hasRegistry = spawnSync('npm', view, { stdio: 'ignore' }).status === 0;
if (!hasRegistry) process.stderr.write('Skipped tests that need the npm registry\n');
const describeIfRegistry = hasRegistry ? describe : describe.skip;

let app: TestApp;
let directory: string;
beforeAll(async () => {
  if (!hasRegistry) return;
  app = await startApp({ features: [StubsModule, ...FEATURES] });
  directory = await mkdtemp(join(tmpdir(), 'petstore-clients-'));
  await cp(FIXTURES, directory, { recursive: true });
  await generate();
  await addGuide();
  await Promise.all([compile('exact'), compile('inexact')]);
});
afterAll(async () => {
  if (!hasRegistry) return;
  await app.stop();
  await rm(directory, { recursive: true, force: true });
});

/** Runs a command in the directory. @returns its standard output. @throws {Error} with all of its output */
function run(command: string, args: string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const options = { cwd: directory, env: { ...process.env, ...env } };
  return new Promise((resolve, reject) => {
    execFile(command, args, options, (error, stdout) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${error.message}\n${stdout}`));
    });
  });
}

/** Runs the generators with the OpenAPI document of the service. */
async function generate(): Promise<void> {
  const document = await fetch(`${app.url}/openapi.json`);
  await writeFile(join(directory, 'openapi.json'), await document.text());
  const configs = {
    'hey-api': {
      input: 'openapi.json',
      output: { path: 'generated/hey-api', importFileExtension: '.js' },
    },
    orval: {
      petstore: {
        input: { target: './openapi.json' },
        output: {
          target: './generated/orval.ts',
          client: 'fetch',
          headers: true,
          baseUrl: `${app.url}/v1`,
        },
      },
    },
  };
  for (const [name, config] of Object.entries(configs)) {
    const module = `module.exports = ${JSON.stringify(config)};`;
    await writeFile(join(directory, `${name}.config.cjs`), module);
  }
  const commands = [
    `${getCommand('openapi-typescript')} openapi.json --output generated/openapi-typescript.ts`,
    'openapi-ts --file hey-api.config.cjs --no-log-file',
    'orval --config orval.config.cjs',
    'oazapfts openapi.json generated/oazapfts.ts',
    'command -v oazapfts',
  ];
  const packages = PACKAGES.map((name) => `--package=${name}`);
  const stdout = await run('npx', ['--yes', ...packages, '-c', commands.join(' && ')]);
  const npxModules = dirname(dirname(stdout.trim().split('\n').at(-1)!));
  const modules = join(directory, 'node_modules');
  await mkdir(modules);
  await symlink(join(npxModules, '@oazapfts'), join(modules, '@oazapfts'));
  for (const name of ['openapi-fetch', 'openapi-typescript-helpers', '@types'])
    await symlink(join(ROOT, 'node_modules', name), join(modules, name));
}

/** Adds the TypeScript snippets of docs/clients.md, and the files that they import. */
async function addGuide(): Promise<void> {
  const snippets = await readSnippets('docs/clients.md', 'ts');
  await writeFile(join(directory, 'guide.ts'), joinSnippets(snippets, 'ts'));
  for (const name of ['client.ts', 'petstore.d.ts'])
    await cp(join(ROOT, 'examples', name), join(directory, name));
}

/** Compiles the clients of a group with the compiler of the project. */
async function compile(group: keyof typeof CLIENTS): Promise<void> {
  const config = {
    compilerOptions: {
      target: 'es2023',
      lib: ['es2024', 'dom', 'dom.iterable'],
      module: 'nodenext',
      types: ['node'],
      strict: true,
      noUncheckedIndexedAccess: true,
      skipLibCheck: true, // saves a third of the time; the generated files are not declaration files
      exactOptionalPropertyTypes: group === 'exact',
      outDir: 'build',
    },
    files: [...CLIENTS[group], ...(group === 'exact' ? ['guide'] : [])].map((name) => `${name}.ts`),
  };
  await writeFile(join(directory, 'package.json'), '{"type": "module"}');
  const file = join(directory, `tsconfig.${group}.json`);
  await writeFile(file, JSON.stringify(config));
  await run(process.execPath, [COMPILER, '-p', file]);
}

describeIfRegistry('a generated client', () => {
  it.each(Object.values(CLIENTS).flat())(
    'compiles, and gets 200, 201, 304, 400, 401 and 501: %s',
    async (name) => {
      const stdout = await run(process.execPath, [`build/${name}.js`], {
        PETSTORE_URL: `${app.url}/v1`,
        PETSTORE_API_KEY: app.key,
      });
      const dog = { id: expect.any(Number), name: 'dog' };
      expect(JSON.parse(stdout)).toEqual({
        created: { status: 201, data: dog },
        list: { status: 200, data: expect.arrayContaining([dog]), etag: expect.any(String) },
        unchanged: { status: 304 },
        invalid: { status: 400, code: 'VALIDATION_FAILED' },
        unauthorized: { status: 401, code: 'UNAUTHORIZED' },
        notImplemented: { status: 501, code: 'NOT_IMPLEMENTED' },
      });
    },
  );
});
