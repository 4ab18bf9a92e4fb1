import { execFileSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ProjectCopy } from '../../../../test/platform/support/project-copy.js';

const CONTRACTS = join(import.meta.dirname, '..', 'contracts');

let copy: ProjectCopy;
beforeEach(async () => {
  copy = await ProjectCopy.create();
});
afterEach(() => copy.remove());

/** Runs a script of the copy. @throws {Error} with its output if it fails */
async function run(...args: string[]): Promise<void> {
  const { failed, output } = await copy.run('npm', args);
  if (failed) throw new Error(output.slice(-10_000));
}

/** Generates modules of contracts, and checks their code. */
async function generate(contracts: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(contracts)) {
    await writeFile(copy.resolve(`${name}.openapi.yaml`), text);
    await run('run', '--silent', 'generate', '--', 'from', `${name}.openapi.yaml`);
  }
  await run('run', '--silent', 'typecheck');
  await run('run', '--silent', 'lint');
}

const rename = (text: string): string =>
  text
    .replaceAll('categories', 'labels')
    .replaceAll('Categories', 'Labels')
    .replaceAll('category', 'label')
    .replaceAll('Category', 'Label');

describe('modules that are generated', () => {
  it('pass their tests on both databases, in the styles of frameworks', async () => {
    const contracts: Record<string, string> = {};
    for (const name of ['springdoc', 'nest', 'rails', 'odd-names'])
      contracts[name] = await readFile(join(CONTRACTS, `${name}.openapi.yaml`), 'utf8');
    try {
      const args = ['-B', join(CONTRACTS, 'books.py')];
      contracts['books'] = execFileSync('/usr/bin/python3', args, { encoding: 'utf8' });
    } catch {
      process.stderr.write('Skipped: the contract of FastAPI needs python3-fastapi.\n');
    }
    await generate(contracts);
    await expect(
      run('test', '--', 'test/modules', 'test/platform/migrations'),
    ).resolves.toBeUndefined();
  });

  it('pass the tests of categories, as labels', async () => {
    const document = JSON.parse(await readFile('openapi.json', 'utf8')) as {
      paths: Record<string, unknown>;
    };
    document.paths = { '/categories': document.paths['/categories'] };
    await generate({ labels: rename(JSON.stringify(document)) });
    const test = await readFile('test/modules/categories.databases.test.ts', 'utf8');
    const renamed = rename(test).replace('{ Label } from', '{ Category as Label } from');
    await writeFile(copy.resolve('test/modules/labels-as-categories.databases.test.ts'), renamed);
    await expect(run('test', '--', 'test/modules')).resolves.toBeUndefined();
  });
});
