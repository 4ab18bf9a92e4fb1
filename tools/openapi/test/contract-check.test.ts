import { compareWithContract } from '../contract-check.js';
import { pets, toDocument } from '../../generator/test/excerpts.js';
import { type Document, edit } from './documents.js';

const CONTRACT: Document = pets({
  properties:
    '{ id: { type: integer, readOnly: true }, name: { type: string, maxLength: 20 }, tags: { type: array, items: { type: string } } }',
  parameters: '[{ name: limit, in: query, schema: { type: integer, minimum: 1, maximum: 100 } }]',
});
const PET = 'components schemas Pet';
const LIST = 'paths /pets get';

describe('the comparison with a contract', () => {
  it.each<[changes: Record<string, unknown>, differences: string[]]>([
    [
      {
        [`${PET} properties`]: {
          id: { type: 'integer', readOnly: true },
          name: { type: 'string', maxLength: 30 },
          tags: { type: 'array', items: { type: 'integer' } },
          color: { type: 'string' },
        },
        [`${PET} required`]: [],
        [`${LIST} operationId`]: 'findPets',
        [`${LIST} deprecated`]: true,
        [`${LIST} security`]: [],
        [`${LIST} parameters 0 schema maximum`]: 50,
        [`${LIST} parameters 1`]: { name: 'sort', in: 'query' },
        'paths /pets post requestBody': undefined,
        'paths /pets post responses': { 204: { description: 'OK' } },
      },
      [
        'GET /pets operationId: is "findPets" instead of "listPets"',
        'GET /pets deprecated: is true instead of false',
        'GET /pets is public: is true instead of false',
        'GET /pets query parameter limit maximum: is 50 instead of 100',
        'GET /pets response[].name is required: is false instead of true',
        'GET /pets response[].name maxLength: is 30 instead of 20',
        'GET /pets response[].tags[] type: is "integer" instead of "string"',
        'GET /pets response[].color: is not in the contract',
        'GET /pets query parameter sort: is not in the contract',
        'POST /pets body: is missing',
        'POST /pets status: is 204 instead of 201',
        'POST /pets response: is missing',
      ],
    ],
    [
      {
        [`${PET} properties name`]: undefined,
        [`${LIST} parameters`]: [],
        'paths /pets/{petId}': undefined,
      },
      [
        'GET /pets query parameter limit: is missing',
        'GET /pets response[].name: is missing',
        'GET /pets/{petId}: is missing',
      ],
    ],
  ])('finds each difference, once', (changes, differences) =>
    expect(compareWithContract(CONTRACT, edit(CONTRACT, changes))).toEqual(differences),
  );

  it('finds no difference in texts, names of schemas, other operations, errors and security', () => {
    const document = edit(CONTRACT, {
      [`${PET} description`]: 'A pet.',
      [`${PET} properties name example`]: 'Rex',
      [`${LIST} summary`]: 'List',
      [`${LIST} responses 429`]: { description: 'Slow down.' },
      'paths /toys': { get: {} },
      security: [{ key: [] }],
    });
    const renamed = JSON.stringify(document)
      .replaceAll('"Pet"', '"ZooPet"')
      .replaceAll('/Pet"', '/ZooPet"');
    expect(compareWithContract(CONTRACT, JSON.parse(renamed))).toEqual([]);
  });

  it('finds no difference in what the generator notes', () => {
    const contract = pets({
      properties:
        '{ name: { type: string }, password: { type: string }, phone: { type: string, format: phone } }',
      required: 'name, password',
      parameters: '[{ name: limit, in: query, schema: { type: integer } }]',
      item: '{name}',
    });
    const published = edit(contract, {
      [`${PET} required`]: ['name'],
      [`${PET} properties password writeOnly`]: true,
      [`${PET} properties name maxLength`]: 500,
      [`${LIST} parameters 0 schema`]: { type: 'integer', minimum: 1, maximum: 1_000 },
    });
    expect(compareWithContract(contract, published)).toEqual([]);
  });

  it('does not compare an operation that the service had before', () => {
    const other = edit(CONTRACT, { [LIST]: { operationId: 'findPets', responses: {} } });
    expect(
      compareWithContract(CONTRACT, other, { module: 'zoo', isOwn: (id) => id !== 'findPets' }),
    ).toEqual([]);
  });

  it('reads what the platform publishes for 3.1 in the form of 3.0', () => {
    const expected = pets({
      properties: `{ name: { type: [string, 'null'], pattern: ^/ },
        age: { type: integer, exclusiveMinimum: 0, maximum: 18446744073709551615 } }`,
    });
    const actual = {
      ...pets({
        properties:
          '{ name: { type: string, nullable: true, pattern: ^\\/ }, age: { type: integer, format: int64, minimum: 1 } }',
      }),
      openapi: '3.0.0',
    };
    expect(compareWithContract(expected, actual)).toEqual([]);
    expect(compareWithContract(toDocument('{ paths: {} }'), actual)).toEqual([]);
  });
});
