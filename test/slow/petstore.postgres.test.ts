/** Builds the Petstore of test/slow/fixtures/petstore in a copy of the project, and checks it under load. */
import { cp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createDataSource } from '../../src/data-source.js';
import { createDatabase, type TestDatabase } from '../support/app.js';
import { getBuiltFile } from '../support/build.js';
import type { HttpResponse } from '../support/http-client.js';
import { type CopyResult, getCommand, ProjectCopy } from '../support/project-copy.js';
import { CONNECTIONS, onEachConnection, RetryingClient } from '../support/retrying-client.js';
import { dumpSchema } from '../support/schema-dump.js';
import { BOOTSTRAP_KEY, createServices, type Services } from '../support/service-process.js';

import.meta.jest.setTimeout(600_000);

const ROOT = join(import.meta.dirname, '..', '..');
const FIXTURE = join(import.meta.dirname, 'fixtures', 'petstore');
const MIGRATIONS = [
  'CreatePets1790000000100',
  'CreateOrders1790000000200',
  'CreateUsers1790000000300',
];
/** The tests that concern every operation or every migration. */
const CORE_TESTS = ['openapi', 'authentication', 'migrations.databases'];

let copy: ProjectCopy;
let services: Services;
const databases: TestDatabase[] = [];
beforeAll(async () => {
  copy = await ProjectCopy.create();
  services = await createServices();
  await cp(join(FIXTURE, 'src'), copy.resolve('src'), { recursive: true });
  // What a team does by hand: it registers the new module, and deletes the tests of the placeholders.
  const features = await readFile(copy.resolve('src/features.ts'), 'utf8');
  await writeFile(
    copy.resolve('src/features.ts'),
    features
      .replace('\n\n', `\nimport { UsersModule } from './modules/users/users.module.js';\n\n`)
      .replace('\n];', '\n  UsersModule,\n];'),
  );
  for (const module of ['pets', 'store']) await rm(copy.resolve(`test/${module}.stubs.test.ts`));
  // It also builds the service.
  const { failed, output } = await copy.npm('openapi');
  if (failed) throw new Error(output);
});
afterAll(async () => {
  await services.close();
  for (const database of databases) await database.drop();
  await copy.remove();
});

async function create(type: 'sqlite' | 'postgres'): Promise<TestDatabase> {
  const database = await createDatabase(type);
  databases.push(database);
  return database;
}

/** Runs a command of src/cli in the copy. */
const runCli = (name: string, args: readonly string[], url?: string): Promise<CopyResult> =>
  copy.run(
    process.execPath,
    [copy.resolve(`dist/cli/${name}.js`), ...args],
    url === undefined ? {} : { DATABASE_URL: url },
  );

interface Pet {
  readonly id: number;
  readonly name: string;
  readonly category?: { readonly id: number; readonly name: string };
  readonly photoUrls: readonly string[];
  readonly tags: readonly { readonly id: number; readonly name: string }[];
  readonly status: string;
}
interface Order {
  readonly id: number;
  readonly petId: number;
}

/** Returns a body in which the other properties can be derived from the name. */
const toBody = (name: string) => ({
  name,
  photoUrls: [`https://example.com/${name}`],
  tags: [{ name: `${name}.a` }, { name: `${name}.b` }],
});

/** Whether the properties of a pet belong together; see {@link toBody}. */
const isWhole = ({ name, photoUrls, tags }: Pet): boolean =>
  photoUrls.join() === `https://example.com/${name}` &&
  tags.map((tag) => tag.name).join() === `${name}.a,${name}.b`;

/** Sends requests to the Petstore. */
class Client extends RetryingClient {
  readonly torn: Pet[] = [];

  /** @returns the body of the response, which must have the status */
  async request<T = unknown>(
    status: number,
    method: string,
    path: string,
    body?: object,
  ): Promise<T> {
    const response = await this.send(method, path, body);
    if (response.status !== status)
      throw new Error(`${method} ${path}: ${response.status} ${response.text}`);
    return response.json<T>();
  }

