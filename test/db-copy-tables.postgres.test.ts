import {
  Column,
  Entity,
  ForeignKey,
  JoinTable,
  ManyToMany,
  PrimaryColumn,
  PrimaryGeneratedColumn,
} from 'typeorm';
import { copyDatabase } from '../src/cli/db-copy.js';
import { databaseOptions } from '../src/platform/database/connection/data-source-options.js';
import { PetstoreDataSource } from '../src/platform/database/connection/petstore-data-source.js';
import { createDatabase, type TestDatabase } from './support/app.js';

const { jest } = import.meta;

/** References itself, and a table that is declared later. */
@Entity('pets')
class PetEntity {
  @PrimaryGeneratedColumn()
  id!: number;

  @ForeignKey('pets', { name: 'fk_pets_mother_id' })
  @Column('integer', { name: 'mother_id', nullable: true })
  motherId!: number | null;

  @ForeignKey('owners', { name: 'fk_pets_owner' })
  @Column('varchar', { nullable: true })
  owner!: string | null;

  @Column('json', { nullable: true })
  details!: unknown;

  @Column('boolean')
  chipped!: boolean;

  @Column('bigint', { name: 'born_at', nullable: true })
  bornAt!: string | null;

  @Column('date', { nullable: true })
  vaccinated!: string | null;

  @ManyToMany(() => ToyEntity)
  @JoinTable({ name: 'pet_toys' })
  toys!: ToyEntity[];
}

/** Has a text as its primary key. */
@Entity('owners')
class OwnerEntity {
  @PrimaryColumn('varchar')
  name!: string;
}

/** Has ids that the database does not assign. */
@Entity('toys')
class ToyEntity {
  @PrimaryColumn('integer')
  id!: number;
}

let databases: TestDatabase[];
let file: string;
let source: PetstoreDataSource;
let target: PetstoreDataSource;
beforeEach(async () => {
  databases = [await createDatabase('sqlite'), await createDatabase()];
  file = databases[0]!.url.replace('sqlite:', '');
  source = await openDatabase(databases[0]!);
  target = await openDatabase(databases[1]!);
  // The number of rows of each table.
  jest.spyOn(process.stdout, 'write').mockReturnValue(true);
});
afterEach(async () => {
  jest.restoreAllMocks();
  for (const dataSource of [source, target]) await dataSource.destroy();
  for (const database of databases) await database.drop();
});

/** Creates the tables of the entities, and leaves the connection open. */
async function openDatabase({ config }: TestDatabase): Promise<PetstoreDataSource> {
  const entities = [PetEntity, OwnerEntity, ToyEntity];
  const dataSource = new PetstoreDataSource(databaseOptions(config, { entities, migrations: [] }));
  await dataSource.initialize();
  await dataSource.synchronize();
  return dataSource;
}

describe('db:copy of the tables of a feature', () => {
  it('copies each table after those that it references, with JSON, booleans, dates and large integers', async () => {
    const details = { text: "\u{1F415} ' \\", list: [1, null, { deep: true }], number: 1.5 };
    await source.query(`INSERT INTO "owners" VALUES ('Ann'), ('狗')`);
    await source.query(
      `INSERT INTO "pets" ("id", "chipped", "mother_id", "owner", "details", "born_at", "vaccinated")
       VALUES (3, 0, NULL, 'Ann', ?, NULL, NULL), (4, 1, 3, NULL, '[]', NULL, '2026-02-28'),
              (41, 0, NULL, NULL, '"text"', 9007199254740991, NULL)`,
      [JSON.stringify(details)],
    );
    await source.query('INSERT INTO "toys" VALUES (-5), (7)');
    await source.query('INSERT INTO "pet_toys" VALUES (3, 7), (4, -5)');
    await copyDatabase(file, target);
    const columns = `"id", "mother_id", "owner", "details", "chipped", "born_at", "vaccinated"::text`;
    const rows: object[] = await target.query(`SELECT ${columns} FROM "pets" ORDER BY "id"`);
    expect(rows.map((row) => Object.values(row) as unknown[])).toEqual([
      [3, null, 'Ann', details, false, null, null],
      [4, 3, null, [], true, null, '2026-02-28'],
      [41, null, null, 'text', false, '9007199254740991', null],
    ]);
    expect(await target.query('SELECT * FROM "pet_toys" ORDER BY "toysId"')).toEqual([
      { petsId: 4, toysId: -5 },
      { petsId: 3, toysId: 7 },
    ]);
    expect(
      await target.query('INSERT INTO "pets" ("chipped") VALUES (true) RETURNING "id"'),
    ).toEqual([{ id: 42 }]);
  });

  it.each([
    [
      'a row references a missing one',
      `INSERT INTO "pets" ("id", "chipped", "mother_id") VALUES (1, 0, 9)`,
      'fk_pets_mother_id',
    ],
    [
      'the target drops a row',
      `INSERT INTO "owners" ("name") VALUES ('Bob')`,
      'The copy of owners has another number of rows than its source.',
    ],
  ])('copies nothing if %s', async (_case, change, message) => {
    await target.query(
      `CREATE FUNCTION "drop_bob"() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN RETURN CASE NEW."name" WHEN 'Bob' THEN NULL ELSE NEW END; END $$`,
    );
    await target.query(
      'CREATE TRIGGER "drop" BEFORE INSERT ON "owners" FOR EACH ROW EXECUTE FUNCTION "drop_bob"()',
    );
    await source.query(`INSERT INTO "owners" VALUES ('Ann')`);
    await source.query('PRAGMA foreign_keys = OFF');
    await source.query(change);
    await expect(copyDatabase(file, target)).rejects.toThrow(message);
    expect(await target.query('SELECT * FROM "owners"')).toEqual([]);
  });
});
