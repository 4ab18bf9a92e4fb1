/** How lists are sorted, and selected by the items of arrays: the same on both databases. */
import { Column, Entity } from 'typeorm';
import type { RowOrder } from '../../src/platform/database/lists/list-rows.js';
import { IdColumn } from '../../src/platform/database/statements/columns.js';
import { Feature } from '../../src/platform/feature.decorator.js';
import { CachedList } from '../../src/platform/database/lists/cached-list.js';
import { ResourceKit } from '../../src/platform/resource/resource-kit.js';
import { useApp } from './support/app.js';
import { createTable } from './support/create-table.js';
import { toPage, toResponse } from './support/queries.js';

@Entity('things')
class Thing {
  @IdColumn('pk_things') id!: number;
  @Column('varchar', { name: 'key', length: 50, nullable: true }) name!: string | null;
  @Column('double precision', { nullable: true }) weight!: number | null;
  @Column('boolean', { nullable: true }) sold!: boolean | null;
  // The function of SQLite for arrays has a column of this name.
  @Column('simple-json', { name: 'value', nullable: true }) tags!: string[] | null;
  @Column('simple-json') parts!: { name?: string | null; size: number }[];
}

@Feature({
  tag: { name: 'things', description: 'Things.' },
  entities: [Thing],
  migrations: [createTable(Thing, 1790000000010)],
})
class ThingsModule {}

const app = useApp({ features: [ThingsModule] });

/** Replaces all rows. */
async function store(rows: readonly Partial<Thing>[]): Promise<void> {
  const things = app.dataSource.getRepository(Thing);
  await things.clear();
  for (const row of rows) await things.insert({ parts: [], ...row });
}

/** Returns the cached list of things, which counts the rows or not. */
const createList = (counts: boolean) =>
  new CachedList(app.dataSource.getRepository(Thing), toResponse, app.app.get(ResourceKit), counts);

/** Reads all pages of two rows, by offset or number, counted or not; all four have the same rows. */
async function readPages(order: RowOrder): Promise<Thing[]> {
  const results: Thing[][] = [];
  for (const counts of [true, false])
    for (const kind of ['offset', 'page'] as const) {
      const list = createList(counts);
      const rows: Thing[] = [];
      for (let number = 0; number === 0 || rows.length === number * 2; number++) {
        const request =
          kind === 'page' ? { page: number, firstPage: 0 as const } : { offset: number * 2 };
        const page = toPage<Thing>(await list.getPage({ limit: 2, order, ...request }));
        rows.push(...page.rows);
        if (page.rows.length < 2) break;
      }
      results.push(rows);
    }
  for (const rows of results) expect(rows).toEqual(results[0]);
  return results[0]!;
}

describe('pages that are sorted', () => {
  it.each<[keyof Thing, readonly unknown[]]>([
    // By their bytes in UTF-8, which is not the order of UTF-16 or of a language.
    ['name', ['10', '9', 'B', 'Z', '_', 'a', 'a b', 'a-b', 'ab', 'é', '\uFFFD', '🐶', null]],
    ['weight', [-1.5, 0, 2, 10, 1e300, null]],
    ['sold', [false, true, null]],
  ])('by %s have the same order on both databases, and null last', async (by, values) => {
    await store(values.toReversed().map((value) => ({ [by]: value })));
    expect((await readPages({ by })).map((row) => row[by])).toEqual(values);
    const descending = await readPages({ by, isDescending: true });
    expect(descending.map((row) => row[by])).toEqual(values.toReversed());
  });

  it('by equal values have each row once, in the order of the ids', async () => {
    await store(Array.from({ length: 9 }, (_, index) => ({ name: index % 2 === 0 ? 'a' : null })));
    const ids = (await readPages({ by: 'id' })).map(({ id }) => id);
    expect(ids).toHaveLength(9);
    expect(ids).toEqual(ids.toSorted((a, b) => a - b));
    const [even, odd] = [0, 1].map((rest) => ids.filter((_, index) => index % 2 === rest));
    const sorted = await readPages({ by: 'name' });
    expect(sorted.map(({ id }) => id)).toEqual([...even!, ...odd!]);
    const descending = await readPages({ by: 'name', isDescending: true });
    expect(descending.map(({ id }) => id)).toEqual([...even!, ...odd!].toReversed());
    const byId = await readPages({ by: 'id', isDescending: true });
    expect(byId.map(({ id }) => id)).toEqual(ids.toReversed());
  });

  it('are cached for each order', async () => {
    await store([{ name: 'b' }, { name: 'a' }]);
    const list = createList(true);
    for (const isDescending of [false, true, false]) {
      const order = { by: 'name', isDescending };
      const { rows } = toPage<Thing>(await list.getPage({ limit: 2, offset: 0, order }));
      expect(rows.map(({ name }) => name)).toEqual(isDescending ? ['b', 'a'] : ['a', 'b']);
    }
  });
});
