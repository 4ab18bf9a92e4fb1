import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { sendRequest, jsonHeaders } from '../support/http-client.js';
import { type PostgresServer, startPostgres } from '../support/postgres.js';
import { ServiceProcess } from '../support/service-process.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const KEY = 'a-key-of-the-generator-test-0123456789';
const PETS = [
  'pets',
  '--fields',
  'name:string(1..100) status:enum(available,pending,sold) categoryId:ref(categories)? bornAt:date-time? notes:text? weight:number? chipped:boolean age:integer(0..50) serial:integer?',
];
const ORDERS = [
  'store/orders',
  '--fields',
  'petId:ref(pets) quantity:integer(1..100) shipAt:date-time',
];
const PET_TAGS = ['pet-tags', '--fields', 'name:string(1..20)', '--operations', 'list,create'];
/** Tests of the project that a generated resource could break; those named sqlite run only on it. */
const CORE_TESTS = [
  'conventions',
  'openapi',
  'migrations',
  'stub-operations',
  'examples.sqlite',
  'conformance.sqlite',
];
/** Top-level folders that are neither copied to the test project nor compared. */
const IGNORED_FOLDERS = new Set(['.git', 'build', 'coverage', 'data', 'dist', 'node_modules']);

/** A copy of the project, in which the generator runs. */
let project: string;
/** The server for the tests in the copy, unless this test run already provides one. */
let postgres: PostgresServer | undefined;

interface CommandResult {
  readonly failed: boolean;
  readonly output: string;
}

function run(file: string, ...args: string[]): Promise<CommandResult> {
  const env = {
    ...process.env,
    CI: 'true',
    NO_COLOR: '1',
    DATABASE_URL: 'sqlite:data/test.sqlite',
    ...(postgres === undefined ? {} : { TEST_DATABASE_URL: postgres.url }),
  };
  return new Promise((resolve) => {
    execFile(
      file,
      args,
      { cwd: project, env, timeout: 600_000, maxBuffer: 64 * 1024 * 1024 },
      (error, stdout, stderr) =>
        resolve({
          failed: error !== null,
          output: stripVTControlCharacters(stdout + stderr),
        }),
    );
  });
}

const npm = (...args: string[]): Promise<CommandResult> => run('npm', 'run', '--silent', ...args);
const bin = (name: string): string => join(ROOT, 'node_modules', '.bin', name);
/** Runs only the generator: unlike `npm run generate`, without a build and the OpenAPI document. */
const generate = (...args: string[]): Promise<CommandResult> =>
  run(bin('schematics'), './schematics/collection.json:resource', '--no-debug', ...args);

/** Runs the `migrations` command of the build that `npm run generate` made. */
const migrate = (command: string): Promise<CommandResult> =>
  run(process.execPath, 'dist/cli/migrations.js', command);

/** Reads every file of the copy except build output and packages, by its path. */
async function readProject(): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  const folders = await readdir(project, { withFileTypes: true });
  for (const folder of ['.', ...folders.filter((entry) => entry.isDirectory()).map(getName)]) {
    if (IGNORED_FOLDERS.has(folder)) continue;
    const options = { recursive: folder !== '.', withFileTypes: true } as const;
    for (const entry of await readdir(join(project, folder), options)) {
      if (!entry.isFile()) continue;
      const path = join(entry.parentPath, entry.name);
      files.set(relative(project, path).split(sep).join('/'), await readFile(path, 'utf8'));
    }
  }
  return files;
}

const withoutTimestamps = (paths: string[]): string[] =>
  paths.map((path) => path.replace(/\d{13}/, '*')).toSorted();
/** Returns the ids of the workflows in a conformance file. */
const getWorkflows = (text: string): string[] =>
  [...text.matchAll(/workflowId: (\S+)/g)].map(([, id]) => id!);
const getName = ({ name }: { name: string }): string => name;

/** Returns which files of the copy differ from an earlier state, with `*` for timestamps. */
async function diffProject(before: Map<string, string>): Promise<{
  created: string[];
  updated: string[];
  deleted: string[];
}> {
  const after = await readProject();
  return {
    created: withoutTimestamps([...after.keys()].filter((path) => !before.has(path))),
    updated: withoutTimestamps(
      [...after]
        .filter(([path, text]) => (before.get(path) ?? text) !== text)
        .map(([path]) => path),
    ),
    deleted: withoutTimestamps([...before.keys()].filter((path) => !after.has(path))),
  };
}

const existing = ['pets/pet', 'store/order', 'pet-tags/pet-tag']
  .map((name) => `src/modules/${name}.entity.ts`)
  .filter((path) => existsSync(join(ROOT, path)));
