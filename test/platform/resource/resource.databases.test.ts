import type { ObjectLiteral } from 'typeorm';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import { ResourceKit } from '../../../src/platform/resource/resource-kit.js';
import { refuseQuery } from '../../../src/platform/resource/operation/unsupported.js';
import { startApp } from '../support/app.js';
import { type Cage, CagesModule, type Toy } from '../support/cages.module.js';
import { describeResource } from '../support/describe-resource.js';
import { insertRow } from '../support/fixtures.js';
import type { HttpResponse } from '../support/http-client.js';

const MISSING_ID = '0190c8f5-7c6f-7d3a-9c5e-2f1a8b4d6e70';

interface ToyList {
  readonly items: Toy[];
  readonly total: number;
  readonly next?: Record<string, number | string>;
}

const app = await startApp({ features: [CategoriesModule, CagesModule] });
/** The path of the toys of a new cage. */
let path: string;
beforeEach(async () => {
  path = await createCage();
});
afterAll(() => app.stop());

const send = (method: string, target: string, body?: object): Promise<HttpResponse> =>
  app.send(method, `/v1${target}`, body && { body });

let count = 0;
async function createCage(): Promise<string> {
  count++;
  const body = { label: `cage ${count}`, room: 'kitchen', shelfPosition: count };
  const { id } = (await send('POST', '/cages', body)).json<Cage>();
  return `/cages/${id}/toys`;
}

async function createToy(properties: Partial<Toy> = {}): Promise<Toy> {
  const response = await send('POST', path, { name: `toy ${++count}`, ...properties });
  const { toy } = response.json<{ toy: Toy }>();
  expect([response.status, toy]).toMatchObject([201, { seenBy: 'the service' }]);
  return toy;
}

/** Returns toys as the list shows them. */
const createToys = async (length: number): Promise<Toy[]> => {
  const toys: Toy[] = [];
  for (let index = 0; index < length; index++) {
    const { seenBy: _seenBy, ...item } = await createToy();
    toys.push(item);
  }
  return toys;
};

const list = async (query: string): Promise<ToyList> =>
  (await send('GET', `${path}${query}`)).json<ToyList>();

describe('Resource.page', () => {
  it.each([
    ['an id', '?limit=2', (toys: Toy[]) => ({ after: toys[1]!.toyId })],
    ['an offset', '?limit=2&offset=0', () => ({ offset: 2 })],
    ['a number', '?limit=2&page=1', () => ({ page: 2 })],
  ])('follows %s with a total and a link to the next page', async (_label, query, getNext) => {
    const toys = await createToys(5);
    const next = getNext(toys);
    const first = await send('GET', `${path}${query}`);
    expect(first.json()).toEqual({ items: toys.slice(0, 2), total: 5, next });
    const [[name, value]] = Object.entries(next) as [[string, number | string]];
    const parameters = new URLSearchParams(query);
    parameters.set(name, String(value));
    expect(first.headers['link']).toBe(`<?${parameters.toString()}>; rel="next"`);
    const pages: Toy[][] = [];
    let link: string | undefined = query;
    while (link !== undefined) {
      const response = await send('GET', `${path}${link}`);
      expect(response.json()).toMatchObject({ total: 5 });
      pages.push(response.json<ToyList>().items);
      link = /^<(.+)>/.exec((response.headers['link'] as string | undefined) ?? '')?.[1];
    }
    expect(pages).toEqual([toys.slice(0, 2), toys.slice(2, 4), toys.slice(4)]);
  });

  it('returns a total, and no items, beyond the last page', async () => {
    await createToys(1);
    const [toy] = (await list('')).items;
    const empty = { items: [], total: 1 };
    const queries = [`after=${toy!.toyId.toUpperCase()}`, 'offset=1', 'page=2'];
    for (const query of [...queries, `offset=${2 ** 53 - 1}`, `page=${2 ** 53 - 1}`])
      expect([query, await list(`?${query}`)]).toEqual([query, empty]);
    path = await createCage();
    expect(await list('')).toEqual({ items: [], total: 0 });
  });

  it('returns items and their total from the same moment while others create', async () => {
    const creates = { isRunning: true };
    const created = createToys(30).finally(() => {
      creates.isRunning = false;
    });
    const totals: number[] = [];
    while (creates.isRunning) {
      for (const query of ['?limit=1000', '?limit=1000&offset=1']) {
        const { items, total } = await list(query);
        expect([query, items.length]).toEqual([
          query,
          Math.max(0, total - (query.endsWith('1') ? 1 : 0)),
        ]);
        totals.push(total);
      }
    }
    await created;
    expect(totals).toEqual(totals.toSorted((a, b) => a - b));
    expect((await list('?limit=1000')).total).toBe(30);
  });
});

