import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, lstat, mkdir, mkdtemp, readdir, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { sendRequest, jsonHeaders } from './support/http-client.js';
import { type PostgresServer, startPostgres } from './support/postgres.js';
import { ServiceProcess } from './support/service-process.js';

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
/** Tests of the project that a new resource might break; those named sqlite run on it alone. */
const HOUSE = [
  'conventions',
  'openapi',
  'migrations',
  'published',
  'examples.sqlite',
  'conformance.sqlite',
];

/** A copy of the project, as a team that adds a module has it. */
let project: string;
/** For the tests of the copy; the run of both projects has one already. */
let postgres: PostgresServer | undefined;

interface Outcome {
  readonly failed: boolean;
  readonly output: string;
}

function run(file: string, ...options: string[]): Promise<Outcome> {
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
      options,
      { cwd: project, env, timeout: 600_000, maxBuffer: 64 * 1024 * 1024 },
      (error, stdout, stderr) =>
        resolve({
          failed: error !== null,
          output: stripVTControlCharacters(stdout + stderr),
        }),
    );
  });
}

const npm = (...options: string[]): Promise<Outcome> => run('npm', 'run', '--silent', ...options);
const bin = (name: string): string => join(ROOT, 'node_modules', '.bin', name);
/** The generator alone, without the build and the document that `npm run generate` makes besides. */
const schematic = (...options: string[]): Promise<Outcome> =>
  run(bin('schematics'), './schematics/collection.json:resource', '--no-debug', ...options);

/** Every file that is not of the build or of the packages. */
async function files(): Promise<Map<string, string>> {
  const found = new Map<string, string>();
  for (const folder of ['src', 'test', '.']) {
    const recursive = folder !== '.';
    for (const entry of await readdir(join(project, folder), { recursive, withFileTypes: true })) {
      const path = join(entry.parentPath, entry.name);
      if (entry.isFile()) found.set(path, await readFile(path, 'utf8'));
    }
  }
  return found;
}

const made = ['pets/pets', 'store/orders', 'pet-tags/pet-tags']
  .map((name) => `src/${name}.entity.ts`)
  .filter((path) => existsSync(join(ROOT, path)));
const suite = made.length > 0 ? describe.skip : describe;
if (made.length > 0) {
  process.stderr.write(`Skipped: the generator, which would make ${made.join(', ')} anew.\n`);
}

beforeAll(async () => {
  if (made.length > 0) return;
  project = await mkdtemp(join(tmpdir(), 'petstore-generator-'));
  for (const name of await readdir(ROOT)) {
    if (['.git', 'coverage', 'data', 'dist', 'node_modules'].includes(name)) continue;
    await cp(join(ROOT, name), join(project, name), { recursive: true });
  }
  // Linked one by one, so that caches go to a folder of the copy.
  await mkdir(join(project, 'node_modules'));
  for (const name of await readdir(join(ROOT, 'node_modules'))) {
    if (name === '.cache' || name === '@petstore') continue;
    await symlink(join(ROOT, 'node_modules', name), join(project, 'node_modules', name));
  }
  await mkdir(join(project, 'node_modules', '@petstore'));
  await symlink(join(project, 'schematics'), join(project, 'node_modules/@petstore/schematics'));
  const { failed, output } = await npm('build');
  if (failed) throw new Error(output);
}, 120_000);
afterAll(async () => {
  if (made.length > 0) return;
  await postgres?.stop();
  await rm(project, { recursive: true, force: true });
});

