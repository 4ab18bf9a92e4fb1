import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { type CommandResult, runCommand } from '../../../test/support/cli.js';
import { compareWithContract } from '../contract-check.js';
import { main } from '../openapi-check.js';
import { type Document, edit, readPublished } from './documents.js';

/** A contract that says the same as openapi.json in its own words, in OpenAPI 3.1. */
const CONTRACT = `
openapi: 3.1.0
info: { title: Categories, version: 1.0.0 }
servers: [{ url: 'https://pets.example/api' }]
paths:
  /categories:
    get:
      operationId: listCategories
      summary: List categories
      tags: [categories]
      responses:
        '200':
          description: All categories available.
          content:
            application/json:
              schema: { type: array, items: { $ref: '#/components/schemas/Category' } }
        default: { description: An error of any form. }
    post:
      operationId: createCategory
      tags: [categories]
      requestBody: { $ref: '#/components/requestBodies/NewCategory' }
      responses:
        '201':
          description: The created category.
          content: { application/json: { schema: { $ref: '#/components/schemas/Category' } } }
        '400': { description: Required fields are missing or values are invalid. }
components:
  requestBodies:
    NewCategory:
      required: true
      content: { application/json: { schema: { $ref: '#/components/schemas/NewCategory' } } }
  schemas:
    NewCategory:
      type: object
      required: [name]
      properties:
        name: { type: string, minLength: 1, maxLength: 100, pattern: '[^\\s\\u0085]', examples: [dog] }
        description: { type: string, maxLength: 1000 }
    Category:
      allOf:
        - { $ref: '#/components/schemas/NewCategory' }
        - type: object
          required: [id]
          properties:
            id: { type: integer, format: int64, minimum: 1, maximum: 9007199254740991 }
`;

const GET = 'paths /categories get';
const POST = 'paths /categories post';
const NAME = 'components schemas NewCategory properties name';

/** The document of a service with one resource, as `npm run openapi` writes it. */
let document: Document;
let contract: Document;
beforeAll(async () => {
  document = await readPublished();
  contract = parse(CONTRACT);
});