  /** Reads pets, and records those whose properties do not belong together. */
  async readPets(path: string): Promise<Pet[]> {
    const pets = [await this.request<Pet | Pet[]>(200, 'GET', path)].flat();
    this.torn.push(...pets.filter((pet) => !isWhole(pet)));
    return pets;
  }

  /** Returns all items of a list, page by page. */
  async readAll<T>(path: string): Promise<T[]> {
    const items: T[] = [];
    for (let query = '?limit=50'; ;) {
      const response = await this.send('GET', path + query);
      items.push(...response.json<T[]>());
      const link = response.headers.link as string | undefined;
      if (link === undefined) return items;
      query = /^<(.*)>; rel="next"$/.exec(link)![1]!;
    }
  }
}

describe('the Petstore on the platform', () => {
  it('passes the linters, the type checker and the core tests', async () => {
    const tests = CORE_TESTS.map((name) => `test/${name}.test.ts`);
    const checks = {
      typecheck: copy.npm('typecheck'),
      // The layers of .oxlintrc.json apply only in this folder, not in that of the fixture.
      lint: copy.npm('lint', '--', 'src'),
      format: copy.run(getCommand('prettier'), ['--check', 'src']),
      'lint:openapi': copy.npm('lint:openapi'),
      'openapi:check': copy.run(process.execPath, [
        getBuiltFile('tools/openapi/openapi-check.js'),
        '--against',
        join(ROOT, 'openapi.json'),
      ]),
      // More workers would compete with the other checks.
      test: copy.npm('test', '--', '--maxWorkers=2', ...tests),
    };
    for (const [check, result] of Object.entries(checks)) {
      const { failed, output } = await result;
      expect({ check, problems: failed ? output : '' }).toEqual({ check, problems: '' });
    }
    const { output } = await checks.test;
    for (const file of tests) expect(output).toContain(`PASS sqlite ${file}`);
  });

  it.each(['sqlite', 'postgres'] as const)(
    'has migrations that revert to the schema before: %s',
    async (type) => {
      const database = await create(type);
      const dataSource = createDataSource(database.config);
      await dataSource.initialize();
      try {
        await dataSource.migrate();
        const before = await dumpSchema(dataSource);
        expect((await runCli('migrations', ['run'], database.url)).output).toBe(
          MIGRATIONS.map((name) => `Applied migration ${name}\n`).join(''),
        );
        expect(await dumpSchema(dataSource)).not.toEqual(before);
        for (const name of MIGRATIONS.toReversed()) {
          const { failed } = await runCli('migrations', ['revert'], database.url);
          expect({ name, failed }).toEqual({ name, failed: false });
        }
        expect(await dumpSchema(dataSource)).toEqual(before);
      } finally {
        await dataSource.destroy();
      }
    },
  );
});

