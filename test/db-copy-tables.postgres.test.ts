import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  Column,
  Entity,
  ForeignKey,
  JoinColumn,
  JoinTable,
  ManyToMany,
  ManyToOne,
  type MigrationInterface,
  PrimaryColumn,
  PrimaryGeneratedColumn,
} from 'typeorm';
import { copyDatabase } from '../src/cli/db-copy.js';
import type { DatabaseConfig } from '../src/platform/config/config.js';
import { epochMillisTransformer } from '../src/platform/database/statements/columns.js';
import { databaseOptions } from '../src/platform/database/connection/data-source-options.js';
import { PetstoreDataSource } from '../src/platform/database/connection/petstore-data-source.js';
import { createDatabase, type TestDatabase } from './support/app.js';

const { jest } = import.meta;

/** References itself and, like its owner references it, a table that is declared later. */
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

  @Column('bigint', { name: 'born_at', nullable: true, transformer: epochMillisTransformer })
  bornAt!: Date | null;

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

  @ForeignKey('pets', { name: 'fk_owners_favourite_id' })
  @Column('integer', { name: 'favourite_id', nullable: true })
  favouriteId!: number | null;
}

/** Has a composite primary key, and a column that only a relation declares. */
@Entity('visits')
class VisitEntity {
  @PrimaryColumn('varchar')
  clinic!: string;

  @PrimaryColumn('integer')
  day!: number;

  @PrimaryColumn('varchar')
  room!: string;

  @ManyToOne(() => PetEntity, { nullable: false })
  @JoinColumn({ name: 'pet_id' })
  pet!: PetEntity;
}

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
let database: TestDatabase;
let source: PetstoreDataSource;
let target: PetstoreDataSource;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'petstore-db-copy-'));
  database = await createDatabase();
  source = await openDatabase({ type: 'sqlite', file: join(directory, 'petstore.sqlite') });
  target = await openDatabase(database.config);
  // The progress.
  jest.spyOn(process.stdout, 'write').mockReturnValue(true);
  jest.spyOn(process.stderr, 'write').mockReturnValue(true);
});
afterEach(async () => {
  jest.restoreAllMocks();
  for (const dataSource of [source, target]) await dataSource.destroy();
  await database.drop();
  await rm(directory, { recursive: true, force: true });
});

function createDataSource(config: DatabaseConfig): PetstoreDataSource {
  return new PetstoreDataSource(
    databaseOptions(config, {
      entities: [PetEntity, VisitEntity, OwnerEntity, ToyEntity],
      migrations: [NoChange1790000000000],
    }),
  );
}

/** Creates the tables of the entities, and leaves the connection open. */
async function openDatabase(config: DatabaseConfig): Promise<PetstoreDataSource> {
  const dataSource = await createDataSource(config).initialize();
  await dataSource.synchronize();
  await dataSource.migrate();
  return dataSource;
}

