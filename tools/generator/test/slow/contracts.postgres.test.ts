/** Generates the modules of public documents, unedited, in a copy of the project, and uses them as a client does. */
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { driveContract } from '../../../../test/platform/support/contract-driver.js';
import { requires } from '../../../../test/platform/support/requirements.js';
import {
  onEachConnection,
  RetryingClient,
} from '../../../../test/platform/support/retrying-client.js';
import { BOOTSTRAP_KEY } from '../../../../test/platform/support/service-process.js';
import { Guide } from './guide.js';

import.meta.jest.setTimeout(1_800_000);

const ROOT = join(import.meta.dirname, '..', '..', '..', '..');
const CONTRACTS = join(ROOT, '..', 'shared', 'contracts');
const isThere = existsSync(CONTRACTS);
const published = requires(CONTRACTS, isThere);

/**
 * A request, and what the response must contain. `:name` in a path and in a body is the property of the last response
 * to a POST.
 */
interface Step {
  readonly request: string;
  readonly body?: object;
  /** 200 by default. */
  readonly status?: number;
  readonly response?: object;
}

const PET = { name: 'Rex', photoUrls: ['a'], tags: [{ id: 1, name: 'b' }], status: 'available' };
const MAX = { name: 'Max', photoUrls: [], status: 'sold' };
const ORDER = { petId: 7, quantity: 2 };
const EVENT = {
  name: 'Tour',
  location: 'Hall',
  eventDescription: 'A tour.',
  dates: ['2026-11-23'],
  price: 9.5,
};
const CHEAPER = { ...EVENT, price: 5 };
const TICKET = { ticketType: 'general', ticketDate: '2026-11-23', email: 'a@example.com' };
const DOG = { id: 7, name: 'Rex', tag: 'dog' };

/** For each contract: how many operations are implemented, and the steps in which a client sees the effect of each. */
const SCENARIOS: Readonly<
  Record<string, { readonly implemented: number; readonly steps: readonly Step[] }>
> = {
  'swagger-petstore': {
    implemented: 12,
    steps: [
      { request: 'POST /pet', body: PET, response: PET },
      { request: 'GET /pet/:id', response: PET },
      { request: 'PUT /pet', body: { id: ':id', ...MAX }, response: MAX },
      { request: 'GET /pet/findByStatus?status=sold', response: [MAX] },
      { request: 'GET /pet/findByStatus?status=available', response: [] },
      { request: 'DELETE /pet/:id' },
      { request: 'GET /pet/:id', status: 404 },
      { request: 'POST /store/order', body: ORDER, response: ORDER },
      { request: 'GET /store/order/:id', response: ORDER },
      { request: 'DELETE /store/order/:id' },
      { request: 'GET /store/order/:id', status: 404 },
      { request: 'POST /user', body: { username: 'ann', password: 'secret', phone: '1' } },
      { request: 'POST /user', body: { username: 'ann' }, status: 409 },
      { request: 'GET /user/ann', response: { username: 'ann', phone: '1' } },
      { request: 'PUT /user/ann', body: { username: 'ann', phone: '2' } },
      { request: 'GET /user/ann', response: { phone: '2' } },
      { request: 'DELETE /user/ann' },
      { request: 'GET /user/ann', status: 404 },
      { request: 'GET /store/inventory', status: 501 },
    ],
  },
  museum: {
    implemented: 5,
    steps: [
      { request: 'POST /special-events', body: EVENT, status: 201, response: EVENT },
      { request: 'GET /special-events', response: [EVENT] },
      { request: 'GET /special-events?startDate=2026-11-23', status: 501 },
      { request: 'GET /special-events/:eventId', response: EVENT },
      { request: 'PATCH /special-events/:eventId', body: { price: 5 }, response: CHEAPER },
      { request: 'GET /special-events/:eventId', response: CHEAPER },
      { request: 'DELETE /special-events/:eventId', status: 204 },
      { request: 'GET /special-events/:eventId', status: 404 },
      { request: 'POST /tickets', body: { ...TICKET, ticketType: 'none' }, status: 400 },
      { request: 'POST /tickets', body: TICKET, status: 501 },
      { request: 'GET /tickets/:ticketId/qr', status: 501 },
    ],
  },
  'oai-petstore': {
    implemented: 3,
    steps: [
      { request: 'POST /pets', body: DOG, status: 201 },
      { request: 'POST /pets', body: { id: 7, name: 'Max' }, status: 409 },
      { request: 'POST /pets', body: { id: 3, name: 'Max' }, status: 201 },
      { request: 'GET /pets', response: [{ id: 3, name: 'Max' }, DOG] },
      { request: 'GET /pets?limit=1', response: [{ id: 3 }] },
      { request: 'GET /pets/7', response: DOG },
      { request: 'GET /pets/8', status: 404 },
    ],
  },
  'oai-petstore-expanded': {
    implemented: 4,
    steps: [
      { request: 'GET /pets?tags=a', status: 501 },
      { request: 'GET /pets?limit=5', response: [] },
      { request: 'POST /pets', body: { name: 'Rex', tag: 'dog' }, response: { name: 'Rex' } },
      { request: 'GET /pets/:id', response: { name: 'Rex', tag: 'dog' } },
      { request: 'DELETE /pets/:id', status: 204 },
      { request: 'GET /pets/:id', status: 404 },
    ],
  },
};