describe.each(['sqlite', 'postgres'] as const)('the Petstore at 64 connections on %s', (type) => {
  let database: TestDatabase;
  let client: Client;
  let categories: { readonly id: number; readonly name: string }[];
  beforeAll(async () => {
    database = await create(type);
    const { url } = await services.serve({
      main: copy.resolve('dist/main.js'),
      env: { DATABASE_URL: database.url },
    });
    client = new Client(url, BOOTSTRAP_KEY);
    categories = await Promise.all(
      ['dog', 'cat', 'rabbit'].map((name) =>
        client.request<{ id: number; name: string }>(201, 'POST', '/categories', { name }),
      ),
    );
  });
  afterAll(() => client.close());

  it('stores every acknowledged pet once, with exactly its own tags, and counts it', async () => {
    const created: Pet[] = [];
    await onEachConnection(async (number) => {
      for (const turn of [0, 1]) {
        const category = categories[number % 3]!;
        const status = ['available', 'pending', 'sold'][(number + turn) % 3]!;
        const body = { ...toBody(`pet-${number}-${turn}`), category: { id: category.id }, status };
        const pet = await client.request<Pet>(201, 'POST', '/pets', body);
        expect(pet).toEqual({
          ...body,
          id: expect.any(Number),
          category: { id: category.id, name: category.name },
          tags: body.tags.map(({ name }) => ({ id: expect.any(Number), name })),
        });
        created.push(pet);
        expect(await client.readPets(`/pets/${pet.id}`)).toEqual([pet]);
        expect(await client.readPets(`/pets/findByTags?tags=${pet.tags[1]!.name}`)).toContainEqual(
          pet,
        );
        await client.readPets(`/pets/findByStatus?status=${status}&limit=100`);
      }
    });
    const pets = await client.readAll<Pet>('/pets');
    expect(pets.map(({ id }) => id)).toEqual(
      [...new Set(pets.map(({ id }) => id))].toSorted((a, b) => a - b),
    );
    expect(pets).toEqual(expect.arrayContaining(created));
    // A create that got 503 may have been executed.
    const repeated = [...client.unavailable.values()].reduce((sum, count) => sum + count, 0);
    expect(pets.length).toBeLessThanOrEqual(created.length + repeated);
    expect(client.torn).toEqual([]);

    const counts: Record<string, number> = {};
    for (const { status } of pets) counts[status] = (counts[status] ?? 0) + 1;
    expect(await client.request(200, 'GET', '/store/inventory')).toEqual(counts);
  });

  it('does not mix concurrent patches', async () => {
    const pets = await Promise.all(
      [0, 1, 2, 3].map((number) =>
        client.request<Pet>(201, 'POST', '/pets', toBody(`patched-${number}`)),
      ),
    );
    const names = await onEachConnection(async (number) => {
      const { id } = pets[number % pets.length]!;
      const name = `patched-${id}-by-${number}`;
      const patched = await client.request<Pet>(200, 'PATCH', `/pets/${id}`, toBody(name));
      expect({ ...patched, isWhole: isWhole(patched) }).toMatchObject({ id, name, isWhole: true });
      await client.readPets(`/pets?after=${pets[0]!.id - 1}`);
      return name;
    });
    for (const { id } of pets) {
      const [pet] = await client.readPets(`/pets/${id}`);
      expect(names).toContain(pet!.name);
    }
    expect(client.torn).toEqual([]);

    // Patches of other properties are not lost.
    const { id } = pets[0]!;
    const { name, ...parts } = toBody('final');
    const patches = [{ name }, parts, { status: 'sold' }, { category: { id: categories[1]!.id } }];
    await onEachConnection((number) =>
      client.request(200, 'PATCH', `/pets/${id}`, patches[number % 4]),
    );
    expect(await client.readPets(`/pets/${id}`)).toMatchObject([
      { ...toBody('final'), status: 'sold', category: categories[1] },
    ]);
  });

  it('replaces a pet, and rejects a category that does not exist', async () => {
    const { id } = await client.request<Pet>(201, 'POST', '/pets', {
      ...toBody('replaced'),
      category: { id: categories[0]!.id },
    });
    const replacement = { name: 'new', photoUrls: [] };
    const replaced = { id, ...replacement, tags: [], status: 'available' };
    expect(await client.request(200, 'PUT', `/pets/${id}`, replacement)).toEqual(replaced);
    for (const [method, path] of [
      ['POST', '/pets'],
      ['PATCH', `/pets/${id}`],
    ] as const) {
      const body = { ...toBody('rejected'), category: { id: 999_999 } };
      expect(await client.request(400, method, path, body)).toMatchObject({
        message: 'category.id must reference an existing category.',
      });
    }
    expect(await client.request(200, 'GET', `/pets/${id}`)).toEqual(replaced);
    expect(await client.request(200, 'GET', '/pets/findByTags?tags=rejected.a')).toEqual([]);
    expect((await client.send('DELETE', `/pets/${id}`)).status).toBe(204);
    expect((await client.send('GET', `/pets/${id}`)).status).toBe(404);
  });

  it('returns the bytes of every uploaded image', async () => {
    const { id } = await client.request<Pet>(201, 'POST', '/pets', toBody('photographed'));
    const headers = {
      authorization: `Bearer ${BOOTSTRAP_KEY}`,
      'content-type': 'application/octet-stream',
    };
    await onEachConnection(async (number) => {
      const content = Buffer.alloc(10_000, number + 1);
      const path = `/pets/${id}/uploadImage`;
      const image = (await client.send('POST', path, content, headers)).json<{ id: number }>();
      expect(image).toEqual({ id: expect.any(Number), petId: id, size: 10_000 });
      const { body } = await client.send('GET', `/pets/${id}/images/${image.id}`);
      expect(body.equals(content)).toBe(true);
    });
  });

  it('either orders or deletes a pet, and lists every acknowledged order', async () => {
    // Every other pet may be deleted first.
    const kept = await client.request<Pet>(201, 'POST', '/pets', toBody('kept'));
    await client.request(201, 'POST', '/store/orders', { petId: kept.id, quantity: 1 });
    await onEachConnection(async (number) => {
      const { id } = await client.request<Pet>(201, 'POST', '/pets', toBody(`ordered-${number}`));
      const order = { petId: id, quantity: 1 };
      const [ordered, deleted] = await Promise.all([
        client.send('POST', '/store/orders', order),
        client.send('DELETE', `/pets/${id}`),
      ]);
      // 404 if the first attempt got 503, but was executed.
      expect(['201 409', '400 204', '400 404']).toContain(`${ordered.status} ${deleted.status}`);
      const orders = await client.request<Order[]>(200, 'GET', '/store/orders?limit=100');
      const own = orders.filter(({ petId }) => petId === id).map((listed) => listed.id);
      expect(own.length > 0).toBe(ordered.status === 201);
      expect(own.includes(ordered.json<Order>().id)).toBe(ordered.status === 201);
    });
  });

  it('never gives a user name twice', async () => {
    const results = await onEachConnection(async (number) => {
      const username = `user-${number % 16}`;
      const body = { username, password: `password-${number}` };
      const { status, text } = await client.send('POST', '/users', body);
      expect(text).not.toMatch(/password/);
      return { ...body, status };
    });
    expect(new Set(results.map(({ status }) => status))).toEqual(new Set([201, 409]));
    const winners = results.filter(({ status }) => status === 201);
    const names = winners.map(({ username }) => username);
    expect(new Set(names).size).toBe(names.length);
    // One request of each name gets 201, unless it got 503 first, but was executed.
    const unavailable = [...client.unavailable.keys()].filter((body) => body.includes('user-'));
    expect(names.length + unavailable.length).toBeGreaterThanOrEqual(16);
    for (const { username, password } of winners) {
      const headers = { 'content-type': 'application/json' };
      const logIn = async (attempt: string): Promise<HttpResponse> =>
        client.send('POST', '/users/login', { username, password: attempt }, headers);
      const { status, text } = await logIn(password);
      expect([status, JSON.parse(text)]).toEqual([
        200,
        { id: expect.any(Number), username, userStatus: 0 },
      ]);
      expect((await logIn(`${password}?`)).status).toBe(401);
    }
  });
});

