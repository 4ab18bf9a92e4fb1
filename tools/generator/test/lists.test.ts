/** How lists select pages, with parameters and responses as public documents have them. */
import { parse } from 'yaml';
import type { ListOperation, Module } from '../model.js';
import type { Json } from '../read/json.js';
import { writeService } from '../write/service-file.js';
import { getNotes, getResults, pets, toModule } from './excerpts.js';

const ROWS = `{ type: array, items: { $ref: '#/components/schemas/Pet' } }`;
const UUIDS = '{ id: { type: string, format: uuid, readOnly: true }, name: { type: string } }';

/**
 * @param list parameters by name: the type of one in the query, or more
 * @param response properties beside the rows, in YAML; without, the rows are the response
 */
function toPets(list: string, response = '', more = ''): Module {
  const parameters = Object.entries(parse(`{ ${list} }`) as Json).map(([name, part]) => {
    const rest = typeof part === 'string' ? { schema: { type: part } } : part;
    return Object.assign({ name, in: 'query' }, rest);
  });
  const envelope = `{ type: object, properties: { data: ${ROWS}, ${response} }, ${more} }`;
  const properties = list.includes('starting_after') ? UUIDS : undefined;
  const body = response === '' ? ROWS : envelope;
  return toModule(pets({ properties, list: body, parameters: JSON.stringify(parameters) }));
}

const getList = (module: Module): ListOperation =>
  module.operations.find(({ path, method }) => path === '/pets' && method === 'get')!
    .implementation as ListOperation;