let guide: Guide;
let folder: string;
beforeAll(async () => {
  guide = await Guide.create();
  folder = await mkdtemp(join(tmpdir(), 'petstore-contracts-'));
  if (!isThere) return;
  const text = await readFile(join(CONTRACTS, 'oai-petstore.openapi.yaml'), 'utf8');
  const marked = text.replace('    post:\n', '$&      x-resource: true\n');
  await writeFile(toFile('oai-petstore'), marked);
});
afterAll(async () => {
  await guide.copy.remove();
  await rm(folder, { recursive: true });
});

/** Returns to the last commit. */
async function reset(): Promise<void> {
  await guide.git('reset', '--quiet', '--hard');
  await guide.git('clean', '--quiet', '--force', '-d');
}

/** As it was published, but that pets are stored although nothing changes them. */
const toFile = (contract: string): string =>
  contract === 'oai-petstore'
    ? join(folder, 'oai-petstore.openapi.yaml')
    : join(CONTRACTS, `${contract}.openapi.yaml`);
async function runSteps(client: RetryingClient, steps: readonly Step[]): Promise<void> {
  let created: Record<string, unknown> = {};
  const fill = (text: string): string =>
    text
      .replaceAll(/":(\w+)"/g, (_match, name: string) => JSON.stringify(created[name]))
      .replaceAll(/(?<=\/):(\w+)/g, (_match, name: string) => String(created[name]));
  for (const { request, body, status = 200, response } of steps) {
    const [method, path] = fill(request).split(' ');
    const sent = body && (JSON.parse(fill(JSON.stringify(body))) as object);
    const result = await client.send(method!, path!, sent);
    expect({ request, status: result.status, text: result.text }).toEqual({
      request,
      status,
      text: expect.anything(),
    });
    expect(response === undefined ? {} : result.json()).toMatchObject(response ?? {});
    expect(result.text).not.toContain('secret');
    if (method === 'POST' && response !== undefined) created = result.json();
  }
}

published.describe.each([
  // Each takes the place of the placeholder of pets.
  { contracts: ['swagger-petstore', 'museum', 'oai-petstore-expanded'], tests: [] },
  { contracts: ['oai-petstore'], tests: ['/test/oai-petstore', '/test/openapi'] },
])('the modules of $contracts', ({ contracts, tests }) => {
  beforeAll(reset);

  it('are generated of the documents as they are', async () => {
    for (const contract of contracts) {
      const output = await guide.generate(toFile(contract));
      const implemented = output
        .split('\n')
        .filter((line) => / implemented(,| without|$)/.test(line));
      expect(implemented.length).toBeGreaterThanOrEqual(SCENARIOS[contract]!.implemented);
      expect(output).toContain(`CREATE src/modules/${contract}/${contract}.api.gen.ts`);
      expect(output).not.toContain('openapi.json was not updated');
    }
  });

  it('pass every check, and their tests on both databases', async () => {
    const files = contracts.map((contract) => [contract, toFile(contract)]);
    // In the first copy, the whole fast tier.
    expect(await guide.check(Object.fromEntries(files) as Record<string, string>, tests)).toEqual(
      [],
    );
  });

  it('stay as they are if the generator and npm run openapi run again', async () => {
    const before = await guide.git('diff');
    for (const contract of contracts)
      expect(await guide.generateAgain(toFile(contract))).toContain('Nothing to write.');
    await guide.npm('openapi');
    expect(await guide.git('diff')).toBe(before);
  });

  it.each(['sqlite', 'postgres'] as const)(
    'do on %s what each implemented operation says',
    async (type) => {
      const { client, url, close } = await guide.serve(type);
      try {
        for (const contract of contracts)
          await expect(runSteps(client, SCENARIOS[contract]!.steps)).resolves.toBeUndefined();
        for (const contract of contracts) {
          const result = await driveContract(toFile(contract), `${url}/v1`, BOOTSTRAP_KEY);
          expect(result.differences).toEqual([]);
          expect(result.requested.length).toBeGreaterThanOrEqual(SCENARIOS[contract]!.implemented);
        }
        if (contracts.includes('swagger-petstore')) await changePetsConcurrently(client);
      } finally {
        await close();
      }
    },
  );
});

