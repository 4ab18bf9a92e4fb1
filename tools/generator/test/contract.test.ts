import { format } from 'prettier';
import { parse } from 'yaml';
import {
  getNotes,
  getResults,
  pets,
  readSchema,
  toContent,
  toDocument,
  toModule,
  toResponses,
} from './excerpts.js';
import type { Implementation, Module, Resource } from '../model.js';
import type { Json } from '../read/json.js';
import { formatReport } from '../report.js';
import { writeApi } from '../write/api-file.js';
import { writeEntity, writeMigration } from '../write/entity-file.js';
import { writeService } from '../write/service-file.js';
import { writeTest } from '../write/test-file.js';
import { edit } from '../../openapi/test/documents.js';

const getResource = ({ resources }: Module): Resource => resources[0]!;
const getList = ({ operations }: Module): Implementation | object => operations[0]!.implementation;

/** Pets with other properties than `id` and `name`. */
const toPets = (properties: string, id = '{ type: integer, readOnly: true }'): Module =>
  toModule(pets({ properties: `{ id: ${id}, name: { type: string }, ${properties} }` }));

const toObject = (properties: string, required = 'name'): string =>
  `{ type: object, required: [${required}], properties: { ${properties} } }`;

const toReference = (name: string): string => `{ $ref: '#/components/schemas/${name}' }`;

const getKinds = ({ operations }: Module): string[] =>
  operations.map(({ implementation: { kind } }) => kind);

const toBody = (schema: string, type?: string): string =>
  `requestBody: { ${toContent(schema, type)} }`;

/** Toys, below a path. */
const toToys = (path: string, properties = '', item = ''): Module => {
  const label = `id: { type: integer, readOnly: true }, label: { type: string }, ${properties}`;
  const toy = toObject(label, 'label');
  const reference = toReference('Toy');
  const get = `{ ${toResponses(`{ type: array, items: ${reference} }`)} }`;
  const post = `{ x-resource: true, ${toBody(reference)}, ${toResponses(reference, 201)} }`;
  const paths = `${path}: { ${item && `${item}, `}get: ${get}, post: ${post} }`;
  return toModule(pets({ paths, schemas: `Toy: ${toy}` }));
};

/** One operation. */
const toThings = (method: string, operation: string): Module =>
  toModule(toDocument(`paths: { /things: { ${method}: { x-resource: true, ${operation} } } }`));

/** Pets with a month, in a format that its pattern does not match. */
const toMonth = (required: string): Module => {
  const month = `month: { type: string, format: date, pattern: 'YYYY-MM' }`;
  const properties = `{ id: { type: integer, readOnly: true }, name: { type: string }, ${month} }`;
  return toModule(pets({ properties, required }));
};

describe('a text with a format and a pattern', () => {
  it('is noted if no value is known, and a stub if it is required', () => {
    expect(getNotes(toMonth('name'))).toEqual([
      'Pet.month: no text is known that it accepts; it is not tested.',
    ]);
    expect(writeTest(toMonth('name'))!.code).not.toContain('month');
    expect(getResults(toMonth('name, month'))['POST /pets']).toBe(
      'no text is known that Pet.month accepts',
    );
  });

  it.each([
    ['^\\d{4}-.*(Z|[+-]\\d\\d:\\d\\d)$', true],
    ['^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ$', false],
  ])('is returned if its pattern %s accepts times in UTC with milliseconds', (pattern, isShown) => {
    const time = `{ type: string, format: date-time, pattern: '${pattern}' }`;
    const module = toPets(`at: ${time}, createdAt: { readOnly: true, ${time.slice(1)}`);
    const columns = getResource(module).columns.filter((each) => each.hidden !== true);
    expect(columns.some(({ name }) => name === 'at')).toBe(isShown);
    expect(columns.some(({ name }) => name === 'createdAt')).toBe(isShown);
    expect(getNotes(module)).toEqual(
      isShown
        ? []
        : [
            'Pet.at: it is not what the request contains; it is not returned.',
            'Pet.createdAt: nothing says what it contains; it is not returned.',
          ],
    );
  });
});

describe('a schema of a contract', () => {
  it.each([
    '{ type: string, format: email }',
    '{ type: number, minimum: 0, multipleOf: 0.5 }',
    '{ type: integer, exclusiveMinimum: 0, exclusiveMaximum: 9 }',
    '{ type: array, items: { type: array, items: { type: boolean } } }',
    '{ type: object, additionalProperties: { type: integer } }',
    '{ type: string, pattern: "^a\\\\_b$" }',
    String.raw`{ type: string, pattern: '^\S+@\S+\.\S+$', maxLength: 200 }`,
    '{}',
  ])('%s is read as it is', (yaml) =>
    expect(readSchema(yaml)).toEqual({ schema: parse(yaml), notes: [] }),
  );

  it.each<[yaml: string, schema: string, note?: string]>([
    ['{ type: [string, "null"], maxLength: 5 }', '{ type: string, maxLength: 5, nullable: true }'],
    ['{ oneOf: [{ type: integer }, { type: "null" }] }', '{ type: integer, nullable: true }'],
    [
      '{ anyOf: [{ type: string }, { type: "null" }], default: a, readOnly: true, maxLength: 5 }',
      '{ type: string, nullable: true, default: a, readOnly: true, maxLength: 5 }',
    ],
    ['{ const: dog }', '{ type: string, enum: [dog] }'],
    ['{ enum: [1, 2] }', '{ type: integer, enum: [1, 2] }'],
    ['{ enum: [a, null] }', '{ type: string, enum: [a], nullable: true }'],
    ['{ type: object }', '{ type: object, additionalProperties: true }'],
    ['{ additionalProperties: true }', '{ type: object, additionalProperties: true }'],
    ['{ allOf: [{ type: string }, { maxLength: 3 }] }', '{ type: string, maxLength: 3 }'],
    ['true', '{}'],
    ['{ type: string, examples: [a, b] }', '{ type: string, example: a }'],
    [
      '{ type: string, format: phone }',
      '{ type: string, format: phone }',
      'The format phone is published, and not validated.',
    ],
    [
      '{ type: [string, integer] }',
      '{}',
      'Pet.value: any value is accepted, not only string or integer.',
    ],
    [
      '{ type: array, items: { type: integer, x-references: tags } }',
      '{ type: array, items: { type: integer, references: tags }, maxItems: 1000 }',
      'Pet.value: at most 1000 ids.',
    ],
    [
      '{ type: string, not: { const: a } }',
      '{ type: string }',
      'Pet.value: not: published by the contract, not validated.',
    ],
    [
      '{ type: string, pattern: "(?i)a" }',
      '{ type: string }',
      'Pet.value: the pattern is not one of JavaScript, and not validated.',
    ],
    ...(
      [
        ['^(a+)+$', 'exponential', ', maxLength: 20'],
        [String.raw`^(\w|\_)*$`, 'exponential', ''],
        [String.raw`^\S+@\S+\.\S+$`, '3rd degree polynomial', ''],
        [String.raw`\s+$`, '2nd degree polynomial', ', maxLength: 5000'],
      ] as const
    ).map(([pattern, growth, limit]): [string, string, string] => [
      `{ type: string, pattern: '${pattern}'${limit} }`,
      `{ type: string${limit} }`,
      `Pet.value: the pattern is too slow for some texts (${growth}), and not validated.`,
    ]),
    [
      '{ anyOf: [{ type: number }, { type: integer }] }',
      '{ oneOf: [{ type: number }, { type: integer }] }',
      'Pet.value: the alternatives of oneOf and anyOf are accepted as they are, without a discriminator.',
    ],
  ])('%s is read as %s, and what is not validated is noted', (yaml, schema, ...notes) =>
    expect(readSchema(yaml)).toEqual({ schema: parse(schema), notes }),
  );

  it.each([
    ['{ type: string, nullable: true }', '{ type: string, nullable: true }'],
    [
      '{ type: number, minimum: 0, exclusiveMinimum: true }',
      '{ type: number, exclusiveMinimum: 0 }',
    ],
    ['{ type: number, maximum: 9, exclusiveMaximum: false }', '{ type: number, maximum: 9 }'],
  ])('%s is read as %s in OpenAPI 3.0', (yaml, schema) =>
    expect(readSchema(yaml, '', '3.0.3').schema).toEqual(parse(schema)),
  );

  it('with a discriminator keeps its classes by the values of the property', () => {
    const kind = toObject('kind: { type: string }', 'kind');
    const discriminator = `{ propertyName: kind, mapping: { cat: '#/components/schemas/Cat' } }`;
    const alternatives = `[${toReference('Cat')}, ${toReference('Dog')}]`;
    const { schema } = readSchema(
      toReference('Animal'),
      // A class may extend the one with the discriminator.
      `Cat: ${kind}, Dog: { allOf: [${toReference('Animal')}, ${kind}] },
      Animal: { oneOf: ${alternatives}, discriminator: ${discriminator} }`,
    );
    const [cat, dog] = [{ name: 'Cat' }, { name: 'Dog' }];
    expect(schema).toMatchObject({
      oneOf: [{ class: cat }, { class: dog }],
      discriminator: { property: 'kind', mapping: { cat, Dog: dog } },
    });
  });

  it.each([
    ['{ oneOf: [{ type: string }, { type: integer }, { type: array, items: {} }] }', true],
    [`{ anyOf: [{ type: string }, ${toReference('Cat')}] }`, true],
    ['{ oneOf: [{ type: integer }, { type: number }] }', false],
    ['{ oneOf: [{ type: string, enum: [a] }, { type: string }] }', false],
    ['{ oneOf: [{ type: string }, {}] }', false],
    [`{ anyOf: [${toReference('Cat')}, ${toReference('Toy')}] }`, false],
  ])('%s has alternatives that are validated: %s', (yaml, isValidated) => {
    const classes = ['Cat', 'Toy'].map((name) => `${name}: ${toObject('name: { type: string }')}`);
    const note = 'Pet.value: the alternatives of oneOf and anyOf are accepted as they are';
    const { notes } = readSchema(yaml, classes.join(', '));
    expect(notes.some((each) => each.startsWith(note))).toBe(!isValidated);
  });

  it.each([
    ['kind: { const: dog }', 'kind', true],
    ['kind: { type: string, enum: [dog, fox] }', 'kind', true],
    ['kind: { type: string, enum: [dog, cat] }', 'kind', false],
    ['kind: { type: string }', 'kind', false],
    ['kind: { type: string, enum: [dog], nullable: true }', 'kind', false],
    ['kind: { type: string, enum: [dog] }', 'name', false],
    ['kind: { type: string, enum: [dog], readOnly: true }', 'kind', false],
    ['kind: { type: integer, enum: [1] }', 'kind', false],
    ['type: { type: string, enum: [dog] }', 'type', false],
  ])('is told apart from another with the kind cat by { %s }, required %s: %s', (...row) => {
    const [kind, required, isApart] = row;
    const dog = toObject(`name: { type: string }, ${kind}`, required);
    const { schema, notes } = readSchema(
      `{ anyOf: [${toReference('Cat')}, ${toReference('Dog')}] }`,
      `Cat: ${toObject('name: { type: string }, kind: { const: cat }', 'kind')}, Dog: ${dog}`,
    );
    expect(schema.discriminator?.property).toBe(isApart ? 'kind' : undefined);
    expect(Object.keys(schema.discriminator?.mapping ?? {}).slice(0, 2)).toEqual(
      isApart ? ['cat', 'dog'] : [],
    );
    expect(notes.length).toBe(isApart ? 0 : 1);
  });

  it.each([
    `{ anyOf: [${toReference('Cat')}, { type: "null" }], readOnly: true, deprecated: true }`,
    `{ allOf: [${toReference('Cat')}], nullable: true, readOnly: true, deprecated: true }`,
    toReference('ReadOnlyCat'),
  ])('%s is a class that only responses have', (yaml) => {
    const cat = toObject('name: { type: string }');
    const flags = { nullable: true, readOnly: true, deprecated: true };
    const { schema } = readSchema(
      yaml,
      `Cat: ${cat}, ReadOnlyCat: { ${cat.slice(1, -1)}, nullable: true, readOnly: true, deprecated: true }`,
      '3.0.3',
    );
    expect(schema).toEqual({ class: schema.class, ...flags });
    expect(schema.class?.properties).toHaveLength(1);
  });

  it('with a discriminator alone has only its own properties, which is noted', () => {
    const pet = toObject('name: { type: string }, kind: { type: string }');
    const cat = `Cat: { allOf: [${toReference('Animal')}, ${toObject('lives: { type: integer }')}] }`;
    const animal = `Animal: { ${pet.slice(1, -1)}, discriminator: { propertyName: kind } }`;
    const note = 'Animal: the properties of the schemas that extend it are not accepted.';
    expect(readSchema(toReference('Animal'), `${animal}, ${cat}`).notes).toEqual([note]);
    expect(readSchema(toReference('Animal'), animal).notes).toEqual([]);
  });

  it('without a name gets one that no schema has', () => {
    const { classes } = toModule(
      pets({
        list: toObject('a: {}', ''),
        properties: `{ name: ${toReference('ListPetsResponse')} }`,
        schemas: `ListPetsResponse: ${toObject('b: {}', '')}`,
      }),
    );
    const names = classes.map(({ publishedName }) => publishedName);
    expect(names).toEqual(['ListPetsResponse2', 'Pet', 'ListPetsResponse']);
  });

  it('may contain itself', () => {
    const json = toReference('json');
    const children = `{ type: array, items: ${toReference('Pet')} }`;
    const jsons = `{ anyOf: [{ type: array, items: ${json} }, { additionalProperties: ${json} }] }`;
    const { classes } = toModule(
      pets({
        properties: `{ name: ${toReference('a')}, children: ${children}, data: ${json} }`,
        schemas: `a: ${toReference('b')}, b: ${toReference('a')}, json: ${jsons}`,
      }),
    );
    expect(classes).toHaveLength(1);
    const [name, pet, data] = classes[0]!.properties;
    expect(name).toEqual({ name: 'name', required: true });
    expect(pet!.items!.class).toBe(classes[0]);
    expect(data!.oneOf).toEqual([
      { type: 'array', items: {} },
      { type: 'object', additionalProperties: {} },
    ]);
  });
});

