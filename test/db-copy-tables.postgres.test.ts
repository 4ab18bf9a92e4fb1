import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  Column,
  Entity,
  ForeignKey,
  JoinTable,
  ManyToMany,
  type MigrationInterface,
  PrimaryColumn,
  PrimaryGeneratedColumn,
} from 'typeorm';
import { copyDatabase } from '../src/cli/db-copy.js';
import type { DatabaseConfig } from '../src/platform/config/config.js';
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

/** The tables are synchronized with the entities; the copy requires the table of the migrations. */
class NoChange1790000000000 implements MigrationInterface {
  async up(): Promise<void> {}

  async down(): Promise<void> {}
}

let directory: string;
let file: string;
let database: TestDatabase;
let source: PetstoreDataSource;
let target: PetstoreDataSource;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'petstore-db-copy-'));
  file = join(directory, 'petstore.sqlite');
  database = await createDatabase();
  source = await openDatabase({ type: 'sqlite', file });
  target = await openDatabase(database.config);
  // The number of rows of each table.
  jest.spyOn(process.stdout, 'write').mockReturnValue(true);
});
afterEach(async () => {
  jest.restoreAllMocks();
  for (const dataSource of [source, target]) await dataSource.destroy();
  await database.drop();
  await rm(directory, { recursive: true, force: true });
});

/** Creates the tables of the entities, and leaves the connection open. */
async function openDatabase(config: DatabaseConfig): Promise<PetstoreDataSource> {
  const entities = [PetEntity, OwnerEntity, ToyEntity];
  const migrations = [NoChange1790000000000];
  const dataSource = new PetstoreDataSource(databaseOptions(config, { entities, migrations }));
  await dataSource.initialize();
  await dataSource.synchronize();
  return dataSource;
}

/** Inserts rows with plain SQL. */
async function insert(table: string, ...rows: readonly Record<string, unknown>[]): Promise<void> {
  for (const row of rows) {
    const columns = Object.keys(row).map((name) => `"${name}"`);
    await source.query(
      `INSERT INTO "${table}" (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`,
      Object.values(row),
    );
  }
}

describe('db:copy of the tables of a feature', () => {
  it('copies each table after those that it references, with JSON, booleans, dates and large integers', async () => {
    const details = { text: "\u{1F415} ' \\", list: [1, null, { deep: true }], number: 1.5 };
    await insert('owners', { name: 'Ann' }, { name: '狗' });
    await insert(
      'pets',
      { id: 3, chipped: 0, owner: 'Ann', details: JSON.stringify(details) },
      { id: 4, chipped: 1, mother_id: 3, details: '[]', vaccinated: '2026-02-28' },
      { id: 41, chipped: 0, born_at: Number.MAX_SAFE_INTEGER, details: '"text"' },
    );
    await insert('toys', { id: -5 }, { id: 7 });
    await insert('pet_toys', { petsId: 3, toysId: 7 }, { petsId: 4, toysId: -5 });
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
    await insert('owners', { name: 'Ann' });
    await source.query('PRAGMA foreign_keys = OFF');
    await source.query(change);
    await expect(copyDatabase(file, target)).rejects.toThrow(message);
    expect(await target.query('SELECT * FROM "owners"')).toEqual([]);
  });
});
