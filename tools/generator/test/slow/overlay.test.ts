/** Writes an overlay of a contract, and generates its module with it. */
import { readFile } from 'node:fs/promises';
import { pets, toContent, toResponses } from '../excerpts.js';
import { Guide } from './guide.js';

import.meta.jest.setTimeout(1_800_000);

let guide: Guide;
beforeAll(async () => {
  guide = await Guide.create();
});
afterAll(() => guide.copy.remove());

const CLINIC = `{ $ref: '#/components/schemas/Clinic' }`;
/** Pets of clinics, which nothing changes: no POST is known to store its body. */
const CONTRACT = pets({
  mark: 'x-a: 1',
  properties:
    '{ id: { type: integer, readOnly: true }, name: { type: string }, clinicId: { type: integer } }',
  paths: `/clinics: {
    get: { ${toResponses(`{ type: array, items: ${CLINIC} }`)} },
    post: { x-resource: true, requestBody: { required: true, ${toContent(CLINIC)} }, ${toResponses(CLINIC, 201)} } }`,
  schemas:
    'Clinic: { type: object, required: [name], properties: { id: { type: integer, readOnly: true }, name: { type: string } } }',
});

it('an overlay as it was written makes operations and references, and nothing again', async () => {
  await guide.write('zoo.openapi.json', JSON.stringify(CONTRACT));
  const from = (...options: string[]): Promise<string> =>
    guide.npm('generate', '--', 'from', 'zoo.openapi.json', ...options);
  expect(await from('--write-overlay', 'zoo.overlay.yaml')).toContain('CREATE zoo.overlay.yaml');
  expect(await guide.git('status', '--short')).not.toContain('src/');
  // What a team says is not overwritten.
  await expect(from('--write-overlay', 'zoo.overlay.yaml')).rejects.toThrow(
    'zoo.overlay.yaml exists',
  );
  expect(await from('--overlay', 'zoo.overlay.yaml')).toMatch(/^POST \/pets +implemented$/m);
  const entity = await readFile(guide.copy.resolve('src/modules/zoo/pet.entity.ts'), 'utf8');
  expect(entity).toContain("@ForeignKey('clinics'");
  expect(await from('--overlay', 'zoo.overlay.yaml')).toContain('Nothing to write.');
  await guide.npm('typecheck');
  const options = ['--contract', 'zoo.openapi.json', '--overlay', 'zoo.overlay.yaml'];
  expect(await guide.npm('openapi:check', '--', ...options)).toContain(
    'Differences from zoo.openapi.json: 0',
  );
});