suite('The generator', () => {
  it.each([
    ['a field without a kind', 'things', 'name', /name is not name:kind/],
    ['an unknown kind', 'things', 'name:colour', /no kind that there is: string/],
    ['limits that are none', 'things', 'name:string(9..1)', /whole numbers from\.\.to/],
    ['an enum without values', 'things', 'name:enum()', /needs its values/],
    ['a field twice', 'things', 'a:text a:text', /a stands twice/],
    ['a field of every resource', 'things', 'id:integer', /the service assigns the id/],
    ['an unknown reference', 'things', 'aId:ref(nowheres)', /nowheres, which is no resource/],
    ['a folder of the house', 'errors', 'name:text', /no folder of a feature/],
    ['a resource that is there', 'categories', 'name:text', /Nothing is overwritten/],
  ])(
    'refuses %s, and writes nothing',
    async (_what, name, fields, message) => {
      const before = await files();
      const outcome = await schematic(name, '--fields', fields);
      expect(outcome).toEqual({ failed: true, output: expect.stringMatching(message) });
      expect(await files()).toEqual(before);
    },
    60_000,
  );

  it('refuses an unknown operation', async () => {
    const outcome = await schematic(...PETS, '--operations', 'list,destroy');
    expect(outcome).toEqual({
      failed: true,
      output: expect.stringMatching(/no operation destroy/),
    });
  }, 60_000);

  it('says what it would write, and writes nothing, with --dry-run', async () => {
    const before = await files();
    const { failed, output } = await schematic(...PETS, '--dry-run');
    expect(output).toMatch(/CREATE src\/pets\/pets\.entity\.ts/);
    expect(failed).toBe(false);
    expect(await files()).toEqual(before);
  }, 60_000);

  it('writes what it names, and refuses to write it twice', async () => {
    const { failed, output } = await schematic(...PETS);
    expect(output).toMatch(/CREATE src\/pets\/pets\.service\.ts/);
    expect(output).toMatch(/UPDATE src\/pets\/pets\.controller\.ts/);
    expect(failed).toBe(false);
    const written = [...output.matchAll(/^CREATE (\S+)/gm)].map(([, path]) => path!);
    expect(written.length).toBeGreaterThanOrEqual(5);
    for (const path of written) expect((await lstat(join(project, path))).isFile()).toBe(true);

    const before = await files();
    const again = await schematic(...PETS);
    expect(again).toEqual({
      failed: true,
      output: expect.stringMatching(/Nothing is overwritten/),
    });
    expect(await files()).toEqual(before);
  }, 120_000);

  it('extends a folder, in place of the operation that answered 501', async () => {
    const { failed, output } = await schematic(...ORDERS);
    expect(output).toMatch(/DELETE src\/store\/store\.controller\.ts/);
    expect(failed).toBe(false);
    const controller = await readFile(join(project, 'src/store/orders.controller.ts'), 'utf8');
    expect(controller).toContain(`@Stability('experimental')`);
  }, 120_000);

  it('writes only the operations that are asked for, and runs under nest generate', async () => {
    const tags = ['pet-tags', '--fields', 'name:string(1..20)', '--operations', 'list,create'];
    const { failed, output } = await npm('generate', '--', 'resource', ...tags);
    expect(output).toMatch(/UPDATE openapi\.json/);
    expect(failed).toBe(false);
    const controller = await readFile(join(project, 'src/pet-tags/pet-tags.controller.ts'), 'utf8');
    expect(controller).toMatch(/listPetTags/);
    expect(controller).not.toMatch(/@Patch|@Delete|@Get\(':/);
    // Without a terminal nest cannot ask for the fields; that it looked for them shows that it found us.
    const nest = await run(bin('nest'), 'g', '-c', '@petstore/schematics', 'resource', 'toys');
    expect(nest.output).toMatch(/required property 'fields'/);
  }, 120_000);

  it('writes what passes the checks of the project', async () => {
    for (const check of ['typecheck', 'lint', 'format:check', 'lint:openapi'])
      expect([check, await npm(check)]).toEqual([
        check,
        { failed: false, output: expect.any(String) },
      ]);
  }, 300_000);

  it('writes tests that pass on both databases, as do those of the project', async () => {
    if (process.env['TEST_DATABASE_URL'] === undefined) postgres = await startPostgres();
    const { failed, output } = await npm(
      'test',
      '--',
      ...['pets', 'orders', 'pet-tags', ...HOUSE].map((name) => `test/${name}.test.ts`),
    );
    if (failed) throw new Error(output);
    expect(output).toMatch(/Test Suites: 16 passed, 16 total/);
  }, 600_000);
});

suite('The generated resources', () => {
  let service: ServiceProcess;
  let url: string;
  beforeAll(async () => {
    const env = { BOOTSTRAP_API_KEY: KEY, DATABASE_URL: 'sqlite:data/test.sqlite' };
    service = await ServiceProcess.start(project, env, [], join(project, 'dist'));
    url = `${await service.waitUntilListening()}/v1`;
  }, 60_000);
  afterAll(() => service.stop());

  async function send(method: string, path: string, body?: object) {
    const answer = await sendRequest(url + path, {
      method,
      headers: jsonHeaders(KEY),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = answer.body.toString();
    return { status: answer.status, body: (text === '' ? undefined : JSON.parse(text)) as unknown };
  }

  it('are served beside those of the house', async () => {
    const category = await send('POST', '/categories', { name: 'dog' });
    const { id: categoryId } = category.body as { id: number };
    const pet = { name: 'Rex', status: 'available', chipped: true, age: 3, categoryId };
    expect(await send('POST', '/pets', { ...pet, categoryId: categoryId + 1 })).toMatchObject({
      status: 400,
      body: {
        code: 'VALIDATION_FAILED',
        message: 'categoryId must be the id of one of the categories.',
      },
    });
    const created = await send('POST', '/pets', pet);
    const { id } = created.body as { id: number };
    expect(created).toEqual({ status: 201, body: { ...pet, id } });
    expect(await send('GET', '/pets')).toEqual({ status: 200, body: [{ ...pet, id }] });

    const order = { petId: id, quantity: 2, shipAt: '2026-12-01T08:00:00+01:00' };
    const ordered = await send('POST', '/store/orders', order);
    const { id: orderId } = ordered.body as { id: number };
    const answered = { ...order, id: orderId, shipAt: '2026-12-01T07:00:00.000Z' };
    expect(ordered).toEqual({ status: 201, body: answered });
    expect(await send('DELETE', `/pets/${id}`)).toMatchObject({
      status: 409,
      body: { code: 'RESOURCE_IN_USE' },
    });
    expect(await send('DELETE', `/store/orders/${orderId}`)).toEqual({ status: 204 });
    expect(await send('DELETE', `/pets/${id}`)).toEqual({ status: 204 });
    expect(await send('GET', '/pets')).toEqual({ status: 200, body: [] });
    expect(await send('GET', `/pets/${id}`)).toMatchObject({ status: 404 });
  });

  it('are in the document, with what was published of them', async () => {
    const { body } = await sendRequest(url.replace('/v1', '/openapi.json'));
    const { paths } = JSON.parse(body.toString()) as { paths: Record<string, object> };
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

  it('leave with their migrations', async () => {
    await service.stop();
    for (const name of ['CreatePetTags', 'CreateOrders', 'CreatePets']) {
      const { failed, output } = await run(
        bin('typeorm'),
        'migration:revert',
        '-d',
        'dist/ormconfig.js',
      );
      expect(output).toMatch(
        new RegExp(`Migration ${name}\\d{13} has been +reverted successfully`),
      );
      expect(failed).toBe(false);
    }
  }, 120_000);
});
