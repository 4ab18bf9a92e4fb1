/** Generates the modules of public documents, unedited, in a copy of the project, and uses them as a client does. */
import { existsSync } from 'node:fs';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createDatabase } from '../../../../test/support/app.js';
import { type CopyResult, getCommand, ProjectCopy } from '../../../../test/support/project-copy.js';
import { onEachConnection, RetryingClient } from '../../../../test/support/retrying-client.js';
import { BOOTSTRAP_KEY, createServices } from '../../../../test/support/service-process.js';

import.meta.jest.setTimeout(1_200_000);

const ROOT = join(import.meta.dirname, '..', '..', '..', '..');
const CONTRACTS = join(ROOT, '..', 'shared', 'contracts');
const isThere = existsSync(CONTRACTS);
if (!isThere) process.stderr.write(`Skipped tests that need ${CONTRACTS}\n`);
const describeContracts = isThere ? describe : describe.skip;

/** A request, and what the response must contain. `:name` in a path and in a body is a value of an earlier response. */
interface Step {
  readonly request: string;
  readonly body?: object;
  readonly status: number;
  readonly response?: object;
  /** Keeps a property of the response, by a name. */
  readonly keep?: Readonly<Record<string, string>>;
}

const PET = { name: 'Rex', photoUrls: ['a'], tags: [{ id: 1, name: 'b' }], status: 'available' };
const EVENT = {
  name: 'Tour',
  location: 'Hall',
  eventDescription: 'A tour.',
  dates: ['2026-11-23'],
  price: 9.5,
};

/** For each contract: how many operations are implemented, and the steps in which a client sees the effect of each. */
const SCENARIOS: Readonly<
  Record<string, { readonly implemented: number; readonly steps: readonly Step[] }>
> = {
  'swagger-petstore': {
    implemented: 12,
    steps: [
      { request: 'POST /pet', body: PET, status: 200, response: PET, keep: { pet: 'id' } },
      { request: 'GET /pet/:pet', status: 200, response: PET },
      {
        request: 'PUT /pet',
        body: { id: ':pet', name: 'Max', photoUrls: [], status: 'sold' },
        status: 200,
        response: { name: 'Max' },
      },
      { request: 'GET /pet/findByStatus?status=sold', status: 200, response: [{ name: 'Max' }] },
      { request: 'GET /pet/findByStatus?status=available', status: 200, response: [] },
      { request: 'DELETE /pet/:pet', status: 200 },
      { request: 'GET /pet/:pet', status: 404 },
      {
        request: 'POST /store/order',
        body: { petId: 7, quantity: 2 },
        status: 200,
        response: { quantity: 2 },
        keep: { order: 'id' },
      },
      { request: 'GET /store/order/:order', status: 200, response: { petId: 7 } },
      { request: 'DELETE /store/order/:order', status: 200 },
      { request: 'GET /store/order/:order', status: 404 },
      {
        request: 'POST /user',
        body: { username: 'ann', password: 'secret', phone: '1' },
        status: 200,
      },
      { request: 'POST /user', body: { username: 'ann' }, status: 409 },
      { request: 'GET /user/ann', status: 200, response: { username: 'ann', phone: '1' } },
      { request: 'PUT /user/ann', body: { username: 'ann', phone: '2' }, status: 200 },
      { request: 'GET /user/ann', status: 200, response: { phone: '2' } },
      { request: 'DELETE /user/ann', status: 200 },
      { request: 'GET /user/ann', status: 404 },
      { request: 'GET /store/inventory', status: 501 },
    ],
  },
  museum: {
    implemented: 5,
    steps: [
      {
        request: 'POST /special-events',
        body: EVENT,
        status: 201,
        response: EVENT,
        keep: { event: 'eventId' },
      },
      { request: 'GET /special-events/:event', status: 200, response: EVENT },
      {
        request: 'PATCH /special-events/:event',
        body: { price: 15 },
        status: 200,
        response: { ...EVENT, price: 15 },
      },
      { request: 'GET /special-events/:event', status: 200, response: { ...EVENT, price: 15 } },
      { request: 'DELETE /special-events/:event', status: 204 },
      { request: 'GET /special-events/:event', status: 404 },
      {
        request: 'POST /tickets',
        body: { ticketType: 'general', ticketDate: '2026-11-23', email: 'a@example.com' },
        status: 201,
        response: { ticketType: 'general' },
        keep: { ticket: 'ticketId' },
      },
      {
        request: 'POST /tickets',
        body: { ticketType: 'none', ticketDate: '2026-11-23' },
        status: 400,
      },
      { request: 'GET /tickets/:ticket/qr', status: 501 },
    ],
  },
  'oai-petstore': {
    implemented: 3,
    steps: [
      { request: 'POST /pets', body: { id: 7, name: 'Rex', tag: 'dog' }, status: 201 },
      { request: 'POST /pets', body: { id: 7, name: 'Max' }, status: 409 },
      { request: 'POST /pets', body: { id: 3, name: 'Max' }, status: 201 },
      {
        request: 'GET /pets',
        status: 200,
        response: [
          { id: 3, name: 'Max' },
          { id: 7, name: 'Rex', tag: 'dog' },
        ],
      },
      { request: 'GET /pets?limit=1', status: 200, response: [{ id: 3 }] },
      { request: 'GET /pets/7', status: 200, response: { id: 7, name: 'Rex', tag: 'dog' } },
      { request: 'GET /pets/8', status: 404 },
    ],
  },
  'oai-petstore-expanded': {
    implemented: 3,
    steps: [
      {
        request: 'POST /pets',
        body: { name: 'Rex', tag: 'dog' },
        status: 200,
        response: { name: 'Rex' },
        keep: { pet: 'id' },
      },
      { request: 'GET /pets/:pet', status: 200, response: { name: 'Rex', tag: 'dog' } },
      { request: 'DELETE /pets/:pet', status: 204 },
      { request: 'GET /pets/:pet', status: 404 },
    ],
  },
};