/** Creates, lists, replaces and deletes pets on 64 connections: nothing is lost, nothing is torn. */
async function changePetsConcurrently(client: RetryingClient): Promise<void> {
  interface Pet {
    readonly id: number;
    readonly name: string;
  }
  const ids = await onEachConnection(async (number) => {
    const status = ['available', 'pending', 'sold'][number % 3]!;
    const body = { ...PET, name: `pet-${number}`, status };
    const created = await client.send('POST', '/pet', body);
    expect([created.status, created.json()]).toEqual([200, { ...body, id: expect.any(Number) }]);
    const pet = created.json<Pet>();
    const list = await client.send('GET', `/pet/findByStatus?status=${status}`);
    expect(list.json<Pet[]>()).toContainEqual(pet);
    const changed = { ...pet, name: `changed-${number}`, photoUrls: [String(number)] };
    expect((await client.send('PUT', '/pet', changed)).json()).toEqual(changed);
    expect((await client.send('GET', `/pet/${pet.id}`)).json()).toEqual(changed);
    return pet.id;
  });
  expect(new Set(ids).size).toBe(ids.length);
  await onEachConnection(async (number) => {
    // 404 if an attempt got 503, but was executed.
    expect([200, 404]).toContain((await client.send('DELETE', `/pet/${ids[number]}`)).status);
    expect((await client.send('GET', `/pet/${ids[number]}`)).status).toBe(404);
    const username = `user-${number % 16}`;
    const { status } = await client.send('POST', '/user', { username, phone: String(number) });
    expect([200, 409]).toContain(status);
    expect((await client.send('GET', `/user/${username}`)).json()).toMatchObject({ username });
  });
}

published.describe('the placeholder of pets', () => {
  const FILE = 'src/modules/pets/pets.controller.ts';
  let start: string;
  beforeAll(async () => {
    start = (await guide.git('rev-parse', 'HEAD')).trim();
  });
  // Before each, because the tests above leave their modules; and after all, because the last one commits.
  const restart = async (): Promise<void> => {
    await guide.git('reset', '--quiet', '--hard', start);
    await guide.git('clean', '--quiet', '--force', '-d');
    await guide.git('clean', '--quiet', '--force', '-d', '-x', 'src');
  };
  beforeEach(restart);
  afterAll(restart);

  it.each<[string, () => Promise<unknown>, boolean]>([
    ['is deleted as it is', () => Promise.resolve(), true],
    ['is kept with a change', () => guide.edit(FILE, { 'Get a pet': 'Get one pet' }), false],
    [
      'is kept with a file that git ignores',
      () => guide.write('src/modules/pets/.env', 'A=1'),
      false,
    ],
    [
      'is kept with an operation written by hand',
      async () => {
        const operation =
          "@Get()\n  listPets(): string[] {\n    return [];\n  }\n\n  @Get(':petId')";
        await guide.edit(FILE, { "@Get(':petId')": operation });
        await guide.commit('Add pets');
      },
      false,
    ],
  ])('%s', async (_name, change, isDeleted) => {
    await change();
    const output = await guide.npm('generate', '--', 'from', toFile('oai-petstore'), '--dry-run');
    expect(output.includes(`DELETE ${FILE}`)).toBe(isDeleted);
    const line = 'left out: another module of the service has it';
    expect(output.includes(line)).toBe(!isDeleted);
  });
});

