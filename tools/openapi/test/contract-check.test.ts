import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { compareWithContract } from '../contract-check.js';
import { main } from '../openapi-check.js';
import { type CommandResult, runCommand } from '../../../test/support/cli.js';

const ROOT = join(import.meta.dirname, '..', '..', '..');

/* oxlint-disable-next-line typescript/no-explicit-any -- the tests change arbitrary parts of a document */
type Document = any;

/** The document of a service with one resource, as `npm run openapi` writes it. */
let document: Document;
/** A contract that says the same in its own words, in OpenAPI 3.1. */
let contract: Document;

beforeAll(async () => {
  const published: Document = JSON.parse(await readFile(join(ROOT, 'openapi.json'), 'utf8'));
  document = { ...published, paths: { '/categories': published.paths['/categories'] } };
  contract = {
    openapi: '3.1.0',
    info: { title: 'Categories', version: '1.0.0' },
    servers: [{ url: 'https://pets.example/api' }],
    paths: {
      '/categories': {
        get: {
          operationId: 'listCategories',
          summary: 'List categories',
          tags: ['categories'],
          responses: {
            '200': {
              description: 'All categories available.',
              content: {
                'application/json': {
                  schema: { type: 'array', items: { $ref: '#/components/schemas/Category' } },
                },
              },
            },
            default: { description: 'An error of any form.' },
          },
        },
        post: {
          operationId: 'createCategory',
          tags: ['categories'],
          requestBody: { $ref: '#/components/requestBodies/NewCategory' },
          responses: {
            '201': {
              description: 'The created category.',
              content: {
                'application/json': { schema: { $ref: '#/components/schemas/Category' } },
              },
            },
            '400': { description: 'Required fields are missing or values are invalid.' },
          },
        },
      },
    },
    components: {
      requestBodies: {
        NewCategory: {
          required: true,
          content: { 'application/json': { schema: { $ref: '#/components/schemas/NewCategory' } } },
        },
      },
      schemas: {
        NewCategory: {
          type: 'object',
          required: ['name'],
          properties: {
            name: {
              type: 'string',
              minLength: 1,
              maxLength: 100,
              pattern: '[^\\s\\u0085]',
              examples: ['dog'],
            },
            description: { type: 'string', maxLength: 1000 },
          },
        },
        Category: {
          allOf: [
            { $ref: '#/components/schemas/NewCategory' },
            {
              type: 'object',
              required: ['id'],
              properties: {
                id: { type: 'integer', format: 'int64', minimum: 1, maximum: 9007199254740991 },
              },
            },
          ],
        },
      },
    },
  };
});

/** Returns a changed copy. */
function edit(original: Document, change: (copy: Document) => void): Document {
  // Not with structuredClone: in Jest, its arrays are not equal to those of the test.
  const copy: Document = JSON.parse(JSON.stringify(original));
  change(copy);
  return copy;
}

const getOperation = (d: Document, method = 'get'): Document => d.paths['/categories'][method];
const getSchema = (d: Document, name = 'NewCategory'): Document => d.components.schemas[name];

