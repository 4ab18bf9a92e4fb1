/** `npm run backup -- <file>`: copies the SQLite store of a service that may be running. */
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
import { ConfigError, loadConfig, loadEnvFile } from '../platform/config/config.js';

/** Pages of 4 KiB that are copied between two turns of the progress. */
const STEP = 2_000;
/** Milliseconds that a lock of another process is waited for. */
const BUSY_TIMEOUT = 10_000;

/** How many rows each table has, by its name. */
type Counts = Readonly<Record<string, number>>;

loadEnvFile();
await new Command('backup')
  .description(
    'Copies the SQLite store of DATABASE_URL, also while the service writes to it, and verifies the copy.',
  )
  .argument('<file>', 'where the copy goes; a file that is there already is never overwritten')
  .action(backup)
  .parseAsync()
  .catch((error: unknown) => {
    const message =
      error instanceof ConfigError ? error.message : `error: ${(error as Error).message}`;
    process.stderr.write(`${message}\nNothing was backed up.\n`);
    process.exitCode = 1;
  });

async function backup(file: string): Promise<void> {
  const { database } = loadConfig();
  if (database.type !== 'sqlite') {
    throw new Error(
      'It copies SQLite stores. DATABASE_URL names a PostgreSQL server: use pg_dump.',
    );
  }
  if (!existsSync(database.file)) throw new Error(`The store ${database.file} does not exist.`);
  if (existsSync(file)) throw new Error(`${file} exists already, and is left as it is.`);
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

/** @returns the rows of each table at the moment that the copy is of */
async function copy(from: string, to: string): Promise<Counts> {
  const source = new Database(from, { readonly: true, fileMustExist: true, timeout: BUSY_TIMEOUT });
  const bar = new SingleBar({
    format: 'pages {bar} {value}/{total}',
    noTTYOutput: true,
    notTTYSchedule: 1_000,
  });
  try {
    // One transaction, so that the copy is of one moment, and is the copy that the rows were counted
    // in: SQLite begins a backup anew with every commit of another process, and would never end it
    // while creates go on.
    source.exec('BEGIN');
    const counts = countRows(source);
    if (counts['categories'] === undefined) throw new Error(`${from} is no store of this service.`);
    bar.start(Number(source.pragma('page_count', { simple: true })), 0);
    await source.backup(to, {
      progress: ({ totalPages, remainingPages }) => {
        bar.update(totalPages - remainingPages);
        return STEP;
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

/** @throws {Error} where the copy is damaged, or has other rows than its source */
function verify(draft: string, expected: Counts): void {
  const copied = new Database(draft, { fileMustExist: true });
  try {
    // A single file: the store itself is in WAL mode, and the service puts a restored one into it again.
    copied.pragma('journal_mode = DELETE');
    const problems = copied.pragma('integrity_check', { simple: true });
    if (problems !== 'ok') throw new Error(`The store is damaged: ${String(problems)}`);
    const counts = countRows(copied);
    if (JSON.stringify(counts) !== JSON.stringify(expected)) {
      throw new Error('The copy has other rows than the store.');
    }
  } finally {
    copied.close();
  }
}

function countRows(database: Database.Database): Counts {
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

/** Gives the draft its name, unless something else has got that name meanwhile. */
function publish(draft: string, file: string): void {
  try {
    // Unlike a rename it never overwrites.
    linkSync(draft, file);
  } catch (error) {
    if (existsSync(file))
      throw new Error(`${file} exists already, and is left as it is.`, { cause: error });
    // A file system without hard links.
    renameSync(draft, file);
  }
}

/** Waits until a file, or the names in a directory, are on the disk. */
function sync(path: string): void {
  const descriptor = openSync(path, 'r');
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