describe('a list with pages by cursor', () => {
  it.each([
    ['cursor: string, limit: integer', 'next_cursor: { type: string }', '', 'next'],
    // Slack.
    [
      'cursor: string, limit: integer',
      'response_metadata: { type: object, required: [next_cursor], properties: { next_cursor: { type: string } } }, ok: { type: boolean }',
      'required: [ok, response_metadata]',
      { next_cursor: 'next or empty' },
    ],
    // Formapi.
    [
      'cursor: string',
      'next_cursor: { type: string, nullable: true }',
      'required: [next_cursor]',
      'next or null',
    ],
    // Google Wallet.
    [
      'maxResults: { schema: { type: integer, format: int32 } }, token: { description: Used to get the next set of results., schema: { type: string } }',
      'pagination: { type: object, properties: { kind: { type: string }, nextPageToken: { type: string } } }',
      '',
      { nextPageToken: 'next' },
    ],
    ['pageToken: string, pageSize: integer', 'nextPageToken: { type: string }', '', 'next'],
    [
      'after: string, limit: integer',
      'meta: { type: object, properties: { next: {} } }',
      '',
      { next: 'next' },
    ],
    // Square has no name for it but that.
    ['cursor: string, limit: integer', 'cursor: { type: string }', '', 'next'],
  ])('{ %s } fills { %s }', (list, response, more, role) => {
    const module = toPets(list, response, more);
    const { paging, envelope } = getList(module);
    expect(paging.by).toMatchObject({ role: 'cursor' });
    expect(Object.values(envelope!.paging)).toContainEqual(role);
    expect(writeService(module).code).toMatch(/\.page\(\{.*cursor: query\.\w+/);
    expect(getResults(module)['GET /pets']).toBe('implemented');
  });

  it.each([
    // Stripe: an id.
    ['starting_after: string, limit: integer', '', 'after'],
    // Flat: "The paginated API URLs are returned in the `Link` header when requesting the API."
    [
      'next: { description: Returned in the `Link` header., schema: { type: string } }',
      '',
      'cursor',
    ],
    // Nothing tells the next one.
    ['cursor: string, limit: integer', '', undefined],
    ['cursor: string, limit: integer', 'prev_cursor: { type: string }', undefined],
    // Asana: the URL of the next page.
    ['token: string, limit: integer', 'next: { type: string }', undefined],
    ['cursor: string, limit: integer', 'next: { type: string, description: A URL. }', undefined],
    // Gitea, Spotify and LaunchDarkly: a time.
    ['after: { schema: { type: string, format: date-time } }, limit: integer', '', undefined],
    [
      'after: { description: A Unix timestamp., schema: { type: integer } }, limit: integer',
      '',
      undefined,
    ],
    ['after: { description: A Unix timestamp., schema: { type: string } }', 'next: {}', undefined],
    // Numbers before a cursor.
    ['offset: integer, cursor: string, limit: integer', '', 'offset'],
  ])('is not guessed of { %s } and { %s }: %s', (list, response, role) => {
    const module = toPets(list, response);
    expect(getList(module).paging.by?.role).toBe(role);
    const name = /^\w+/.exec(list)![0];
    const isPaged = list.startsWith('offset');
    const refused = isPaged ? '?cursor' : role === undefined ? `?${name}` : '';
    expect(getResults(module)['GET /pets']).toBe(
      refused === '' ? 'implemented' : `implemented without ${refused}`,
    );
  });

  it.each([
    [
      'cursor: { required: true, schema: { type: string } }',
      '',
      'the query parameter cursor has no known effect',
    ],
    [
      'limit: integer',
      'next_cursor: { type: string }',
      'nothing says what next_cursor of the response is',
    ],
    [
      'limit: integer, page: integer',
      'next: { type: string }',
      'nothing says what next of the response is',
    ],
    [
      'limit: integer, after: integer',
      'next: { type: string }',
      'nothing says what next of the response is',
    ],
    [
      'cursor: string',
      'next: { type: string, pattern: "^n" }',
      'nothing says what next of the response is',
    ],
  ])('is a stub with { %s } and the required { %s }: %s', (list, response, reason) => {
    const module = toPets(list, response, response && `required: [${response.split(':')[0]}]`);
    expect(getResults(module)['GET /pets']).toBe(reason);
  });
});

describe('the pages of a list', () => {
  it.each([
    ['page: integer', {}, 'a page has 100 rows, because nothing says how many.'],
    ['page: integer, per_page: integer', { limit: 'per_page' }, 'per_page is 100 by default.'],
    [
      'page: integer, limit: { schema: { type: integer, maximum: 50 } }',
      { limit: 'limit' },
      'limit is 50 by default.',
    ],
    ['limit: number, offset: number', { limit: 'limit' }, 'offset is an integer.'],
    // JSON:API.
    ['"page[size]": integer, "page[number]": integer', { limit: 'page[size]' }, undefined],
    // Probely.
    [
      'page: integer, length: { schema: { type: integer, default: 10 } }',
      { limit: 'length' },
      undefined,
    ],
    [
      'page: integer, count: { schema: { type: integer, default: 15 } }',
      { limit: 'count' },
      undefined,
    ],
    // Pendo.
    ['start: { description: Offset to start at, schema: { type: number } }', {}, undefined],
  ])('{ %s } are numbered', (list, paging, note) => {
    const module = toPets(list);
    expect(getList(module).paging).toMatchObject({
      by: { role: /page/.test(list) ? 'page' : 'offset' },
      ...paging,
    });
    expect(getResults(module)['GET /pets']).toBe('implemented');
    const notes = note === undefined ? [] : [`listPets: ${note}`];
    expect(getNotes(module)).toEqual(expect.arrayContaining(notes));
    expect(writeService(module).code).not.toContain('.list(');
  });

  it('are not selected by a property of that name', () => {
    const properties =
      '{ id: { type: integer, readOnly: true }, size: { type: integer }, name: {} }';
    const size = '[{ name: size, in: query, schema: { type: integer } }]';
    const list = getList(toModule(pets({ properties, parameters: size })));
    expect(list).toMatchObject({ paging: {}, filters: [{ parameter: 'size' }] });
  });

  it('are described in an object, whose count is not the total of another property', () => {
    const meta =
      'count: { type: integer }, totalCount: { type: integer }, limit: { type: integer }';
    const response = `meta: { type: object, properties: { ${meta} } }`;
    const module = toPets('limit: integer, offset: integer', response);
    expect(getList(module).envelope).toMatchObject({
      paging: { meta: { totalCount: 'total', limit: 'limit' } },
      unknown: ['meta.count'],
    });
    expect(writeService(module).code).toContain(
      'meta: { totalCount: paging.total, limit: paging.limit }',
    );
  });
});

describe('a list that is sorted', () => {
  const PAGES = 'page: integer, limit: { schema: { type: integer, default: 10 } }';
  const PROPERTIES =
    '{ id: { type: integer, readOnly: true }, name: { type: string, maxLength: 50 }, notes: { type: string }, created_at: { type: string, format: date-time, readOnly: true }, size: { type: integer }, secret: { type: string, writeOnly: true, maxLength: 9 } }';

  const sort = (list: string, pages = PAGES): Module => {
    const parameters = Object.entries(parse(`{ ${pages}, ${list} }`) as Json).map(
      ([name, part]) => {
        const own = typeof part === 'string' ? { type: part } : (part as Json)['schema'];
        const schema = Array.isArray(part) ? { type: 'string', enum: part } : own;
        return { name, in: 'query', schema };
      },
    );
    return toModule(pets({ properties: PROPERTIES, parameters: JSON.stringify(parameters) }));
  };

  it.each([
    // BBC.
    [
      'sort: [name, -name]',
      'by: query.sort === undefined ? \'id\' : ({ name: "name", "-name": "name" } as const)[query.sort], isDescending: query.sort === "-name"',
    ],
    // api.video.
    [
      'sortBy: [createdAt, name], sortOrder: [asc, desc]',
      'by: query.sortBy === undefined ? \'id\' : ({ createdAt: "created_at", name: "name" } as const)[query.sortBy], isDescending: query.sortOrder === "desc"',
    ],
    // Uebermaps.
    [
      'order: [created_at_asc, created_at_desc]',
      '({ created_at_asc: "created_at", created_at_desc: "created_at" } as const)[query.order], isDescending: query.order === "created_at_desc"',
    ],
    // OpenAQ.
    [
      'order_by: { schema: { type: string, enum: [size, id], default: size } }, sort: { schema: { type: string, enum: [ASC, DESC], default: ASC } }',
      'by: ({ size: "size", id: "id" } as const)[query.order_by], isDescending: query.sort === "DESC"',
    ],
  ])('by { %s } passes the column and the direction', (list, text) => {
    const module = sort(list);
    expect(getResults(module)['GET /pets']).toBe('implemented');
    expect(writeService(module).code).toContain(text);
    expect(getNotes(module)).toContain(
      'listPets: sorting has no index, and texts are sorted by their bytes: Z before a.',
    );
  });

  it.each([
    ['sort: string', PAGES],
    // Not limited, not known, never shown.
    ['sort: [name, notes]', PAGES],
    ['sort: [name, popularity]', PAGES],
    ['sort: [secret]', PAGES],
    // No column.
    ['order: [asc, desc]', PAGES],
    ['sort: [name]', 'limit: integer'],
    ['sort: [name]', 'after: integer'],
    ['sort: { schema: { type: array, items: { type: string, enum: [name] } } }', PAGES],
  ])('is not by { %s } with { %s }', (list, pages) => {
    const module = sort(list, pages);
    const name = /^\w+/.exec(list)![0];
    expect(getResults(module)['GET /pets']).toBe(`implemented without ?${name}`);
    expect(writeService(module).code).not.toContain('isDescending');
  });
});

const toFiltered = (tags: string, parameter: string, path = '/pet/findByTags'): Module => {
  const list = `parameters: [{ name: tags, in: query, ${parameter} }], responses: { 200: { description: OK, content: { application/json: { schema: ${ROWS} } } } }`;
  const properties = `{ id: { type: integer, readOnly: true }, name: {}, tags: { type: array, items: ${tags} } }`;
  return toModule(pets({ properties, paths: `${path}: { get: { ${list} } }` }));
};

describe('a filter by the items of an array', () => {
  const TEXTS = 'schema: { type: array, items: { type: string } }';
  const TAG = '{ type: object, properties: { id: { type: integer }, name: { type: string } } }';

  it.each([
    ['{ type: string }', TEXTS, 'anyItem(query.tags)'],
    [TAG, `required: true, ${TEXTS}`, 'anyItem(query.tags, "name")'],
    ['{ type: string, enum: [a, b] }', 'schema: { type: string }', 'anyItem(query.tags)'],
  ])('of %s selects rows by { %s }', (tags, parameter, text) => {
    const module = toFiltered(tags, parameter);
    expect(getResults(module)['GET /pet/findByTags']).toBe('implemented');
    expect(writeService(module).code).toContain(`tags: ${text}`);
    const note = 'the filter tags has no index, because it is in an array.';
    expect(getNotes(module)).toContainEqual(expect.stringContaining(note));
    expect(module.resources[0]!.columns.find(({ name }) => name === 'tags')!.indexed).toBe(false);
  });

  it.each([
    ['{ type: integer }', TEXTS],
    ['{ type: string, format: uuid }', TEXTS],
    ['{ type: object, properties: { name: { type: string }, color: { type: string } } }', TEXTS],
    ['{ type: string }', 'description: A comma-separated list., schema: { type: string }'],
  ])('of %s is not guessed from { %s }', (tags, parameter) => {
    expect(getResults(toFiltered(tags, parameter))['GET /pet/findByTags']).toBe(
      'nothing says which of the objects it lists',
    );
  });
});

describe('a filter by the id', () => {
  it.each([
    ['id', 'integer', 'implemented'],
    ['ids', '{ type: array, items: { type: integer } }', 'implemented'],
    ['ids', 'string', 'implemented without ?ids'],
    ['id', 'string', 'implemented without ?id'],
  ])('?%s: %s is %s', (name, type, result) => {
    const schema = type.startsWith('{') ? type : `{ type: ${type} }`;
    const module = toModule(
      pets({ parameters: `[{ name: ${name}, in: query, schema: ${schema} }]` }),
    );
    expect(getResults(module)['GET /pets']).toBe(result);
    const text =
      result === 'implemented' ? `{ id: query.${name} }` : `refuseQuery(query, "${name}")`;
    expect(writeService(module).code).toContain(text);
  });
});