/** Copies the source to the target, over connections of its own. */
async function copy(): Promise<void> {
  const config: DatabaseConfig = { type: 'sqlite', file: join(directory, 'petstore.sqlite') };
  const opened = [createDataSource(config), createDataSource(database.config)] as const;
  try {
    await copyDatabase(...opened);
  } finally {
    for (const dataSource of opened) if (dataSource.isInitialized) await dataSource.destroy();
  }
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

const readTarget = <Row>(sql: string): Promise<Row[]> => target.query(sql);

/** Returns the definitions of the foreign keys of the target. */
const getForeignKeys = (): Promise<object[]> =>
  readTarget(
    `SELECT "conname", pg_get_constraintdef("oid") AS "definition", "condeferrable", "condeferred"
     FROM pg_constraint WHERE "contype" = 'f' ORDER BY 1`,
  );

describe('db:copy of tables that reference each other', () => {
  it('copies rows that reference a later row, a later table, or each other', async () => {
    await insert('owners', { name: 'Ann' });
    await insert(
      'pets',
      { id: 3, chipped: 1, owner: 'Ann' },
      { id: 1, chipped: 0, mother_id: 3 },
      { id: 2, chipped: 0, mother_id: 2 },
    );
    await insert('visits', { clinic: 'north', day: 1, room: 'a', pet_id: 3 });
    await source.query(`UPDATE "owners" SET "favourite_id" = 3`);
    const foreignKeys = await getForeignKeys();
    await copy();
    expect(await readTarget(`SELECT "id", "mother_id", "owner" FROM "pets" ORDER BY "id"`)).toEqual(
      [
        { id: 1, mother_id: 3, owner: null },
        { id: 2, mother_id: 2, owner: null },
        { id: 3, mother_id: null, owner: 'Ann' },
      ],
    );
    expect(await readTarget(`SELECT "name", "favourite_id" FROM "owners"`)).toEqual([
      { name: 'Ann', favourite_id: 3 },
    ]);
    expect(foreignKeys).not.toEqual([]);
    expect(await getForeignKeys()).toEqual(foreignKeys);
  });

  it('references rows of another batch', async () => {
    const COUNT = 1_500;
    await source.query(
      `WITH RECURSIVE "ids"("id") AS (SELECT 1 UNION ALL SELECT "id" + 1 FROM "ids" WHERE "id" < ${COUNT})
       INSERT INTO "pets" ("id", "chipped", "mother_id") SELECT "id", 0, ${COUNT} + 1 - "id" FROM "ids"`,
    );
    await copy();
    expect(
      await readTarget(
        `SELECT count(*)::int AS "count" FROM "pets" WHERE "mother_id" = ${COUNT} + 1 - "id"`,
      ),
    ).toEqual([{ count: COUNT }]);
  });

  it('copies nothing if a row references a missing one', async () => {
    await insert('owners', { name: 'Ann' });
    await source.query('PRAGMA foreign_keys = OFF');
    await insert('pets', { id: 1, chipped: 0, mother_id: 9 });
    const foreignKeys = await getForeignKeys();
    await expect(copy()).rejects.toThrow(/"fk_pets_mother_id"/);
    expect(await readTarget('SELECT * FROM "owners"')).toEqual([]);
    expect(await getForeignKeys()).toEqual(foreignKeys);
  });
});

describe('db:copy of tables without an id', () => {
  it('copies tables with a text, a composite or no own primary key across several batches', async () => {
    // In the order of the code points, which is not that of the target's collation.
    const names = ['B', 'Z', 'a', 'a b', 'a-b', 'é', '狗', '\u{1F415}'];
    await insert('pets', { id: 1, chipped: 0 });
    await insert('owners', ...names.map((name) => ({ name })));
    for (const clinic of names) {
      await source.query(
        `WITH RECURSIVE "days"("day") AS (SELECT 1 UNION ALL SELECT "day" + 1 FROM "days" WHERE "day" < 200)
         INSERT INTO "visits" SELECT ?, "day", "room", 1 FROM "days", (SELECT 'a' AS "room" UNION ALL SELECT 'B')`,
        [clinic],
      );
    }
    await insert('toys', { id: -5 }, { id: 7 });
    await insert('pet_toys', { petsId: 1, toysId: 7 }, { petsId: 1, toysId: -5 });
    await copy();
    const expected: object[] = await source.query(
      'SELECT "clinic", "day", "room", "pet_id" AS "pet" FROM "visits" ORDER BY 1, 2, 3',
    );
    expect(expected).toHaveLength(names.length * 400);
    expect(
      await readTarget(
        `SELECT "clinic", "day", "room", "pet_id" AS "pet" FROM "visits"
         ORDER BY "clinic" COLLATE "C", "day", "room" COLLATE "C"`,
      ),
    ).toEqual(expected);
    expect(await readTarget('SELECT "name" FROM "owners" ORDER BY "name" COLLATE "C"')).toEqual(
      names.map((name) => ({ name })),
    );
    expect(await readTarget('SELECT "petsId", "toysId" FROM "pet_toys" ORDER BY "toysId"')).toEqual(
      [
        { petsId: 1, toysId: -5 },
        { petsId: 1, toysId: 7 },
      ],
    );
  });

  it('rejects a target that has rows in such a table', async () => {
    await target.query(`INSERT INTO "owners" ("name") VALUES ('Ann')`);
    await expect(copy()).rejects.toThrow('The target is not empty: it has rows in owners.');
  });

  it('rejects a copy that differs from its source', async () => {
    await insert('owners', { name: 'Ann' });
    await target.query(
      `CREATE FUNCTION "change"() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN NEW."name" = 'Bob'; RETURN NEW; END $$`,
    );
    await target.query(
      'CREATE TRIGGER "change" BEFORE INSERT ON "owners" FOR EACH ROW EXECUTE FUNCTION "change"()',
    );
    await expect(copy()).rejects.toThrow('The copy of owners differs from its source.');
    expect(await readTarget('SELECT * FROM "owners"')).toEqual([]);
  });
});

describe('db:copy of values', () => {
  it('copies JSON, booleans, dates and large integers', async () => {
    const details = { text: "\u{1F415} ' \\", list: [1, null, { deep: true }], number: 1.5 };
    const rows = [
      { id: 1, chipped: 1, details: JSON.stringify(details), vaccinated: '2026-02-28' },
      { id: 2, chipped: 0, details: '[]', born_at: -14_182_940_000 },
      { id: 3, chipped: 0, details: '"text"', born_at: Number.MAX_SAFE_INTEGER },
      { id: 4, chipped: 0, details: null },
    ];
    await insert('pets', ...rows);
    await copy();
    const pets = await target.getRepository(PetEntity).find({ order: { id: 'ASC' } });
    expect(pets.map((pet) => pet.details)).toEqual([details, [], 'text', null]);
    expect(pets.map(({ chipped }) => chipped)).toEqual([true, false, false, false]);
    expect(pets[0]!.vaccinated).toBe('2026-02-28');
    expect(pets[1]!.bornAt).toEqual(new Date('1969-07-20T20:17:40Z'));
    // Not a valid date, which the transformer of the entity would lose.
    expect(await readTarget('SELECT "born_at" FROM "pets" WHERE "id" = 3')).toEqual([
      { born_at: '9007199254740991' },
    ]);
  });

  it('continues only generated ids', async () => {
    await insert('pets', { id: 41, chipped: 0 });
    await insert('toys', { id: 7 });
    await copy();
    const [pet] = await readTarget<{ id: number }>(
      'INSERT INTO "pets" ("chipped") VALUES (true) RETURNING "id"',
    );
    expect(pet).toEqual({ id: 42 });
  });
});
