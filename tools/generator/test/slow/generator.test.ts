import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { getBuiltFile } from '../../../../test/support/build.js';
import { jsonHeaders, sendRequest } from '../../../../test/support/http-client.js';
import { type PostgresServer, startPostgres } from '../../../../test/support/postgres.js';
import { type CopyResult, getCommand, ProjectCopy } from '../../../../test/support/project-copy.js';
import {
  BOOTSTRAP_KEY,
  createServices,
  type ServiceProcess,
  type Services,
} from '../../../../test/support/service-process.js';

const PETS = [
  'pets',
  '--fields',
  [
    'name:string(1..100) status:enum(available,pending,sold)=available categoryId:ref(categories)?',
    'bornAt:date-time? notes:text? weight:number? chipped:boolean=false age:integer(0..50) serial:integer?',
    'motherId:ref(pets)? chip:uuid?:unique price:decimal(8,2)? birthday:date? photo:uri?',
    'photoUrls:uri[0..5]=[] labels:{name:string(1..20) color:enum(red,blue)=red}[0..10]?',
    'address:{street:string(1..100) city:text? geo:{lat:number lng:number}?} stock:map(integer(0..9),5)',
    'password:string(8..100):write-only views:integer=0:read-only createdAt:date-time=now:read-only',
    'soldAt:date-time?:read-only',
  ].join(' '),
  '--operations',
  'list,create,read,replace,update,delete',
];
const ORDERS = [
  'store/orders',
  '--fields',
  'petId:ref(pets):filter quantity:integer(1..100) shipAt:date-time status:enum(placed,delivered):filter code:string(1..20)?:unique',
  '--operations',
  'list,create,read,replace,update,delete',
  '--pages',
  '--if-match',
];
const PET_TAGS = [
  'pet-tags',
  '--fields',
  'name:string(1..20):unique',
  '--operations',
  'list,create',
];
/** The tests that concern every operation, every table or every migration. */
const CORE_TESTS = ['openapi', 'authentication', 'migrations.databases', 'db-copy.postgres'];

/**
 * Runs the generator with the arguments in each message, and replies with the result: unlike
 * `npm run generate`, without starting a process, a build and the OpenAPI document each time.
 */
const GENERATOR = `
  import { Writable } from 'node:stream';
  import { main } from '@angular-devkit/schematics-cli/bin/schematics.js';
  process.on('message', async (args) => {
    let output = '';
    const stdout = new Writable({
      write(chunk, _encoding, done) {
        output += chunk;
        done();
      },
    });
    const code = await main({
      args: ['./tools/generator/collection.json:' + args[0], '--no-debug', ...args.slice(1)],
      stdout,
      stderr: stdout,
    });
    process.send({ failed: code !== 0, output });
  });
`;

/** A copy of the project, in which the generator runs. */
let copy: ProjectCopy;
/** Its directory. */
let project: string;
/** The files of the copy, by their paths, before the generator ran. */
let original: Map<string, string>;
let generator: ChildProcess;
/** The server for the tests in the copy, unless this test run already provides one. */
let postgres: PostgresServer | undefined;

const run = (file: string, ...args: string[]): Promise<CopyResult> =>
  copy.run(file, args, postgres === undefined ? {} : { TEST_DATABASE_URL: postgres.url });
const npm = (...args: string[]): Promise<CopyResult> => run('npm', 'run', '--silent', ...args);

const generate = (...args: string[]): Promise<CopyResult> => runSchematic('resource', ...args);
const remove = (...args: string[]): Promise<CopyResult> => runSchematic('remove', ...args);

async function runSchematic(...args: string[]): Promise<CopyResult> {
  generator.send(args);
  const [{ failed, output }] = (await once(generator, 'message')) as [CopyResult];
  return { failed, output: stripVTControlCharacters(output) };
}

const readProject = (): Promise<Map<string, string>> => copy.readFiles();

const withoutTimestamps = (paths: string[]): string[] =>
  paths.map((path) => path.replace(/\d{13}/, '*')).toSorted();

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

