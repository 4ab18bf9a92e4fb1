import { format } from 'prettier';
import { toClassName, toMemberName, toSnakeCase } from '../names.js';
import { writeApi } from '../write/api-file.js';
import { writeEntity, writeMigration } from '../write/entity-file.js';
import { writeModule, writeService } from '../write/service-file.js';
import { findText } from '../texts.js';
import { toSample } from '../write/samples.js';
import { findProblems } from '../../../src/platform/validation/schema-rules.js';
import { toType } from '../write/source.js';
import { writeTest } from '../write/test-file.js';
import type { DtoClass, Property, Schema } from '../model.js';
import { getNotes, pets, toContent, toModule, toResponses } from './excerpts.js';
import { edit } from '../../openapi/test/documents.js';

describe('a name of code', () => {
  it.each([
    ['Links-Self', 'LinksSelf', 'linksSelf', 'links_self'],
    ['get-stations', 'GetStations', 'getStations', 'get_stations'],
    ['Date', 'DateSchema', 'date', 'date'],
    ['delete', 'DeleteSchema', 'deleteValue', 'delete'],
    ['to-string', 'ToString', 'toStringValue', 'to_string'],
    ['api', 'ApiSchema', 'apiValue', 'api'],
    ['items', 'Items', 'itemsValue', 'items'],
    ['then', 'Then', 'thenValue', 'then'],
    ['onModuleInit', 'OnModuleInit', 'onModuleInitValue', 'on_module_init'],
    ['HTTPServer2', 'HTTPServer2', 'httpServer2', 'http_server2'],
    ['2fa', 'X2fa', 'x2fa', '2fa'],
    ['日本', 'Schema', 'unnamed', 'unnamed'],
    [`a');b('`, 'AB', 'aB', 'a_b'],
  ])('is derived from %s', (name, className, member, snake) =>
    expect([toClassName(name), toMemberName(name), toSnakeCase(name)]).toEqual([
      className,
      member,
      snake,
    ]),
  );
});

/** A class whose properties do not matter. */
const toClass = (name: string, properties: readonly Property[] = []): DtoClass => ({
  name,
  publishedName: name,
  description: undefined,
  properties,
});

describe('a type of code', () => {
  it.each<[Schema, string]>([
    [
      {
        oneOf: [
          { class: toClass('A'), nullable: true },
          { class: toClass('B'), nullable: true },
        ],
      },
      'A | B | null',
    ],
    [
      {
        nullable: true,
        oneOf: [
          { type: 'string', nullable: true },
          { type: 'string', enum: ['none'] },
        ],
      },
      'string | null',
    ],
    [{ oneOf: [{ enum: [true, false] }, { enum: [true, 1.5] }] }, 'true | false | 1.5'],
  ])('of %j has no part twice', (schema, type) => expect(toType(schema)).toBe(type));
});

describe('a sample of a pattern', () => {
  it.each([
    ['^[a-f]{3}$', undefined, expect.stringMatching(/^[a-f]{3}$/)],
    ['^(?!a)b$', 'b', 'b'],
    ['^(?!a)b$', undefined, 'text'],
  ])('%s is found, or is the example %s', (pattern, example, sample) => {
    const property = { name: 'code', required: true, type: 'string', pattern, example } as const;
    expect(toSample(toClass('A', [property]), 1)).toEqual({ code: sample });
  });

  it.each([
    ['uuid', '^[0-9a-f-]+$', /^[0-9a-f]{8}-/],
    ['uuid', '^[0-9A-F]{8}(-[0-9A-F]{4}){3}-[0-9A-F]{12}$', /^[0-9A-F]{8}-/],
    ['date', '^20[34]\\d-\\d\\d-\\d\\d$', /^20[34]\d-\d\d-\d\d$/],
    ['date-time', '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ$', /^\d{4}-.{5}T.{8}Z$/],
    ['email', '@example\\.com$', /^.+@example\.com$/],
    ['byte', '^.{1,2097152}', /^[\w+/]+={0,2}$/],
  ])('of the format %s that matches %s has both', (name, pattern, expected) => {
    const schema = { type: 'string', format: name, pattern } as const;
    for (const seed of [1, 2]) {
      const text = findText(schema, seed);
      expect(text).toMatch(expected);
      expect(findProblems(schema, text)).toEqual([]);
    }
  });

  it.each([
    { format: 'date', pattern: 'YYYY-MM' },
    { format: 'uri', maxLength: 5 },
    { pattern: '^a{3}$', maxLength: 2 },
  ])('is not found if no text is valid: %j', (keywords) =>
    expect(findText({ type: 'string', ...keywords }, 1)).toBeUndefined(),
  );
});

