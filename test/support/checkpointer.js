/**
 * Reads and checkpoints a SQLite database as Litestream 0.5 does (db.go of https://github.com/benbjohnson/litestream),
 * but more often: a read transaction keeps other processes from starting the WAL again, and is left only for a
 * checkpoint, while a write transaction keeps them from writing. JavaScript, for a process of its own.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import Database from 'better-sqlite3';

const file = process.argv[2];

function open() {
  const database = new Database(file, { timeout: 1_000 });
  database.pragma('wal_autocheckpoint = 0');
  return database;
}
const [reader, writer, checkpointer] = [open(), open(), open()];
writer.exec(`CREATE TABLE IF NOT EXISTS "_litestream_seq" ("id" INTEGER PRIMARY KEY, "seq" INTEGER);
  CREATE TABLE IF NOT EXISTS "_litestream_lock" ("id" INTEGER)`);

/** Identifies the WAL since it was last started again (https://sqlite.org/fileformat2.html#walformat). */
const readSalts = () => readFileSync(`${file}-wal`).toString('hex', 16, 24);

function checkpoint(mode) {
  if (mode === 'PASSIVE') writer.exec('BEGIN; INSERT INTO "_litestream_lock" VALUES (1)');
  reader.exec('ROLLBACK');
  checkpointer.pragma(`wal_checkpoint(${mode})`);
  reader.exec('BEGIN; SELECT count(*) FROM "_litestream_seq"');
  if (mode === 'PASSIVE') writer.exec('ROLLBACK');
  // Starts the WAL again, if the checkpoint was complete.
  writer.exec(
    `INSERT INTO "_litestream_seq" VALUES (1, 1) ON CONFLICT ("id") DO UPDATE SET "seq" = "seq" + 1`,
  );
}

reader.exec('BEGIN');
for (let turn = 0; ; turn++) {
  try {
    checkpoint(turn % 5 === 0 ? 'TRUNCATE' : 'PASSIVE');
  } catch (error) {
    // Litestream tries again, too.
    if (error.code !== 'SQLITE_BUSY') throw error;
    if (writer.inTransaction) writer.exec('ROLLBACK');
    if (!reader.inTransaction) reader.exec('BEGIN; SELECT count(*) FROM "_litestream_seq"');
    continue;
  }
  const salts = readSalts();
  if (turn === 0) process.stdout.write('Checkpointing\n');
  await delay(100);
  // Litestream would have missed what was written before.
  if (readSalts() !== salts) throw new Error('Another process has started the WAL again');
}