it.each(['allOf', 'anyOf'])('schemas that double 40 times with %s are refused', (keyword) => {
  const schemas = Array.from({ length: 40 }, (_, index) => {
    const other = toReference(`S${index}`);
    return `S${index + 1}: { ${keyword}: [${other}, ${other}] }`;
  });
  const all = `S0: { type: object, properties: { a: { type: string } } }, ${schemas.join(', ')}`;
  expect(() => readSchema(toReference('S40'), all)).toThrow('contain one another in too many ways');
});

describe('the list of a contract', () => {
  const TEXTS = '{ schema: { type: array, items: { type: string } } }';
  const OTHERS = `sold: { type: boolean }, size: { enum: [s, m] }, tags: { type: array, items: { type: string } }`;

  /** @param list parameters by name: the type of one in the query, or more */
  const toList = (list: string): Module => {
    const parameters = Object.entries(parse(`{ ${list} }`) as Json).map(([name, part]) => {
      const rest = typeof part === 'string' ? { schema: { type: part } } : part;
      return Object.assign({ name, in: 'query' }, rest);
    });
    const properties = `{ id: { type: integer, readOnly: true }, name: { type: string }, ${OTHERS} }`;
    return toModule(pets({ properties, parameters: JSON.stringify(parameters) }));
  };

  it.each([
    ['', { paging: {}, filters: [] }],
    ['If-None-Match: { in: header }', { paging: {}, filters: [] }],
    ['limit: integer', { paging: { limit: 'limit' } }],
    ['limit: integer, after: integer', { paging: { limit: 'limit', by: { role: 'after' } } }],
    [
      'per_page: integer, pageNumber: integer',
      {
        paging: { limit: 'per_page', by: { role: 'page', name: 'pageNumber', isFromZero: false } },
      },
    ],
    [
      'take: integer, skip: integer',
      { paging: { limit: 'take', by: { role: 'offset', name: 'skip' } } },
    ],
    [
      'size: integer, page: { schema: { type: integer, default: 0 } }',
      { paging: { by: { role: 'page', isFromZero: true } } },
    ],
    [
      'sold: { schema: { type: [boolean, "null"] } }',
      { filters: [{ parameter: 'sold', column: { property: 'sold' } }] },
    ],
    ['size: string', { filters: [{ parameter: 'size' }] }],
    [`name: ${TEXTS}`, { filters: [{ parameter: 'name', column: { property: 'name' } }] }],
  ])('with the parameters { %s } selects rows', (list, expected) => {
    const module = toList(list);
    expect(getList(module)).toMatchObject({ kind: 'list', ...expected });
    const isNull = expect.objectContaining({ nullable: true });
    expect(module.operations[0]!.parameters).not.toContainEqual(isNull);
  });

  const TREE = '{ style: deepObject, schema: { type: object }';
  const ONE_TEXT = '{ explode: false, schema: { type: array, items: { type: string } }';
  it.each([
    ['sort: string'],
    ['sold: string'],
    ['dryRun: { schema: { type: boolean, default: false } }'],
    [`name: ${TREE} }`],
    [`name: ${ONE_TEXT} }`],
  ])('with the optional parameter { %s } works without it', (list) => {
    const module = toList(list);
    const [name] = list.split(':');
    expect(getList(module)).toMatchObject({ kind: 'list', filters: [] });
    expect(module.operations[0]!.parameters).not.toContainEqual(
      expect.objectContaining({ default: false }),
    );
    expect(getNotes(module)).toContain(`?${name}: a request with the query parameter gets 501.`);
    expect(formatReport(module)).toMatch(
      new RegExp(`^GET /pets +implemented without \\?${name}$`, 'm'),
    );
    // A class cannot have some of them.
    const files = [writeApi(module), writeService(module)].map(({ code }) => code).join('\n');
    expect(files).toContain(
      /Object|explode/.test(list)
        ? `unsupportedQuery: { ${name}: {} }`
        : `refuseQuery(query, "${name}");`,
    );
  });

  it.each([
    'X-API-Key',
    'apikey',
    'ev-api-key',
    'x-access-token',
    'token',
    'X-Account-Token',
    'X-Vendor-App-Secret',
  ])('may require the header %s, which the bearer key replaces', (name) => {
    const module = toList(`${name}: { in: header, required: true }`);
    expect(getResults(module)['GET /pets']).toBe('implemented');
    expect(getNotes(module)).toContain(`${name}: the header is ignored.`);
  });

  it('may have parameters that only shape it', () => {
    const module = toList('fields: string, opt_pretty: boolean');
    expect(getResults(module)['GET /pets']).toBe('implemented');
    expect(module.operations[0]!).toMatchObject({
      unsupportedQuery: [],
      parameters: [{ name: 'fields' }, { name: 'opt_pretty' }],
    });
    expect(getNotes(module)).toContain('?fields: it is ignored.');
    expect(writeService(module).code).toContain('listPets(_query: ListPetsQuery)');
  });

  it.each([
    ['sort: { required: true, schema: { type: string } }', 'sort has no known effect'],
    ['sort: { schema: { type: string, default: name } }', 'sort has no known effect'],
    ['all: { schema: { type: boolean, default: true } }', 'all has no known effect'],
    [`name: ${TREE}, required: true }`, 'name is neither text nor a number nor a list of them'],
    [`name: ${ONE_TEXT}, required: true }`, 'name is one text with several items'],
  ])('with the parameter { %s } is a stub: %s', (list, reason) =>
    expect(getList(toList(list))).toEqual({
      kind: 'stub',
      reason: `the query parameter ${reason}`,
    }),
  );

  it.each([
    ['X-Region: { in: header, required: true }', 'the header X-Region is required'],
    ['page-token: { in: header, required: true }', 'the header page-token is required'],
    ['session: { in: cookie, required: true }', 'the cookie session is required'],
  ])('with the parameter { %s } is a stub: %s', (list, reason) =>
    expect(getList(toList(list))).toEqual({ kind: 'stub', reason }),
  );

  const ROWS = `{ type: array, items: ${toReference('Pet')} }`;
  it('is a stub if it is not that of the collection, and no parameter selects its rows', () => {
    const paths = `/pets/sold: { get: { ${toResponses(ROWS)} } }`;
    const reason = 'nothing says which of the objects it lists';
    expect(getResults(toModule(pets({ paths })))).toMatchObject({ 'GET /pets/sold': reason });
    const query = 'parameters: [{ name: q, in: query, schema: { type: string } }]';
    const search = toModule(
      pets({
        list: '{ type: string }',
        paths: `/pets/find: { get: { ${query}, ${toResponses(ROWS)} } }`,
      }),
    );
    expect(getResults(search)).toMatchObject({ 'GET /pets/find': reason });
  });

  it.each([
    [
      `data: ${ROWS}, has_more: {}`,
      '',
      { content: { name: 'data' }, paging: { has_more: 'hasMore' } },
    ],
    [`rows: ${ROWS}, meta: {}`, '', { content: { name: 'rows' }, unknown: ['meta'] }],
    [`rows: ${ROWS}, success: { type: boolean }`, 'success', { constants: { success: true } }],
    [`rows: ${ROWS}, meta: {}`, 'meta', undefined],
    [`rows: ${ROWS}, others: ${ROWS}`, '', undefined],
  ])(
    'that is an object with { %s } has its only array as rows',
    (properties, required, envelope) => {
      const list = getList(toModule(pets({ list: toObject(properties, required) })));
      expect(list).toMatchObject(envelope === undefined ? { kind: 'stub' } : { envelope });
    },
  );

  it.each([
    ['{ type: string }', false],
    ['{ type: string, maxLength: 500 }', true],
    ['{ type: string, maxLength: 501 }', false],
    ['{ type: string, format: uuid }', true],
    ['{ type: integer }', true],
  ])('has an index for a filter by %s: %s', (schema, indexed) => {
    const parameters = `[{ name: name, in: query, schema: ${schema} }]`;
    const module = toModule(
      pets({ properties: `{ id: { type: integer }, name: ${schema} }`, parameters }),
    );
    expect(getResource(module).columns).toMatchObject([{ name: 'name', indexed }]);
    const note = 'listPets: the filter name has no index, because its text has no limit.';
    expect(getNotes(module).includes(note)).toBe(!indexed);
  });

  it('has limits, which the report notes', () => {
    const module = toList('limit: integer, offset: integer');
    expect(module.operations[0]!.parameters).toMatchObject([
      { minimum: 1, maximum: 1_000 },
      { minimum: 0, default: 0 },
    ]);
    expect(getNotes(module)).toContain('listPets: limit is at most 1000.');
  });
});

