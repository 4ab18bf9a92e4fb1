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

const edit = async (path: string, change: (text: string) => string): Promise<void> =>
  writeFile(copy.resolve(path), change(await readFile(copy.resolve(path), 'utf8')));

/** Adds a property beside each `name` of a schema. */
const addPhone = (key: string, value: unknown): unknown =>
  key === 'properties' ? { ...(value as object), phone: { type: 'string', maxLength: 30 } } : value;

describe('modules that are generated', () => {
  it('pass their tests on both databases, in the styles of frameworks', async () => {
    const contracts: Record<string, string> = {};
    const names = ['springdoc', 'nest', 'rails', 'odd-names', 'sqlmodel', 'django', 'spring-data'];
    for (const name of names)
      contracts[name] = await readFile(join(CONTRACTS, `${name}.openapi.yaml`), 'utf8');
    try {
      const args = ['-B', join(CONTRACTS, 'books.py')];
      contracts['books'] = execFileSync('/usr/bin/python3', args, { encoding: 'utf8' });
    } catch {
      process.stderr.write('Skipped: the contract of FastAPI needs python3-fastapi.\n');
    }
    await generate(contracts);
    const requests = await readFile(join(CONTRACTS, 'requests.ts'), 'utf8');
    await writeFile(
      copy.resolve('test/modules/requests.databases.test.ts'),
      requests.replace(/'[./]+test\/platform/, "'../platform"),
    );
    await expect(
      run('test', '--', 'test/modules', 'test/platform/database/migrations'),
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

  it('keep what people own after the contract changed', async () => {
    await run('run', '--silent', 'generate', '--', 'resource', 'suppliers');
    await run('run', '--silent', 'generate', '--', 'from', 'suppliers.openapi.json');
    const folder = 'src/modules/suppliers';
    await edit(`${folder}/suppliers.service.ts`, (text) => `${text}// Of the team.\n`);
    const before = await copy.readFiles();

    await edit('suppliers.openapi.json', (text) =>
      JSON.stringify(JSON.parse(text), addPhone).replace(
        '"paths":{',
        '"paths":{"/suppliers/{id}/archive":{"post":{"operationId":"archive","responses":{"204":{"description":"Done"}}}},',
      ),
    );
    const { output } = await copy.npm('generate', '--', 'from', 'suppliers.openapi.json');
    expect(output).toContain(
      `- ${folder}/supplier.entity.ts: add phone, and the draft of its migration, add-phone-to-suppliers, to the module.`,
    );
    expect(output).toContain(`- ${folder}/suppliers.service.ts: implement archive.`);
    const after = await copy.readFiles();
    const changed = [...before].filter(([path, text]) => after.get(path) !== text);
    expect(changed.map(([path]) => path)).toEqual([
      'suppliers.openapi.json',
      `${folder}/suppliers.api.gen.ts`,
    ]);
    const [draft, ...others] = [...after.keys()].filter((path) => !before.has(path));
    expect(others).toEqual([]);
    const typecheck = await copy.npm('typecheck');
    expect(typecheck.output).toMatch(/suppliers\.service\.ts.* member archive /);
    expect(typecheck.output).toMatch(/suppliers\.service\.ts.*phone/);

    // What the report and TypeScript say.
    const [, name] = /class (\w+)/.exec(after.get(draft!)!)!;
    await edit(`${folder}/suppliers.module.ts`, (text) =>
      `import { ${name} } from './${draft!.slice(folder.length + 1, -3)}.js';\n${text}`.replace(
        /migrations: \[(\w+)/,
        `migrations: [$1, ${name}`,
      ),
    );
    const column = `  @Column('varchar', { length: 30, nullable: true })\n  phone!: string | null;\n}`;
    await edit(`${folder}/supplier.entity.ts`, (text) => text.replace(/\}\s*$/, column));
    await edit(`${folder}/suppliers.service.ts`, (text) =>
      text
        .replace('name: row.name', 'name: row.name, phone: row.phone ?? undefined')
        .replace(
          '  listSuppliers(',
          '  archive(): Promise<void> { return Promise.resolve(); }\n\n  listSuppliers(',
        ),
    );
    await run('run', '--silent', 'typecheck');
    await run('run', '--silent', 'openapi');
    await expect(
      run('test', '--', 'test/modules/suppliers', 'test/platform/database/migrations'),
    ).resolves.toBeUndefined();
  });
});
