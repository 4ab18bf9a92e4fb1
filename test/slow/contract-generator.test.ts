import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { parse, stringify } from 'yaml';

const ROOT = join(import.meta.dirname, '..', '..');
const FIXTURES = join(import.meta.dirname, 'fixtures');
/** The public Swagger Petstore; OpenAPI 3.1 with allOf and nested arrays; 3.0 with path-level parameters. */
const CONTRACTS = ['petstore.openapi.yaml', 'library.openapi.yaml', 'tracker.openapi.json'];
const COPIED_FOLDERS = ['conformance', 'examples', 'schematics', 'src', 'test'];
const COMMAND_TIMEOUT_MS = 600_000;

/* oxlint-disable-next-line typescript/no-explicit-any -- the tests change arbitrary parts of a document */
type Document = any;

/** A copy of the project, in which the generator runs. */
let project: string;
let petstore: Document;

interface CommandResult {
  readonly failed: boolean;
  readonly output: string;
}

function run(file: string, ...args: string[]): Promise<CommandResult> {
  const env = { ...process.env, CI: 'true', NO_COLOR: '1', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' };
  const options = { cwd: project, env, timeout: COMMAND_TIMEOUT_MS, maxBuffer: 64 * 1024 * 1024 };
  return new Promise((resolve) => {
    execFile(file, args, options, (error, stdout, stderr) =>
      resolve({ failed: error !== null, output: stripVTControlCharacters(stdout + stderr) }),
    );
  });
}

const npm = (...args: string[]): Promise<CommandResult> => run('npm', 'run', '--silent', ...args);
const generate = (contract: string): Promise<CommandResult> =>
  run(process.execPath, 'schematics/generate.js', 'from', contract);
const bin = (name: string): string => join(ROOT, 'node_modules', '.bin', name);

/** Reads every file of the copy that the generator may write, by its path. */
async function readProject(): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  for (const folder of COPIED_FOLDERS) {
    const options = { recursive: true, withFileTypes: true } as const;
    for (const entry of await readdir(join(project, folder), options)) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isFile()) files[relative(project, path)] = await readFile(path, 'utf8');
    }
  }
  return files;
}

beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), 'petstore-contract-'));
  const entries = await readdir(ROOT, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isFile()).map(({ name }) => name);
  for (const name of [...names, ...COPIED_FOLDERS])
    await cp(join(ROOT, name), join(project, name), { recursive: true });
  // Linked one by one, so that caches are written to a folder of the copy.
  await mkdir(join(project, 'node_modules'));
  for (const name of await readdir(join(ROOT, 'node_modules'))) {
    if (name === '.cache') continue;
    await symlink(join(ROOT, 'node_modules', name), join(project, 'node_modules', name));
  }
  for (const name of CONTRACTS) await cp(join(FIXTURES, name), join(project, name));
  petstore = parse(await readFile(join(FIXTURES, CONTRACTS[0]!), 'utf8'));
}, 120_000);
afterAll(() => rm(project, { recursive: true, force: true }));