describe('compareWithContract', () => {
  it('finds no difference in a contract that says the same in OpenAPI 3.1, with allOf', () => {
    expect(compareWithContract(contract, document)).toEqual([]);
  });

  it('finds no difference between a document and itself', () => {
    expect(compareWithContract(document, document)).toEqual([]);
  });

  it('accepts an error that the default response of the contract covers', () => {
    const conflict = { description: 'Another category has the same name.' };
    const withConflict = (method: string): Document =>
      edit(document, (d) => (getOperation(d, method).responses['409'] = conflict));
    // Only this operation of the contract has a default response.
    expect(compareWithContract(contract, withConflict('get'))).toEqual([]);
    expect(compareWithContract(contract, withConflict('post'))).toEqual([
      '#/paths/~1categories/post/responses/409: is not in the contract',
    ]);
  });

  it.each<[string, string, (d: Document) => void]>([
    [
      'another operation id',
      '#/paths/~1categories/get/operationId: is "getAll" instead of "listCategories"',
      (d) => (getOperation(d).operationId = 'getAll'),
    ],
    [
      'another summary',
      '#/paths/~1categories/get/summary: is "All" instead of "List categories"',
      (d) => (getOperation(d).summary = 'All'),
    ],
    [
      'other tags',
      '#/paths/~1categories/get/tags: is ["pets"] instead of ["categories"]',
      (d) => (getOperation(d).tags = ['pets']),
    ],
    [
      'a missing operation',
      '#/paths/~1categories/post: is missing',
      (d) => delete d.paths['/categories'].post,
    ],
    [
      'an operation that the contract lacks',
      '#/paths/~1categories/put: is not in the contract',
      (d) => (d.paths['/categories'].put = getOperation(d)),
    ],
    [
      'a public operation',
      '#/paths/~1categories/get/security: requires no API key',
      (d) => (getOperation(d).security = []),
    ],
    [
      'a deprecated operation',
      '#/paths/~1categories/get/deprecated: is true instead of false',
      (d) => (getOperation(d).deprecated = true),
    ],
    [
      'another parameter',
      '#/paths/~1categories/get/parameters: the query parameter name is not in the contract',
      (d) => getOperation(d).parameters.push({ name: 'name', in: 'query', schema: {} }),
    ],
    [
      'an optional body',
      '#/components/requestBodies/NewCategory/required: is false instead of true',
      (d) => delete getOperation(d, 'post').requestBody.required,
    ],
    [
      'no body',
      '#/paths/~1categories/post/requestBody: is missing',
      (d) => delete getOperation(d, 'post').requestBody,
    ],
    [
      'another media type',
      '#/components/requestBodies/NewCategory/content/text~1plain: is not in the contract',
      (d) => (getOperation(d, 'post').requestBody.content['text/plain'] = {}),
    ],
    [
      'another response',
      '#/paths/~1categories/post/responses/409: is not in the contract',
      (d) => (getOperation(d, 'post').responses['409'] = { description: 'It exists.' }),
    ],
    [
      'a missing response',
      '#/paths/~1categories/post/responses/201: is missing',
      (d) => delete getOperation(d, 'post').responses['201'],
    ],
    [
      'another response header',
      '#/paths/~1categories/post/responses/201/headers/x-total: is not in the contract',
      (d) => (getOperation(d, 'post').responses['201'].headers = { 'X-Total': { schema: {} } }),
    ],
    [
      'the description of a response',
      '#/paths/~1categories/post/responses/201/description: is "Done." instead of "The created category."',
      (d) => (getOperation(d, 'post').responses['201'].description = 'Done.'),
    ],
    [
      'another schema with the same content',
      '#/paths/~1categories/post/responses/201/content/application~1json/schema: is the schema Kind instead of Category',
      (d) => {
        d.components.schemas.Kind = getSchema(d, 'Category');
        getOperation(d, 'post').responses['201'].content['application/json'].schema = {
          $ref: '#/components/schemas/Kind',
        };
      },
    ],
    [
      'a limit',
      '#/components/schemas/NewCategory/properties/name/maxLength: is 50 instead of 100',
      (d) => (getSchema(d).properties.name.maxLength = 50),
    ],
    [
      'a missing limit',
      '#/components/schemas/NewCategory/properties/name/pattern: is missing instead of "[^\\\\s\\\\u0085]"',
      (d) => delete getSchema(d).properties.name.pattern,
    ],
    [
      'a limit that the contract lacks',
      '#/components/schemas/NewCategory/properties/description/pattern: is "a" instead of missing',
      (d) => (getSchema(d).properties.description.pattern = 'a'),
    ],
    [
      'another example',
      '#/components/schemas/NewCategory/properties/name/example: is "cat" instead of "dog"',
      (d) => (getSchema(d).properties.name.example = 'cat'),
    ],
    [
      'another type',
      '#/components/schemas/NewCategory/properties/name/type: is "integer" instead of "string"',
      (d) => (getSchema(d).properties.name.type = 'integer'),
    ],
    [
      'null as a value',
      '#/components/schemas/NewCategory/properties/name/nullable: is true instead of false',
      (d) => (getSchema(d).properties.name.nullable = true),
    ],
    [
      'other values of an enum',
      '#/components/schemas/NewCategory/properties/name/enum: is ["dog"] instead of []',
      (d) => (getSchema(d).properties.name.enum = ['dog']),
    ],
    [
      'an optional property',
      '#/components/schemas/NewCategory/required: is [] instead of ["name"]',
      (d) => (getSchema(d).required = []),
    ],
    [
      'a missing property',
      '#/components/schemas/NewCategory/properties/description: is missing',
      (d) => delete getSchema(d).properties.description,
    ],
    [
      'another property',
      '#/components/schemas/NewCategory/properties/age: is not in the contract',
      (d) => (getSchema(d).properties.age = { type: 'string' }),
    ],
    [
      'a list of something else',
      '#/paths/~1categories/get/responses/200/content/application~1json/schema/items: is the schema NewCategory instead of Category',
      (d) =>
        (getOperation(d).responses['200'].content['application/json'].schema.items = {
          $ref: '#/components/schemas/NewCategory',
        }),
    ],
  ])('reports %s', (_name, difference, change) => {
    expect(compareWithContract(contract, edit(document, change))).toEqual([difference]);
  });

  it.each<[string, string, (d: Document) => void]>([
    [
      'a parameter',
      '#/paths/~1categories/parameters/0: the query parameter name is missing',
      (d) => (d.paths['/categories'].parameters = [{ name: 'name', in: 'query', schema: {} }]),
    ],
    [
      'a response header',
      '#/paths/~1categories/post/responses/201/headers/X-Total: is missing',
      (d) => (getOperation(d, 'post').responses['201'].headers = { 'X-Total': { schema: {} } }),
    ],
    [
      'a required property',
      '#/components/schemas/Category/required: is ["id","name"] instead of ["description","id","name"]',
      (d) => getSchema(d, 'Category').allOf[1].required.push('description'),
    ],
  ])('reports %s that only the contract has', (_name, difference, change) => {
    expect(compareWithContract(edit(contract, change), document)).toEqual([difference]);
  });

  it('accepts the limits of a format, and errors of the platform', () => {
    const expected = edit(contract, (d) => {
      const { properties } = getSchema(d);
      properties.count = { type: 'integer', format: 'int32' };
      properties.at = { type: 'string', format: 'date-time' };
      properties.weight = { type: 'number' };
      getOperation(d).responses['503'] = { description: 'Later.' };
    });
    const added = edit(document, (d) => {
      const { properties } = getSchema(d);
      const limits = { minimum: -(2 ** 31), maximum: 2 ** 31 - 1 };
      properties.count = { type: 'integer', format: 'int32', ...limits, example: 1 };
      properties.at = { type: 'string', format: 'date-time', maxLength: 64 };
      properties.weight = { type: 'number', format: 'double' };
      getSchema(d, 'Category').properties = {
        ...getSchema(d, 'Category').properties,
        ...properties,
      };
    });
    expect(compareWithContract(expected, added)).toEqual([]);
  });

  it('accepts a pattern with escaped slashes, and a parameter that its schema describes', () => {
    const schema = { type: 'string', pattern: '^a/b$' };
    const parameter = { name: 'kind', in: 'query', schema: { ...schema, description: 'A kind.' } };
    const escaped = { ...schema, pattern: '^a\\/b$' };
    const other = { name: 'kind', in: 'query', description: 'A kind.', schema: escaped };
    const expected = edit(contract, (d) => (getOperation(d).parameters = [parameter]));
    const accepted = edit(document, (d) => (getOperation(d).parameters = [other]));
    expect(compareWithContract(expected, accepted)).toEqual([]);
    const changed = edit(accepted, (d) => (getOperation(d).parameters[0].description = 'Another.'));
    expect(compareWithContract(expected, changed)).toEqual([
      '#/paths/~1categories/get/parameters/0/description: is "Another." instead of "A kind."',
    ]);
  });

  it('compares recursive schemas', () => {
    const recurse = (d: Document): void => {
      getSchema(d).properties.parent = { allOf: [{ $ref: '#/components/schemas/NewCategory' }] };
    };
    const [expected, actual] = [edit(contract, recurse), edit(document, recurse)];
    getSchema(actual, 'Category').properties.parent = getSchema(actual).properties.parent;
    expect(compareWithContract(expected, actual)).toEqual([]);
  });
});

