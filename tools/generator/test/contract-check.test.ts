import { compareWithContract } from '../contract-check.js';
import { pets, toDocument } from './excerpts.js';
import { type Document, edit } from '../../openapi/test/documents.js';

const CONTRACT: Document = pets({
  properties:
    '{ id: { type: integer, readOnly: true }, name: { type: string, maxLength: 20 }, tags: { type: array, items: { type: string } } }',
  parameters: '[{ name: limit, in: query, schema: { type: integer, minimum: 1, maximum: 100 } }]',
});
const PET = 'components schemas Pet';
const LIST = 'paths /pets get';

describe('the comparison with a contract', () => {
  it('finds no difference in the same document', () =>
    expect(compareWithContract(CONTRACT, CONTRACT)).toEqual([]));

  it.each([
    [`${PET} properties name maxLength`, 30, 'POST /pets body.name maxLength: is 30 instead of 20'],
    [
      `${PET} properties name type`,
      'integer',
      'POST /pets body.name type: is "integer" instead of "string"',
    ],
    [`${PET} properties name`, undefined, 'POST /pets body.name: is missing'],
    [
      `${PET} properties color`,
      { type: 'string' },
      'POST /pets body.color: is not in the contract',
    ],
    [
      `${PET} properties tags items`,
      { type: 'integer' },
      'POST /pets body.tags[] type: is "integer" instead of "string"',
    ],
    [`${PET} required`, [], 'POST /pets body.name is required: is false instead of true'],
    [
      `${LIST} parameters 0 schema maximum`,
      50,
      'GET /pets query parameter limit maximum: is 50 instead of 100',
    ],
    [`${LIST} parameters`, [], 'GET /pets query parameter limit: is missing'],
    [
      `${LIST} parameters 1`,
      { name: 'sort', in: 'query' },
      'GET /pets query parameter sort: is not in the contract',
    ],
    [`${LIST} deprecated`, true, 'GET /pets deprecated: is true instead of false'],
    [`${LIST} security`, [], 'GET /pets is public: is true instead of false'],
    ['paths /pets post requestBody', undefined, 'POST /pets body: is missing'],
    [
      'paths /pets post responses',
      { 204: { description: 'OK' } },
      'POST /pets status: is 204 instead of 201',
    ],
    ['paths /pets/{petId}', undefined, 'GET /pets/{petId}: is missing'],
  ])('finds a difference at %s', (place, value, difference) =>
    expect(
      compareWithContract(CONTRACT, edit(CONTRACT, { [place]: value })).map((each) =>
        // A class is reported at its first use.
        each.replace('GET /pets response[]', 'POST /pets body'),
      ),
    ).toContain(difference),
  );

  it.each([
    [
      'another name of a schema',
      JSON.parse(
        JSON.stringify(CONTRACT)
          .replaceAll(/Pet(?=")/g, 'ZooPet')
          .replaceAll('getZooPet', 'getPet')
          .replaceAll('createZooPet', 'createPet'),
      ),
    ],
    [
      'a description',
      edit(CONTRACT, { [`${PET} description`]: 'A pet.', [`${LIST} summary`]: 'List' }),
    ],
    ['an example', edit(CONTRACT, { [`${PET} properties name example`]: 'Rex' })],
    ['another operation', edit(CONTRACT, { 'paths /toys': { get: {} } })],
    [
      'another response for errors',
      edit(CONTRACT, { [`${LIST} responses 429`]: { description: 'Slow down.' } }),
    ],
    ['security', edit(CONTRACT, { security: [{ key: [] }] })],
  ])('finds no difference in %s', (_name, document: Document) =>
    expect(compareWithContract(CONTRACT, document)).toEqual([]),
  );

  it('finds no difference in what the generator notes', () => {
    const contract = pets({
      properties:
        '{ name: { type: string }, password: { type: string }, phone: { type: string, format: phone } }',
      required: ['name', 'password'],
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

  it('does not compare an operation that the service had before, under another name', () => {
    const other = edit(CONTRACT, { [LIST]: { operationId: 'findPets', responses: {} } });
    expect(compareWithContract(CONTRACT, other)).toEqual([]);
  });

  it('reads what the platform publishes for 3.1 in the form of 3.0', () => {
    const expected = pets({
      properties: `{ name: { type: [string, 'null'] }, age: { type: integer, exclusiveMinimum: 0 } }`,
    });
    const actual = {
      ...pets({
        properties:
          '{ name: { type: string, nullable: true }, age: { type: integer, format: int64, minimum: 0, exclusiveMinimum: true } }',
      }),
      openapi: '3.0.0',
    };
    expect(compareWithContract(expected, actual)).toEqual([]);
    expect(compareWithContract(toDocument('{ paths: {} }'), actual)).toEqual([]);
  });
});
