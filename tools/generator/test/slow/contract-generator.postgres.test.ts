/** Generates modules of three contracts in a copy of the project, and checks them under load. */
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { createDatabase, type TestDatabase } from '../../../../test/support/app.js';
import { type CopyResult, getCommand, ProjectCopy } from '../../../../test/support/project-copy.js';
import { onEachConnection, RetryingClient } from '../../../../test/support/retrying-client.js';
import {
  BOOTSTRAP_KEY,
  createServices,
  type Services,
} from '../../../../test/support/service-process.js';

import.meta.jest.setTimeout(600_000);

const FIXTURES = join(import.meta.dirname, '..', 'fixtures');
/** The public Swagger Petstore; OpenAPI 3.1 with allOf and nested arrays; 3.0 with path-level parameters. */
const CONTRACTS = ['petstore.openapi.yaml', 'library.openapi.yaml', 'tracker.openapi.json'];
/* oxlint-disable-next-line typescript/no-explicit-any -- the tests change arbitrary parts of a document */
type Document = any;

let copy: ProjectCopy;
/** The commit before the generator ran. */
let initial: string;
let services: Services;
let petstore: Document;
const databases: TestDatabase[] = [];
beforeAll(async () => {
  copy = await ProjectCopy.create();
  services = await createServices();
  for (const name of CONTRACTS) await cp(join(FIXTURES, name), copy.resolve(name));
  petstore = parse(await readFile(join(FIXTURES, CONTRACTS[0]!), 'utf8'));
  await copy.git('init', '--quiet');
  await commit();
  initial = (await copy.git('rev-parse', 'HEAD')).output.trim();
});
afterAll(async () => {
  await services.close();
  for (const database of databases) await database.drop();
  await copy.remove();
});

const commit = async (): Promise<void> => {
  await copy.git('add', '--all');
  const { failed, output } = await copy.git('commit', '--quiet', '--message', 'Test');
  if (failed) throw new Error(output);
};
const getChanges = async (): Promise<string> => (await copy.git('status', '--short')).output;
const generate = (...args: readonly string[]): Promise<CopyResult> =>
  copy.run(process.execPath, ['tools/generator/generate.js', 'from', ...args]);
const read = (path: string): Promise<string> => readFile(copy.resolve(path), 'utf8');

/** Replaces a text in a file of the copy, which must contain it. */
async function edit(path: string, text: string, replacement: string): Promise<void> {
  const before = await read(path);
  expect(before).toContain(text);
  await writeFile(copy.resolve(path), before.replace(text, replacement));
}

