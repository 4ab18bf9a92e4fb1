import { parsePrefix } from '../options.js';
import { writeApi } from '../write/api-file.js';
import { writeTest } from '../write/test-file.js';
import { getNotes, getResults, pets, toModule } from './excerpts.js';

const document = pets({ operations: 'delete: { responses: { 204: { description: Deleted } } }' });

describe('the prefix of paths', () => {
  it.each(['/api', '/api/v2', '/v2', '/v10', '/docs2', '/a.b/c-d_e'])('may be %s', (prefix) =>
    expect(parsePrefix(prefix)).toBe(prefix),
  );

  it.each([
    '',
    '/',
    'api',
    '/api/',
    '//api',
    '/a/../b',
    '/a b',
    '/{a}',
    '/v1',
    '/v1/a',
    '/docs',
    '/openapi.json',
    '/livez/a',
  ])('is refused: %s', (prefix) => expect(() => parsePrefix(prefix)).toThrow('must be a path'));

  it('is a part of each path instead of the version, and nothing else changes', () => {
    const [module, other] = [toModule(document, undefined, '/api/v2'), toModule(document)];
    const { code } = writeApi(module);
    expect(code).toContain('@Controller({ version: VERSION_NEUTRAL })');
    expect(code.replace('{ version: VERSION_NEUTRAL }', '').replaceAll('api/v2/', '')).toContain(
      writeApi(other).code.split('\n\n').at(-1),
    );
    expect(Object.keys(getResults(module))).toEqual([
      'GET /api/v2/pets',
      'POST /api/v2/pets',
      'GET /api/v2/pets/{petId}',
      'DELETE /api/v2/pets/{petId}',
    ]);
    expect(getNotes(module)).toContain(
      'Paths are below /api/v2, not below /v1 as the others of the service.',
    );
  });

  it('is in the test of the module', () => {
    const module = toModule(document, undefined, '/api/v2');
    const { code } = writeTest({ ...module, file: 'a.yaml' })!;
    expect(code).toContain('describeContract(app, "a.yaml", "/api/v2")');
    expect(code).toContain('describeResource(app, "/api/v2/pets"');
  });

  it('separates routes from those of other modules', () => {
    const service = {
      routes: new Set(['get /pets']),
      paths: [],
      operationIds: new Map(),
      schemas: new Set<string>(),
    };
    const leftOut = (prefix?: string) => toModule(document, service, prefix).leftOut.length;
    expect([leftOut(), leftOut('/api/v2')]).toEqual([1, 0]);
  });
});