describe('compareWithContract', () => {
  it('finds no difference in a contract that says the same in OpenAPI 3.1, with allOf', () => {
    expect(compareWithContract(contract, document)).toEqual([]);
  });

  it('finds no difference between a document and itself', () => {
    expect(compareWithContract(document, document)).toEqual([]);
  });

  it('accepts what the platform adds to the description of an operation', () => {
    const place = `${GET} description`;
    const expected = edit(contract, { [place]: 'Returns all.' });
    const actual = edit(document, { [place]: 'Returns all.\n\nRequires the scope `write`.' });
    expect(compareWithContract(expected, actual)).toEqual([]);
    const other = edit(document, { [place]: 'Returns some.\n\nRequires the scope `write`.' });
    expect(compareWithContract(expected, other)).toHaveLength(1);
  });

  it('accepts an error that the default response of the contract covers', () => {
    const conflict = { description: 'Another category has the same name.' };
    const actual = edit(document, { [`${GET} responses 409`]: conflict });
    expect(compareWithContract(contract, actual)).toEqual([]);
  });

  it.each<[place: string, value: unknown, difference: string]>([
    [
      `${GET} operationId`,
      'a',
      'paths/~1categories/get/operationId: is "a" instead of "listCategories"',
    ],
    [`${GET} summary`, 'a', 'paths/~1categories/get/summary: is "a" instead of "List categories"'],
    [`${GET} tags`, ['a'], 'paths/~1categories/get/tags: is ["a"] instead of ["categories"]'],
    [`${GET} deprecated`, true, 'paths/~1categories/get/deprecated: is true instead of false'],
    [`${GET} security`, [], 'paths/~1categories/get/security: requires no API key'],
    [POST, undefined, 'paths/~1categories/post: is missing'],
    ['paths /categories put', { responses: {} }, 'paths/~1categories/put: is not in the contract'],
    [
      `${GET} parameters 1`,
      { name: 'name', in: 'query', schema: {} },
      'paths/~1categories/get/parameters: the query parameter name is not in the contract',
    ],
    [
      `${GET} responses 200 content application/json schema items`,
      { $ref: '#/components/schemas/NewCategory' },
      'paths/~1categories/get/responses/200/content/application~1json/schema/items: is the schema NewCategory instead of Category',
    ],
    [`${POST} requestBody`, undefined, 'paths/~1categories/post/requestBody: is missing'],
    [
      `${POST} requestBody required`,
      undefined,
      'components/requestBodies/NewCategory/required: is false instead of true',
    ],
    [
      `${POST} requestBody content text/plain`,
      {},
      'components/requestBodies/NewCategory/content/text~1plain: is not in the contract',
    ],
    [
      `${POST} responses 409`,
      { description: 'It exists.' },
      'paths/~1categories/post/responses/409: is not in the contract',
    ],
    [`${POST} responses 201`, undefined, 'paths/~1categories/post/responses/201: is missing'],
    [
      `${POST} responses 201 headers X-Total`,
      { schema: {} },
      'paths/~1categories/post/responses/201/headers/x-total: is not in the contract',
    ],
    [
      `${POST} responses 201 description`,
      'a',
      'paths/~1categories/post/responses/201/description: is "a" instead of "The created category."',
    ],
    [`${NAME} type`, 'integer', 'name/type: is "integer" instead of "string"'],
    [`${NAME} nullable`, true, 'name/nullable: is true instead of false'],
    [`${NAME} enum`, ['dog'], 'name/enum: is ["dog"] instead of []'],
    [`${NAME} example`, 'cat', 'name/example: is "cat" instead of "dog"'],
    [`${NAME} maxLength`, 50, 'name/maxLength: is 50 instead of 100'],
    [`${NAME} pattern`, undefined, String.raw`name/pattern: is missing instead of "[^\\s\\u0085]"`],
    [`${NAME} format`, 'uuid', 'name/format: is "uuid" instead of missing'],
    [
      'components schemas NewCategory required',
      [],
      'components/schemas/NewCategory/required: is [] instead of ["name"]',
    ],
    [
      'components schemas NewCategory properties description',
      undefined,
      'components/schemas/NewCategory/properties/description: is missing',
    ],
    [
      'components schemas NewCategory properties age',
      { type: 'string' },
      'components/schemas/NewCategory/properties/age: is not in the contract',
    ],
  ])('reports another value of %s: %j', (place, value, difference) => {
    expect(compareWithContract(contract, edit(document, { [place]: value }))).toEqual([
      `#/${difference.replace(/^name/, 'components/schemas/NewCategory/properties/name')}`,
    ]);
  });

  it.each<[place: string, value: unknown, difference: string]>([
    [
      'paths /categories parameters',
      [{ name: 'name', in: 'query', schema: {} }],
      'paths/~1categories/parameters/0: the query parameter name is missing',
    ],
    [
      `${POST} responses 201 headers X-Total`,
      { schema: {} },
      'paths/~1categories/post/responses/201/headers/X-Total: is missing',
    ],
    [
      'components schemas Category allOf 1 required',
      ['id', 'description'],
      'components/schemas/Category/required: is ["id","name"] instead of ["description","id","name"]',
    ],
  ])('reports %s that only the contract has: %j', (place, value, difference) => {
    expect(compareWithContract(edit(contract, { [place]: value }), document)).toEqual([
      `#/${difference}`,
    ]);
  });

  it('reports another schema with the same content', () => {
    const actual = edit(document, {
      'components schemas Kind': document.components.schemas.Category,
      [`${POST} responses 201 content application/json schema $ref`]: '#/components/schemas/Kind',
    });
    expect(compareWithContract(contract, actual)).toEqual([
      '#/paths/~1categories/post/responses/201/content/application~1json/schema: is the schema Kind instead of Category',
    ]);
  });

  it('accepts the limits of a format, and errors of the platform', () => {
    const NEW = 'components schemas NewCategory properties';
    const OLD = 'components schemas Category properties';
    const expected = edit(contract, {
      [`${NEW} count`]: { type: 'integer', format: 'int32' },
      [`${NEW} at`]: { type: 'string', format: 'date-time' },
      [`${NEW} weight`]: { type: 'number' },
      [`${GET} responses 503`]: { description: 'Later.' },
    });
    const limits = { minimum: -(2 ** 31), maximum: 2 ** 31 - 1 };
    const count = { type: 'integer', format: 'int32', ...limits, example: 1 };
    const at = { type: 'string', format: 'date-time', maxLength: 64 };
    const weight = { type: 'number', format: 'double' };
    const changes = [NEW, OLD].flatMap((place) => [
      [`${place} count`, count],
      [`${place} at`, at],
      [`${place} weight`, weight],
    ]);
    const actual = edit(document, Object.fromEntries(changes));
    expect(compareWithContract(expected, actual)).toEqual([]);
  });

  it('accepts a pattern with escaped slashes, and a parameter that its schema describes', () => {
    const schema = { type: 'string', pattern: '^a/b$', description: 'A kind.' };
    const escaped = { type: 'string', pattern: String.raw`^a\/b$` };
    const [query, description] = [{ name: 'kind', in: 'query' }, 'A kind.'];
    const place = `${GET} parameters`;
    const expected = edit(contract, { [place]: [{ ...query, schema }] });
    const actual = edit(document, { [place]: [{ ...query, schema: escaped, description }] });
    expect(compareWithContract(expected, actual)).toEqual([]);
    const changed = edit(actual, { [`${place} 0 description`]: 'Another.' });
    expect(compareWithContract(expected, changed)).toEqual([
      '#/paths/~1categories/get/parameters/0/description: is "Another." instead of "A kind."',
    ]);
  });

  it('compares recursive schemas', () => {
    const parent = { allOf: [{ $ref: '#/components/schemas/NewCategory' }] };
    const changes = { 'components schemas NewCategory properties parent': parent };
    const actual = { ...changes, 'components schemas Category properties parent': parent };
    expect(compareWithContract(edit(contract, changes), edit(document, actual))).toEqual([]);
  });
});

