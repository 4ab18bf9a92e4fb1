/** Generates clients from the OpenAPI document, compiles them strictly, and calls the service with them. */
import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { FEATURES } from '../../../../src/features.js';
import { startApp, type TestApp } from '../../../../test/platform/support/app.js';
import { getCommand } from '../../../../test/platform/support/project-copy.js';
import { commandSucceeds, requires } from '../../../../test/platform/support/requirements.js';
import {
  joinSnippets,
  readBlocks,
  readSnippets,
} from '../../../../test/platform/support/snippets.js';
import { StubsModule } from '../../../../test/platform/support/stubs.module.js';

/** The program that uses the generated client. */
const CLIENT = 'openapi-fetch';

const ROOT = join(import.meta.dirname, '..', '..', '..', '..');
const MODULES = join(ROOT, 'node_modules');

// Without retries, npm notices within a second that there is no registry.
const view = ['view', CLIENT, 'version', '--fetch-retries=0', '--fetch-timeout=10000'];
const hasRegistry = commandSucceeds('npm', view);
const registry = requires('the npm registry', hasRegistry);

let app: TestApp;
let directory: string;
beforeAll(async () => {
  if (!hasRegistry) return;
  app = await startApp({ features: [StubsModule, ...FEATURES] });
  directory = await mkdtemp(join(tmpdir(), 'petstore-clients-'));
  await cp(join(import.meta.dirname, 'clients'), directory, { recursive: true });
  await generate();
  // The guide imports the client of the example, and its types.
  const snippets = await readSnippets('docs/clients.md', 'ts');
  await write('guide.ts', joinSnippets(snippets, 'ts'));
  await cp(join(ROOT, 'examples', 'client.ts'), join(directory, 'client.ts'));
  await compile([CLIENT, 'guide']);
});
afterAll(async () => {
  if (!hasRegistry) return;
  await app.stop();
  await rm(directory, { recursive: true, force: true });
});

const write = (name: string, text: string): Promise<void> => writeFile(join(directory, name), text);

/** Runs a command, by default in the directory. @returns its standard output. @throws {Error} with all of its output */
async function run(
  command: string,
  args: string[],
  env: NodeJS.ProcessEnv = {},
  cwd = directory,
): Promise<string> {
  const options = { cwd, env: { ...process.env, ...env } };
  try {
    return (await promisify(execFile)(command, args, options)).stdout;
  } catch (error) {
    const { message, stdout } = error as Error & { stdout: string };
    throw new Error(`${message}\n${stdout}`, { cause: error });
  }
}

/** Runs the generators with the OpenAPI document of the service. */
async function generate(): Promise<void> {
  await write('openapi.json', await (await fetch(`${app.url}/openapi.json`)).text());
  const input = 'openapi.json';
  await run(getCommand('openapi-typescript'), [input, '--output', 'api.d.ts']);
  await symlink(MODULES, join(directory, 'node_modules'));
}

/** Compiles clients with the compiler of the project. */
async function compile(names: readonly string[]): Promise<void> {
  const compilerOptions = {
    target: 'es2023',
    lib: ['es2024', 'dom', 'dom.iterable'],
    module: 'nodenext',
    types: ['node'],
    strict: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true, // saves a third of the time; the generated files are not declaration files
    exactOptionalPropertyTypes: true,
    outDir: 'build',
  };
  const config = { compilerOptions, files: names.map((name) => `${name}.ts`) };
  await write('package.json', '{"type": "module"}');
  await write('tsconfig.json', JSON.stringify(config));
  const compiler = join(MODULES, 'typescript-7', 'bin', 'tsc');
  await run(process.execPath, [compiler, '-p', 'tsconfig.json']);
}

registry.describe('a generated client', () => {
  it('compiles, and gets 200, 201, 304, 400, 401 and 501', async () => {
    const stdout = await run(process.execPath, [`build/${CLIENT}.js`], {
      API_URL: `${app.url}/v1`,
      API_KEY: app.key,
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
  });
});

registry.describe('the commands of docs/clients.md', () => {
  it('run a snippet in the folder of client.ts', async () => {
    // Below the directory, npm would install the packages there.
    const folder = await mkdtemp(join(tmpdir(), 'petstore-guide-'));
    await cp(join(directory, 'client.ts'), join(folder, 'client.ts'));
    await cp(join(directory, 'guide.ts'), join(folder, 'snippet.ts'));
    const blocks = await readBlocks('docs/clients.md');
    const { code } = blocks.find(({ language }) => language === 'bash')!;
    const env = { API_URL: `${app.url}/v1`, API_KEY: app.key };
    const stdout = await run('bash', ['-ec', code], env, folder);
    await rm(folder, { recursive: true });
    expect(stdout).toContain('Correct the input: name must be 1 to 100 characters long.');
  });
});