/** Returns everything that the service returns from a database. */
async function readLists({ url: databaseUrl }: TestDatabase) {
  const { url } = await services.serve({
    main: copy.resolve('dist/main.js'),
    env: { DATABASE_URL: databaseUrl },
  });
  const client = new Client(url, BOOTSTRAP_KEY);
  try {
    return {
      categories: await client.request<object[]>(200, 'GET', '/categories'),
      pets: await client.readAll('/pets'),
      orders: await client.readAll('/store/orders'),
      users: await Promise.all(
        Array.from({ length: 16 }, (_, number) =>
          client.request(200, 'GET', `/users/user-${number}`),
        ),
      ),
      inventory: await client.request(200, 'GET', '/store/inventory'),
    };
  } finally {
    client.close();
  }
}
describe('npm run db:copy', () => {
  it('copies the Petstore from SQLite to PostgreSQL', async () => {
    const [, , source] = databases;
    const target = await create('postgres');
    for (const service of services.started) await service.stop();
    const { failed, output } = await runCli('db-copy', ['--from', source!.url, '--to', target.url]);
    expect(failed ? output : '').toBe('');
    const [before, after] = await Promise.all([source!, target].map(readLists));
    expect(before!.pets.length).toBeGreaterThan(2 * CONNECTIONS);
    expect(before!.orders.length).toBeGreaterThan(0);
    expect(before!.users).toHaveLength(16);
    expect(after).toEqual(before);
  });
});
