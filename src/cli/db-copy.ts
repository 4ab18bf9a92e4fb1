/** `npm run db:copy -- --from sqlite:<file> --to postgres://…`: copies a database to an empty one. */
import { existsSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { SingleBar } from 'cli-progress';
import { Command } from 'commander';
import type { DataSource, EntityManager, EntityMetadata, ObjectLiteral } from 'typeorm';
import { createDataSource } from '../data-source.js';
import { loadConfig } from '../platform/config/config.js';
import { isMain, runCommand } from './command.js';

const BATCH_SIZE = 1_000;

/** Runs the command. */
export async function main(args: readonly string[]): Promise<void> {
  const program = new Command('db:copy')
    .description(
      'Copy all data (including ids and API keys) in one transaction and verify the copy',
    )
    .requiredOption('--from <url>', 'sqlite:<file>; stop the service that uses it first')
    .requiredOption(
      '--to <url>',
      'postgres://<user>:<password>@<host>:<port>/<database>, which must be empty',
    )
    .action(copy);
  await runCommand(program, args, 'Copy failed.');
}

async function copy({ from, to }: { from: string; to: string }): Promise<void> {
  if (!from.startsWith('sqlite:') || !/^postgres(ql)?:/.test(to)) {
    throw new Error('Only sqlite → postgres is supported.');
  }
  const { database } = loadConfig({ DATABASE_URL: from });
  // TypeORM would create the file and its folder.
  if (database.type === 'sqlite' && !existsSync(database.file))
    throw new Error(`The source ${database.file} does not exist.`);
  const source = createDataSource(database);
  const target = createDataSource(loadConfig({ DATABASE_URL: to }).database);
  try {
    await source.initialize();
    await source.requireCurrentSchema();
    await target.initialize();
    await target.migrate();
    // One view of the source, even if another process writes to it.
    await source.query('BEGIN');
    await target.transaction((manager) => copyAll(source, manager));
  } finally {
    for (const opened of [source, target]) if (opened.isInitialized) await opened.destroy();
  }
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
          // Unless the columns are named, TypeORM leaves the generated id to PostgreSQL.
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
    process.stdout.write(`${metadata.tableName}: ${count} rows copied and verified\n`);
  }
}

/** Yields all rows of an entity in id order. */
async function* batches(
  manager: EntityManager,
  { target }: EntityMetadata,
): AsyncGenerator<ObjectLiteral[]> {
  for (let last = Number.MIN_SAFE_INTEGER; ;) {
    const rows: ObjectLiteral[] = await manager
      .createQueryBuilder(target, 'row')
      .where('row.id > :last', { last })
      .orderBy('row.id')
      .limit(BATCH_SIZE)
      .getMany();
    if (rows.length === 0) return;
    yield rows;
    last = rows.at(-1)!['id'] as number;
  }
}

/** Continues the ids where the source left off, so that the ids of deleted rows are not reused. */
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

/** Removes the class of the rows. */
function plain(rows: ObjectLiteral[]): ObjectLiteral[] {
  return rows.map((row) => ({ ...row }));
}

if (isMain(import.meta)) await main(process.argv.slice(2));