const describeUnlessGenerated = existing.length > 0 ? describe.skip : describe;
if (existing.length > 0)
  process.stderr.write(`Skipped the generator tests: ${existing.join(', ')} already exists.\n`);

beforeAll(async () => {
  if (existing.length > 0) return;
  project = await mkdtemp(join(tmpdir(), 'petstore-generator-'));
  for (const name of await readdir(ROOT)) {
    if (IGNORED_FOLDERS.has(name)) continue;
    await cp(join(ROOT, name), join(project, name), { recursive: true });
  }
  // Linked one by one, so that caches are written to a folder of the copy.
  await mkdir(join(project, 'node_modules'));
  for (const name of await readdir(join(ROOT, 'node_modules'))) {
    if (name === '.cache' || name === '@petstore') continue;
    await symlink(join(ROOT, 'node_modules', name), join(project, 'node_modules', name));
  }
  await mkdir(join(project, 'node_modules', '@petstore'));
  await symlink(join(project, 'schematics'), join(project, 'node_modules/@petstore/schematics'));
  const { failed, output } = await npm('build:tools');
  if (failed) throw new Error(output);
}, 120_000);
afterAll(async () => {
  if (existing.length > 0) return;
  await postgres?.stop();
  await rm(project, { recursive: true, force: true });
});