describe('npm run generate -- from', () => {
  it.each<[string, string, (d: Document) => void]>([
    [
      'oneOf',
      '#/components/schemas/Tag/properties/name/oneOf: oneOf is not supported.',
      (d) => (d.components.schemas.Tag.properties.name = { oneOf: [{ type: 'string' }] }),
    ],
    [
      'a cookie',
      '#/components/parameters/petId/in: Cookies are not supported.',
      (d) => (d.components.parameters.petId.in = 'cookie'),
    ],
    [
      'a body on GET',
      '#/paths/~1user~1logout/get/requestBody: A body is not supported for GET.',
      (d) => (d.paths['/user/logout'].get.requestBody = { $ref: '#/components/requestBodies/Pet' }),
    ],
    [
      'a missing reference',
      "#/components/schemas/Pet/properties/tags/items: Can't resolve $ref",
      (d) => delete d.components.schemas.Tag,
    ],
    [
      'an operation id that is used twice',
      'Every operation must have a unique `operationId`.',
      (d) => (d.paths['/user'].post.operationId = 'addPet'),
    ],
    [
      'a path that exists',
      '#/paths/~1categories/get: GET /v1/categories exists in src/modules/categories/categories.controller.ts',
      (d) => {
        const operation = { ...d.paths['/user/logout'].get, operationId: 'getKinds' };
        d.paths['/categories'] = { get: operation };
      },
    ],
    [
      'a class that exists',
      '#/components/schemas/Category: The class Category exists in src/modules/categories/category.dto.ts.',
      (d) => (d.components.schemas.Category = d.components.schemas.Tag),
    ],
    [
      'schemas that refer to each other',
      'Schemas that refer to each other are not supported: ',
      (d) => {
        d.components.schemas.Tag.properties.pet = { $ref: '#/components/schemas/Pet' };
      },
    ],
  ])(
    'writes nothing for %s, and names its file, its place and the reason',
    async (_name, message, change) => {
      const before = await readProject();
      const document = structuredClone(petstore);
      change(document);
      await writeFile(join(project, 'broken.openapi.yaml'), stringify(document));
      const { failed, output } = await generate('broken.openapi.yaml');
      expect(output).toContain('broken.openapi.yaml#/');
      expect(output).toContain(message);
      expect(failed).toBe(true);
      expect(await readProject()).toEqual(before);
    },
    120_000,
  );

  it('generates modules that are the contracts and pass every check', async () => {
    for (const contract of CONTRACTS)
      expect(await generate(contract)).toMatchObject({
        failed: false,
        output: expect.stringContaining('UPDATE openapi.json'),
      });
    expect(await npm('build:tools')).toMatchObject({ failed: false });
    for (const contract of CONTRACTS) {
      const check = ['build/conformance/openapi-check.js', '--contract', contract];
      expect(await run(process.execPath, ...check)).toEqual({
        failed: false,
        output: `Differences from ${contract}: 0\n`,
      });
    }
    const checks = [
      run(bin('tsc'), '--noEmit'),
      run(bin('oxlint'), '--type-aware', '--deny-warnings', 'src', 'test'),
      run(bin('prettier'), '--check', 'src', 'test', 'openapi.json'),
      npm('lint:openapi'),
    ];
    for (const check of checks) expect(await check).toMatchObject({ failed: false });
  }, 1_200_000);

  it('generates modules whose tests pass, as do those that concern every operation', async () => {
    const files = ['contract.test', 'openapi.test', 'authentication.test', 'stub-operations'];
    const tests = await npm('test', '--', '--selectProjects', 'sqlite', '--', ...files);
    expect(tests).toMatchObject({ failed: false });
    for (const name of ['petstore', 'library', 'tracker'])
      expect(tests.output).toContain(`PASS sqlite test/${name}.contract.test.ts`);
  }, 1_200_000);

  it('writes nothing if it runs again', async () => {
    const before = await readProject();
    for (const contract of CONTRACTS) expect((await generate(contract)).failed).toBe(false);
    expect(await readProject()).toEqual(before);
  }, 600_000);

  it('adds what is new in a contract, and leaves what was written by hand', async () => {
    const controller = join(project, 'src/modules/petstore/user.controller.ts');
    const dto = join(project, 'src/modules/petstore/tag.dto.ts');
    const text = await readFile(controller, 'utf8');
    const stub = /logoutUser\(\): Promise<void> \{\n.*\n {2}\}/;
    expect(text).toMatch(stub);
    const method = 'logoutUser(): Promise<void> {\n    return Promise.resolve();\n  }';
    await writeFile(controller, text.replace(stub, method));
    await writeFile(dto, `${await readFile(dto, 'utf8')}// Written by hand.\n`);
    const document = structuredClone(petstore);
    document.paths['/user/teams'] = {
      get: {
        ...document.paths['/user/logout'].get,
        operationId: 'listTeams',
        responses: {
          200: {
            description: 'The teams.',
            content: {
              'application/json': {
                schema: { type: 'array', items: { $ref: '#/components/schemas/Team' } },
              },
            },
          },
        },
      },
    };
    document.components.schemas.Team = document.components.schemas.Tag;
    document.components.schemas.Tag.properties.colour = { type: 'string' };
    await writeFile(
      join(project, CONTRACTS[0]!),
      stringify(document, { aliasDuplicateObjects: false }),
    );
    expect(await generate(CONTRACTS[0]!)).toMatchObject({ failed: false });
    const after = await readFile(controller, 'utf8');
    expect(after).toContain(method);
    expect(after).toContain('listTeams(): Promise<Team[]> {');
    expect(await readFile(dto, 'utf8')).toMatch(/Written by hand\.\n$/);
    expect(await readFile(join(project, 'src/modules/petstore/team.dto.ts'), 'utf8')).toContain(
      'export class Team {',
    );
    expect(await readFile(join(project, 'test/petstore.contract.test.ts'), 'utf8')).toContain(
      `['GET', '/v1/user/teams']`,
    );
    // The class of an existing file is changed by hand, and the check names what it lacks.
    const check = ['build/conformance/openapi-check.js', '--contract', CONTRACTS[0]!];
    expect(await run(process.execPath, ...check)).toMatchObject({
      failed: true,
      output: expect.stringContaining('#/components/schemas/Tag/properties/colour: is missing'),
    });
  }, 600_000);
});