beforeAll(async () => {
  copy = await ProjectCopy.create();
  project = copy.directory;
  // It compiles the generator.
  await run(process.execPath, 'tools/generator/generate.js', 'resource', ...PETS, '--dry-run');
  original = await readProject();
  generator = spawn(process.execPath, ['--input-type=module', '--eval', GENERATOR], {
    cwd: project,
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
});
afterAll(async () => {
  generator.disconnect();
  await once(generator, 'exit');
  await postgres?.stop();
  await copy.remove();
});

describe('npm run generate', () => {
  it.each([
    [
      'a field without a type',
      'things',
      'name',
      /Invalid field name at position 5: expected name:type/,
    ],
    ['an unknown type', 'things', 'name:colour', /unknown type, expected one of string/],
    [
      'an unknown type in an object in an array',
      'things',
      'age:integer tags:{name:colour}[]',
      /Invalid field name at position 24: unknown type/,
    ],
    ['an object without its end', 'things', 'a:{b:text', /field a at position 10: expected \}/],
    ['no space between fields', 'things', 'a:text,b:text', /position 7: expected a space/],
    ['an invalid default', 'things', 'a:integer(1..3)=7', /position 17: 7 is not a valid value/],
    ['a default of an optional field', 'things', 'a:text?=b', /position 9: .* omit the \?/],
    ['an unknown modifier', 'things', 'a:text:hidden', /position 8: unknown modifier hidden/],
    [
      'a write-only filter',
      'things',
      'a:uuid:filter:write-only',
      /position 15: a write-only field has no other modifiers/,
    ],
    ['a read-only field without a value', 'things', 'a:text:read-only', /needs a default, or \?/],
    ['only read-only fields', 'things', 'a:text?:read-only', /A field that is not read-only is/],
    ['an array of no items', 'things', 'a:text[0..0]', /position 7: expected a number of items/],
    ['a map of objects', 'things', 'a:map({b:text})', /a map of objects is not supported/],
    ['a reference in an object', 'things', 'a:{b:ref(categories)}', /a reference cannot be a part/],
    [
      'two nested objects with the same class',
      'things',
      'tag:{a:text} tags:{b:text}[]',
      /position 14: the name of its type, ThingTag, is used already/,
    ],
    [
      'a field for the version of a merged object',
      'things',
      'a:{b:text} version:text',
      /The update of a needs a column version/,
    ],
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
    [
      'an enum whose type would be called as another class',
      'things',
      'patch:enum(a)',
      /the name of its type, ThingPatch, is used already/,
    ],
    [
      'a required reference to the same resource',
      'things',
      'thingId:ref(things)',
      /a reference to the same resource must be optional/,
    ],
    [
      'a name that hides a global object',
      'promises',
      'name:text',
      /promises cannot be used: the generated code needs Promise/,
    ],
    [
      'a name whose schema exists already',
      'new-categories',
      'name:text',
      /categories\/category\.dto\.ts already has a schema named NewCategory/,
    ],
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
  ])('rejects %s and writes nothing', async (_case, name, fields, message) => {
    const before = await readProject();
    const result = await generate(name, '--fields', fields);
    expect(result).toEqual({ failed: true, output: expect.stringMatching(message) });
    expect(await readProject()).toEqual(before);
  });

  it.each([
    ['the same requests', 'toys/:anyId', true],
    ['some of the same requests, where neither route is more specific', ':folder/7', true],
    ['fewer of the same requests', 'toys/7', false],
    ['more of the same requests', ':folder/:anyId', false],
  ])('checks for routes of other folders that match %s', async (_case, path, isRejected) => {
    const before = await readProject();
    const file = join(project, 'src/modules/store/shelves.controller.ts');
    await writeFile(
      file,
      `@Controller('${path}') class ShelvesController { @Get() getShelf(): void {} }`,
    );
    try {
      const { failed, output } = await generate('toys', '--fields', 'name:text', '--dry-run');
      const message = `GET /v1/toys/:id would match the same requests as /v1/${path} in src/modules/store/shelves.controller.ts.`;
      expect({ failed, output }).toEqual({
        failed: isRejected,
        output: expect.stringContaining(
          isRejected ? message : 'CREATE src/modules/toys/toy.dto.ts',
        ),
      });
    } finally {
      await rm(file);
    }
    expect(await readProject()).toEqual(before);
  });

  it('prints its own help', async () => {
    const { failed, output } = await npm('generate', '--', 'resource', '--help');
    expect(failed).toBe(false);
    for (const text of [
      '--fields',
      '--operations',
      '--singular',
      '--dry-run',
      'enum(a,b)',
      ':read-only',
    ])
      expect(output).toContain(text);
    expect(output).not.toMatch(/schematics|collection/);
  });

  it('rejects an unknown option and an unknown command', async () => {
    expect(await npm('generate', '--', 'resource', 'toys', '--field', 'a:text')).toEqual({
      failed: true,
      output: expect.stringContaining(`unknown option '--field'`),
    });
    expect(await npm('generate', '--', 'resources')).toMatchObject({ failed: true });
  });

  it('rejects an unknown operation', async () => {
    const args = ['things', '--fields', 'name:text', '--operations', 'list,destroy'];
    expect(await generate(...args)).toEqual({
      failed: true,
      output: expect.stringMatching(/Unknown operation "destroy", expected one of list, create/),
    });
  });

  it('lists the files and writes nothing with --dry-run', async () => {
    const before = await readProject();
    const { failed, output } = await npm('generate', '--', 'resource', ...PETS, '--dry-run');
    expect(output).toMatch(/^CREATE src\/modules\/pets\/pet\.entity\.ts$/m);
    expect(failed).toBe(false);
    expect(await readProject()).toEqual(before);
  });

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
        'test/pets.databases.test.ts',
      ],
      updated: ['src/modules/pets/pets.controller.ts', 'src/modules/pets/pets.module.ts'],
      deleted: ['test/pets.stubs.test.ts'],
    });
    const after = await readProject();
    expect(after.get('src/modules/pets/pets.module.ts')).toContain(
      `description: 'Operations on pets'`,
    );
    expect(after.get('src/modules/pets/pets.controller.ts')).toContain(
      `@Deprecated({ since: '2026-11-01', sunset: '2027-11-01' })`,
    );
  });

  it('never overwrites a generated resource', async () => {
    const before = await readProject();
    expect(await generate(...PETS)).toEqual({
      failed: true,
      output: expect.stringMatching(/src\/modules\/pets\/pet\.entity\.ts already exists\./),
    });
    expect(await readProject()).toEqual(before);
  });

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
        'test/orders.databases.test.ts',
      ],
      updated: ['src/modules/store/store.module.ts'],
      deleted: ['src/modules/store/store.controller.ts', 'test/store.stubs.test.ts'],
    });
    const after = await readProject();
    expect(after.get('src/modules/store/orders.controller.ts')).toContain(
      `@Stability('experimental')`,
    );
    expect(after.get('src/modules/store/store.module.ts')).not.toContain('StoreController');
  });

  it('restores a replaced stub when it removes a resource', async () => {
    const before = await readProject();
    expect(await remove('store/orders', '--dry-run')).toMatchObject({ failed: false });
    expect(await readProject()).toEqual(before);
    expect(await remove('store/orders')).toEqual({
      failed: false,
      output: expect.stringMatching(/CREATE src\/modules\/store\/store\.controller\.ts/),
    });
    const restored = await readProject();
    for (const path of [
      'src/modules/store/store.controller.ts',
      'src/modules/store/store.module.ts',
      'test/store.stubs.test.ts',
    ])
      expect(restored.get(path)).toBe(original.get(path));
    expect(await remove('store/orders')).toEqual({
      failed: true,
      output: expect.stringContaining('store/orders was not generated in this working copy'),
    });
    expect(await generate(...ORDERS)).toMatchObject({ failed: false });
  });

  it.each([
    ['is referenced', 'pets', /src\/modules\/store\/order\.entity\.ts references pets/, undefined],
    [
      'has a changed file',
      'store/orders',
      /src\/modules\/store\/order\.dto\.ts\. Add --discard-changes/,
      'src/modules/store/order.dto.ts',
    ],
    [
      'has a changed module',
      'store/orders',
      /src\/modules\/store\/store\.module\.ts\. Undo those changes/,
      'src/modules/store/store.module.ts',
    ],
  ])('does not remove a resource that %s', async (_case, name, message, changed) => {
    const text = changed === undefined ? '' : await readFile(join(project, changed), 'utf8');
    if (changed !== undefined) await writeFile(join(project, changed), `${text}// changed\n`);
    const before = await readProject();
    expect(await remove(name)).toEqual({ failed: true, output: expect.stringMatching(message) });
    expect(await readProject()).toEqual(before);
    if (changed !== undefined) await writeFile(join(project, changed), text);
  });

  it('discards changes of generated files with --discard-changes', async () => {
    const before = await readProject();
    await generate('toys', '--fields', 'name:text');
    await writeFile(join(project, 'src/modules/toys/toy.dto.ts'), '');
    expect(await remove('toys')).toMatchObject({ failed: true });
    expect(await remove('toys', '--discard-changes')).toMatchObject({ failed: false });
    expect(await readProject()).toEqual(before);
  });

  it('does not remove a committed resource', async () => {
    await generate('toys', '--fields', 'name:text');
    await copy.git('init', '--quiet');
    await copy.git('add', 'src');
    await copy.git('commit', '--quiet', '--message', 'Add toys');
    const before = await readProject();
    expect(await remove('toys')).toEqual({
      failed: true,
      output: expect.stringMatching(/src\/modules\/toys\/\S+ is committed/),
    });
    expect(await readProject()).toEqual(before);
    await rm(join(project, '.git'), { recursive: true });
    expect(await remove('toys')).toMatchObject({ failed: false });
  });

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
        'test/pet-tags.databases.test.ts',
      ],
      updated: ['examples/petstore.d.ts', 'openapi.json', 'src/features.ts'],
      deleted: [],
    });
    const features = await readFile(join(project, 'src/features.ts'), 'utf8');
    expect(
      features.replace(/^import \{ PetTagsModule \} .*\n/m, '').replace(/,\s+PetTagsModule\b/, ''),
    ).toBe(before.get('src/features.ts'));
  });

  it('generates only the operations in --operations', async () => {
    const controller = await readFile(
      join(project, 'src/modules/pet-tags/pet-tags.controller.ts'),
      'utf8',
    );
    expect(controller).toMatch(/listPetTags/);
    expect(controller).toMatch(/createPetTag/);
    expect(controller).not.toMatch(/@Patch|@Delete|@Get\(':/);
  });

  /** Names whose classes or variables collide with imports, variables or keywords. */
  const COLLIDING_NAMES =
    'posts requests flags checks columns bodies gets features entities apps responses classes rows changes repositories controllers'.split(
      ' ',
    );
  const NOUNS = ['a user', 'an hour', 'an animal', 'a unicorn', 'an umbrella', 'a cage'];

  it('generates code that compiles, whatever the resource is called, and removes it', async () => {
    const before = await readProject();
    const nouns = NOUNS.map((noun) => `${noun.split(' ')[1]!}s`);
    for (const name of [...COLLIDING_NAMES, ...nouns]) {
      const fields =
        'name:string(1..9) kind:enum(a,b) madeAt:date-time categoryId:ref(categories)? parts:{size:number}[] box:{lid:text?} key:uuid:write-only';
      const operations = 'list,create,read,replace,update,delete';
      const args = ['--fields', fields, '--operations', operations];
      const { failed, output } = await generate(name, ...args);
      expect(failed ? output : '').toBe('');
    }
    const after = await readProject();
    const controllers = [...after].filter(([path]) => path.endsWith('.controller.ts'));
    for (const noun of NOUNS) {
      expect(controllers.some(([, text]) => text.includes(`summary: 'Create ${noun}'`))).toBe(true);
    }
    const { failed, output } = await npm('typecheck');
    expect(failed ? output : '').toBe('');
    // Not in the reverse order: src/features.ts is edited.
    for (const name of [...COLLIDING_NAMES, ...nouns]) {
      expect(await remove(name)).toMatchObject({ failed: false });
    }
    expect(await readProject()).toEqual(before);
  });

  it('is available as nest generate', async () => {
    // Without a terminal nest cannot prompt for the fields. That it requires them shows that it found
    // the collection.
    const { output } = await run(
      getCommand('nest'),
      'g',
      '-c',
      '@petstore/schematics',
      'resource',
      'toys',
    );
    expect(output).toMatch(/required property 'fields'/);
  });

  it('generates code that passes the type checker, the linters, its tests and the core tests', async () => {
    if (process.env['TEST_DATABASE_URL'] === undefined) postgres = await startPostgres();
    const after = await readProject();
    const changed = [...after.keys()].filter((path) => after.get(path) !== original.get(path));
    const sources = changed.filter((path) => path.endsWith('.ts'));
    const tests = sources.filter((path) => path.startsWith('test/'));
    const coreTests = CORE_TESTS.map((name) => `test/${name}.test.ts`);
    const checks = {
      typecheck: npm('typecheck'),
      lint: npm('lint', '--', ...sources),
      'lint:openapi': npm('lint:openapi'),
      format: run(getCommand('prettier'), '--check', ...changed),
      // More workers would compete with the other checks.
      test: npm('test', '--', '--maxWorkers=2', ...tests, ...coreTests),
    };
    for (const [check, result] of Object.entries(checks)) {
      const { failed, output } = await result;
      expect({ check, problems: failed ? output : '' }).toEqual({ check, problems: '' });
    }
    const { output } = await checks.test;
    for (const file of coreTests) expect(output).toContain(file);
    for (const file of tests) {
      expect(output).toContain(`PASS sqlite ${file}`);
      expect(output).toContain(`PASS postgres ${file}`);
    }
  }, 600_000);
});

