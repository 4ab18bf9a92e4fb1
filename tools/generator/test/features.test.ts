/** What the generator makes of the features of contracts: the table of docs/adding-a-module.md, which WRITE_GUIDE=1 writes. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Json } from '../read/json.js';
import { getUnsupported } from '../report.js';
import { getNotes, pets, toContent, toModule, toResponses } from './excerpts.js';

const PET = `{ $ref: '#/components/schemas/Pet' }`;
const FORM = 'application/x-www-form-urlencoded';
const CATS = `Cat: { type: object, required: [kind], properties: { kind: { type: string } } },
    Dog: { type: object, required: [kind], properties: { kind: { type: string } } }`;
const ANIMALS = `[{ $ref: '#/components/schemas/Cat' }, { $ref: '#/components/schemas/Dog' }]`;

/** Pets whose name, or another property, has a schema. */
const property = (schema: string, schemas = ''): Json =>
  pets({
    properties: `{ id: { type: integer, readOnly: true }, name: { type: string }, value: ${schema} }`,
    schemas,
  });

const id = (schema: string, required = 'name'): Json =>
  pets({ properties: `{ id: ${schema}, name: { type: string } }`, required });

/** Pets whose list has parameters: their names, and what else they have. */
const parameters = (names: string, others = 'in: query, schema: { type: string }'): Json =>
  pets({
    parameters: `[${names
      .split(' ')
      .map((name) => `{ name: ${name}, ${others} }`)
      .join(', ')}]`,
  });

const pages = (names: string): Json => parameters(names, 'in: query, schema: { type: integer }');

const body = (type = 'application/json'): string =>
  `requestBody: { required: true, ${toContent(PET, type)} }`;

const item = (operation: string): Json => pets({ operations: operation });

/** Pets, and another POST that stores one, unless it is a command. */
const post = (path: string, operation: string): Json =>
  pets({ paths: `${path}: { post: { ${operation} } }` });

const TOY = `{ $ref: '#/components/schemas/Toy' }`;
/** Pets, and toys below a path. */
const toys = (path: string, response = TOY, type?: string): Json =>
  pets({
    paths: `${path}: { get: { ${toResponses(`{ type: array, items: ${TOY} }`)} },
      post: { x-resource: true, requestBody: { required: true, ${toContent(TOY, type)} }, ${toResponses(response, 201)} } }`,
    schemas:
      'Toy: { type: object, properties: { id: { type: integer, readOnly: true }, label: { type: string } } }',
  });

type Result =
  'implemented' | 'published, but not validated' | 'a request with it gets 501' | 'a stub';