describe('npm run generate -- from', () => {
  it('writes nothing for a contract that it cannot use, and names the file, the place and the reason', async () => {
    const cases: [string, (d: Document) => void][] = [
      [
        '#/components/schemas/Tag/properties/name/oneOf: oneOf is not supported.',
        (d) => (d.components.schemas.Tag.properties.name = { oneOf: [{ type: 'string' }] }),
      ],
      [
        '#/components/parameters/petId/in: Cookies are not supported.',
        (d) => (d.components.parameters.petId.in = 'cookie'),
      ],
      [
        '#/paths/~1user~1logout/get/requestBody: A body is not supported for GET.',
        (d) =>
          (d.paths['/user/logout'].get.requestBody = { $ref: '#/components/requestBodies/Pet' }),
      ],
      [
        "#/components/schemas/Pet/properties/tags/items: Can't resolve $ref",
        (d) => delete d.components.schemas.Tag,
      ],
      [
        'Every operation must have a unique `operationId`.',
        (d) => (d.paths['/user'].post.operationId = 'addPet'),
      ],
      [
        '#/paths/~1user/post/operationId: src/modules/categories/categories.controller.ts has the operation listCategories.',
        (d) => (d.paths['/user'].post.operationId = 'listCategories'),
      ],
      [
        '#/paths/~1categories/get: GET /v1/categories exists in src/modules/categories/categories.controller.ts',
        (d) => {
          const operation = { ...d.paths['/user/logout'].get, operationId: 'getKinds' };
          d.paths['/categories'] = { get: operation };
        },
      ],
      [
        '#/components/schemas/Category: The class Category exists in src/modules/categories/category.dto.ts.',
        (d) => (d.components.schemas.Category = d.components.schemas.Tag),
      ],
      [
        'Schemas that refer to each other are not supported: ',
        (d) => {
          d.components.schemas.Tag.properties.pet = { $ref: '#/components/schemas/Pet' };
        },
      ],
    ];
    const check = async ([message, change]: (typeof cases)[number], index: number) => {
      const document = structuredClone(petstore);
      change(document);
      const file = `broken-${index}.openapi.yaml`;
      await writeFile(copy.resolve(file), stringify(document));
      const { failed, output } = await generate(file);
      expect({ failed, output }).toEqual({
        failed: true,
        output: expect.stringContaining(`${file}#/`),
      });
      expect(output).toContain(message);
    };
    // The first one compiles the generator.
    await check(cases[0]!, 0);
    await Promise.all(cases.slice(1).map((item, index) => check(item, index + 1)));
    await copy.git('clean', '--force', '--quiet', 'broken-*');
    expect(await getChanges()).toBe('');
  });

  it('asks how properties are stored, and implements their resource after the decision', async () => {
    const { output } = await generate(CONTRACTS[0]!, '--dry-run');
    expect(output).toContain('placeOrder returns 501: decide how petId of Order is stored');
    expect(output).toContain('CREATE src/modules/petstore/petstore.storage.yaml');
    for (const module of ['petstore', 'library'])
      await mkdir(copy.resolve(`src/modules/${module}`), { recursive: true });
    const links = 'Member:\n  categoryIds: references categories\n';
    await writeFile(copy.resolve('src/modules/library/library.storage.yaml'), links);
    expect((await generate(CONTRACTS[1]!, '--dry-run')).output).toContain(
      'categoryIds cannot reference categories: store the array as column',
    );
    for (const module of ['petstore', 'library']) {
      const folder = `src/modules/${module}`;
      const name = `${module}.storage.yaml`;
      await cp(join(FIXTURES, name), copy.resolve(`${folder}/${name}`));
    }
    // Like generate.js, but without openapi.json, which is written after the next change.
    for (const contract of CONTRACTS) {
      const args = ['./tools/generator/collection.json:from', contract, '--no-debug'];
      const { failed, output: text } = await copy.run(getCommand('schematics'), args);
      expect({ failed, output: failed ? text : '' }).toEqual({ failed: false, output: '' });
      expect(text).not.toMatch(/(placeOrder|findMembersByLevel) returns 501/);
    }
    expect(await readdir(copy.resolve('src/modules/petstore/migrations'))).toHaveLength(3);
    await commit();
  });

  it('writes nothing if it runs again', async () => {
    const { output } = await generate(...CONTRACTS, '--dry-run');
    expect(output.match(/Nothing to be done/g)).toHaveLength(CONTRACTS.length);
  });

  it('adds what is new in a contract with a migration, and leaves what was written by hand', async () => {
    await edit(
      'library.openapi.yaml',
      '        newsletter: ',
      `        nickname: { type: string, maxLength: 30 }
        shelf: { type: integer, format: int32, default: 3 }
        bookId: { type: integer, format: int64 }
        newsletter: `,
    );
    await edit(
      'library.openapi.yaml',
      '        - { name: level, in: query,',
      `        - { name: nickname, in: query, schema: { type: string, maxLength: 30 } }
        - { name: level, in: query,`,
    );
    await edit(
      'tracker.openapi.json',
      '"204": { "description": "The label is deleted." }',
      '"204": { "description": "The label is deleted." }, "default": { "description": "Any error." }',
    );
    await edit('src/modules/library/member.dto.ts', '  return {', '  // By hand.\n  return {');
    await commit();
    // The table exists, so nothing is written before the decision.
    const undecided = await generate(...CONTRACTS);
    expect(undecided).toMatchObject({ failed: true });
    expect(undecided.output).toContain(
      'library.storage.yaml#/Member/bookId: decide how it is stored',
    );
    expect(await getChanges()).toBe('');
    await edit('src/modules/library/library.storage.yaml', 'Member:', 'Member:\n  bookId: column');
    const { failed, output } = await generate(...CONTRACTS);
    expect({ failed, output: failed ? output : '' }).toEqual({ failed: false, output: '' });
    const changes = await getChanges();
    expect(changes).toMatch(/\?\? src\/modules\/library\/migrations\/\d+-change-members\.ts/);
    expect(changes).not.toContain('src/modules/petstore');
    expect(await read('src/modules/library/member.dto.ts')).toMatch(/By hand\.\n[^}]*nickname: /);
    expect(await read('src/modules/tracker/labels.controller.ts')).toContain('labels.delete(name)');
    expect(await read('test/tracker.contract.test.ts')).not.toContain('/v1/labels/');
  });

  it('generates what passes every check that it can break, and its own tests on both databases', async () => {
    // The other tests do not depend on the modules; .ci/run has them.
    const names = [
      'petstore',
      'library',
      'tracker',
      'openapi.test',
      'authentication',
      'migrations.databases',
    ];
    // The path of the copy contains such names, too.
    const tests = names.map((name) => `/test/${name}`);
    await copy.git('add', '--intent-to-add', '.');
    const paths = ['src', 'test', 'examples', 'openapi.json'];
    const diff = ['diff', '--name-only', '--diff-filter=d', initial, '--', ...paths];
    const { output: files } = await copy.git(...diff);
    const changed = files.trim().split('\n');
    expect(changed).toContain('src/modules/library/members.service.ts');
    const sources = changed.filter((path) => path.endsWith('.ts'));
    const runChecks = async (): Promise<Record<string, CopyResult>> => ({
      lint: await copy.run(getCommand('oxlint'), ['--type-aware', '--deny-warnings', ...sources]),
      format: await copy.run(getCommand('prettier'), ['--check', ...changed]),
      // It also checks the types.
      build: await copy.npm('build:tools'),
      'lint:openapi': await copy.npm('lint:openapi'),
    });
    const [checks, test] = await Promise.all([
      runChecks(),
      copy.npm('test', '--', '--maxWorkers=2', ...tests),
    ]);
    for (const [check, { failed, output }] of Object.entries({ ...checks, test }))
      expect({ check, problems: failed ? output : '' }).toEqual({ check, problems: '' });
    for (const file of ['petstore.pets', 'petstore.users', 'library.members', 'tracker.labels']) {
      for (const database of ['sqlite', 'postgres'])
        expect(test.output).toContain(`PASS ${database} test/${file}.databases.test.ts`);
    }
    for (const contract of CONTRACTS) {
      const args = ['build/tools/openapi/openapi-check.js', '--contract', contract];
      expect(await copy.run(process.execPath, args)).toEqual({
        failed: false,
        output: `Differences from ${contract}: 0\n`,
      });
    }
  });
});