describe('Resource.create', () => {
  it('fails alone in its batch if a value is no JSON', async () => {
    const cageId = Number(/\d+/.exec(path)![0]);
    const repository = app.dataSource.getRepository<ObjectLiteral>('toys');
    const toys = app.app.get(ResourceKit).resource(repository, { toBody: ({ name }) => name });
    const circular: Record<string, unknown> = {};
    circular['self'] = circular;
    const [good, bad] = await Promise.allSettled([
      toys.create({ cageId, name: 'good', size: null }),
      toys.create({ cageId, name: 'bad', size: circular }),
    ]);
    expect(good).toMatchObject({ value: 'good' });
    expect(String(bad.status === 'rejected' && bad.reason)).toMatch(/circular/);
  });
});

describe('Resource.replace', () => {
  it('keeps the values that the service tells it to keep', async () => {
    const { toyId } = await createToy({ madeAt: '2026-11-01T12:00:00Z' });
    const replaced = await send('PUT', `${path}/${toyId}`, { name: 'other' });
    expect(replaced.json()).toEqual({ toyId, name: 'other', size: null, seenBy: 'the service' });
  });
});

describe('a resource below another', () => {
  it('returns 404 except below its parent', async () => {
    const toy = await createToy();
    const other = await createCage();
    const paths = [other, '/cages/999999/toys'].map((parent) => `${parent}/${toy.toyId}`);
    for (const target of [...paths, `${path}/${MISSING_ID}`, `${path}/1`, `${path}/%00`])
      for (const [method, body] of [
        ['GET'],
        ['PUT', { name: 'x' }],
        ['PATCH', {}],
        ['DELETE'],
      ] as const)
        expect(await send(method, target, body)).toBeError('NOT_FOUND', 'Resource not found.');
    expect(await send('GET', '/cages/999999/toys')).toBeError('NOT_FOUND', 'Resource not found.');
    expect(await send('POST', '/cages/999999/toys', { name: 'x' })).toBeError('NOT_FOUND');
    expect((await send('GET', `${path}/${toy.toyId.toUpperCase()}`)).json()).toEqual(toy);
  });

  it('keeps its parent from being deleted', async () => {
    await createToy();
    const cage = path.replace('/toys', '');
    expect(await app.send('DELETE', `/v1${cage}`, { headers: { 'if-match': '*' } })).toBeError(
      'RESOURCE_IN_USE',
      'Another resource refers to this one.',
    );
  });
});

describe('an unsupported query parameter', () => {
  it.each(['?x=1&filter=a&filter=b', '?filter[name]=a'])(
    'causes 501 with its name: %s',
    async (query) => {
      const before = (await send('GET', path)).json<{ total: number }>();
      const response = await send('POST', path + query, { name: 'x' });
      expect(response).toBeError('NOT_IMPLEMENTED', 'The query parameter filter is not supported.');
      expect((await send('GET', path)).json()).toEqual(before);
    },
  );

  it('makes refuseQuery throw if it has a value', () => {
    for (const query of [{ sort: '' }, { all: false }] as { sort?: string; all?: boolean }[]) {
      const text = `The query parameter ${Object.keys(query)[0]} is not supported.`;
      expect(() => refuseQuery(query, 'sort', 'all')).toThrow(text);
    }
    expect(() => refuseQuery({ sort: undefined }, 'sort')).not.toThrow();
  });
});