describe('a resource in an envelope', () => {
  const NAME = toObject('name: { type: string }');
  const PET = toReference('Pet');

  /** @param response the schema of the responses of POST, GET, PUT and DELETE */
  const toPetsWith = (response: string, request = NAME): Module => {
    const responses = toResponses(response);
    const write = `{ ${toBody(request)}, ${responses} }`;
    const item = `"/pets/{petId}": { get: { ${responses} }, put: ${write}, delete: { ${responses} } }`;
    const pet = toObject('id: { type: integer }, name: { type: string }', 'id, name');
    const paths = `paths: { /pets: { post: ${write} }, ${item} }`;
    return toModule(toDocument(`${paths}\ncomponents: { schemas: { Pet: ${pet} } }`));
  };
  it.each([
    [`data: ${PET}`, 'data', {}],
    [`data: ${PET}, meta: {}, links: ${toReference('Links')}`, 'data', {}],
    [
      `success: { type: boolean }, status: { type: integer }, message: { type: string }, pet: ${PET}`,
      'pet, message, success, status',
      { success: true, status: 200, message: 'OK' },
    ],
    [`result: { const: success }, pet: ${PET}`, 'result', { result: 'success' }],
    [`pet: ${toObject('id: { type: integer }, name: { type: string }')}`, '', {}],
  ])(
    'with { %s } is stored, and returned with what is known',
    (properties, required, constants) => {
      const module = toPetsWith(toObject(properties, required));
      expect(getKinds(module)).toEqual(['create', 'read', 'replace', 'delete']);
      const dto = { properties: [{ name: 'id' }, { name: 'name' }] };
      for (const { implementation } of module.operations)
        expect(implementation).toMatchObject({ dto, envelope: { constants } });
    },
  );

  it.each([
    [`data: ${PET}, total: { type: integer }`, 'total'],
    [`old: ${PET}, new: ${PET}`, ''],
    ['id: { type: integer }, pet: { type: string }', ''],
    [`id: { type: integer }, pet: ${PET}`, ''],
  ])('with { %s } is a stub', (properties, required) => {
    const module = toPetsWith(toObject(properties, required));
    expect(new Set(getKinds(module))).toEqual(new Set(['stub']));
  });

  it('may be one of requests, too', () => {
    const request = toObject(`pet: ${NAME}`, 'pet');
    const module = toPetsWith(toObject(`pet: ${PET}`), request);
    expect(getKinds(module)).toEqual(['create', 'read', 'replace', 'delete']);
    for (const index of [0, 2])
      expect(module.operations[index]!.implementation).toMatchObject({ sent: { property: 'pet' } });
  });

  it('notes the properties that are not returned', () => {
    const note =
      'meta of the response of getPetsByPetId: nothing says what it contains; it is not returned.';
    expect(getNotes(toPetsWith(toObject(`data: ${PET}, meta: {}`, '')))).toContain(note);
  });

  it('is none if a property of that name is stored', () => {
    const config = toObject('name: { type: string }, color: { type: string }');
    const shown = toObject(`id: { type: integer }, config: ${config}`, 'id');
    const { operations, resources } = toPetsWith(shown, toObject(`config: ${config}`, 'config'));
    expect(resources[0]!.columns).toMatchObject([{ property: 'config' }]);
    expect(operations[0]!.implementation).toMatchObject({ envelope: undefined });
  });

  it('is not needed by a response that only says that the operation succeeded', () => {
    const message = toObject('message: { type: string }', 'message');
    const module = toModule(pets({ operations: `delete: { ${toResponses(message)} }` }));
    expect(module.operations.at(-1)!.implementation).toMatchObject({
      kind: 'delete',
      dto: undefined,
      envelope: { constants: { message: 'OK' } },
    });
  });
});

/** Pets with an id whose path has a parameter of another schema, as GitLab publishes them. */
const toPetsAt = (id: string, parameter: string, required = 'name'): Module => {
  const properties = `{ id: ${id}, name: { type: string } }`;
  const operations = `parameters: [{ name: petId, in: path, required: true, schema: ${parameter} }]`;
  return toModule(pets({ properties, operations, required }));
};

describe('the id of a contract', () => {
  it.each([
    ['id: { type: integer, readOnly: true }', '{petId}', 'id integer service'],
    ['id: { type: number }', '{petId}', 'id integer client'],
    ['id: { type: number, format: double, readOnly: true }', '{petId}', 'id integer service'],
    ['id: { type: integer }', '{petId}', 'id integer client'],
    ['id: { type: string, format: uuid, readOnly: true }', '{petId}', 'id uuid service'],
    ['id: { type: string, format: uuid }', '{id}', 'id uuid client'],
    ['id: { type: string }', '{id}', 'id text client'],
    ['petNumber: { type: integer, readOnly: true }', '{petNumber}', 'petNumber integer service'],
    ['pet_id: { type: integer, readOnly: true }', '{petId}', 'pet_id integer service'],
    ['', '{name}', 'undefined integer service'],
    // As Google and Twitter publish them.
    ['id: { type: string, format: int64, readOnly: true }', '{petId}', 'id integer service'],
    ['id: { type: string, pattern: "^[0-9]{1,19}$" }', '{petId}', 'id integer service'],
    ['id: { type: string, maxLength: 20, readOnly: true }', '{petId}', 'id integer service'],
  ])('%s in the path %s is %s', (id, item, expected) => {
    const properties = `{ name: { type: string }, ${id} }`;
    const required = expected.endsWith('client') ? 'name, id' : 'name';
    const { property, kind, by } = getResource(toModule(pets({ properties, required, item }))).id;
    expect(`${property} ${kind} ${by}`).toBe(expected);
  });

  it('is an integer, which responses have as text, if the path says so', () => {
    const module = toPetsAt('{ type: string }', '{ type: integer }');
    expect(getResource(module).id).toMatchObject({ kind: 'integer', by: 'service' });
    expect(getNotes(module)).toContain(
      'Pet.id: the service assigns an integer, which is text in responses.',
    );
    expect(writeService(module).code).toContain('id: String(row.id)');
    expect(writeApi(module).code).toContain('@IdParam("petId", { schema');
  });

  it.each([
    ['{ type: string, format: uuid }', '{ type: integer }', 'Pet.id is not what {petId} is'],
    ['{ type: integer, readOnly: true }', '{ type: string, format: uuid }', 'Pet.id is not what'],
    ['{ type: string }', '{ type: string, format: email }', 'Pet.id is not a UUID of version 7'],
    ['{ type: string }', '{ type: string, format: uuid }', 'implemented'],
    ['{ type: integer, readOnly: true }', '{ type: string, pattern: "^[0-9]+$" }', 'implemented'],
    ['{ type: string }', '{ type: integer }', 'Pet.id is not an integer, as {petId}', 'id, name'],
  ])('of %s in a path with %s: %s', (id, parameter, result, required = 'name') =>
    expect(getResults(toPetsAt(id, parameter, required))['POST /pets']).toContain(result),
  );

  it('is an integer if it is a number, as no other number is', () => {
    const module = toPets('petId: { type: number }, reviewId: { type: number }');
    const { id, columns } = getResource(module);
    expect(id).toMatchObject({ property: 'petId', kind: 'integer' });
    expect(columns.map(({ schema }) => schema.type)).toEqual(['string', 'number']);
    expect(getNotes(module)).toContain('ids that are numbers are integers.');
  });

  it.each([
    ['{ type: integer }', 'Pet.id: the service assigns it; one in a request is ignored.'],
    ['{ type: string, readOnly: true }', 'Pet.id: the service assigns a UUID.'],
  ])('%s is noted', (id, note) => expect(getNotes(toPets('', id))).toContain(note));

  it('may be only in a list, if the response to a POST request has no body', () => {
    const pet = toObject('id: { type: integer }, name: { type: string }', 'id');
    const get = `{ ${toResponses(`{ type: array, items: ${pet} }`)} }`;
    const post = `{ ${toBody(toObject('name: { type: string }'))}, responses: { 201: { description: OK } } }`;
    const item = '"/pets/{id}": { delete: { responses: { 204: { description: OK } } } }';
    // Has the name of the request, too, but is not one of the pets.
    const toy = toObject('toyId: { type: integer }, name: { type: string }', 'toyId');
    const below = `"/pets/{id}/toys/{toyId}": { get: { ${toResponses(toy)} } }`;
    const paths = `paths: { ${below}, /pets: { get: ${get}, post: ${post} }, ${item} }`;
    const module = toModule(toDocument(paths));
    expect(getKinds(module)).toEqual(['stub', 'list', 'create', 'delete']);
    expect(getResource(module).id).toMatchObject({ property: 'id', by: 'service' });
  });

  it.each([
    ['{ type: string }', 'nothing says who assigns PostPetsRequest.id'],
    ['{ type: string, readOnly: true }', 'no operation shows what it would store'],
  ])('must be known to clients: %s in a request without a response', (id, reason) => {
    const pet = toObject(`id: ${id}, name: { type: string }`, 'name');
    const post = `{ ${toBody(pet)}, responses: { 204: { description: OK } } }`;
    const item = `{ get: { ${toResponses(pet)} }, delete: { responses: { 204: { description: OK } } } }`;
    const results = getResults(
      toModule(toDocument(`paths: { /pets: { post: ${post} }, "/pets/{id}": ${item} }`)),
    );
    expect(results['POST /pets']).toBe(reason);
    expect(Object.values(results)).not.toContain('implemented');
  });

  it('may be another unique text in a path', () => {
    const module = toModule(pets({ item: '{name}' }));
    expect(getResource(module).columns).toMatchObject([{ property: 'name', unique: true }]);
    const key = { property: 'name' };
    expect(module.operations.at(-1)!.implementation).toMatchObject({ kind: 'read', key });
    expect(getNotes(module)).toContain('Pet.name: at most 500 characters, because it is unique.');
  });
});

