import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compareApi, compareMethods } from '../existing.js';
import { readMembers } from '../members.js';
import { formatFile } from '../project.js';
import { writeApi } from '../write/api-file.js';
import { writeResourceService, writeService } from '../write/service-file.js';
import { writeTest } from '../write/test-file.js';
import { pets, toModule, toResponses } from './excerpts.js';
import { edit } from '../../openapi/test/documents.js';

let directory: string;
beforeAll(async () => (directory = await mkdtemp(join(tmpdir(), 'petstore-service-'))));
afterAll(() => rm(directory, { recursive: true }));

const PATHS = `/a: { get: { operationId: a, ${toResponses('{ type: string }')} } }
  /b: { get: { operationId: b, ${toResponses('{ type: string }')} } }`;

describe('the service of a module that exists', () => {
  it('has methods of the team, and some that are left to do', async () => {
    const module = toModule(pets({ paths: PATHS }));
    const service = { ...writeService(module), path: join(directory, 'zoo.service.ts') };
    const code = await formatFile(service);
    await writeFile(
      service.path,
      code
        // A comment is not code, and a string does not end a method.
        .replace('throw notImplemented("a");', `return '}'; // throw notImplemented("a")`)
        .replace(/getPet\(/, 'getNothing(')
        .replace(/( {2}listPets\([^{]*\{\n)[^}]*/, "$1    throw notImplemented('listPets');\n  "),
    );
    const { results, tasks } = await compareMethods(module, service);
    expect(Object.fromEntries(results)).toEqual({
      a: 'yours',
      getPet: 'to do: the service has no method for it',
      listPets: 'stub: its method only throws notImplemented',
    });
    expect(tasks).toEqual([`${service.path}: implement getPet.`]);
    await writeFile(service.path, '{');
    await expect(compareMethods(module, service)).rejects.toThrow('cannot be parsed');
  });

  it('gets methods and a test for a new resource in files of their own', () => {
    const module = toModule(pets());
    const service = writeResourceService(module, module.resources[0]!);
    expect(service.path).toBe('src/modules/zoo/zoo-pets.service.ts');
    expect(service.code).toMatch(/class PetsService \{[^]* createPet\(/);
    expect(writeTest(module, new Set(), module.resources[0])!.path).toBe(
      'test/zoo-pets.databases.test.ts',
    );
  });
});

const read = async (document: ReturnType<typeof pets>) => {
  const api = writeApi(toModule(document));
  return readMembers(api.path, await formatFile(api));
};

it('a run names the URLs, defaults and responses that it changes', async () => {
  const { '/pets': pet, ...paths } = pets().paths as Record<string, object>;
  const changed = edit(
    { ...pets({ required: '' }), paths: { '/pets/': pet, ...paths } },
    {
      'paths /pets/ get summary': 'Other.',
      'components schemas Pet properties name default': 'Rex',
      'paths /pets/ get security': [],
    },
  );
  const differences = compareApi(await read(pets()), await read(changed));
  expect(differences).toEqual([
    expect.stringMatching(/^Pet\.name: .* becomes .*default: 'Rex'/),
    expect.stringMatching(
      /^ZooController\.listPets: @Get\('pets'\) becomes @Get\('pets\/\/'\) @Public\(\)/,
    ),
    expect.stringContaining("@Post('pets//')"),
  ]);
  expect(compareApi(await read(pets()), await read(pets()))).toEqual([]);
});