describe('npm run openapi:check -- --contract', () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'petstore-contract-'));
    await writeFile(join(directory, 'openapi.json'), JSON.stringify(document));
  });
  afterAll(() => rm(directory, { recursive: true }));

  async function check(text: string): Promise<CommandResult> {
    await writeFile(join(directory, 'contract.yaml'), text);
    return runCommand(main, ['--contract', 'contract.yaml'], {}, directory);
  }

  it.each([CONTRACT, JSON.stringify(parse(CONTRACT))])(
    'exits with 0 if the document is the contract, in YAML and in JSON: %#',
    async (text) => {
      const stdout = 'Differences from contract.yaml: 0\n';
      expect(await check(text)).toEqual({ code: 0, stdout, stderr: '' });
    },
  );

  it('lists every difference with its JSON pointer and exits with 1', async () => {
    expect(await check(stringify(edit(contract, { [`${NAME} maxLength`]: 50 })))).toEqual({
      code: 1,
      stdout:
        'contract.yaml#/components/schemas/NewCategory/properties/name/maxLength: is 100 instead of 50\n' +
        'Differences from contract.yaml: 1\n',
      stderr: '',
    });
  });

  it.each<[text: string, changes: Record<string, unknown>, message: string]>([
    ['a: [', {}, '#/: '],
    ['a: 1', {}, '#/: '],
    [
      CONTRACT,
      { 'components schemas NewCategory': undefined },
      "#/components/schemas/Category/allOf/0: Can't resolve $ref",
    ],
    [
      CONTRACT,
      { [`${POST} operationId`]: 'listCategories' },
      '#/paths/~1categories/post/listCategories: Every operation must have a unique',
    ],
    [
      CONTRACT,
      { [`${NAME} type`]: 'text' },
      '#/components/schemas/NewCategory/properties/name/type: `type` can be',
    ],
  ])('rejects an invalid contract: %.6s %j', async (text, changes, message) => {
    const invalid = text === CONTRACT ? stringify(edit(contract, changes)) : text;
    const { code, stdout, stderr } = await check(invalid);
    expect(stderr).toContain(`contract.yaml${message}`);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  });
});