interface Pet {
  readonly id: number;
  readonly name: string;
}

describe.each(['sqlite', 'postgres'] as const)(
  'the generated Petstore at 64 connections on %s',
  (type) => {
    let client: RetryingClient;
    beforeAll(async () => {
      const database = await createDatabase(type);
      databases.push(database);
      const main = copy.resolve('dist/main.js');
      const { url } = await services.serve({ main, env: { DATABASE_URL: database.url } });
      client = new RetryingClient(url, BOOTSTRAP_KEY);
    });
    afterAll(() => client.close());

    it('stores, lists, replaces and deletes every pet as it was acknowledged', async () => {
      const ids = await onEachConnection(async (number) => {
        const status = ['available', 'pending', 'sold'][number % 3]!;
        const body = {
          name: `pet-${number}`,
          photoUrls: ['a'],
          tags: [{ id: 1, name: 'b' }],
          status,
        };
        const created = await client.send('POST', '/pet', body);
        expect([created.status, created.json()]).toEqual([
          200,
          { ...body, id: expect.any(Number) },
        ]);
        const pet = created.json<Pet>();
        const list = await client.send('GET', `/pet/findByStatus?status=${status}`);
        expect(list.json<Pet[]>()).toContainEqual(pet);
        const changed = { ...pet, name: `changed-${number}`, status: 'sold' };
        expect((await client.send('PUT', '/pet', changed)).json()).toEqual(changed);
        expect((await client.send('GET', `/pet/${pet.id}`)).json()).toEqual(changed);
        const others = await client.send('GET', `/pet/findByStatus?status=${status}`);
        const names = others.json<Pet[]>().map(({ name }) => name);
        expect(names).not.toContain(pet.name);
        return pet.id;
      });
      const deleted = ids.filter((_id, index) => index % 2 === 0);
      const statuses = await Promise.all(
        deleted.map(async (id) => {
          const { status } = await client.send('DELETE', `/pet/${id}`);
          return [status, (await client.send('GET', `/pet/${id}`)).status].join(' ');
        }),
      );
      // 404 first if an attempt got 503, but was executed.
      expect(new Set(['200 404', '404 404', ...statuses])).toEqual(new Set(['200 404', '404 404']));
    });

    it('either orders or deletes a pet', async () => {
      await onEachConnection(async (number) => {
        const body = { name: `ordered-${number}`, photoUrls: [] };
        const { id } = (await client.send('POST', '/pet', body)).json<Pet>();
        const [ordered, deleted] = await Promise.all([
          client.send('POST', '/store/order', { petId: id, quantity: 1 }),
          client.send('DELETE', `/pet/${id}`),
        ]);
        expect(['200 409', '400 200', '400 404']).toContain(`${ordered.status} ${deleted.status}`);
        if (ordered.status !== 200) return;
        const order = ordered.json<Pet>();
        expect((await client.send('GET', `/store/order/${order.id}`)).json()).toEqual(order);
      });
    });

    it('never gives a user name twice', async () => {
      const results = await onEachConnection(async (number) => {
        const username = `user-${number % 16}`;
        const response = await client.send('POST', '/user', { username, phone: String(number) });
        return { username, status: response.status };
      });
      expect(new Set(results.map(({ status }) => status))).toEqual(new Set([200, 409]));
      const winners = results
        .filter(({ status }) => status === 200)
        .map(({ username }) => username);
      expect(new Set(winners).size).toBe(winners.length);
      for (const username of winners)
        expect((await client.send('GET', `/user/${username}`)).json()).toMatchObject({ username });
    });
  },
);
