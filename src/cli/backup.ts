/** `npm run backup -- <file>`: copies the SQLite database of a service that may be running. */
import '../platform/application/check-node-version.js';
import { randomUUID } from 'node:crypto';
import { closeSync, existsSync, openSync, renameSync, rmSync, statSync } from 'node:fs';
import Database from 'better-sqlite3';
import { Command } from 'commander';
import { loadConfig } from '../platform/config/config.js';
import { TERMINATION_SIGNALS } from '../platform/application/termination-signals.js';
import { PRODUCT } from '../product.js';
import { isMain, runCommand } from './command.js';

export async function main(args: readonly string[]): Promise<void> {
  const program = new Command('backup')
    .description('Copy the SQLite database of DATABASE_URL, also while the service writes to it')
    // The file of DATABASE_URL is trimmed, too.
    .argument('<file>', 'Destination; an existing file is never overwritten', (file) => file.trim())
    .action(backup);
  await runCommand(program, args);
}

async function backup(file: string): Promise<void> {
  const { database } = loadConfig(PRODUCT);
  if (database.type !== 'sqlite') throw new Error('DATABASE_URL is PostgreSQL: use pg_dump.');
  if (!existsSync(database.file)) throw new Error(`The database ${database.file} does not exist.`);
  if (existsSync(file)) throw new Error(`${file} already exists, refusing to overwrite.`);
  // A backup contains hashes of keys.
  process.umask(0o077);
  // The draft has a name of its own, so that a backup that was killed blocks no other.
  const draft = `${file}.${randomUUID()}.part`;
  const removeDraft = (): void => {
    for (const suffix of ['', '-journal', '-wal', '-shm']) rmSync(draft + suffix, { force: true });
  };
  // Registered before the file exists: by default, a signal would end the process without removing it.
  for (const signal of TERMINATION_SIGNALS) process.once(signal, () => process.exit(1));
  process.once('exit', removeDraft);
  closeSync(openSync(draft, 'wx'));
  try {
    await copy(database.file, draft);
    const size = verify(draft);
    // Fails if another backup has created the file meanwhile.
    closeSync(openSync(file, 'wx'));
    renameSync(draft, file);
    process.stdout.write(`Copied ${size} bytes to ${file}, integrity verified\n`);
  } finally {
    removeDraft();
  }
}

/** Checks a copy, and makes it a single file, whose size in bytes is returned. */
function verify(draft: string): number {
  const copied = new Database(draft);
  // Without a WAL, a database is one file. The service switches a restored copy back to WAL mode.
  copied.pragma('journal_mode = DELETE');
  const problems = copied.pragma('integrity_check', { simple: true });
  copied.close();
  if (problems !== 'ok') throw new Error(`The database is damaged: ${String(problems)}`);
  return statSync(draft).size;
}

async function copy(from: string, to: string): Promise<void> {
  const source = new Database(from, { readonly: true, timeout: 10_000 });
  // In one read transaction: without it, SQLite would restart the copy with every commit of another process.
  source.exec('BEGIN');
  // Fails if the file is not a database of the service. SQLite accepts an empty file as a database.
  source.prepare('SELECT * FROM "migrations" LIMIT 1').get();
  await source.backup(to);
  source.close();
}

if (isMain(import.meta)) await main(process.argv.slice(2));
