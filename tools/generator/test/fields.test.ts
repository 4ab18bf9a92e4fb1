import { toDocument, type ResourceOptions } from '../read/fields.js';
import { getNotes, toModule } from './excerpts.js';
import type { Module } from '../model.js';

const TABLES = new Map([
  ['api_keys', 'text'],
  ['categories', 'integer'],
  ['owners', 'uuid'],
] as const);

const toResource = (fields: string, options: Partial<ResourceOptions> = {}): Module =>
  toModule(toDocument({ name: 'toys', fields, ...options }, TABLES));
const getMessage = (fields: string, options?: Partial<ResourceOptions>): string => {
  try {
    toResource(fields, options);
    return 'no error';
  } catch (error) {
    return (error as Error).message;
  }
};

describe('a field', () => {
  it.each([
    ['string', { type: 'string', minLength: 1, maxLength: 100 }],
    ['string(2..5)', { type: 'string', minLength: 2, maxLength: 5 }],
    ['text', { type: 'string', maxLength: 10_000 }],
    ['integer', { type: 'integer', format: 'int64' }],
    ['integer(0..100)', { type: 'integer', format: 'int32', minimum: 0, maximum: 100 }],
    ['number(0..100)', { type: 'number', format: 'double', minimum: 0, maximum: 100 }],
    ['number(-0.5..)', { type: 'number', minimum: -0.5 }],
    ['decimal(4,2)', { format: 'decimal', pattern: String.raw`^-?(0|[1-9]\d{0,1})(\.\d{1,2})?$` }],
    ['boolean', { type: 'boolean' }],
    ['enum(a,b)', { type: 'string', enum: ['a', 'b'] }],
    ['date', { type: 'string', format: 'date' }],
    ['date-time', { type: 'string', format: 'date-time' }],
    ['uuid', { type: 'string', format: 'uuid' }],
    ['uri', { type: 'string', format: 'uri', maxLength: 2048 }],
    ['email', { type: 'string', format: 'email', maxLength: 254 }],
    ['json', { type: 'object', additionalProperties: true }],
    ['map(integer)', { type: 'object', additionalProperties: { type: 'integer' } }],
    ['text[1..5]', { type: 'array', minItems: 1, maxItems: 5, items: { type: 'string' } }],
    ['integer[][]', { type: 'array', items: { type: 'array', items: { type: 'integer' } } }],
    [
      '{a:text b:text?}',
      { class: { properties: [{ name: 'a', required: true }, { required: false }] } },
    ],
    ['ref(categories)', { type: 'integer', references: 'categories' }],
    ['ref(owners)', { type: 'string', format: 'uuid', references: 'owners' }],
    ['ref(toys)', { type: 'integer', references: 'toys' }],
    ['ref(toys)[]', { type: 'array', uniqueItems: true, items: { references: 'toys' } }],
    ['string=red', { default: 'red' }],
    ['boolean?', { required: false }],
    ['string:unique', { unique: true }],
    ['string:write-only', { writeOnly: true }],
  ])('%s is a schema', (type, schema) => {
    const { classes } = toResource(`value:${type} other:string`);
    const request = classes.find(({ name }) => name === 'NewToy');
    expect(request!.properties[0]).toMatchObject({ name: 'value', ...schema });
  });

  it.each([
    ['name must be name:type, such as name:string(1..100).', 'name'],
    ['At least one field is required', ''],
    ['a-b must be a name in camelCase.', 'a-b:text'],
    ['name: the type strng is unknown; did you mean string.', 'name:strng'],
    ['did you mean date-time', 'at:datetime'],
    ['it must be one of string, text, integer', 'at:xyzzy'],
    ['the mark :uniqe is unknown; did you mean unique.', 'name:string:uniqe'],
    ['The range 5..1 must be minimum..maximum', 'name:string(5..1)'],
    ['The range 5 must be minimum..maximum', 'name:string(5)'],
    ['A bracket is not closed: name:string(1..5', 'name:string(1..5'],
    ['decimal(2,4) must be decimal(precision,scale)', 'price:decimal(2,4)'],
    ['color: the default green is none of red, blue.', 'color:enum(red,blue)=green'],
    ['size: the default big is not a value of the type.', 'size:integer=big'],
    ['The field id is added by the generator.', 'id:integer'],
    ['There are two fields named name.', 'name:text name:text'],
    ['Filters need --pages.', 'name:text:filter'],
    ['tag: there is no table categoris; did you mean categories.', 'tag:ref(categoris)'],
    ['is unknown', `a:${'b'.repeat(10_000)}`],
  ])('is refused: %s', (message, fields) => {
    expect(getMessage(fields)).toContain(message);
    expect(getMessage(fields).length).toBeLessThan(500);
  });
});

describe('a resource of fields', () => {
  it.each([
    ['Pets', 'Pets must be a name in lower case, such as pets or store/orders.'],
    ['../pets', 'must be a name in lower case'],
    ['api-keys', 'There is a table api_keys already: choose another name.'],
    ['sqlite-master', 'choose another name'],
  ])('is refused with the name %s', (name, message) =>
    expect(getMessage('name:text', { name })).toContain(message),
  );

  it.each([
    ['list,creat', 'The operation creat is unknown; did you mean create.'],
    ['list,read', 'Without the operation create'],
  ])('is refused with the operations %s', (operations, message) =>
    expect(getMessage('name:text', { operations })).toContain(message),
  );

  it('may be below several segments of a path', () => {
    const { operations, tags } = toResource('name:text', { name: 'zoo/shop/toys' });
    expect(operations[0]).toMatchObject({ path: '/zoo/shop/toys', operationId: 'listToys' });
    expect(tags).toMatchObject([{ name: 'zoo' }]);
  });

  it('goes the way of a contract, with every operation implemented', () => {
    const operations = 'list,create,read,replace,update,delete';
    const module = toResource(
      'name:string:filter chip:uuid?:unique madeAt:date-time=now categoryId:ref(categories)?',
      { operations, pages: true, ifMatch: true, uuid: true },
    );
    expect(
      module.operations.map(({ implementation, operationId }) => [
        operationId,
        implementation.kind,
      ]),
    ).toEqual([
      ['listToys', 'list'],
      ['createToy', 'create'],
      ['getToy', 'read'],
      ['replaceToy', 'replace'],
      ['updateToy', 'patch'],
      ['deleteToy', 'delete'],
    ]);
    expect(getNotes(module)).toEqual([]);
    const columns = [
      { property: 'name', indexed: true },
      { property: 'chip', unique: true, nullable: true },
      { property: 'categoryId', references: 'categories' },
      { property: 'madeAt', assigned: 'now' },
    ];
    expect(module.resources).toMatchObject([
      { table: 'toys', versioned: true, id: { kind: 'uuid', by: 'service' }, columns },
    ]);
  });
});

it.each([
  ['store/orders', 'Create an order'],
  ['pets', 'Create a pet'],
])('the resource %s is described with its article: %s', (name, summary) => {
  const { operations } = toResource('value:string', { name });
  expect(operations.map((operation) => operation.summary)).toContain(summary);
});