const print = (code: string): Promise<string> =>
  format(code, { parser: 'typescript', singleQuote: true });

describe('generated code', () => {
  it('keeps in a replacement what its body cannot have, and what every row has', async () => {
    const at = '{ type: string, format: date-time, readOnly: true }';
    const schema = `{ properties: { name: { type: [string, 'null'] }, tag: { type: string } } }`;
    const module = toModule(
      pets({
        properties: `{ name: { type: string }, tag: { type: string }, createdAt: ${at}, updatedAt: ${at} }`,
        item: '{name}',
        operations: `put: { requestBody: { ${toContent(schema)} }, responses: {} }`,
      }),
    );
    expect(await print(writeService(module).code)).toContain(
      `{ ...row, updatedAt: new Date().toISOString() },
      ['name', 'createdAt'],
    );`,
    );
    expect(getNotes(module)).toEqual(
      expect.arrayContaining([
        'PutPetsByNameRequest.name: a PUT request without it keeps its value.',
        'PutPetsByNameRequest.name: null is rejected, as every resource has a value.',
      ]),
    );
  });

  it('converts rows of two resources to the same class with two functions', () => {
    const deleted = toResponses('{ type: object, properties: { id: { type: integer } } }');
    const body = `requestBody: { ${toContent(`{ $ref: '#/components/schemas/Toy' }`)} }`;
    const created = toResponses(`{ $ref: '#/components/schemas/Toy' }`);
    const paths = `/toys: { post: { ${body}, ${created} } }
  /toys/{toyId}: { delete: { ${deleted} } }`;
    const id = '{ type: integer, readOnly: true }';
    const schemas = `Toy: { properties: { id: ${id}, name: { type: string } } }`;
    const operations = `delete: { ${deleted} }`;
    const { code } = writeService(toModule(pets({ paths, schemas, operations })));
    expect([...code.matchAll(/^function (\w+)/gm)].map(([, name]) => name)).toEqual([
      'toPet',
      'petToDeletePetsByPetIdResponse',
      'toToy',
      'toyToDeletePetsByPetIdResponse',
    ]);
  });

  it('has each variable once, although properties differ only by case', () => {
    const properties = '{ name: { type: string }, Name: { type: string }, NAME: { type: string } }';
    const { code } = writeService(toModule(pets({ properties, item: '{name}' })));
    expect(code).toContain('{ Name: _name, NAME: _name2, ...row }');
  });

  it('has an operation id of its own for one that every object has', () => {
    const document = edit(pets(), { 'paths /pets get operationId': 'toString' });
    const module = toModule(document);
    expect(writeApi(module).code).toContain('operationId: "zooToString"');
    expect(getNotes(module)).toContain(
      'GET /pets: the operation id is zooToString, because every object of JavaScript has toString.',
    );
  });

  it('tests a resource with rows of other modules that it refers to', async () => {
    const id = '{ type: integer, readOnly: true }';
    const reference = '{ type: integer, x-references: owners }';
    const tags = '{ type: array, items: { type: string, format: uuid, x-references: tags } }';
    const module = toModule(
      pets({
        properties: `{ id: ${id}, name: { type: string }, ownerId: ${reference}, tagIds: ${tags} }`,
        required: 'name, ownerId, tagIds',
      }),
    );
    expect(await print(writeTest(module, new Set(['delete /v/tags/{}']))!.code)).toContain(`
  other: async () => ({
    name: 'text 2',
    ownerId: await insertRow(app.dataSource, 'owners'),
    tagIds: [await insertRow(app.dataSource, 'tags')],
  }),
  invalid: {
    name: [1],
    ownerId: [9007199254740991],
    tagIds: [['0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70']],
  },
  references: { tagIds: '/v/tags' },
});
`);
  });

  it('tests only what the contract describes of a resource whose id no response tells', async () => {
    const created = { description: 'Created', headers: { Location: {} } };
    const module = toModule(edit(pets(), { 'paths /pets post responses 201': created }));
    expect(module.operations.map(({ implementation }) => implementation.kind)).toContain('create');
    expect(writeTest(module)).toBeUndefined();
    const code = await print(writeTest({ ...module, file: 'zoo.yaml' })!.code);
    expect(code).toContain(`describeContract(app, 'zoo.yaml');`);
    expect(code).not.toContain('describeResource');
  });

  it.each([
    ['type: string', /code: `text 1-\$\{n\}`/],
    ['type: string, format: uuid', /code: `[\da-f-]{33}\$\{String\(n\)\.padStart\(3, '0'\)\}`/],
    ['type: string, format: email', /code: `[\w.]+-\$\{n\}@[\w.]+`/],
    ['type: string, pattern: "^A[0-9]{6}$"', /code: `A\d{3}\$\{String\(n\)\.padStart\(3, '0'\)\}`/],
    ['type: string, pattern: "^[a-z]{3}$"', /code: '[a-z]{3}'/],
    ['type: integer', /code: n \}/],
    ['type: integer, minimum: 100', /code: 100 \+ n \}/],
    ['type: integer, minimum: 100, multipleOf: 5', /code: 100 \+ 5 \* n \}/],
    ['type: integer, minimum: -9, maximum: 0', /code: -9 \+ n \}/],
    ['type: number, multipleOf: 0.01', /code: n \}/],
    ['type: integer, enum: [3]', /code: 3 \}/],
  ])('tests a resource with unique values that are valid: %s', async (schema, code) => {
    const id = 'id: { type: integer, readOnly: true }';
    const properties = `{ ${id}, name: { type: string }, code: { ${schema}, x-unique: true } }`;
    const module = toModule(pets({ properties, required: 'name, code' }));
    expect(await print(writeTest(module)!.code)).toMatch(code);
  });

  it.each([
    '*/ canary() /*',
    `'); canary(); ('`,
    '`${canary()}`',
    `\\'); canary() //`,
    `a\ncanary()\u2028canary()\r\n`,
    '</script>{{canary()}}',
  ])('has no code from the text %j of a contract', async (text) => {
    const document = edit(pets(), {
      'paths /pets get summary': text,
      'paths /pets get description': text,
      'paths /pets get operationId': `list${text}`,
      'paths /pets post tags': [text],
      'paths /pets get parameters': [{ name: text, in: 'query', schema: { type: 'object' } }],
      'components schemas Pet description': text,
      'components schemas Pet properties name': {
        type: 'string',
        description: text,
        default: text,
        enum: [text],
      },
    });
    document.components.schemas.Pet.properties[text] = { type: 'string' };
    const module = toModule(document);
    const resource = module.resources[0]!;
    const files = [
      writeApi(module),
      writeService(module),
      writeModule(module, new Map([[resource, 1]])),
      writeEntity(module, resource),
      writeMigration(module, resource, 1),
      writeTest(module)!,
    ];
    for (const { code } of files) {
      const bare = (await print(code))
        .replaceAll(/'(\\.|[^'\\\n])*'|"(\\.|[^"\\\n])*"/g, '')
        .replaceAll(/\/\*[^]*?\*\/|\/\/.*/g, '');
      expect(bare).not.toContain('canary()');
    }
  });
});