published.describe('a contract that changed', () => {
  const PATH = 'museum.openapi.json';
  let contract: string;
  beforeAll(async () => {
    await reset();
    contract = JSON.stringify(parse(await readFile(toFile('museum'), 'utf8')));
    await guide.write(PATH, contract);
    await guide.generate(PATH);
    await guide.commit('Add museum');
  });
  afterEach(reset);

  /** Parts of the contract, what takes their place, what the report names, and the property or method that TypeScript names. */
  it.each<[change: string, before: string, after: string, task?: string, name?: string]>([
    ['a tightened limit', '"Name of the special event."', '"Name.","maxLength":80'],
    ['a full stop in a summary', '"Get special event"', '"Get special event."'],
    ['a new optional property of a stub', '"timeOpen":{', '"guide":{"type":"string"},"timeOpen":{'],
    [
      'a new optional property of a resource',
      '"SpecialEvent":{"type":"object","properties":{',
      '"SpecialEvent":{"type":"object","properties":{"guide":{"type":"string"},',
      'special-event.entity.ts: add guide',
      'guide',
    ],
    [
      'a new operation',
      '"/tickets":{',
      '"/exhibitions":{"get":{"operationId":"countExhibitions","responses":{"204":{"description":"None."}}}},"/tickets":{',
      'museum.service.ts: implement countExhibitions',
      'countExhibitions',
    ],
    [
      'a renamed operationId',
      '"buyMuseumTickets"',
      '"purchaseTickets"',
      'museum.service.ts: implement purchaseTickets',
      'purchaseTickets',
    ],
    [
      'a renamed property',
      '"location"',
      '"place"',
      'special-event.entity.ts: the contract has no location any more',
      'place',
    ],
  ])('ends as described: %s', async (_change, before, after, task = '', name?) => {
    expect(contract).toContain(before);
    await guide.write(PATH, contract.replaceAll(before, after));
    expect(await guide.generateAgain(PATH)).toContain(task);
    const status = await guide.git('status', '--short', '--untracked-files=all', 'src');
    // Only a migration for new columns is added, as a draft.
    const files = [...status.matchAll(/src\/modules\/museum\/(\S+)/g)].map(([, file]) => file!);
    expect(files.filter((file) => !file.startsWith('migrations/'))).toEqual(['museum.api.gen.ts']);
    const { failed, output } = await guide.copy.npm('typecheck');
    expect(failed ? output : '').toMatch(
      name === undefined ? /^$/ : new RegExp(`museum\\.service\\.ts.*${name}`, 's'),
    );
    expect(await guide.generateAgain(PATH)).toContain('Nothing to write.');
  });

  it('keeps what is added to its operations, for the guard and in the document', async () => {
    const file = 'src/modules/museum/museum.decorators.ts';
    const edit = (table: string): Promise<void> => guide.edit(file, { '= {}': `= ${table}` });
    await edit('{ unknownOperation: [] }');
    const { failed, output } = await guide.copy.npm('typecheck');
    expect([failed, output]).toEqual([true, expect.stringContaining('unknownOperation')]);
    await guide.git('checkout', file);
    await edit('{ listSpecialEvents: [Public()], getMuseumHours: [RequireScope("write")] }');
    const code = await readFile(guide.copy.resolve(file), 'utf8');
    await guide.writeCode(file, code.replace(/^import .*\n/, ''));
    expect(await guide.generateAgain(PATH)).not.toContain('museum.decorators.ts');
    await guide.npm('openapi');
    const { paths } = JSON.parse(await readFile(guide.copy.resolve('openapi.json'), 'utf8')) as {
      paths: Record<string, { get: object }>;
    };
    expect(paths['/special-events']!.get).toMatchObject({ security: [] });
    expect(paths['/museum-hours']!.get).toMatchObject({ 'x-required-scope': 'write' });
    const { client, close } = await guide.serve('sqlite');
    const responses = ['/special-events', '/museum-hours'].map((path) =>
      client.send('GET', path, undefined, {}),
    );
    const statuses = (await Promise.all(responses)).map(({ status }) => status);
    await close();
    expect(statuses).toEqual([200, 401]);
  });
});