const FEATURES: Readonly<Record<Result, Readonly<Record<string, Json>>>> = {
  implemented: {
    'nested objects': property('{ type: object, properties: { a: { type: string } } }'),
    arrays: property('{ type: array, items: { type: string }, maxItems: 3 }'),
    maps: property('{ type: object, additionalProperties: { type: integer } }'),
    '`allOf`': property('{ allOf: [{ type: string }, { maxLength: 3 }] }'),
    '`oneOf` with a discriminator': property(
      `{ oneOf: ${ANIMALS}, discriminator: { propertyName: kind } }`,
      CATS,
    ),
    '`oneOf` and `anyOf` of different types': property(
      '{ anyOf: [{ type: string }, { type: integer }] }',
    ),
    '`enum` and `const`': property('{ const: dog }'),
    null: property('{ type: [string, "null"] }'),
    'limits of texts and numbers': property('{ type: number, minimum: 0, multipleOf: 0.5 }'),
    '`default`': property('{ type: string, default: a }'),
    'integer ids': id('{ type: integer, readOnly: true }'),
    UUIDs: id('{ type: string, format: uuid, readOnly: true }'),
    'ids that clients choose': id('{ type: string }', 'id, name'),
    'timestamps such as `createdAt`': pets({
      properties:
        '{ id: { type: integer, readOnly: true }, name: { type: string }, createdAt: { type: string, format: date-time, readOnly: true } }',
    }),
    '`x-unique`': property('{ type: string, maxLength: 9, x-unique: true }'),
    '`x-references`, also of arrays': property(
      '{ type: array, items: { type: integer, x-references: categories } }',
    ),
    'lists and envelopes': pets({
      list: `{ type: object, properties: { data: { type: array, items: ${PET} }, total: { type: integer } } }`,
    }),
    'pages by `limit` and `page`, `offset`, `after` or `cursor`': pages('limit offset'),
    'filters named as a property': parameters('name'),
    'sorting, by an `enum` of properties': pets({
      parameters: `[{ name: offset, in: query, schema: { type: integer } },
        { name: sort, in: query, schema: { type: string, enum: [id, -id] } }]`,
    }),
    PUT: item(`put: { ${body()}, ${toResponses(PET)} }`),
    PATCH: item(`patch: { ${body('application/merge-patch+json')}, ${toResponses(PET)} }`),
    DELETE: item('delete: { responses: { 204: { description: Deleted } } }'),
    forms: toys('/toys', TOY, FORM),
    'resources below others, or below `/{realm}`': toys('/{realm}/toys'),
    'a POST that returns only the id': toys(
      '/toys',
      '{ type: object, properties: { id: { type: integer } } }',
    ),
  },
  'published, but not validated': {
    '`not`': property('{ type: string, not: { const: a } }'),
    'unknown formats': property('{ type: string, format: phone }'),
    'slow patterns': property("{ type: string, pattern: '^(a+)+$' }"),
    '`oneOf` and `anyOf` that neither a type nor a constant tells apart': property(
      '{ anyOf: [{ type: string, maxLength: 1 }, { type: string, minLength: 3 }] }',
    ),
    'several types': property('{ type: [string, integer] }'),
  },
  'a request with it gets 501': {
    'optional query parameters whose effect is unknown': parameters('since'),
    'optional headers': parameters('X-Mode', 'in: header, schema: { type: string }'),
  },
  'a stub': {
    'required query parameters whose effect is unknown': parameters(
      'since',
      'in: query, required: true, schema: { type: string }',
    ),
    'required headers': parameters(
      'X-Mode',
      'in: header, required: true, schema: { type: string }',
    ),
    'files in forms': post('/photos', `${body('multipart/form-data')}, ${toResponses(PET, 201)}`),
    'responses other than JSON': pets({
      paths: `/image: { get: { responses: { 200: { description: OK, ${toContent('{ type: string, format: binary }', 'image/png')} } } } }`,
    }),
    'the caller, such as `/users/me`': post('/users/me', `${body()}, ${toResponses(PET, 201)}`),
    'the status 202': post('/jobs', `${body()}, ${toResponses(PET, 202)}`),
    'commands, such as `POST /pets/search`': post('/pets/search', `${body()}, ${toResponses(PET)}`),
  },
};

const GUIDE = join(import.meta.dirname, '../../../docs/adding-a-module.md');
const BLOCK = /(?<=<!-- features -->\n).*(?=<!-- \/features -->)/s;

function getResult(document: Json): Result {
  const module = toModule(document);
  const { operations } = module;
  if (operations.some(({ implementation }) => implementation.kind === 'stub')) return 'a stub';
  if (operations.some((each) => getUnsupported(each).length > 0))
    return 'a request with it gets 501';
  const isPublished = getNotes(module).some((note) =>
    /not validated|accepted(, not only| as they are)/.test(note),
  );
  return isPublished ? 'published, but not validated' : 'implemented';
}

describe('a feature of a contract', () => {
  const rows = Object.entries(FEATURES).flatMap(([result, documents]) =>
    Object.entries(documents).map(([name, document]) => ({ result, name, document })),
  );

  it.each(rows)('is $result: $name', ({ document, result }) =>
    expect(getResult(document)).toBe(result),
  );

  it('is in the guide', async () => {
    const lines = Object.entries(FEATURES).map(
      ([result, documents]) => `| ${result} | ${Object.keys(documents).join('; ')} |`,
    );
    const table = ['| Result | Features of contracts |', '|---|---|', ...lines, ''].join('\n');
    const guide = await readFile(GUIDE, 'utf8');
    const written = guide.replace(BLOCK, () => table);
    if (process.env['WRITE_GUIDE'] === '1') await writeFile(GUIDE, written);
    expect(await readFile(GUIDE, 'utf8')).toBe(written);
    expect(written).toContain(table);
  });
});