/** Pets with a property that responses require. */
const toResponse = (name: string, schema: string): Module => {
  const properties = `{ name: { type: string }, ${name}: ${schema} }`;
  return toModule(pets({ properties, required: `name, ${name}`, item: '{name}' }));
};

/** Tags, whose POST returns only what is told. */
const toTold = (
  told: string,
  key = 'tagId',
  shown = 'id: { type: string }, name: { type: string }',
): Module => {
  const read = toResponses(toObject(shown));
  const item = `/tags/{${key}}: { get: { ${read} }, delete: { responses: { 204: { description: OK } } } }`;
  const post = `{ post: { ${toBody(toObject('name: { type: string }'))}, ${toResponses(`{ type: object, properties: { ${told} } }`, 201)} } }`;
  return toModule(toDocument(`paths:\n  /tags: ${post}\n  ${item}`));
};

describe('a POST that returns only an id', () => {
  const GID = 'gid: { type: string }, name: { type: string }';
  const NUMBER = 'order_number: { type: string }, name: { type: string }';

  it.each([
    ['id: { type: string }', 'tagId', undefined, 'id'],
    ['data: { type: object, properties: { id: { type: string } } }', 'tag', undefined, 'id'],
    ['gid: { type: string }', 'tag_gid', GID, 'gid'],
    ['order_number: { type: string }', 'order_number', NUMBER, 'order_number'],
    ['TagID: { type: integer }', 'id', 'TagID: { type: integer }, name: {}', 'TagID'],
  ])('is implemented with { %s } and {%s}', (told, key, shown, property) => {
    const module = toTold(told, key, shown);
    expect(getResults(module)).toEqual({
      'POST /tags': 'implemented',
      [`GET /tags/{${key}}`]: 'implemented',
      [`DELETE /tags/{${key}}`]: 'implemented',
    });
    expect(getResource(module)).toMatchObject({ id: { property, by: 'service' } });
    expect(getResource(module).columns).toMatchObject([{ name: 'name', hidden: false }]);
  });

  it.each([
    ['{slug} is not an id', 'id: { type: string }', 'slug', undefined],
    ['has no id', 'count: { type: integer }', 'tagId', undefined],
    ['other types', 'id: { type: string }', 'tagId', 'id: { type: integer }, name: {}'],
    ['it has more', 'id: { type: string }, url: { type: string }', 'tagId', undefined],
  ])('is a stub, or its item is one: %s', (_name, told, key, shown) => {
    const results = Object.values(getResults(toTold(told, key, shown)));
    expect(results.filter((each) => each === 'implemented').length).toBeLessThan(2);
  });
});

describe('a property that only responses have', () => {
  it.each([
    ['kind', '{ const: pet, readOnly: true }', 'default', "'pet'"],
    ['state', '{ enum: [open, done], default: done, readOnly: true }', 'default', "'done'"],
    ['createdAt', '{ type: string, format: date-time, readOnly: true }', 'now', 'new Date()'],
    [
      'soldAt',
      '{ type: string, format: date-time, readOnly: true, x-assigned: now }',
      'now',
      'new Date()',
    ],
    ['isSold', '{ type: boolean, readOnly: true }', 'to decide', 'false'],
    ['total', '{ type: integer, minimum: 3, readOnly: true }', 'to decide', '3'],
    ['title', '{ type: string, readOnly: true }', 'to decide', "''"],
    ['title', '{ type: string, pattern: "^ab$", readOnly: true }', 'to decide', "'ab'"],
    ['size', '{ enum: [s, m], readOnly: true }', 'to decide', "'s'"],
    ['state', '{ type: [string, "null"], readOnly: true }', undefined, 'state: row.state'],
  ])('is assigned by the service: %s %s', async (name, schema, assigned, code) => {
    const module = toResponse(name, schema);
    expect(getResource(module).columns[1]).toMatchObject({ property: name });
    expect(getResource(module).columns[1]!.assigned).toBe(assigned);
    const service = await format(writeService(module).code, {
      parser: 'typescript',
      singleQuote: true,
    });
    expect(service).toContain(code);
    expect(service.includes('To decide')).toBe(assigned === 'to decide');
    const line = assigned === 'to decide' ? 'implemented, 1 value to decide' : 'implemented';
    expect(formatReport(module)).toMatch(new RegExp(`^POST /pets +${line}$`, 'm'));
  });

  it.each([
    ['ownerId', '{ type: string, readOnly: true }'],
    ['owner', '{ type: string, readOnly: true }'],
    ['accessToken', '{ type: string, readOnly: true }'],
    ['etag_hash', '{ type: string, readOnly: true }'],
    ['avatarUrl', '{ type: string, readOnly: true }'],
    ['status', '{ enum: [open, done], readOnly: true }'],
    ['expires', '{ type: string, format: date-time, readOnly: true }'],
    ['reference', '{ type: string, format: uuid, readOnly: true }'],
    ['links', '{ type: array, minItems: 1, items: { type: string }, readOnly: true }'],
  ])('is never invented: %s', (name, schema) =>
    expect(getResults(toResponse(name, schema))['POST /pets']).toBe(
      `nothing says what Pet.${name} contains`,
    ),
  );
});

describe('an array of references', () => {
  it('has a join entity, whose first column is the id of the row', () => {
    const items = '{ type: string, format: uuid, x-references: tags }';
    const module = toPets(`tagIds: { type: array, maxItems: 9, items: ${items} }`);
    expect(getNotes(module)).toEqual([]);
    expect(getResource(module).columns[1]!.join).toMatchObject({
      name: 'PetTag',
      table: 'pet_tags',
      columns: [
        { property: 'petId', references: 'pets', cascades: true, indexed: false },
        { property: 'tagId', references: 'tags', indexed: true, schema: { format: 'uuid' } },
      ],
    });
  });

  it('is not checked within another value, which is noted', () => {
    const module = toPets(`tag: ${toObject('id: { type: integer, x-references: tags }', '')}`);
    expect(getNotes(module)).toEqual(['Pet.tag: that its ids exist is not checked.']);
  });
});

/** A list, a POST and a DELETE of what a schema describes. */
const toPaths = (path: string, schema: string, id: string): string =>
  [
    `${path}: { get: { ${toResponses(`{ type: array, items: ${schema} }`)} }, post: { x-resource: true, ${toBody(schema)}, ${toResponses(schema, 201)} } }`,
    `${path}/{${id}}: { delete: { responses: { 204: { description: OK } } } }`,
  ].join('\n  ');

/** Boards, below a path. */
const toBoards = (parameter: string, properties: string, required: string, above = ''): Module => {
  const board = toObject(properties, required);
  return toModule(toDocument(`paths:\n  ${toPaths(`${above}/boards`, board, parameter)}`));
};

describe('the parameter that ends the path of a resource', () => {
  it.each([
    ['{slug}', 'slug', 'id: { type: integer, readOnly: true }, slug: { type: string }', 'slug'],
    ['{boardKey}', 'key', '_id: { type: integer, readOnly: true }, key: { type: string }', 'key'],
    ['{boardName}', 'name', 'name: { type: string }', 'name'],
    // The text of a board is not what identifies it.
    ['{board}', 'id', 'id: { type: integer, readOnly: true }, board: { type: string }', 'board'],
    ['{board_id}', 'id', 'id: { type: integer, readOnly: true }, board: { type: string }', 'board'],
  ])(
    '%s names %s of %s, of which "%s" is required',
    (parameter, property, properties, required) => {
      const { operations, resources } = toBoards(parameter.slice(1, -1), properties, required);
      const unique = resources[0]!.columns.filter((each) => each.unique);
      expect(unique.map(({ name }) => name)).toEqual(property === 'id' ? [] : [property]);
      expect(operations.at(-1)!.implementation).toMatchObject({
        key: { in: 'path', property: property === 'id' ? 'id' : property },
      });
    },
  );

  it.each(['id: { type: string }', 'id: { type: integer }'])(
    'is unique below the same parent, also if it is %s that clients choose',
    (properties) => {
      const module = toBoards('id', properties, 'id', '/{realm}');
      const [resource] = module.resources;
      expect(resource!.id).toMatchObject({ property: undefined, by: 'service' });
      expect(writeEntity(module, resource!).code).toContain(
        '@Unique("uq_boards_id_value", ["realm", "idValue"])',
      );
      expect(writeMigration(module, resource!, 1).code).toContain(
        'uniques: [{ name: "uq_boards_id_value", columnNames: ["realm", "id_value"] }]',
      );
    },
  );

  it('is shown by the resource, or nothing tells clients where it is', () => {
    const sent = toObject('slug: { type: string }, title: { type: string }', 'slug');
    const shown = toObject('title: { type: string }', '');
    const post = `{ post: { x-resource: true, ${toBody(sent)}, ${toResponses(shown, 201)} } }`;
    const remove = '{ delete: { responses: { 204: { description: OK } } } }';
    const paths = `paths:\n  /boards: ${post}\n  /boards/{slug}: ${remove}`;
    expect(getResults(toModule(toDocument(paths)))['DELETE /boards/{slug}']).toContain(
      'does not show slug, which {slug} names',
    );
  });

  it('cannot be another one than the id that clients choose, below a parent', () => {
    const module = toBoards('board', 'id: { type: string }', 'id', '/{realm}');
    expect(getResults(module)['POST /{realm}/boards']).toContain(
      'may be the same below another {realm}',
    );
  });
});