let copy: ProjectCopy;
beforeAll(async () => {
  copy = await ProjectCopy.create();
  await copy.git('init', '--quiet');
  await commit();
});
afterAll(() => copy.remove());

async function commit(): Promise<void> {
  await copy.git('add', '--all');
  await succeed(copy.git('commit', '--quiet', '--allow-empty', '--message', 'Test'));
}

/** @returns the output of a command, which must succeed */
async function succeed(command: Promise<CopyResult>): Promise<string> {
  const { failed, output } = await command;
  if (failed) throw new Error(output);
  return output;
}

const toFile = (contract: string): string => join(CONTRACTS, `${contract}.openapi.yaml`);
const generate = (path: string): Promise<string> =>
  succeed(copy.npm('generate', '--', 'from', path));
/** Without compiling the generator again. */
const generateAgain = (path: string): Promise<CopyResult> =>
  copy.run(process.execPath, ['build/generator/generate.js', 'from', path]);

/** Starts the service of the copy on a new database. */
async function serve(type: 'sqlite' | 'postgres') {
  const services = await createServices();
  const database = await createDatabase(type);
  const main = copy.resolve('dist/main.js');
  const { url } = await services.serve({ main, env: { DATABASE_URL: database.url } });
  const client = new RetryingClient(url, BOOTSTRAP_KEY);
  const close = async (): Promise<void> => {
    client.close();
    await services.close();
    await database.drop();
  };
  return { client, close };
}

async function runSteps(client: RetryingClient, steps: readonly Step[]): Promise<void> {
  const kept: Record<string, unknown> = {};
  const fill = (text: string): string =>
    text.replaceAll(/"?:([a-z]+)"?/g, (match, name: string) =>
      name in kept
        ? match.startsWith('"')
          ? JSON.stringify(kept[name])
          : String(kept[name])
        : match,
    );
  for (const { request, body, status, response, keep = {} } of steps) {
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
    for (const [name, property] of Object.entries(keep))
      kept[name] = result.json<Record<string, unknown>>()[property];
  }
}