describe('a service with generated resources', () => {
  let services: Services;
  let service: ServiceProcess;
  let url: string;
  beforeAll(async () => {
    services = await createServices();
    ({ service, url } = await services.serve({ main: join(project, 'dist', 'main.js') }));
  });
  afterAll(() => services.close());

  async function send(method: string, path: string, body?: object) {
    const { status, text } = await sendRequest(`${url}/v1${path}`, {
      method,
      headers: jsonHeaders(BOOTSTRAP_KEY),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status, body: text === '' ? undefined : (JSON.parse(text) as unknown) };
  }

  it('applies the migrations in the order in which they were generated', () => {
    const applied = service.output.matchAll(/Applied migration ([A-Za-z]+)/g);
    expect([...applied].map(([, name]) => name).slice(-3)).toEqual([
      'CreatePets',
      'CreateOrders',
      'CreatePetTags',
    ]);
  });

  it('enforces the references between categories, pets and orders', async () => {
    const category = await send('POST', '/categories', { name: 'dog' });
    const { id: categoryId } = category.body as { id: number };
    const pet = { name: 'Rex', age: 3, categoryId, address: { street: 'Main St' }, stock: {} };
    const body = { ...pet, password: 'kept secret' };
    expect(await send('POST', '/pets', { ...body, categoryId: categoryId + 1 })).toMatchObject({
      status: 400,
      body: {
        code: 'VALIDATION_FAILED',
        message: 'categoryId must reference an existing resource.',
      },
    });
    const created = await send('POST', '/pets', body);
    const { id } = created.body as { id: number };
    const assigned = { id, views: 0, createdAt: expect.any(String) };
    const defaults = { status: 'available', chipped: false, photoUrls: [] };
    const stored = { ...pet, ...defaults, ...assigned };
    expect(created).toEqual({ status: 201, body: stored });
    expect(await send('GET', '/pets')).toEqual({ status: 200, body: [stored] });

    const order = {
      petId: id,
      quantity: 2,
      shipAt: '2026-12-01T08:00:00+01:00',
      status: 'placed',
    };
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

  it('passes the conformance check', async () => {
    const args = ['--base-url', `${url}/v1`, '--key', BOOTSTRAP_KEY];
    // The command is that of this project, the workflows are those of the copy.
    const command = getBuiltFile('tools/openapi/conformance.js');
    const { failed, output } = await run(process.execPath, command, ...args);
    expect(failed ? output : '').toBe('');
  });

  it('documents the resources, with the lifecycle of the replaced stub operations', async () => {
    const { paths, tags } = (await sendRequest(`${url}/openapi.json`)).json<{
      paths: Record<string, object>;
      tags: object[];
    }>();
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
      put: { operationId: 'replacePet', responses: { '409': expect.anything() } },
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
});
