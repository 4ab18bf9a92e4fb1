/** Generates a module with paths that are not below /v1, and runs its tests. */
import { readFile } from 'node:fs/promises';
import { pets, toContent } from '../excerpts.js';
import { Guide } from './guide.js';

import.meta.jest.setTimeout(1_800_000);

let guide: Guide;
beforeAll(async () => {
  guide = await Guide.create();
});
afterAll(() => guide.copy.remove());

const PET = `{ $ref: '#/components/schemas/Pet' }`;
const CODE = '{ type: object, properties: { code: { type: string, maxLength: 9 } } }';
/** Its example looks like the declaration of the schema Category. */
const LABELS = '{ type: object, example: { name: Category } }';
/** Pets with references to categories, and most operations. The service has a schema Category of its own. */
const CONTRACT = pets({
  properties: `{ id: { type: integer, readOnly: true }, name: { type: string, maxLength: 50 },
    categoryId: { type: integer, x-references: categories }, kind: { $ref: '#/components/schemas/Category' },
    chip: { $ref: '#/components/schemas/Category-Chip' }, labels: ${LABELS} }`,
  schemas: `Category: ${CODE}, Category-Chip: ${CODE}`,
  operations: `put: { requestBody: { required: true, ${toContent(PET)} }, responses: { 200: { description: OK, ${toContent(PET)} } } },
    delete: { responses: { 204: { description: Deleted } } },
    parameters: [{ name: petId, in: path, required: true, schema: { type: integer } }]`,
});

it('a module may have paths below another prefix, which everything else knows', async () => {
  await guide.write('zoo.openapi.json', JSON.stringify(CONTRACT));
  const from = (): Promise<string> =>
    guide.npm('generate', '--', 'from', 'zoo.openapi.json', '--prefix', '/api/v2');
  expect(await from()).toMatch(/^PUT \/api\/v2\/pets\/\{petId\} +implemented$/m);
  expect(await from()).toContain('Nothing to write.');
  const { paths } = JSON.parse(await readFile(guide.copy.resolve('openapi.json'), 'utf8')) as {
    paths: Record<string, object>;
  };
  expect(paths).toMatchObject({ '/pets/{petId}': {}, '/api/v2/pets/{petId}': { servers: [{}] } });
  const options = ['--contract', 'zoo.openapi.json', '--prefix', '/api/v2'];
  expect(await guide.npm('openapi:check', '--', ...options)).toContain(
    'Differences from zoo.openapi.json: 0',
  );
  await guide.npm('typecheck');
  await guide.npm('lint:openapi');
  const tests = ['test/zoo', 'test/openapi.test.ts', 'test/authentication.test.ts', 'test/metrics'];
  await guide.npm('test', '--', ...tests, '--selectProjects', 'sqlite');
});