describe('a resource below a parameter', () => {
  it.each([
    ['petId', 'petId'],
    ['pet_id', 'pet_id'],
    ['id', 'petId'],
  ])('{%s} filters by it, and has a foreign key to its parent in %s', (parameter, property) => {
    const { operations, resources } = toToys(`/pets/{${parameter}}/toys`);
    const owners = [{ resource: { name: 'Pet' }, parameter, property }];
    expect(operations.filter(({ path }) => path.endsWith('/toys'))).toMatchObject([
      { implementation: { kind: 'list', owners } },
      { implementation: { kind: 'create', owners } },
    ]);
    const { code } = writeService(toToys(`/pets/{${parameter}}/toys`));
    expect(code).toContain(`{ toBody: toToy, parent: "${property}" }`);
    expect(code.match(/\.getRow\(/g)).toHaveLength(1);
    const column = { property, references: 'pets', hidden: true };
    expect(resources[1]!.columns[0]).toMatchObject(column);
  });

  it.each([
    ['pet-id', 'pet_id'],
    ['petId', 'pet_id'],
    ['pet_id', 'petId'],
    ['id', 'pet-id'],
  ])('{%s} is the property %s of its class, which is returned', (parameter, property) => {
    const module = toToys(`/pets/{${parameter}}/toys`, `${property}: { type: integer }`);
    const [parent, label, ...others] = module.resources[1]!.columns;
    expect(parent).toMatchObject({ name: property, references: 'pets', hidden: false });
    expect([label, others]).toMatchObject([{ name: 'label' }, []]);
    expect(getNotes(module)).toContain(
      `Toy.${property}: that of the path counts; one in a request is ignored.`,
    );
  });

  it('has one path, whatever its parameters are named there', () => {
    const toy = toObject('toy_id: { type: integer }, label: { type: string }', 'toy_id, label');
    const get = `{ ${toResponses(toy)} }`;
    const post = `{ ${toBody(toObject('label: { type: string }', 'label'))}, ${toResponses(toy, 201)} }`;
    const item = `/pets/{pet_id}/toys/{toy-id}: { get: ${get}, delete: { responses: { 204: {} } } }`;
    const paths = `/pets/{petId}/toys: { post: ${post} }\n  ${item}`;
    const module = toModule(pets({ paths }));
    const [read, remove] = module.operations.slice(-2);
    for (const { implementation } of [read!, remove!])
      expect(implementation).toMatchObject({
        owners: [{ parameter: 'pet_id', property: 'petId' }],
      });
    expect(writeService(module).code).toContain('this.toys.delete({ petId, id: toyId })');
  });

  it('is filtered by a property in another style', () => {
    const parameters = '[{ name: owner-id, in: query, schema: { type: integer } }]';
    const properties = '{ id: { type: integer }, name: {}, owner_id: { type: integer } }';
    const filters = [{ parameter: 'owner-id', column: { property: 'owner_id' } }];
    expect(getList(toModule(pets({ parameters, properties })))).toMatchObject({ filters });
  });

  it.each([
    // A pet at another path.
    ['/shops/{shopId}/pets/{petId}/toys', 'no operation creates what {petId} identifies'],
    ['/shops/{shopId}-{city}/toys', 'a segment of its path has more than a parameter'],
    ['/pets/{petId}.{format}/toys', 'a segment of its path has more than a parameter'],
  ])('is a stub at %s', (path, reason) =>
    expect(getResults(toToys(path))).toMatchObject({ [`POST ${path}`]: reason }),
  );

  it('is a stub below what an operation shows, and no operation creates', () => {
    const get = `{ get: { ${toResponses(toObject('name: { type: string }'))} } }`;
    const posts = `{ post: { ${toBody(toReference('Toy'))}, ${toResponses(toReference('Toy'), 201)} } }`;
    const paths = `/shops/{id}: ${get}\n  /shops/{id}/toys: ${posts}`;
    const schemas = `Toy: ${toObject('id: { type: integer, readOnly: true }, label: { type: string }', 'label')}`;
    expect(getResults(toModule(pets({ paths, schemas })))).toMatchObject({
      'POST /shops/{id}/toys': 'no operation creates what {id} identifies',
    });
  });

  it.each([
    ['/{realm}/toys', { realm: 'string' }],
    ['/shops/{shop-id}/rooms/{room}/toys', { 'shop-id': 'string', room: 'integer' }],
  ])('has the values of %s, which nothing creates, in its columns', (path, types) => {
    const parameters = Object.entries(types).map(
      ([name, type]) => `{ name: ${name}, in: path, required: true, schema: { type: ${type} } }`,
    );
    const module = toToys(path, '', `parameters: [${parameters.join(', ')}]`);
    const columns = Object.values(types).map((type) => ({ schema: { type }, indexed: true }));
    expect(module.resources[1]!.columns.slice(0, -1)).toMatchObject(columns);
    const names = Object.keys(types).map((name) => (name === 'shop-id' ? 'shopId' : name));
    const service = writeService(module).code;
    expect(service).toContain(`getRow({ ${names.join(', ')} });`);
    expect(service).toContain(`list({ ${names.join(', ')} })`);
    expect(getNotes(module).filter((note) => note.includes('It is no border'))).toEqual(
      Object.keys(types).map((name) => expect.stringContaining(`{${name}}`) as string),
    );
  });

  it('is below two resources, whose parents it requires', () => {
    const module = toModule(
      pets({
        paths: `${toPaths('/pets/{petId}/toys', toReference('Toy'), 'toyId')}\n  ${toPaths('/pets/{pet}/toys/{toy}/parts', toReference('Part'), 'partId')}`,
        schemas: ['Toy', 'Part']
          .map(
            (name) =>
              `${name}: ${toObject(`${name}Id: { type: integer, readOnly: true }, name: {}`, 'name')}`,
          )
          .join(', '),
      }),
    );
    const service = writeService(module).code;
    expect(service).toContain('this.toys.getRow({ id: toy, petId: pet })');
    expect(service).toContain('this.parts.delete({ pet, toy, id: partId })');
    const { columns } = module.resources.find(({ name }) => name === 'Part')!;
    expect(columns).toMatchObject([
      { name: 'pet', references: undefined },
      { name: 'toy', references: 'toys' },
      { name: 'name' },
    ]);
    expect(writeTest(module)!.code).toContain(
      '...(await insertPath(app.dataSource, "toys", { pet: "petId", toy: "id" }))',
    );
  });
});

/** Tags at each of the paths, and a list of them at another one. */
const toTags = (...paths: readonly string[]): Module => {
  const tag = toObject('id: { type: integer, readOnly: true }, name: {}', 'name');
  const list = `/labels: { get: { ${toResponses(`{ type: array, items: ${toReference('Tag')} }`)} } }`;
  const all = paths.map((path) => toPaths(path, toReference('Tag'), 'id')).concat(list);
  return toModule(pets({ paths: all.join('\n  '), schemas: `Tag: ${tag}` }));
};

describe('one class of two collections', () => {
  it('is two resources, each by its path', () => {
    const module = toTags('/pets/{petId}/tags', '/tags');
    expect(module.resources.map(({ table }) => table)).toEqual(['pets', 'tags2', 'pet_tags']);
    const service = writeService(module).code;
    expect(service.match(/function \w+ToTag\(/g)).toHaveLength(2);
    expect(service).toContain('this.petTags.list({ petId })');
    expect(service).toContain('this.tags.list()');
  });

  it('is not listed at a third path', () => {
    expect(getResults(toTags('/pets/{petId}/tags', '/tags'))).toMatchObject({
      'GET /labels': 'nothing says which of the objects it lists',
    });
  });
});

const toDelete = (schema: string) => {
  const module = toModule(pets({ operations: `delete: { ${toResponses(schema)} }` }));
  return [getResults(module)['DELETE /pets/{petId}'], writeService(module).code] as const;
};

describe('the response of a DELETE', () => {
  it.each([
    ['{ type: object }', 'return {};'],
    ['{ type: object, properties: { data: { type: object } } }', 'return {};'],
    [
      '{ type: object, required: [deleted], properties: { deleted: { type: boolean } } }',
      'return { deleted: true };',
    ],
    [
      '{ type: object, properties: { success: { type: boolean }, count: { type: integer } } }',
      'return { success: true };',
    ],
  ])('may be %s', (schema, code) => {
    const [result, service] = toDelete(schema);
    expect(result).toBe('implemented');
    expect(service).toContain(code);
  });

  it.each([
    '{ type: string }',
    '{ type: object, required: [count], properties: { count: { type: integer } } }',
  ])('is a stub if it is %s', (schema) =>
    expect(toDelete(schema)[0]).toBe('the response is another object than the resource'),
  );
});

/** Tags, in an optional property of the body. */
const toEnveloped = (response: string): Module => {
  const tag = 'name: { type: string }';
  const body = toBody(`{ type: object, properties: { tag: ${toObject(tag)} } }`);
  const item = `/tags/{id}: { delete: { responses: { 204: { description: OK } } } }`;
  return toModule(
    toDocument(`paths:\n  /tags: { post: { ${body}, ${toResponses(response, 201)} } }\n  ${item}`),
  );
};

describe('an optional envelope of a body', () => {
  const TAG = 'id: { type: integer }, name: { type: string }';

  it.each([
    ['as in the response', `{ type: object, properties: { tag: ${toObject(TAG)} } }`],
    ['around what the response has', toObject(TAG)],
  ])('is required: %s', (_name, response) => {
    const module = toEnveloped(response);
    expect(getResults(module)['POST /tags']).toBe('implemented');
    expect(getResource(module).columns).toMatchObject([{ name: 'name' }]);
    expect(getNotes(module)).toContain('PostTagsRequest.tag: it is required.');
    expect(writeApi(module).code).toContain('tag!: ');
  });

  it('is what is stored if the response has it and more', () =>
    expect(
      getResource(
        toEnveloped(
          `{ type: object, properties: { tag: ${toObject('name: { type: string }')}, id: { type: integer } } }`,
        ),
      ).columns,
    ).toMatchObject([{ name: 'tag' }]));
});

describe('an operation that the generator cannot implement', () => {
  const NAME = toObject('name: { type: string }');

  it.each([
    ['put', 'name: { type: integer }', 'the resource stores another name than the body contains'],
    ['patch', 'name: { type: integer }', 'the resource stores another name than the body contains'],
    ['patch', 'color: { type: string }', 'the resource does not store color'],
    ['delete', 'name: { type: string }', 'a DELETE request has no body'],
  ])('is a stub for a %s with { %s }', (method, properties, reason) => {
    const body = toBody(toObject(properties, ''));
    const operations = `${method}: { ${body}, responses: { 204: { description: OK } } }`;
    const results = getResults(toModule(pets({ operations })));
    expect(results[`${method.toUpperCase()} /pets/{petId}`]).toBe(reason);
  });

  it.each([
    ['the body is multipart/form-data', toBody(NAME, 'multipart/form-data')],
    [
      'the body is application/octet-stream',
      toBody('{ type: string }', 'application/octet-stream'),
    ],
    ['the body is not an object with a name', toBody(`{ type: array, items: ${NAME} }`)],
    ['it has no body that could be stored', toResponses('{}')],
    [
      'the status 202 says more than that a row was stored',
      `${toBody(NAME)}, ${toResponses(NAME, 202)}`,
    ],
    [
      'the response has nothing of what the request contains',
      `${toBody(NAME)}, ${toResponses(toObject('done: { type: boolean }', ''))}`,
    ],
    ['no operation shows what it would store', `${toBody(NAME)}, responses: { 204: {} }`],
    [
      'PostThingsResponse.name may differ from PostThingsRequest.name',
      `${toBody(NAME)}, ${toResponses(toObject('name: { type: integer }, id: { type: integer }'))}`,
    ],
    [
      'nothing says what PostThingsResponse.owner contains',
      `${toBody(NAME)}, ${toResponses(toObject('name: { type: string }, owner: { type: string }', 'owner'))}`,
    ],
  ])('is a stub for a POST: %s', (reason, operation) =>
    expect(getResults(toThings('post', operation))).toEqual({ 'POST /things': reason }),
  );

  it.each([
    ['the response is image/png', 'responses: { 200: { content: { image/png: {} } } }'],
    ['a GET request has no body', toBody(NAME)],
    ['it is none of the standard operations on what the contract creates', 'responses: {}'],
  ])('is a stub for a GET: %s', (reason, operation) =>
    expect(getResults(toThings('get', operation))).toEqual({ 'GET /things': reason }),
  );

  it('is left out, if it is not an operation on resources, or the same route as another', () => {
    const yaml = `
      paths:
        /a/{x}: { get: { operationId: a }, head: {} }
        /a/{y}: { get: { operationId: b } }
        "/a\\nb": { get: {} }
        "/a?b=1": { post: {} }
        "/a#b": { post: {} }
      webhooks: { petSold: { post: {} } }`;
    expect(getResults(toModule(toDocument(yaml)))).toEqual({
      'GET /a/{x}': 'no operation creates what {x} identifies',
      'GET /a\nb': 'it is none of the standard operations on what the contract creates',
      'HEAD /a/{x}': 'left out: only GET, PUT, POST, PATCH and DELETE are generated',
      'GET /a/{y}': 'left out: it is the same route as GET /a/{x}',
      'POST /a?b=1': 'left out: a path has neither a query nor a fragment',
      'POST /a#b': 'left out: a path has neither a query nor a fragment',
      'webhook petSold': 'left out: the service sends no webhooks',
    });
  });

  it.each([
    ['{pet_id}', 'implemented'],
    ['{id}', 'implemented'],
    ['{name}', '{name} is not {petId} of the same path'],
  ])('has the parameters of the first path, if %s identifies the same', (item, result) => {
    const paths = `/pets/${item}: { delete: { responses: { 204: { description: OK } } } }`;
    const module = toModule(pets({ paths }));
    expect(getResults(module)['DELETE /pets/{petId}']).toBe(result);
    expect(getNotes(module)).toContain(
      `/pets/${item}: its parameters have the names of /pets/{petId}.`,
    );
  });

  it('is left out if the service implements it already, whose names it does not use', () => {
    const service = {
      routes: new Set(['get /pets/{}']),
      paths: ['/pets/{petId}'],
      schemas: new Set(['Pet']),
      operationIds: new Map([['createPet', 'post /cages']]),
    };
    const module = toModule(pets(), service);
    const reason = 'left out: another module of the service has it';
    expect(getResults(module)['GET /pets/{petId}']).toBe(reason);
    expect(module.operations[1]).toMatchObject({ operationId: 'zooCreatePet' });
    expect(getNotes(module)).toContain(
      'POST /pets: the operation id is zooCreatePet, because another operation has createPet.',
    );
    expect(module.classes).toMatchObject([{ name: 'ZooPet', publishedName: 'ZooPet' }]);
  });
});

describe('the notes of a contract', () => {
  it('tell what differs', () => {
    const yaml = `
      components: { securitySchemes: { oauth: { type: oauth2 } } }
      servers: [{ url: https://example.com/api/v3 }]
      paths:
        /a:
          get:
            callbacks: {}
            parameters: [{ name: X-Trace, in: header }]
            responses:
              200: { headers: { x-next: {} }, content: { application/json: {}, text/csv: {} } }
              default: { content: { application/problem+json: {} } }`;
    expect(getNotes(toModule(toDocument(yaml)))).toEqual([
      'X-Trace: the header is ignored.',
      'x-next: the response header is not sent.',
      'Bodies are JSON alone, not text/csv.',
      'GET /a: no callbacks are sent.',
      'Errors have the body {code, message, status} as application/json, not that of the contract.',
      'Requests are authenticated with a bearer API key, not with the security schemes of the contract.',
      'Paths are below /v1, not below those of the servers of the contract: --prefix changes that.',
    ]);
  });

  it('tell that a password is stored as a hash', () => {
    const properties = 'name: { type: string }, password: { type: string }';
    const patch = `{ ${toBody(toObject(properties, ''))}, responses: {} }`;
    const module = toModule(
      pets({ properties: `{ ${properties} }`, item: '{name}', operations: `patch: ${patch}` }),
    );
    expect(getNotes(module)).toContain('Pet.password: stored as a hash, and never returned.');
    const password = { writeOnly: true, required: false };
    for (const { properties: published } of module.classes)
      expect(published).toMatchObject([{ maxLength: 500 }, password]);
    expect(module.classes).toHaveLength(2);
  });
});

describe('a path with a slash at its end', () => {
  it.each([
    ['/pets', '{petId}', 'pets/{id}'],
    ['/pets/', '{petId}', '{id}'],
    ['/pets/', '{petId}/', '{id}/'],
  ])('is that of a resource: %s, with the Location %s/%s', (collection, item, location) => {
    const document = edit(pets({ item }), {
      'paths /pets post responses 201 headers': { Location: {} },
    });
    const { '/pets': pet, ...rest } = document.paths as Json;
    const module = toModule({ ...document, paths: { [collection]: pet, ...rest } });
    expect(getKinds(module)).toEqual(['list', 'create', 'read']);
    expect(module.operations[1]).toMatchObject({ path: collection, implementation: { location } });
  });
});

describe('an id', () => {
  it('is not the key of a parent that also has an id', () => {
    const toy = `{ type: object, properties: { id: { type: integer, readOnly: true }, kind: { type: string } } }`;
    const body = `requestBody: { ${toContent(toy)} }`;
    const paths = `/pets/{name}/toys: { post: { ${body}, ${toResponses(toy, 201)} } }
  /pets/{name}/toys/{toyId}: { delete: { responses: { 204: { description: OK } } } }`;
    expect(getResults(toModule(pets({ item: '{name}', paths })))).toMatchObject({
      'GET /pets/{name}': 'implemented',
      'POST /pets/{name}/toys': '{name} is not an id',
    });
  });

  it('is the same in the responses to POST and GET requests', () => {
    const told = '{ type: object, properties: { petId: { type: integer } } }';
    const document = edit(pets(), {
      'paths /pets post responses 201 content application/json schema': parse(told) as object,
    });
    expect(getResults(toModule(document))).toMatchObject({
      'POST /pets': 'Pet.id may differ from CreatePetResponse.petId',
    });
  });
});

/** The defaults of the color of a pet, and of the city of its address, in a body. */
const getDefaults = ({ operations }: Module, method: string): unknown[] => {
  const { schema } = operations.find((each) => each.method === method)!.body!;
  const [first, second] = schema.class!.properties.slice(-2);
  return [first!.default, second!.class!.properties[0]!.default];
};

describe('a PATCH request', () => {
  const PET = toReference('Pet');
  const color = 'color: { type: string, default: red }';
  const address = toObject('city: { type: string, default: Berlin }', '');
  const properties = `{ id: { type: integer, readOnly: true }, name: { type: string }, ${color}, address: ${toReference('Address')} }`;
  /** @param body the class of the PATCH request */
  const toPatch = (body: string, schemas = '', type?: string): Module => {
    const operations = `patch: { ${toBody(body, type)}, ${toResponses(PET)} }`;
    return toModule(pets({ properties, operations, schemas: `Address: ${address}, ${schemas}` }));
  };
  it.each([
    [PET, '', 'PetPatch AddressPatch'],
    [toReference('Update'), `Update: { properties: ${properties} }`, 'Update AddressPatch'],
  ])('has no defaults at any depth, as one with %s and %s', (body, schemas, names) => {
    for (const type of ['application/json', 'application/merge-patch+json']) {
      const module = toPatch(body, schemas, type);
      expect(getDefaults(module, 'patch')).toEqual([undefined, undefined]);
      expect(getDefaults(module, 'post')).toEqual(['red', 'Berlin']);
      const published = module.classes.map(({ publishedName }) => publishedName);
      expect(published).toEqual(expect.arrayContaining(names.split(' ')));
      expect(published).toHaveLength(4);
      const patch = module.operations.at(-1)!;
      const dto = patch.body!.schema.class!;
      expect(patch.implementation).toMatchObject({ kind: 'patch', sent: { dto } });
      expect(getNotes(module)).toContain(
        'patchPetsByPetId: what a request omits keeps its value, also if it has a default.',
      );
    }
  });

  it('keeps the defaults of the items of an array, which it replaces as a whole', () => {
    const homes = `homes: { type: array, items: ${toReference('Address')} }`;
    const update = `Update: { properties: { ${homes}, address: ${toReference('Address')} } }`;
    const pet = `{ id: { type: integer, readOnly: true }, name: { type: string }, address: ${toReference('Address')}, ${homes} }`;
    const operations = `patch: { ${toBody(toReference('Update'))}, ${toResponses(PET)} }`;
    const module = toModule(
      pets({ properties: pet, operations, schemas: `Address: ${address}, ${update}` }),
    );
    const patch = module.operations.find(({ method }) => method === 'patch')!;
    expect(patch.implementation.kind).toBe('patch');
    const [sent, own] = patch.body!.schema.class!.properties;
    expect(sent!.items!.class!.properties[0]!.default).toBe('Berlin');
    expect(own!.class!.properties[0]!.default).toBeUndefined();
  });
});

describe('a writeOnly property', () => {
  const secret = '{ type: string, writeOnly: true }';

  it.each(['name', 'name, secret'])('is stored and not returned, with %s required', (required) => {
    const id = '{ type: integer, readOnly: true }';
    const properties = `{ id: ${id}, name: { type: string }, secret: ${secret} }`;
    const module = toModule(pets({ properties, required }));
    expect(getKinds(module)).toEqual(['list', 'create', 'read']);
    expect(getResource(module).columns[1]).toMatchObject({ name: 'secret', hidden: true });
    const { code } = writeService(module);
    expect(code).toContain(required === 'name' ? 'secret: undefined }' : 'undefined as never }');
  });

  it('makes a stub of an operation that would return it in an object', () => {
    const module = toPets(`login: ${toObject(`secret: ${secret}`, '')}`);
    const reason = 'Pet.login has what is never returned';
    expect(getResults(module)).toMatchObject({ 'POST /pets': reason });
  });
});

describe('the security of an operation', () => {
  const REQUIRES =
    'it requires a key, although the contract does not say so: security: [] makes it public.';

  it.each([
    [undefined, undefined, false, true],
    [[{ key: [] }], undefined, false, false],
    [undefined, [], true, false],
    [[], undefined, false, true],
    [[], [{ key: [] }], false, false],
  ])('%j of the document, %j of its own: public %s, noted %s', (root, own, isPublic, isNoted) => {
    const get = { security: own, responses: {} };
    const module = toModule({ ...toDocument(''), security: root, paths: { '/a': { get } } });
    expect(module.operations).toMatchObject([{ isPublic }]);
    expect(getNotes(module).includes(`GET /a: ${REQUIRES}`)).toBe(isNoted);
  });

  it('leaves a public POST without an Idempotency-Key, which is noted', () => {
    const module = toModule(edit(pets(), { 'paths /pets post security': [] }));
    expect(getKinds(module)).toContain('create');
    expect(writeApi(module).code).not.toContain('IdempotencyKey');
    expect(writeService(module).code).toMatch(/\.create\(row\)/);
    const note = 'createPet: it has no Idempotency-Key, because its clients have no key.';
    expect(getNotes(module)).toContain(note);
  });
});

describe('a path of the caller', () => {
  it.each([
    '/users/me/preferences',
    '/my-pets',
    '/me',
    '/users/{id}/self/pets',
    '/account/keys',
    '/currentUser',
  ])('%s is a stub, because rows belong to no client', (path) => {
    const module = toToys(path);
    const reason = 'it is about the caller, and rows belong to no client';
    for (const method of ['GET', 'POST'])
      expect(getResults(module)[`${method} ${path}`]).toBe(reason);
  });

  it.each(['/meals', '/accounts', '/mystery', '/themes', '/current-prices'])('is not %s', (path) =>
    expect(Object.values(getResults(toToys(path))).join()).not.toContain('caller'),
  );
});

describe('a POST that may be a command', () => {
  const DELETE = 'delete: { responses: { 204: { description: OK } } }';
  const PUT = `put: { ${toBody(toReference('Pet'))}, responses: { 204: { description: OK } } }`;
  const UNCHANGED =
    'nothing replaces, patches or deletes what it would store: x-resource: true stores it';
  const COMMAND = 'its path ends with a command: x-resource: true stores its body';

  it.each([
    ['/pets', '', '', UNCHANGED],
    ['/pets', DELETE, '', 'implemented'],
    ['/pets', PUT, '', 'implemented'],
    ['/pets', '', 'x-resource: true', 'implemented'],
    ['/pets', DELETE, 'x-resource: false', 'x-resource: false says that nothing is stored'],
    ['/pets/search', DELETE, '', COMMAND],
    ['/Search', DELETE, '', COMMAND],
    ['/pets/change_status', DELETE, '', COMMAND],
    ['/sendMail', DELETE, '', COMMAND],
    ['/pets:batch', DELETE, '', COMMAND],
    ['/pets.archive', DELETE, '', COMMAND],
    ['/command/', DELETE, '', COMMAND],
    ['/search', DELETE, 'x-resource: true', 'implemented'],
    ['/searches', DELETE, '', 'implemented'],
    ['/test-cases', DELETE, '', 'implemented'],
    ['/addresses', DELETE, '', 'implemented'],
  ])('at %s, with { %s } and { %s }: %s', (path, operations, mark, result) => {
    const collection = JSON.stringify(path.replace(/\/$/, ''));
    const document = pets({ collection: collection.slice(1, -1), operations, mark });
    expect(getResults(toModule(document))).toMatchObject({
      [`POST ${path.replace(/\/$/, '')}`]: result,
    });
  });

  it('stores nothing if a PUT of its path does not say what it replaces', () => {
    const put = `put: { ${toBody(toObject('name: { type: string }'))}, responses: {} }`;
    const document = edit(pets({ mark: '' }), { 'paths /pets put': parse(`{ ${put} }`).put });
    expect(getResults(toModule(document))['POST /pets']).toBe(UNCHANGED);
  });
});

/** The result of a POST whose body and response have different schemas of one property. */
const toLabelResult = (sent: string, shown: string): string | undefined => {
  const name = 'name: { type: string }';
  const request = toObject(`${name}, label: ${sent}`, 'name, label');
  const pet = toObject(`id: { type: integer }, ${name}, label: ${shown}`, 'id, name, label');
  const post = `{ x-resource: true, ${toBody(request)}, ${toResponses(pet, 201)} }`;
  const get = `{ ${toResponses(`{ type: array, items: ${pet} }`)} }`;
  const document = toDocument(`paths: { /pets: { get: ${get}, post: ${post} } }`);
  return getResults(toModule(document))['POST /pets'];
};

describe('a response that would violate the contract', () => {
  const V4 = '^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$';

  it.each([
    [`{ type: string, readOnly: true, pattern: "${V4}" }`, 'Pet.id is not a UUID of version 7'],
    ['{ type: string, readOnly: true, maxLength: 9 }', 'Pet.id is not a UUID of version 7'],
    ['{ type: string, readOnly: true, pattern: "^se-" }', 'Pet.id is not a UUID of version 7'],
    ['{ type: string, readOnly: true, format: email }', 'Pet.id is not a UUID of version 7'],
    ['{ type: string, readOnly: true, format: ipv4 }', 'Pet.id is not a UUID of version 7'],
    ['{ type: string, readOnly: true, format: guid }', 'implemented'],
    ['{ type: integer, minimum: 1000, readOnly: true }', 'Pet.id is not any integer from 1'],
    ['{ type: integer, maximum: 99, readOnly: true }', 'Pet.id is not any integer from 1'],
    ['{ type: string, readOnly: true, pattern: "^[0-9a-f-]{36}$" }', 'implemented'],
    ["{ type: string, readOnly: true, pattern: '^[0-9a-f\\-]{36}$' }", 'implemented'],
    ['{ type: integer, minimum: 0, readOnly: true }', 'implemented'],
  ])('by an id of %s: %s', (id, result) =>
    expect(getResults(toPets('', id))['POST /pets']).toBe(result),
  );

  it.each([
    [
      'id: { type: integer, readOnly: true }, a: {}',
      '',
      'Pet.owner has id, which only the service knows',
    ],
    [
      'since: { readOnly: true }, a: {}',
      'since',
      'Pet.owner has since, which only the service knows',
    ],
    [
      'ownerID: { readOnly: true }, a: {}',
      '',
      'Pet.owner has ownerID, which only the service knows',
    ],
    ['since: { readOnly: true }, a: {}', '', 'implemented'],
  ])('by an object with { %s }, { %s } required: %s', (properties, required, result) => {
    for (const owner of [
      toObject(properties, required),
      `{ type: array, items: ${toObject(properties, required)} }`,
    ])
      expect(getResults(toPets(`owner: ${owner}`))['POST /pets']).toBe(result);
  });

  it.each([
    ['{ type: string }', '{ type: string, maxLength: 5 }'],
    ['{ type: string, maxLength: 6 }', '{ type: string, maxLength: 5 }'],
    ['{ type: integer }', '{ type: integer, minimum: 1 }'],
    ['{ type: string }', '{ type: string, format: email }'],
    [
      '{ type: array, items: { type: integer } }',
      '{ type: array, items: { type: integer }, maxItems: 2 }',
    ],
    [
      '{ type: array, items: { type: string } }',
      '{ type: array, items: { type: string, pattern: "^a" } }',
    ],
  ])('by a value of a request of %s: %s', (sent, shown) => {
    expect(toLabelResult(shown, shown)).toBe('implemented');
    expect(toLabelResult(sent, shown)).toMatch(/\.label may differ from /);
  });

  it('by properties of a nested object that only requests have', () => {
    const sent = toObject('phone: { type: string }, kind: { type: string }');
    const shown = toObject('phone: { type: string }');
    expect(toLabelResult(sent, shown)).toMatch(/\.label may differ from /);
    expect(toLabelResult(shown, sent)).toBe('implemented');
  });

  it('by null in place of a default', () => {
    const name = 'name: { type: string }';
    const level = 'level: { type: string, enum: [low, high] }';
    const withDefault = 'level: { type: string, enum: [low, high], default: low }';
    const pet = toObject(`id: { type: integer }, ${name}, ${withDefault}`, 'id, name');
    const post = `{ x-resource: true, ${toBody(toObject(`${name}, ${level}`, 'name'))}, ${toResponses(pet, 201)} }`;
    const get = `{ ${toResponses(`{ type: array, items: ${pet} }`)} }`;
    const module = toModule(toDocument(`paths: { /pets: { get: ${get}, post: ${post} } }`));
    expect(writeService(module).code).toContain('level: row.level ?? "low"');
  });

  it('by a default that is not valid itself', () => {
    const link = 'link: { type: string, format: uri, readOnly: true, default: "http://a/{id}" }';
    const module = toPets(link);
    expect(getResource(module).columns.map(({ name }) => name)).not.toContain('link');
    expect(getNotes(module)).toContain('Pet.link: the default is not valid itself; there is none.');
  });

  it.each([
    ['{ type: string, enum: [DE, FR] }', '{ type: string, maxLength: 2, pattern: "^[A-Z]" }', true],
    ['{ type: string, enum: [DE, FRA] }', '{ type: string, maxLength: 2 }', false],
    ['{ type: string, enum: [DE, fr] }', '{ type: string, pattern: "^[A-Z]" }', false],
    ["{ type: string, enum: ['a:'] }", "{ type: string, pattern: '\\:$' }", true],
  ])('not by values of %s within %s: %s', (sent, shown, isRight) => {
    expect(toLabelResult(sent, shown) === 'implemented').toBe(isRight);
  });

  it.each<[properties: string, parameters: string, text: string | undefined]>([
    ['count: { type: integer }', '', 'count: paging.total'],
    ['pages: { type: integer }', '', 'paging.limit === undefined ? 1 :'],
    ['page: { type: integer }', '', undefined],
    ['page: { type: integer }', 'limit page', 'page: paging.page'],
    ['page: { type: integer }', 'limit=5 page', 'page: paging.page'],
    ['limit: { type: integer }', 'limit', undefined],
    ['limit: { type: integer }', 'limit=5 page', 'limit: paging.limit'],
    ['total: { type: string }', '', undefined],
    ['next: { type: [string, "null"], format: uri }', 'limit=5 page', undefined],
    ['next: { type: [integer, "null"] }', 'limit=5 page', '[0] : null'],
    ['next: { type: string }', 'limit=5 page', undefined],
  ])('by a list with { %s } and { %s }: %s', (properties, parameters, text) => {
    const list = toObject(
      `rows: { type: array, items: ${toReference('Pet')} }, ${properties}`,
      properties.split(':')[0],
    );
    const query = parameters
      .split(' ')
      .filter(Boolean)
      .map((each) => {
        const [name, value] = each.split('=');
        return { name, in: 'query', schema: { type: 'integer', default: value && Number(value) } };
      });
    const module = toModule(pets({ list, parameters: JSON.stringify(query) }));
    expect(getList(module)).toMatchObject({ kind: text === undefined ? 'stub' : 'list' });
    expect(writeService(module).code).toContain(text ?? 'notImplemented');
  });

  it('has the error 400 instead of 422', () => {
    const document = edit(pets(), { 'paths /pets get responses 422': { description: 'Invalid.' } });
    const module = toModule(document);
    expect(module.operations[0]!.errors).toEqual({});
    expect(getNotes(module)).toContain('Invalid requests get 400, not 422.');
  });

  it('by a Location without an operation there does not have it, or has the one of its path', () => {
    const headers = { 'paths /pets post responses 201 headers': { Location: {} } };
    const [get, named] = ['/pets/{petId}', '/pets/{name}'];
    for (const [item, location] of [
      [get, 'pets/{id}'],
      [named, 'pets/{name}'],
      ['/others/{petId}', undefined],
    ]) {
      const document = edit(pets(), headers);
      const { [get]: read, ...paths } = document.paths as Json;
      const module = toModule({ ...document, paths: { ...paths, [item!]: read } });
      expect(module.operations[1]!.implementation).toMatchObject({ kind: 'create', location });
      const note = 'createPet: it has no Location, because no operation is there.';
      expect(getNotes(module).includes(note)).toBe(location === undefined);
    }
  });

  it('lacks a property that is stored, which is noted', () => {
    const pet = toObject('id: { type: integer }, name: {}', 'id');
    const post = `{ x-resource: true, ${toBody(toObject('name: {}, color: {}'))}, ${toResponses(pet)} }`;
    const notes = getNotes(toModule(toDocument(`paths: { /things: { post: ${post} } }`)));
    expect(notes).toContain('PostThingsRequest.color: it is stored, and no response shows it.');
  });
});

/** A path that stores what refers to the rows of another table. */
const toPath = (name: string, other: string): string => {
  const schema = toObject(
    `id: { type: integer, readOnly: true }, name: {}, ${name}: {}, other: { type: integer, x-references: ${other} }`,
  );
  return `/${name}: { post: { x-resource: true, ${toBody(schema)}, ${toResponses(schema)} } }`;
};

describe('a reference', () => {
  it.each([
    ['{ type: integer, x-references: owners }', undefined],
    ['{ type: integer, x-references: pets }', undefined],
    ['{ type: array, items: { type: integer, x-references: owners } }', undefined],
    ['{ type: integer, x-references: cages }', 'there is no table cages'],
    ['{ type: array, items: { type: integer, x-references: cages } }', 'there is no table cages'],
    ['{ type: string, x-references: owners }', 'its ids are integer, not text'],
    ['{ type: string, format: uuid, x-references: owners }', 'its ids are integer, not uuid'],
    ['{ type: number, x-references: owners }', 'its ids are integer, not number'],
  ])('of %s is compared: %s', (schema, reason) => {
    const module = toPets(`tag: ${schema}`);
    const { references, join } = getResource(module).columns[1]!;
    expect((references ?? join) !== undefined).toBe(reason === undefined);
    const [, table] = /x-references: (\w+)/.exec(schema)!;
    const notes =
      reason === undefined ? [] : [`Pet.tag: it does not refer to ${table}: ${reason}.`];
    expect(getNotes(module).filter((each) => each.includes('does not refer'))).toEqual(notes);
  });

  it('to a resource of the module is created after it, unless both refer to each other', () => {
    const { resources } = toModule(
      toDocument(`paths: { ${toPath('apples', 'pears')}, ${toPath('pears', 'pears')} }`),
    );
    expect(resources.map(({ table }) => table)).toEqual(['pears', 'apples']);
    const module = toModule(
      toDocument(`paths: { ${toPath('apples', 'pears')}, ${toPath('pears', 'apples')} }`),
    );
    expect(
      module.resources.flatMap(({ columns }) =>
        columns.flatMap(({ references }) => references ?? []),
      ),
    ).toHaveLength(1);
    expect(getNotes(module).join()).toContain('refers back to it');
  });
});

describe('an optional header of a contract', () => {
  it.each([
    ['X-Tenant-Id', 'X-Tenant-Id: a request with the header gets 501.'],
    ['Prefer', 'Prefer: a request with the header gets 501.'],
    ['If-Match', 'If-Match: a request with the header gets 501.'],
    ['traceparent', 'traceparent: the header is ignored.'],
    ['X-Correlation-ID', 'X-Correlation-ID: the header is ignored.'],
    ['Accept-Language', 'Accept-Language: the header is ignored.'],
    ['api_key', 'api_key: the header is ignored.'],
    ['X-Auth-Token', 'X-Auth-Token: the header is ignored.'],
    ['continuation-token', 'continuation-token: a request with the header gets 501.'],
    ['If-None-Match', undefined],
  ])('%s of a list: %s', (name, note) => {
    const document = edit(pets(), {
      'paths /pets get parameters 0': { name, in: 'header', schema: { type: 'string' } },
      'components securitySchemes': { key: { type: 'apiKey', in: 'header', name: 'API_KEY' } },
    });
    const module = toModule(document);
    const notes = getNotes(module).filter((each) => each.includes(' header '));
    expect(notes).toEqual(note === undefined ? [] : [note]);
    const refused = note?.endsWith('501.') === true ? `unsupportedHeaders: ["${name}"]` : '';
    expect(
      writeApi(module)
        .code.match(/unsupportedHeaders: [^\]]*\]/)
        ?.join() ?? '',
    ).toBe(refused);
    expect(writeApi(module).code).not.toContain('@IfMatch');
  });

  it('is If-Match, which an operation on a resource evaluates, and which a list cannot require', () => {
    const header = { name: 'If-Match', in: 'header', required: true };
    const module = toModule(
      edit(pets(), {
        'paths /pets/{petId} get parameters': [header],
        'paths /pets get parameters 0': header,
      }),
    );
    expect(getResults(module)['GET /pets']).toBe('the header If-Match is required');
    expect(writeService(module).code).toContain('this.pets.read({ id: petId, ...ifMatch })');
  });
});

