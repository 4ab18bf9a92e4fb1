import { Notes } from '../model.js';
import { formatReport } from '../report.js';
import { pets, toContent, toModule, toResponses } from './excerpts.js';

const NAME = '{ type: object, properties: { name: { type: string } } }';

const GET = `{ get: { ${toResponses(`{ $ref: '#/components/schemas/Pet' }`)} } }`;

describe('the report', () => {
  it('ends with the number of operations of each kind, and the most frequent remedy', () => {
    const paths = `/pets/{petId}/a: ${GET}, /b/{id}: ${GET}, /c/{id}: ${GET}`;
    const parameters = '[{ name: X-Tenant-Id, in: header }]';
    const module = toModule(pets({ parameters, paths: paths.replaceAll(/, \//g, '\n  /') }));
    const lines = formatReport(module).split('\n');
    expect(lines.at(-1)).toBe(
      '6 operations: 2 right, 1 without X-Tenant-Id, 3 stubs. ' +
        'The most frequent remedy, of 2: add a POST to the collection that returns the resource.',
    );
    expect(lines.join()).toContain(
      'GET /b/{id}          stub: no operation creates what {id} identifies (add',
    );
    const yours = new Map([['getPet', 'yours']]);
    expect(formatReport(module, yours)).toMatch(/^GET \/pets\/\{petId\} +yours$/m);
  });

  it('says the first cause, and not that another operation creates the objects', () => {
    const operations = '';
    const pet = `{ $ref: '#/components/schemas/Pet' }`;
    const login = `/aaa: { post: { operationId: login, requestBody: { ${toContent(NAME)} }, ${toResponses(pet)} } }`;
    const report = formatReport(toModule(pets({ operations, paths: login })));
    expect(report).toMatch(/^POST \/pets +implemented$/m);
    expect(report).toMatch(/^POST \/aaa +stub: (?!.*no operation)/m);
    const list = `{ type: array, items: ${NAME} }`;
    const post = `post: { requestBody: { ${toContent('{ type: string }')} }, responses: {} }`;
    const stubs = formatReport(
      toModule(pets({ paths: `/d: { get: { ${toResponses(list)} }, ${post} }` })),
    );
    expect(stubs).toMatch(/^GET \/d +stub: POST \/d stores nothing: the body is not an object/m);
  });

  it('has one line of bounded length for each kind of difference, however many places it has', () => {
    const notes = new Notes();
    notes.add('Paths are below /v1.');
    for (let number = 1; number <= 500; number++) {
      notes.add('no callbacks are sent.', `GET /a${number}`);
      notes.add('its servers are ignored.', 'a'.repeat(number));
    }
    const leftOut = [{ operation: 'HEAD /a', reason: 'b'.repeat(1_000) }];
    const lines = formatReport({ operations: [], leftOut, notes }).split('\n');
    expect(lines).toHaveLength(8);
    expect(lines).toContain('- GET /a1, GET /a2, GET /a3 and 497 more: no callbacks are sent.');
    expect(Math.max(...lines.map(({ length }) => length))).toBeLessThan(310);
  });
});