describe('Resource.patch', () => {
  it('merges objects, and removes properties that are null', async () => {
    const { toyId, name } = await createToy({ size: { width: 1 }, madeAt: '2026-11-01T12:00:00Z' });
    const patch = async (body: object): Promise<unknown> =>
      (await send('PATCH', `${path}/${toyId}`, body)).json();
    const toy = { toyId, name, seenBy: 'the service', madeAt: '2026-11-01T12:00:00.000Z' };
    expect(await patch({ size: { height: 2 } })).toEqual({ ...toy, size: { width: 1, height: 2 } });
    expect(await patch({ size: { height: null } })).toEqual({ ...toy, size: { width: 1 } });
    expect(await patch({ size: null })).toEqual({ ...toy, size: null });
    const invalid = await send('PATCH', `${path}/${toyId}`, { size: { height: 2 }, name: 'x' });
    expect(invalid).toBeError('VALIDATION_FAILED', 'size.width is missing.');
    expect((await send('GET', `${path}/${toyId}`)).json()).toEqual({ ...toy, size: null });
  });

  it('loses none of the merges that concurrent requests make in the same object', async () => {
    const { toyId } = await createToy({ size: { width: 1 } });
    const names = Array.from({ length: 10 }, (_, index) => `note ${index}`);
    const responses = await Promise.all(
      names.map((name) => send('PATCH', `${path}/${toyId}`, { size: { notes: { [name]: name } } })),
    );
    const sizes = responses.map((response) => response.json<Required<Toy>>().size!);
    const counts = sizes.map(({ notes }) => Object.keys(notes!).length);
    expect(counts.toSorted((a, b) => a - b)).toEqual(names.map((_, index) => index + 1));
    const { size } = (await send('GET', `${path}/${toyId}`)).json<Required<Toy>>();
    const notes = Object.fromEntries(names.map((name) => [name, name]));
    expect(size).toEqual({ width: 1, notes });
  });

  it.each(['content-length', 'transfer-encoding'])(
    'rejects an empty body with %s',
    async (name) => {
      const { toyId } = await createToy();
      const body = { 'content-length': '0', 'transfer-encoding': 'chunked' }[name];
      const headers = { 'content-type': 'application/json', [name]: body };
      const response = await app.send('PATCH', `/v1${path}/${toyId}`, { headers });
      expect(response).toBeError('VALIDATION_FAILED', 'request body is required.');
    },
  );

  it('rejects with 413 what makes an object exceed the body limit, unless it becomes smaller', async () => {
    const { toyId } = await createToy();
    const patch = (notes: object): Promise<HttpResponse> =>
      send('PATCH', `${path}/${toyId}`, { size: { width: 1, notes } });
    const getNotes = async (): Promise<object> =>
      (await send('GET', `${path}/${toyId}`)).json<Required<Toy>>().size!.notes!;
    const tooLarge = 'size would have more than 102400 bytes.';
    // Each alone is small enough, and so are all but one together.
    const concurrent = await Promise.all(
      ['a', 'b', 'c'].map((name) => patch({ [name]: 'x'.repeat(40_000) })),
    );
    const [rejected, ...others] = concurrent.filter(({ status }) => status !== 200);
    expect(rejected).toBeError('PAYLOAD_TOO_LARGE', tooLarge);
    expect(others).toEqual([]);
    // In bytes, not characters.
    expect(await patch({ d: 'é'.repeat(15_000) })).toBeError('PAYLOAD_TOO_LARGE', tooLarge);
    expect(Object.keys(await getNotes())).toHaveLength(2);
    // Larger already, as if the limit had been lowered.
    const large = { width: 1, notes: { a: 'x'.repeat(200_000), b: 'x'.repeat(200_000) } };
    await app.dataSource.getRepository('toys').update({ id: toyId }, { size: large });
    expect(await patch({ c: '' })).toBeError('PAYLOAD_TOO_LARGE', tooLarge);
    expect((await patch({ a: null })).status).toBe(200);
    expect(await getNotes()).toEqual({ b: large.notes.b });
  });
});

await describeResource(app, '/cages', {
  create: async (n) => ({
    label: `label ${n}`,
    room: 'attic',
    shelfPosition: n,
    categoryId: await insertRow(app.dataSource, 'categories'),
    weight: 1.5,
    locked: true,
    builtAt: '2026-11-01T12:00:00.000Z',
  }),
  other: async (n) => ({
    label: `other ${n}`,
    room: 'cellar',
    shelfPosition: n,
    categoryId: await insertRow(app.dataSource, 'categories'),
    weight: 2.5,
    locked: false,
    builtAt: '2026-11-02T12:00:00.000Z',
  }),
  invalid: { label: ['', null], categoryId: [Number.MAX_SAFE_INTEGER], builtAt: ['yesterday'] },
  unique: [['label'], ['room', 'shelfPosition']],
});

await describeResource(app, '/cages/{cageId}/toys', {
  create: (n) => ({
    name: `toy ${n}`,
    size: { width: 1, height: 2 },
    madeAt: '2026-11-01T12:00:00.000Z',
  }),
  other: (n) => ({
    name: `other ${n}`,
    size: { width: 3, height: 4 },
    madeAt: '2026-11-02T12:00:00.000Z',
  }),
  invalid: { name: [''], size: [1], toyId: ['x'] },
  unique: [['name']],
  shown: { seenBy: 'the service' },
  id: 'toyId',
  parent: async () => ({ cageId: await insertRow(app.dataSource, 'cages') }),
});