describe('a required parameter with a credential', () => {
  const IGNORED = 'is ignored.';

  it.each([
    ['query', ['api_key'], IGNORED],
    ['query', ['vestorly_auth'], IGNORED],
    ['query', ['app_id', 'app_key'], IGNORED],
    ['header', ['X-Shop-Account-Token'], IGNORED],
    ['query', ['app_id'], 'the query parameter app_id has no known effect'],
    ['query', ['author'], 'the query parameter author has no known effect'],
    ['header', ['X-Account'], 'the header X-Account is required'],
  ])('%s %j of a POST: %s', (kind, names, result) => {
    const parameters = names.map((name) => ({
      name,
      in: kind,
      required: true,
      schema: { type: 'string' },
    }));
    const module = toModule(edit(pets(), { 'paths /pets post parameters': parameters }));
    const isIgnored = result === IGNORED;
    expect(getResults(module)['POST /pets']).toBe(isIgnored ? 'implemented' : result);
    const notes = getNotes(module).filter((each) => each.includes(IGNORED));
    expect(notes).toHaveLength(isIgnored ? names.length : 0);
  });
});

describe('a PUT request', () => {
  it('may repeat read-only properties, which are compared', () => {
    const put = `put: { ${toBody(toReference('Pet'))}, ${toResponses(toReference('Pet'))} }`;
    const at = '{ type: string, format: date-time, readOnly: true }';
    const properties = `{ id: { type: integer, readOnly: true }, name: {}, createdAt: ${at} }`;
    const module = toModule(pets({ operations: put, properties }));
    expect(writeApi(module).code).toContain(
      '@JsonBody({ type: () => Pet }, { repeatsReadOnly: true }) pet: Pet',
    );
    expect(writeService(module).code).toContain(`const { id: _id, ...row } = pet;
    return this.pets.replace({ id: petId }, row, ["createdAt"]);`);
  });
});
