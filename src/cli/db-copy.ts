/** `npm run db:copy -- --from sqlite:<file> --to postgres://…`: moves a store into an empty database. */
import { existsSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { SingleBar } from 'cli-progress';
import { Command } from 'commander';
import type { DataSource, EntityManager, EntityMetadata, ObjectLiteral } from 'typeorm';
import { loadConfig, loadEnvFile } from '../platform/config/config.js';
import { PetstoreDataSource } from '../platform/database/petstore-data-source.js';
import { databaseOptions } from '../platform/database/data-source-options.js';

const BATCH = 1_000;

interface Options {
  readonly from: string;
  readonly to: string;
}

loadEnvFile();
await new Command('db:copy')
  .description(
    'Copies every row, ids and API keys and all, in one transaction, and compares the copy with its source.',
  )
  .requiredOption('--from <url>', 'sqlite:<file>; stop the service that uses it first')
  .requiredOption(
    '--to <url>',
    'postgres://<user>:<password>@<host>:<port>/<database>, with no data in it',
  )
  .action(copy)
  .parseAsync()
  .catch((error: unknown) => {
    process.stderr.write(`error: ${(error as Error).message}\nNothing was copied.\n`);
    process.exitCode = 1;
  });

async function copy({ from, to }: Options): Promise<void> {
  if (!from.startsWith('sqlite:') || !/^postgres(ql)?:/.test(to)) {
    throw new Error('It copies from sqlite:<file> to postgres://…');
  }
  // TypeORM would make its folder.
  const { database } = loadConfig({ DATABASE_URL: from });
  if (database.type === 'sqlite' && !existsSync(database.file))
    throw new Error(`The source ${database.file} does not exist.`);
  const source = dataSource(from, { fileMustExist: true });
  const target = dataSource(to);
  try {
    await source.initialize();
    // `showMigrations` would make their table.
    const [known] = await source.query(
      `SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'migrations'`,
    );
    if (known === undefined || (await source.showMigrations())) {
      throw new Error('The source has an older schema: start the service on it once, then copy.');
    }
    await target.open();
    // One view of the source, should somebody write to it after all.
    await source.query('BEGIN');
    await target.transaction((manager) => copyAll(source, manager));
  } finally {
    for (const opened of [source, target]) if (opened.isInitialized) await opened.destroy();
  }
}

function dataSource(url: string, extra: { fileMustExist?: true } = {}): PetstoreDataSource {
  const { database } = loadConfig({ DATABASE_URL: url });
  return new PetstoreDataSource({ ...databaseOptions(database), ...extra });
}

async function copyAll(source: DataSource, target: EntityManager): Promise<void> {
  for (const { target: entity, tableName } of source.entityMetadatas) {
    if (await target.getRepository(entity).exists()) {
      throw new Error(`The target is not empty: it has rows in ${tableName}.`);
    }
  }
  for (const metadata of source.entityMetadatas) {
    const count = await source.getRepository(metadata.target).count();
    const bar = new SingleBar({
      format: `${metadata.tableName.padEnd(12)} {bar} {value}/{total}`,
      noTTYOutput: true,
      notTTYSchedule: 1_000,
    });
    bar.start(count, 0);
    try {
      for await (const rows of batches(source.manager, metadata)) {
        await target
          .createQueryBuilder()
          .insert()
          // Named, the generated id is among them; otherwise TypeORM leaves it to PostgreSQL.
          .into(
            metadata.target,
            metadata.columns.map(({ propertyName }) => propertyName),
          )
          .values(rows)
          .updateEntity(false)
          .execute();
        bar.increment(rows.length);
      }
    } finally {
      // Its timer would keep the process alive.
      bar.stop();
    }
    await continueIds(source, target, metadata);
    await compare(source.manager, target, metadata);
    process.stdout.write(`${metadata.tableName}: ${count} rows copied and compared\n`);
  }
}

/** All rows of an entity, in id order. */
async function* batches(
  manager: EntityManager,
  { target }: EntityMetadata,
): AsyncGenerator<ObjectLiteral[]> {
  for (let last = Number.MIN_SAFE_INTEGER; ;) {
    const rows: ObjectLiteral[] = await manager
      .createQueryBuilder(target, 'row')
      .where('row.id > :last', { last })
      .orderBy('row.id')
      .limit(BATCH)
      .getMany();
    if (rows.length === 0) return;
    yield rows;
    last = rows.at(-1)!['id'] as number;
  }
}

/** The next id is the one that the source would have given: an id of a row that is gone is not given again. */
async function continueIds(
  source: DataSource,
  target: EntityManager,
  { tableName }: EntityMetadata,
): Promise<void> {
  const [sequence]: { seq: number }[] = await source.query(
    'SELECT seq FROM sqlite_sequence WHERE name = ?',
    [tableName],
  );
  if (sequence !== undefined && sequence.seq > 0) {
    // Not setval, which a rollback does not undo.
    const [{ name }]: [{ name: string }] = await target.query(
      `SELECT pg_get_serial_sequence($1, 'id') AS "name"`,
      [tableName],
    );
    await target.query(`ALTER SEQUENCE ${name} RESTART WITH ${sequence.seq + 1}`);
  }
}

async function compare(
  source: EntityManager,
  target: EntityManager,
  metadata: EntityMetadata,
): Promise<void> {
  const copies = batches(target, metadata);
  for await (const rows of batches(source, metadata)) {
    const { value } = await copies.next();
    if (!isDeepStrictEqual(plain(rows), plain(value ?? []))) {
      throw new Error(`The copy of ${metadata.tableName} differs from its source.`);
    }
  }
  if ((await copies.next()).done !== true)
    throw new Error(`The copy of ${metadata.tableName} has more rows.`);
}

/** Without the class of the rows. */
function plain(rows: ObjectLiteral[]): ObjectLiteral[] {
  return rows.map((row) => ({ ...row }));
}