describeUnlessGenerated('npm run generate', () => {
  it.each([
    ['a field without a type', 'things', 'name', /name: expected name:type/],
    ['an unknown type', 'things', 'name:colour', /unknown type, expected one of string/],
    ['an empty range', 'things', 'name:string(9..1)', /expected integers min\.\.max/],
    ['an enum without values', 'things', 'name:enum()', /expected values/],
    ['a duplicate field', 'things', 'a:text a:text', /duplicate field: a/],
    ['an id field', 'things', 'id:integer', /the service assigns the id/],
    [
      'a field that every object inherits',
      'things',
      'toString:text',
      /toString is a reserved name/,
    ],
    ['a date-time whose name is a keyword', 'things', 'new:date-time', /new is a reserved name/],
    ['an unknown reference', 'things', 'aId:ref(stores)', /stores is not an existing resource/],
    ['a name that the platform uses', 'revisions', 'name:text', /revisions is a reserved name/],
    ['an invalid name', 'Things', 'name:text', /Invalid name Things/],
    ['a singular name', 'thing', 'name:text', /Cannot derive the singular of thing/],
    [
      'an existing resource',
      'categories',
      'name:text',
      /src\/modules\/categories\/category\.entity\.ts already exists/,
    ],
  ])(
    'rejects %s and writes nothing',
    async (_case, name, fields, message) => {
      const before = await readProject();
      const result = await generate(name, '--fields', fields);
      expect(result).toEqual({ failed: true, output: expect.stringMatching(message) });
      expect(await readProject()).toEqual(before);
    },
    60_000,
  );

  it('rejects an unknown operation', async () => {
    expect(await generate(...PETS, '--operations', 'list,destroy')).toEqual({
      failed: true,
      output: expect.stringMatching(/Unknown operation "destroy", expected one of list, create/),
    });
  }, 60_000);

  it('lists the files and writes nothing with --dry-run', async () => {
    const before = await readProject();
    const { failed, output } = await generate(...PETS, '--dry-run');
    expect(output).toMatch(/CREATE src\/modules\/pets\/pet\.entity\.ts/);
    expect(failed).toBe(false);
    expect(await readProject()).toEqual(before);
  }, 60_000);

  it('adds a resource to an existing folder and replaces its stub operation', async () => {
    const before = await readProject();
    const { failed, output } = await generate(...PETS);
    expect(output).toMatch(/CREATE src\/modules\/pets\/pets\.service\.ts/);
    expect(output).toMatch(/UPDATE src\/modules\/pets\/pets\.controller\.ts/);
    expect(failed).toBe(false);
    expect(await diffProject(before)).toEqual({
      created: [
        'src/modules/pets/migrations/*-create-pets.ts',
        'src/modules/pets/pet.dto.ts',
        'src/modules/pets/pet.entity.ts',
        'src/modules/pets/pets.service.ts',
        'test/pets.test.ts',
      ],
      updated: [
        'conformance/pets.read.arazzo.yaml',
        'src/modules/pets/pets.controller.ts',
        'src/modules/pets/pets.module.ts',
      ],
      deleted: [],
    });
    const after = await readProject();
    expect(after.get('src/modules/pets/pets.module.ts')).toContain(
      `description: 'Operations on pets'`,
    );
    expect(after.get('src/modules/pets/pets.controller.ts')).toContain(
      `@Deprecated({ since: '2026-11-01', sunset: '2027-11-01' })`,
    );
    const conformance = 'conformance/pets.read.arazzo.yaml';
    expect(getWorkflows(after.get(conformance)!)).toEqual(
      getWorkflows(before.get(conformance)!).filter((id) => id !== 'not-implemented-getPet'),
    );
  }, 120_000);

  it('never overwrites a generated resource', async () => {
    const before = await readProject();
    expect(await generate(...PETS)).toEqual({
      failed: true,
      output: expect.stringMatching(/src\/modules\/pets\/pet\.entity\.ts already exists\./),
    });
    expect(await readProject()).toEqual(before);
  }, 60_000);

  it('adds a resource to the folder in its name', async () => {
    const before = await readProject();
    const { failed, output } = await generate(...ORDERS);
    expect(output).toMatch(/DELETE src\/modules\/store\/store\.controller\.ts/);
    expect(failed).toBe(false);
    expect(await diffProject(before)).toEqual({
      created: [
        'src/modules/store/migrations/*-create-orders.ts',
        'src/modules/store/order.dto.ts',
        'src/modules/store/order.entity.ts',
        'src/modules/store/orders.controller.ts',
        'src/modules/store/orders.service.ts',
        'test/orders.test.ts',
      ],
      updated: ['conformance/store.read.arazzo.yaml', 'src/modules/store/store.module.ts'],
      deleted: ['src/modules/store/store.controller.ts'],
    });
    const after = await readProject();
    expect(after.get('src/modules/store/orders.controller.ts')).toContain(
      `@Stability('experimental')`,
    );
    expect(after.get('src/modules/store/store.module.ts')).not.toContain('StoreController');
  }, 120_000);

  it('adds a new folder with one line in src/features.ts, and updates the OpenAPI document', async () => {
    const before = await readProject();
    const { failed, output } = await npm('generate', '--', 'resource', ...PET_TAGS);
    expect(output).toMatch(/UPDATE openapi\.json/);
    expect(failed).toBe(false);
    expect(await diffProject(before)).toEqual({
      created: [
        'src/modules/pet-tags/migrations/*-create-pet-tags.ts',
        'src/modules/pet-tags/pet-tag.dto.ts',
        'src/modules/pet-tags/pet-tag.entity.ts',
        'src/modules/pet-tags/pet-tags.controller.ts',
        'src/modules/pet-tags/pet-tags.module.ts',
        'src/modules/pet-tags/pet-tags.service.ts',
        'test/pet-tags.test.ts',
      ],
      updated: ['examples/petstore.d.ts', 'openapi.json', 'src/features.ts'],
      deleted: [],
    });
    const features = await readFile(join(project, 'src/features.ts'), 'utf8');
    expect(
      features.replace(/^import \{ PetTagsModule \} .*\n/m, '').replace(/,\s+PetTagsModule\b/, ''),
    ).toBe(before.get('src/features.ts'));
  }, 120_000);

  it('generates only the operations in --operations', async () => {
    const controller = await readFile(
      join(project, 'src/modules/pet-tags/pet-tags.controller.ts'),
      'utf8',
    );
    expect(controller).toMatch(/listPetTags/);
    expect(controller).toMatch(/createPetTag/);
    expect(controller).not.toMatch(/@Patch|@Delete|@Get\(':/);
  });

  it('is available as nest generate', async () => {
    // Without a terminal nest cannot prompt for the fields. That it requires them shows that it found
    // the collection.
    const { output } = await run(
      bin('nest'),
      'g',
      '-c',
      '@petstore/schematics',
      'resource',
      'toys',
    );
    expect(output).toMatch(/required property 'fields'/);
  }, 60_000);

  it('generates code that passes the type checker and the linters', async () => {
    for (const check of ['typecheck', 'lint', 'format:check', 'lint:openapi']) {
      const { failed, output } = await npm(check);
      expect({ check, problems: failed ? output : '' }).toEqual({ check, problems: '' });
    }
  }, 300_000);

  it('generates tests that pass on both databases, as the core tests still do', async () => {
    if (process.env['TEST_DATABASE_URL'] === undefined) postgres = await startPostgres();
    const { failed, output } = await npm(
      'test',
      '--',
      ...['pets', 'orders', 'pet-tags', ...CORE_TESTS].map((name) => `test/${name}.test.ts`),
    );
    if (failed) throw new Error(output);
    expect(output).toMatch(/Test Suites: 16 passed, 16 total/);
  }, 600_000);
});

describeUnlessGenerated('a service with generated resources', () => {
  let service: ServiceProcess;
  let url: string;
  beforeAll(async () => {
    const env = { BOOTSTRAP_API_KEY: KEY, DATABASE_URL: 'sqlite:data/test.sqlite' };
    // ServiceProcess starts `src/main.js` of a build; `npm run build` has no folder `src` in `dist`.
    service = await ServiceProcess.start(project, env, [], join(project, 'dist', 'main.js'));
    url = `${await service.waitUntilListening()}/v1`;
  }, 60_000);
  afterAll(() => service.stop());

  async function send(method: string, path: string, body?: object) {
    const response = await sendRequest(url + path, {
      method,
      headers: jsonHeaders(KEY),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = response.body.toString();
    return {
      status: response.status,
      body: (text === '' ? undefined : JSON.parse(text)) as unknown,
    };
  }

  it('enforces the references between categories, pets and orders', async () => {
    const category = await send('POST', '/categories', { name: 'dog' });
    const { id: categoryId } = category.body as { id: number };
    const pet = { name: 'Rex', status: 'available', chipped: true, age: 3, categoryId };
    expect(await send('POST', '/pets', { ...pet, categoryId: categoryId + 1 })).toMatchObject({
      status: 400,
      body: {
        code: 'VALIDATION_FAILED',
        message: 'categoryId must reference an existing category.',
      },
    });
    const created = await send('POST', '/pets', pet);
    const { id } = created.body as { id: number };
    expect(created).toEqual({ status: 201, body: { ...pet, id } });
    expect(await send('GET', '/pets')).toEqual({ status: 200, body: [{ ...pet, id }] });

    const order = { petId: id, quantity: 2, shipAt: '2026-12-01T08:00:00+01:00' };
    const createdOrder = await send('POST', '/store/orders', order);
    const { id: orderId } = createdOrder.body as { id: number };
    const inUtc = { ...order, id: orderId, shipAt: '2026-12-01T07:00:00.000Z' };
    expect(createdOrder).toEqual({ status: 201, body: inUtc });
    expect(await send('GET', '/store/orders')).toEqual({ status: 200, body: [inUtc] });
    expect(await send('DELETE', `/pets/${id}`)).toMatchObject({
      status: 409,
      body: { code: 'RESOURCE_IN_USE' },
    });
    expect(await send('DELETE', `/store/orders/${orderId}`)).toEqual({ status: 204 });
    expect(await send('DELETE', `/pets/${id}`)).toEqual({ status: 204 });
    expect(await send('GET', '/pets')).toEqual({ status: 200, body: [] });
    expect(await send('GET', `/pets/${id}`)).toMatchObject({ status: 404 });
  });

  it('documents the resources, with the lifecycle of the replaced stub operations', async () => {
    const { body } = await sendRequest(url.replace('/v1', '/openapi.json'));
    const { paths, tags } = JSON.parse(body.toString()) as {
      paths: Record<string, object>;
      tags: object[];
    };
    expect(tags.slice(1)).toEqual([
      { name: 'pets', description: 'Operations on pets' },
      { name: 'store', description: 'Operations on orders' },
      { name: 'pet-tags', description: 'Operations on pet tags' },
    ]);
    expect(paths['/pets']).toMatchObject({
      get: { operationId: 'listPets' },
      post: { operationId: 'createPet' },
    });
    expect(paths['/pets/{petId}']).toMatchObject({
      get: { operationId: 'getPet', deprecated: true, 'x-sunset': '2027-11-01' },
      patch: {
        operationId: 'updatePet',
        requestBody: {
          content: {
            'application/merge-patch+json': { schema: { $ref: '#/components/schemas/PetPatch' } },
          },
        },
      },
      delete: { operationId: 'deletePet', responses: { '409': expect.anything() } },
    });
    expect(paths['/store/orders']).toMatchObject({
      get: { operationId: 'listOrders', 'x-stability': 'experimental' },
    });
  });

  it('reverts the generated migrations, and applies them again', async () => {
    await service.stop();
    for (let count = 0; count < 3; count++) {
      const { failed, output } = await migrate('revert');
      expect(output).toContain('Reverted the last migration');
      expect(failed).toBe(false);
    }
    const { failed, output } = await migrate('run');
    expect(
      output
        .replaceAll(/\d{13}/g, '*')
        .trim()
        .split('\n'),
    ).toEqual([
      'Applied migration CreatePets*',
      'Applied migration CreateOrders*',
      'Applied migration CreatePetTags*',
    ]);
    expect(failed).toBe(false);
  }, 120_000);
});
