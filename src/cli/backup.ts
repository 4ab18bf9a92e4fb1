/** `npm run backup -- <file>`: copies the SQLite database of a service that may be running. */
import '../check-node-version.js';
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { dirname } from 'node:path';
import Database from 'better-sqlite3';
import { SingleBar } from 'cli-progress';
import { Command } from 'commander';
import { loadConfig } from '../platform/config/config.js';
import { isMain, runCommand } from './command.js';

/** The pages of 4 KiB copied between two updates of the progress bar. */
const PAGES_PER_STEP = 2_000;
/** How long to wait for the lock of another process, in milliseconds. */
const BUSY_TIMEOUT_MS = 10_000;

/** The number of rows of each table, by its name. */
type RowCounts = Readonly<Record<string, number>>;

/** Runs the command. */
export async function main(args: readonly string[]): Promise<void> {
  const program = new Command('backup')
    .description(
      'Copy the SQLite database of DATABASE_URL, also while the service writes to it, and verify the copy',
    )
    .argument('<file>', 'Destination; an existing file is never overwritten')
    .action(backup);
  await runCommand(program, args, 'Backup failed.');
}

async function backup(file: string): Promise<void> {
  const { database } = loadConfig();
  if (database.type !== 'sqlite') {
    throw new Error(
      'Only SQLite databases are supported. DATABASE_URL is a PostgreSQL server: use pg_dump.',
    );
  }
  if (!existsSync(database.file)) throw new Error(`The database ${database.file} does not exist.`);
  if (existsSync(file)) throw new Error(`${file} already exists, refusing to overwrite.`);
  if (!existsSync(dirname(file))) throw new Error(`The directory ${dirname(file)} does not exist.`);

  const draft = `${file}.${process.pid}.part`;
  const discard = (): void => {
    for (const suffix of ['', '-journal', '-wal', '-shm']) rmSync(draft + suffix, { force: true });
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      discard();
      process.exit(1);
    });
  }
  try {
    const counts = await copy(database.file, draft);
    verify(draft, counts);
    sync(draft);
    publish(draft, file);
    sync(dirname(file));
    const rows = Object.entries(counts).map(([table, count]) => `${table} ${count}`);
    process.stdout.write(
      `${file}: ${statSync(file).size} bytes, verified. Rows: ${rows.join(', ')}\n`,
    );
  } finally {
    discard();
  }
}

/**
 * Copies a database.
 *
 * @returns the number of rows of each table at the moment of the copy
 */
async function copy(from: string, to: string): Promise<RowCounts> {
  const source = new Database(from, {
    readonly: true,
    fileMustExist: true,
    timeout: BUSY_TIMEOUT_MS,
  });
  const bar = new SingleBar({
    format: 'pages {bar} {value}/{total}',
    noTTYOutput: true,
    notTTYSchedule: 1_000,
  });
  try {
    // One transaction, so that the copy and the row counts are of one moment. Without it SQLite would
    // restart the backup with every commit of another process, and never finish under load.
    source.exec('BEGIN');
    const counts = countRows(source);
    if (counts['categories'] === undefined) throw new Error(`${from} is not a petstore database.`);
    bar.start(Number(source.pragma('page_count', { simple: true })), 0);
    await source.backup(to, {
      progress: ({ totalPages, remainingPages }) => {
        bar.update(totalPages - remainingPages);
        return PAGES_PER_STEP;
      },
    });
    bar.update(bar.getTotal());
    return counts;
  } finally {
    // Its timer would keep the process alive.
    bar.stop();
    source.close();
  }
}

/**
 * Verifies a copy.
 *
 * @throws {Error} if the copy is damaged, or its rows differ from those of the source
 */
function verify(draft: string, expected: RowCounts): void {
  const copied = new Database(draft, { fileMustExist: true });
  try {
    // Leaves a single file. The service switches a restored copy back to WAL mode.
    copied.pragma('journal_mode = DELETE');
    const problems = copied.pragma('integrity_check', { simple: true });
    if (problems !== 'ok') throw new Error(`The database is damaged: ${String(problems)}`);
    const counts = countRows(copied);
    if (JSON.stringify(counts) !== JSON.stringify(expected)) {
      throw new Error('The rows of the copy differ from those of the database.');
    }
  } finally {
    copied.close();
  }
}

function countRows(database: Database.Database): RowCounts {
  const tables = database
    .prepare<[], string>(
      `SELECT "name" FROM sqlite_master WHERE "type" = 'table' AND "name" NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY "name"`,
    )
    .pluck()
    .all();
  return Object.fromEntries(
    tables.map((table) => [
      table,
      database.prepare<[], number>(`SELECT COUNT(*) FROM "${table}"`).pluck().get()!,
    ]),
  );
}

/** Renames the draft, unless a file of that name was created meanwhile. */
function publish(draft: string, file: string): void {
  try {
    // Unlike a rename, it never overwrites.
    linkSync(draft, file);
  } catch (error) {
    if (existsSync(file))
      throw new Error(`${file} already exists, refusing to overwrite.`, { cause: error });
    // The file system has no hard links.
    renameSync(draft, file);
  }
}

/** Flushes a file, or the entries of a directory, to the disk. */
function sync(path: string): void {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

if (isMain(import.meta)) await main(process.argv.slice(2));
