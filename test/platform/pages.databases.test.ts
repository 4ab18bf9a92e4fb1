import type { Response, Test } from 'supertest';
import { CachedList } from '../../src/platform/database/lists/cached-list.js';
import { ResourceKit } from '../../src/platform/resource/resource-kit.js';
import type { PageRequest } from '../../src/platform/database/lists/list-rows.js';
import { CategoriesModule } from '../../src/modules/categories/categories.module.js';
import { useApp } from './support/app.js';
import { type Cage, CageEntity, CagesModule } from './support/cages.module.js';
import { recordQueries, toPage, toResponse } from './support/queries.js';

const { jest } = import.meta;
const PAGE_QUERY = /^SELECT\b.*\bFROM "cages"/is;

const app = useApp({ features: [CategoriesModule, CagesModule] });
beforeEach(async () => {
  await app.dataSource.query('DELETE FROM "cages"');
});
afterEach(() => jest.restoreAllMocks());

const list = (query = '', headers: Record<string, string> = {}): Test =>
  app.http().get(`/v1/cages${query}`).auth(app.key, { type: 'bearer' }).set(headers);

const getIds = ({ body }: Response): number[] => (body as Cage[]).map(({ id }) => id);

let count = 0;
/** Creates cages, whose rooms are attic and cellar in turn, and returns their ids. */
async function createCages(length: number): Promise<number[]> {
  const rows = Array.from({ length }, (_, index) => ({
    label: `label ${++count}`,
    room: index % 2 === 0 ? 'attic' : 'cellar',
    shelfPosition: count,
  }));
  const { identifiers } = await app.dataSource.getRepository(CageEntity).insert(rows);
  return identifiers.map(({ id }) => Number(id));
}

/** Follows the Link headers from a page to the last one, as a client does. */
async function followLinks(query: string): Promise<number[][]> {
  const pages: number[][] = [];
  for (let next: string | undefined = `${app.url}/v1/cages${query}`; next !== undefined;) {
    const response = await list(new URL(next).search);
    expect(response.status).toBe(200);
    pages.push(getIds(response));
    const [, target] = /^<(.+)>; rel="next"$/.exec(response.headers['link'] ?? '') ?? [];
    next = target === undefined ? undefined : new URL(target, next).href;
  }
  return pages;
}

describe('a list with pages', () => {
  it('returns 20 items by default, and a link to the next page', async () => {
    const ids = await createCages(45);
    const response = await list();
    expect(getIds(response)).toEqual(ids.slice(0, 20));
    expect(response.headers['link']).toBe(`<?after=${ids[19]}>; rel="next"`);
    expect(await followLinks('')).toEqual([ids.slice(0, 20), ids.slice(20, 40), ids.slice(40)]);
  });

  it('keeps the limit and the filters in the links', async () => {
    const ids = await createCages(12);
    const cellar = ids.filter((_, index) => index % 2 === 1);
    expect(await followLinks('?room=cellar&limit=4')).toEqual([
      cellar.slice(0, 4),
      cellar.slice(4),
    ]);
    const { headers } = await list('?x=%3E%22%0A&room=cellar&limit=4&after=1');
    expect(headers['link']).toMatch(/^<\?x=%3E%22%0A&room=cellar&limit=4&after=\d+>; rel="next"$/);
  });

  it('has no link, and no items, after the last one', async () => {
    const ids = await createCages(4);
    for (const [query, expected] of [
      ['?limit=4', ids],
      [`?after=${ids[3]}`, []],
      ['?room=garden', []],
    ] as const) {
      const response = await list(query);
      expect([response.headers['link'], getIds(response)]).toEqual([undefined, expected]);
    }
  });

  it.each([
    ['limit', 100, ['0', '101', 'x', '1&limit=2']],
    ['after', Number.MAX_SAFE_INTEGER, ['0', '9007199254740992']],
  ])('rejects an invalid %s with 400', async (name, maximum, values) => {
    const message = `${name} must be an integer from 1 to ${maximum}.`;
    for (const value of values)
      expect(await list(`?${name}=${value}`)).toBeError('VALIDATION_FAILED', message);
  });

  it('evaluates If-None-Match, and a new next page changes the ETag', async () => {
    const ids = await createCages(20);
    const { etag } = (await list()).headers as { etag: string };
    expect((await list('', { 'If-None-Match': etag })).status).toBe(304);
    const [next] = await createCages(1);
    const response = await list('', { 'If-None-Match': etag });
    expect([response.status, getIds(response)]).toEqual([200, ids]);
    expect(getIds(await list(`?after=${ids[19]}`))).toEqual([next]);
  });

  it('may count pages from 0, and give the parameter of the next page another name', async () => {
    const ids = await createCages(3);
    const repository = app.dataSource.getRepository(CageEntity);
    const cages = new CachedList(repository, toResponse, app.app.get(ResourceKit));
    const getPage = async (request: PageRequest) => {
      const { rows, next } = toPage<CageEntity>(await cages.getPage(request));
      return { ids: rows.map(({ id }) => id), next };
    };
    const pages = { limit: 2, firstPage: 0, next: 'number' } as const;
    const first = { ids: ids.slice(0, 2), next: { number: 1 } };
    expect(await getPage({ ...pages, page: 0 })).toEqual(first);
    expect(await getPage({ ...pages, page: 1 })).toEqual({ ids: ids.slice(2) });
    const next = { skip: 2 };
    expect(await getPage({ limit: 2, offset: 0, next: 'skip' })).toEqual({ ...first, next });
  });
});

describe('the cache of first pages', () => {
  it('reads each combination of limit and filters once until the table changes', async () => {
    await createCages(5);
    const queries = recordQueries(app.dataSource, PAGE_QUERY);
    const variants = ['', '?limit=2', '?room=attic', '?room=attic&limit=2'];
    for (let round = 0; round < 3; round++) {
      for (const variant of variants) expect((await list(variant)).status).toBe(200);
    }
    expect(queries).toHaveLength(variants.length);
    await createCages(1);
    for (const variant of variants) expect((await list(variant)).status).toBe(200);
    expect(queries).toHaveLength(2 * variants.length);
  });

  it('does not cache later pages', async () => {
    const ids = await createCages(3);
    const queries = recordQueries(app.dataSource, PAGE_QUERY);
    for (let round = 0; round < 2; round++)
      expect(getIds(await list(`?after=${ids[0]}`))).toEqual(ids.slice(1));
    expect(queries).toHaveLength(2);
  });
});

const readPage = async (page: PageRequest): Promise<CageEntity[]> => {
  const cages = app.dataSource.getRepository(CageEntity);
  const response = await new CachedList(cages, toResponse, app.app.get(ResourceKit)).getPage(page);
  return toPage<CageEntity>(response).rows;
};

describe('a page of a module whose DTO has no limits', () => {
  it.each<[PageRequest, string]>([
    [{ limit: 2, page: 0 }, 'page'],
    [{ limit: 3, page: 1.5 }, 'page'],
    [{ limit: 2, offset: -1 }, 'offset'],
    [{ limit: 0 }, 'after'],
  ])('is rejected on both databases: %j', async (page, name) => {
    await expect(readPage(page)).rejects.toMatchObject({
      code: 'VALIDATION_FAILED',
      message: `limit or ${name} is before the first row`,
    });
  });

  it('is empty on both databases if it is after the last one', async () => {
    await createCages(3);
    expect(await readPage({ limit: 100, page: Number.MAX_SAFE_INTEGER })).toEqual([]);
    expect(await readPage({ limit: 2, offset: 1e300 })).toEqual([]);
  });
});