describeContracts.each([
  // Each takes the place of the placeholder of pets.
  { contracts: ['swagger-petstore', 'museum', 'oai-petstore-expanded'], tests: [] },
  { contracts: ['oai-petstore'], tests: ['/test/oai-petstore', '/test/openapi'] },
])('the modules of $contracts', ({ contracts, tests }) => {
  beforeAll(async () => {
    await succeed(copy.git('reset', '--quiet', '--hard'));
    await succeed(copy.git('clean', '--quiet', '--force', '-d'));
  });

  it('are generated of the documents as they are', async () => {
    for (const contract of contracts) {
      const output = await generate(toFile(contract));
      const implemented = output.split('\n').filter((line) => line.endsWith(' implemented'));
      expect(implemented.length).toBeGreaterThanOrEqual(SCENARIOS[contract]!.implemented);
      expect(output).toContain(`CREATE src/modules/${contract}/${contract}.api.gen.ts`);
      expect(output).not.toContain('openapi.json was not updated');
    }
  });

  it('pass every check, and their tests on both databases', async () => {
    await succeed(copy.git('add', '--intent-to-add', '.'));
    const { output: changed } = await copy.git('diff', '--name-only', '--diff-filter=d', 'HEAD');
    const files = changed.trim().split('\n');
    const sources = files.filter((path) => path.endsWith('.ts'));
    await succeed(copy.npm('typecheck'));
    await succeed(copy.run(getCommand('oxlint'), ['--type-aware', '--deny-warnings', ...sources]));
    await succeed(copy.run(getCommand('depcruise'), ['src']));
    await succeed(copy.run(getCommand('prettier'), ['--check', ...files]));
    await succeed(copy.npm('lint:openapi'));
    for (const contract of contracts)
      expect(
        await succeed(copy.npm('openapi:check', '--', '--contract', toFile(contract))),
      ).toContain(': 0\n');
    // In the first copy, the whole fast tier.
    const output = await succeed(copy.npm('test', '--', ...tests));
    for (const contract of contracts)
      for (const database of ['sqlite', 'postgres'])
        expect(output).toContain(`PASS ${database} test/${contract}.databases.test.ts`);
  });

  it('stay as they are if the generator and npm run openapi run again', async () => {
    const { output: before } = await copy.git('diff');
    for (const contract of contracts)
      expect((await generateAgain(toFile(contract))).output).toContain('Nothing to write.');
    await succeed(copy.npm('openapi'));
    expect((await copy.git('diff')).output).toBe(before);
  });

  it.each(['sqlite', 'postgres'] as const)(
    'do on %s what each implemented operation says',
    async (type) => {
      const { client, close } = await serve(type);
      try {
        for (const contract of contracts)
          await expect(runSteps(client, SCENARIOS[contract]!.steps)).resolves.toBeUndefined();
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

describeContracts('a contract that changed', () => {
  const PATH = 'museum.openapi.yaml';
  beforeAll(async () => {
    await succeed(copy.git('reset', '--quiet', '--hard'));
    await succeed(copy.git('clean', '--quiet', '--force', '-d'));
    await cp(toFile('museum'), copy.resolve(PATH));
    await generate(PATH);
    await commit();
  });
  afterEach(async () => {
    await succeed(copy.git('reset', '--quiet', '--hard'));
    await succeed(copy.git('clean', '--quiet', '--force', '-d'));
  });

  it.each<{
    change: string;
    from: string;
    to: string;
    tells?: string;
    error?: RegExp;
  }>([
    {
      change: 'a tightened limit',
      from: '      description: Name of the special event.',
      to: '      maxLength: 80\n      description: Name of the special event.',
    },
    {
      change: 'a full stop in a summary',
      from: 'summary: Get special event\n',
      to: 'summary: Get special event.\n',
    },
    {
      change: 'a new optional property of a stub',
      from: '        timeOpen:\n',
      to: '        guide:\n          type: string\n        timeOpen:\n',
    },
    {
      change: 'a new optional property of a resource',
      from: '    SpecialEvent:\n      type: object\n      properties:\n',
      to: '    SpecialEvent:\n      type: object\n      properties:\n        guide:\n          type: string\n',
      tells: 'special-event.entity.ts: add guide',
      error: /museum\.service\.ts.*guide/s,
    },
    {
      change: 'a new operation',
      from: '  /tickets:\n',
      to: '  /exhibitions:\n    get:\n      operationId: countExhibitions\n      responses:\n        "204":\n          description: None.\n  /tickets:\n',
      tells: 'museum.service.ts: implement countExhibitions',
      error: /museum\.service\.ts.*countExhibitions/s,
    },
    {
      change: 'a renamed operationId',
      from: 'operationId: buyMuseumTickets',
      to: 'operationId: purchaseTickets',
      tells: 'museum.service.ts: implement purchaseTickets',
      error: /museum\.service\.ts.*purchaseTickets/s,
    },
    {
      change: 'a renamed property',
      from: '        location:\n',
      to: '        place:\n',
      tells: 'special-event.entity.ts: the contract has no location any more',
      error: /museum\.service\.ts.*place/s,
    },
  ])('ends as described: $change', async ({ from, to, tells = '', error = /^$/ }) => {
    const text = await readFile(copy.resolve(PATH), 'utf8');
    expect(text).toContain(from);
    await writeFile(
      copy.resolve(PATH),
      text
        .replaceAll(from, to)
        .replaceAll(/- location$/gm, to.includes('place') ? '- place' : '- location'),
    );
    const { failed, output } = await generateAgain(PATH);
    expect({ failed, output: failed ? output : '' }).toEqual({ failed: false, output: '' });
    expect(output).toContain(tells);
    const { output: status } = await copy.git('status', '--short', '--untracked-files=all', 'src');
    // Only a migration for new columns is added, as a draft.
    const files = [...status.matchAll(/src\/modules\/museum\/(\S+)/g)].map(([, file]) => file!);
    expect(files.filter((file) => !file.startsWith('migrations/'))).toEqual(['museum.api.gen.ts']);
    const types = await copy.npm('typecheck');
    expect(types.failed ? types.output : '').toMatch(error);
    expect((await generateAgain(PATH)).output).toContain('Nothing to write.');
  });
});
