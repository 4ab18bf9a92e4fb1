/** Runs the commands of docs/adding-a-module.md in a copy of the project that is a git repository. */
import { readFile } from 'node:fs/promises';
import { getBuiltFile } from '../../../../test/support/build.js';
import { ProjectCopy } from '../../../../test/support/project-copy.js';

import.meta.jest.setTimeout(1_800_000);

const FIELDS = 'name:string(1..100) categoryId:ref(categories)?';
/** The files that `npm run openapi` generates. */
const GENERATED = ['examples/petstore.d.ts', 'openapi.json'];

let copy: ProjectCopy;
let guide: string;
beforeAll(async () => {
  copy = await ProjectCopy.create();
  guide = await readFile(copy.resolve('docs/adding-a-module.md'), 'utf8');
  await git('init', '--quiet', '--initial-branch=main');
  await commit('Initial state');
});
afterAll(() => copy.remove());

/** @throws {Error} if the command fails */
async function succeed(command: ReturnType<ProjectCopy['run']>): Promise<string> {
  const { failed, output } = await command;
  if (failed) throw new Error(output);
  return output;
}

const git = (...args: string[]): Promise<string> => succeed(copy.git(...args));
const npm = (...args: string[]): Promise<string> => succeed(copy.npm(...args));
/** The result of `npm run openapi:check`, without compiling the tools again. */
const checkOpenApi = (): Promise<string> =>
  succeed(copy.run(process.execPath, [getBuiltFile('tools/openapi/openapi-check.js')]));

async function commit(message: string): Promise<void> {
  await git('add', '--all');
  await git('commit', '--quiet', '--message', message);
}

/**
 * Runs the commands in the block of the guide that contains a text, without `--dry-run`.
 *
 * @returns their output
 */
async function runBlock(text: string): Promise<string> {
  const blocks = [...guide.matchAll(/```sh\n(.*?)\n```/gs)].map(([, commands]) => commands!);
  const [block, ...others] = blocks.filter((commands) => commands.includes(text));
  if (block === undefined || others.length > 0)
    throw new Error(`The guide must have one block with: ${text}`);
  const outputs: string[] = [];
  for (const command of block.replace(' --dry-run', '').split(/(?<!\\)\n| && /))
    outputs.push(await succeed(copy.run('sh', ['-c', command])));
  return outputs.join('');
}

/** Generates a resource in a new folder, on a branch of its own. */
async function generateOnBranch(name: string, start: string): Promise<void> {
  await git('checkout', '--quiet', '-b', name, start);
  await npm('generate', '--', 'resource', name, '--fields', FIELDS);
  await commit(`Add ${name}`);
}

describe('the example of the guide', () => {
  it('generates a resource that passes the checks of the guide without a change', async () => {
    await git('checkout', '--quiet', '-b', 'pets');
    await runBlock('--dry-run');
    await commit('Add pets');
    const output = await runBlock('npm run lint:openapi');
    for (const database of ['sqlite', 'postgres'])
      expect(output).toContain(`PASS ${database} test/pets.databases.test.ts`);
    // Neither `npm run openapi` nor `npm run format` has changed a file.
    expect(await git('status', '--porcelain')).toBe('');
    expect(await checkOpenApi()).toContain('paths > /pets > post was added');
  });
});

describe('resources that were generated on different branches', () => {
  it('merge with conflicts only in generated files, which the commands of the guide resolve', async () => {
    await generateOnBranch('visits', 'pets');
    await generateOnBranch('owners', 'main');
    const merge = await copy.git('merge', 'visits');
    expect(merge).toMatchObject({ failed: true });
    const conflicts = await git('diff', '--name-only', '--diff-filter=U');
    expect(conflicts.trim().split('\n')).toEqual(GENERATED);

    await runBlock('git add openapi.json');
    await git('commit', '--quiet', '--no-edit');
    expect(await git('status', '--porcelain')).toBe('');
    await npm('typecheck');
    const changes = await checkOpenApi();
    for (const path of ['pets', 'visits', 'owners'])
      expect(changes).toContain(`paths > /${path} > post was added`);
    // The committed OpenAPI document is that of the merged features.
    const tests = ['test/openapi.test.ts', 'test/owners', 'test/visits'];
    await npm('test', '--', '--selectProjects', 'sqlite', '--', ...tests);
  });
});
