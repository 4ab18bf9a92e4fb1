import type { Type } from '@nestjs/common';
import { Column, Entity } from 'typeorm';
import { IdColumn, type IdOptions } from '../../../src/platform/database/statements/columns.js';
import { createUuid } from '../../../src/platform/database/statements/uuid.js';
import { Feature, insertReturning, ResourceKit } from '../../../src/platform/index.js';
import { CachedList } from '../../../src/platform/database/lists/cached-list.js';
import { useApp } from '../support/app.js';
import { describeOnPostgres } from '../support/databases.js';
import { createTable } from '../support/create-table.js';
import { type Page, toPage, toResponse } from '../support/queries.js';

const { jest } = import.meta;

interface Row {
  id: number | string;
  name: string;
}

/** Creates the feature of a table whose ids are of this kind. */
function createFeature(table: string, timestamp: number, options: IdOptions) {
  @Entity(table)
  class RowEntity implements Row {
    @IdColumn(`pk_${table}`, options)
    id!: number | string;

    @Column('varchar', { length: 100 })
    name!: string;
  }

  @Feature({
    tag: { name: table, description: 'Rows.' },
    entities: [RowEntity],
    migrations: [createTable(RowEntity, timestamp, options)],
  })
  class RowsModule {}
  return { entity: RowEntity as Type<Row>, module: RowsModule };
}

const UUID_7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const assigned = [undefined, 7, 'ignored', undefined, undefined];
/** Ids of clients in ascending order. Texts are sorted by their bytes in UTF-8, not as in UTF-16 or in a language. */
const integers = [1, 9, 10, 2 ** 31, Number.MAX_SAFE_INTEGER];
const uuids = ['0', '0A', 'a', 'B'].map(
  (text) => `${text.padEnd(8, '0')}-0000-4000-8000-000000000000`,
);
const texts = ['10', '9', 'B', '_', 'a b', 'a-b', 'é', '\uFFFD', '🐶'];

const uuidOfClient = { type: 'uuid', byClient: true } as const;
const newUuids = assigned.map(() => expect.stringMatching(UUID_7));

/** Each kind of ids, with the ids of create requests, and those of the rows. */
const KINDS: [string, IdOptions, unknown[], unknown[]][] = [
  ['an integer of the database', {}, assigned, assigned.map(() => expect.any(Number))],
  ['a UUID of the service', { type: 'uuid' }, assigned, newUuids],
  ['an integer of the client', { byClient: true }, integers, integers],
  ['a UUID of the client', uuidOfClient, uuids, uuids.map((uuid) => uuid.toLowerCase())],
  ['a text of the client', { type: 'text', length: 50 }, texts, texts],
];
const features = KINDS.map(([, options], index) =>
  createFeature(`rows_${index}`, 1_790_000_001_000 + index, options),
);

const app = useApp({ features: features.map(({ module }) => module) });
afterEach(() => jest.useRealTimers());

/** Returns the table and the resource of a kind of ids. */
function getResource(kind: string) {
  const { entity } = features[KINDS.findIndex(([name]) => name === kind)]!;
  const repository = app.dataSource.getRepository(entity);
  const resource = app.app.get(ResourceKit).resource(repository, { toBody: (row) => row });
  return { repository, resource };
}

describe('a table', () => {
  it.each(KINDS)(
    'stores concurrent creates, and lists them whole and in pages in the order of their id: %s',
    async (kind, { type, byClient = type === 'text' }, sent, ids) => {
      const { repository, resource } = getResource(kind);
      const list = new CachedList(repository, toResponse, app.app.get(ResourceKit));
      const rows = sent.map((id, index) => ({ id, name: `row ${index}` }) as Row);
      // Clients can send ids in any order.
      if (byClient) rows.reverse();
      const created = [
        await insertReturning(repository, rows[0]!),
        ...(await Promise.all(rows.slice(1).map((row) => resource.create(row)))),
      ];
      if (byClient) created.reverse();
      expect(created.map(({ id }) => id)).toEqual(ids);
      expect(toPage(await list.get()).rows).toEqual(created);
      const read: Row[] = [];
      let next: Readonly<Record<string, number | string>> | undefined = {};
      do {
        const page: Page<Row> = toPage(await list.getPage({ limit: 2, after: next['after'] }));
        read.push(...page.rows);
        ({ next } = page);
      } while (next !== undefined);
      expect(read).toEqual(created);
    },
  );
});

describe('a create request with an id of the client', () => {
  it.each(KINDS.filter(([, { type, byClient = type === 'text' }]) => byClient))(
    'rejects an id that exists with 409, alone and in a batch: %s',
    async (kind, _options, sent) => {
      const { repository, resource } = getResource(kind);
      await repository.clear();
      const [first, second] = sent.map((id) => ({ id, name: 'new' }) as Row) as [Row, Row];
      const creates = [first, second, first].map((row) => resource.create(row));
      const results = await Promise.allSettled(creates);
      expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
      await expect(resource.create({ ...first, name: 'other' })).rejects.toMatchObject({
        code: 'ALREADY_EXISTS',
        message: 'Another resource has the same id.',
      });
      expect(await repository.find()).toHaveLength(2);
    },
  );

  it('rejects a text that no URL can have as a path segment with 400, also in a batch', async () => {
    const { repository, resource } = getResource('a text of the client');
    await repository.clear();
    const ids = ['...', '', '.', '.a', '..', '%2e'];
    const results = await Promise.allSettled(ids.map((id) => resource.create({ id, name: 'a' })));
    const codes = results.map((each) => (each.status === 'rejected' ? each.reason.code : 'stored'));
    const invalid = 'VALIDATION_FAILED';
    expect(codes).toEqual(['stored', invalid, invalid, 'stored', invalid, 'stored']);
    const insert = insertReturning(repository, { id: '.', name: 'a' });
    await expect(insert).rejects.toThrow('The id must not be empty, . or ..');
    const stored = (await repository.find()).map((row) => row.id);
    expect(new Set(stored)).toEqual(new Set(['...', '.a', '%2e']));
  });
});

describeOnPostgres('the migrations of all kinds of ids', () => {
  it('create the schema of the entities, which sorts texts by their bytes', async () => {
    const { upQueries } = await app.dataSource.driver.createSchemaBuilder().log();
    expect(upQueries).toEqual([]);
    const columns = await app.dataSource.query<{ collation: string }[]>(
      `SELECT "collation_name" AS "collation" FROM information_schema.columns
        WHERE "table_name" LIKE 'rows_%' AND "data_type" = 'character varying' AND "column_name" = 'id'`,
    );
    expect(columns.map(({ collation }) => collation)).toEqual(['C', 'C', 'C']);
  });
});

describe('createUuid', () => {
  it('returns UUIDs of version 7 in ascending order, also if the clock is set back', () => {
    jest.useFakeTimers({ now: Date.UTC(2100, 0) });
    const created = Array.from({ length: 10_000 }, createUuid);
    jest.setSystemTime(Date.UTC(2099, 0));
    created.push(createUuid());
    jest.setSystemTime(Date.UTC(2101, 0));
    created.push(createUuid());
    expect(created).toEqual([...new Set(created)].toSorted());
    for (const uuid of created) expect(uuid).toMatch(UUID_7);
    const times = created.map((uuid) => Number.parseInt(uuid.replace('-', '').slice(0, 12), 16));
    expect([times[0], times.at(-1)]).toEqual([Date.UTC(2100, 0), Date.UTC(2101, 0)]);
  });
});
