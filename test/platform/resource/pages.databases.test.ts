import type { Response, Test } from 'supertest';
import { Column, Entity } from 'typeorm';
import { CategoriesModule } from '../../../src/modules/categories/categories.module.js';
import { CachedList } from '../../../src/platform/database/lists/cached-list.js';
import type { PageRequest, RowOrder } from '../../../src/platform/database/lists/list-rows.js';
import { Feature, IdColumn, ResourceKit } from '../../../src/platform/index.js';
import { useApp } from '../support/app.js';
import { type Cage, CageEntity, CagesModule } from '../support/cages.module.js';
import { createTable } from '../support/create-table.js';
import { toPage, toResponse } from '../support/queries.js';

/** A row with a nullable column of each type that is sorted in another way. */
@Entity('things')
class Thing {
  @IdColumn('pk_things') id!: number;
  @Column('varchar', { name: 'key', length: 50, nullable: true }) name!: string | null;
  @Column('double precision', { nullable: true }) weight!: number | null;
  @Column('boolean', { nullable: true }) sold!: boolean | null;
}

@Feature({
  tag: { name: 'things', description: 'Things.' },
  entities: [Thing],
  migrations: [createTable(Thing, 1790000000010)],
})
class ThingsModule {}

const app = useApp({ features: [CategoriesModule, CagesModule, ThingsModule] });
beforeEach(() => app.dataSource.query('DELETE FROM "cages"'));

let cages: CachedList<CageEntity>;
/** Two lists of things, of which the first one counts the rows: they read pages with different statements. */
let things: CachedList<Thing>[];
beforeAll(() => {
  const kit = app.app.get(ResourceKit);
  cages = new CachedList(app.dataSource.getRepository(CageEntity), toResponse, kit);
  const repository = app.dataSource.getRepository(Thing);
  things = [true, false].map((counts) => new CachedList(repository, toResponse, kit, counts));
});

const getPage = async <Row extends object>(from: CachedList<Row>, page: PageRequest) =>
  toPage<Row>(await from.getPage(page));

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

describe('GET /v1/cages', () => {
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

  it('returns no link, and no items, after the last one', async () => {
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

  it('returns the current rows for each combination of limit and filter', async () => {
    const variants = ['', '?limit=2', '?room=attic', '?room=attic&limit=2'];
    const ids = await createCages(3);
    const expected = [ids, ids.slice(0, 2), [ids[0], ids[2]], [ids[0], ids[2]]];
    for (let round = 0; round < 2; round++)
      for (const [index, variant] of variants.entries())
        expect([variant, getIds(await list(variant))]).toEqual([variant, expected[index]]);
    await app.dataSource.getRepository(CageEntity).delete({ id: ids[0] });
    for (const variant of variants) expect(getIds(await list(variant))).not.toContain(ids[0]);
  });
});

const readIds = async (request: PageRequest) => {
  const { rows, next } = await getPage(cages, request);
  return { ids: rows.map(({ id }) => id), next };
};

describe('a page of a module', () => {
  it('counts from 0 if the module says so, and gives the parameter of the next page its name', async () => {
    const ids = await createCages(3);
    const pages = { limit: 2, firstPage: 0, next: 'number' } as const;
    const first = { ids: ids.slice(0, 2), next: { number: 1 } };
    expect(await readIds({ ...pages, page: 0 })).toEqual(first);
    expect(await readIds({ ...pages, page: 1 })).toEqual({ ids: ids.slice(2) });
    const next = { skip: 2 };
    expect(await readIds({ limit: 2, offset: 0, next: 'skip' })).toEqual({ ...first, next });
  });

  it.each<[PageRequest, string]>([
    [{ limit: 2, page: 0 }, 'page'],
    [{ limit: 3, page: 1.5 }, 'page'],
    [{ limit: 2, offset: -1 }, 'offset'],
    [{ limit: 0 }, 'after'],
  ])('returns 400 on both databases if it is before the first row: %j', async (page, name) => {
    const repository = app.dataSource.getRepository(CageEntity);
    const resource = app.app.get(ResourceKit).resource(repository, { toBody: (row) => row });
    await expect(resource.page(page)).rejects.toMatchObject({
      code: 'VALIDATION_FAILED',
      message: `limit or ${name} is before the first row`,
    });
  });

  it('contains no rows on both databases if it is after the last one', async () => {
    await createCages(3);
    expect((await getPage(cages, { limit: 100, page: Number.MAX_SAFE_INTEGER })).rows).toEqual([]);
    expect((await getPage(cages, { limit: 2, offset: 1e300 })).rows).toEqual([]);
  });
});

/** Replaces all things. */
async function store(rows: readonly Partial<Thing>[]): Promise<void> {
  const repository = app.dataSource.getRepository(Thing);
  await repository.clear();
  for (const row of rows) await repository.insert(row);
}

/** Reads all pages of two things, by offset and by number, counted and not: the rows are the same. */
async function readPages(order: RowOrder): Promise<Thing[]> {
  const results: Thing[][] = [];
  for (const thingList of things)
    for (const toRequest of [
      (number: number) => ({ offset: number * 2 }),
      (number: number) => ({ page: number, firstPage: 0 as const }),
    ]) {
      const rows: Thing[] = [];
      for (let number = 0; rows.length === number * 2; number++) {
        const request = { limit: 2, order, ...toRequest(number) };
        rows.push(...(await getPage(thingList, request)).rows);
      }
      results.push(rows);
    }
  for (const rows of results) expect(rows).toEqual(results[0]);
  return results[0]!;
}

const readSortedIds = async (order: RowOrder) => (await readPages(order)).map(({ id }) => id);

describe('sorted pages', () => {
  it.each<[keyof Thing, readonly unknown[]]>([
    // Texts are sorted by their bytes in UTF-8, not as in UTF-16 or in a language.
    ['name', ['10', '9', 'B', 'Z', '_', 'a', 'a b', 'a-b', 'ab', 'é', '\uFFFD', '🐶', null]],
    ['weight', [-1.5, 0, 2, 10, 1e300, null]],
    ['sold', [false, true, null]],
  ])('return the same order by %s on both databases, and null last', async (by, values) => {
    await store(values.toReversed().map((value) => ({ [by]: value })));
    expect((await readPages({ by })).map((row) => row[by])).toEqual(values);
    const descending = await readPages({ by, isDescending: true });
    expect(descending.map((row) => row[by])).toEqual(values.toReversed());
  });

  it('return each row with an equal value once, in the order of the ids', async () => {
    await store(Array.from({ length: 9 }, (_, index) => ({ name: index % 2 === 0 ? 'a' : null })));
    const ids = await readSortedIds({ by: 'id' });
    expect(ids).toHaveLength(9);
    expect(ids).toEqual(ids.toSorted((a, b) => a - b));
    const [even, odd] = [0, 1].map((rest) => ids.filter((_, index) => index % 2 === rest));
    const sorted = [...even!, ...odd!];
    expect(await readSortedIds({ by: 'name' })).toEqual(sorted);
    expect(await readSortedIds({ by: 'name', isDescending: true })).toEqual(sorted.toReversed());
    expect(await readSortedIds({ by: 'id', isDescending: true })).toEqual(ids.toReversed());
  });
});