describe('npm run openapi:check -- --contract', () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'petstore-contract-'));
    await writeFile(join(directory, 'openapi.json'), JSON.stringify(document));
  });
  afterAll(() => rm(directory, { recursive: true }));

  async function check(text: string, file = 'pets.openapi.yaml'): Promise<CommandResult> {
    await writeFile(join(directory, file), text);
    return runCommand(main, ['--contract', file], {}, directory);
  }

  it('exits with 0 if the document is the contract, in YAML and in JSON', async () => {
    const yaml = await check(stringify(contract));
    expect(yaml).toMatchObject({
      code: 0,
      stdout: 'Differences from pets.openapi.yaml: 0\n',
      stderr: '',
    });
    expect(await check(JSON.stringify(contract), 'pets.json')).toMatchObject({ code: 0 });
  });

  it('lists every difference with its JSON pointer and exits with 1', async () => {
    const changed = edit(contract, (d) => (getSchema(d).properties.name.maxLength = 50));
    expect(await check(stringify(changed))).toMatchObject({
      code: 1,
      stdout:
        'pets.openapi.yaml#/components/schemas/NewCategory/properties/name/maxLength: is 100 instead of 50\n' +
        'Differences from pets.openapi.yaml: 1\n',
      stderr: '',
    });
  });

  it.each<[string, string, () => string]>([
    ['no YAML', 'pets.openapi.yaml#/: ', () => 'a: ['],
    ['no OpenAPI document', 'pets.openapi.yaml#/: ', () => 'a: 1'],
    [
      'a missing reference',
      "pets.openapi.yaml#/components/schemas/Category/allOf/0: Can't resolve $ref",
      () => stringify(edit(contract, (d) => delete d.components.schemas.NewCategory)),
    ],
    [
      'an operation id that is used twice',
      'pets.openapi.yaml#/paths/~1categories/post/listCategories: Every operation must have a unique',
      () =>
        stringify(edit(contract, (d) => (getOperation(d, 'post').operationId = 'listCategories'))),
    ],
    [
      'an unknown type',
      'pets.openapi.yaml#/components/schemas/NewCategory/properties/name/type: `type` can be',
      () => stringify(edit(contract, (d) => (getSchema(d).properties.name.type = 'text'))),
    ],
  ])('rejects a contract with %s', async (_name, message, render) => {
    const { code, stdout, stderr } = await check(render());
    expect(stderr).toContain(message);
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
  });
});
