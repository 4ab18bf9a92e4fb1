/** What the baselines share: their environment, the headers of the service, and SQLite. */
import { hash, randomUUID } from 'node:crypto';
import Database from 'better-sqlite3';
import type { NewCategory } from '../categories.js';

const { PORT, API_KEY = '' } = process.env;
export const { DATABASE_URL: url = '', MODE: mode = '' } = process.env;

export const port = Number(PORT);
export const file = url.replace(/^sqlite:/, '');
const keyHash = hash('sha256', API_KEY);

/** Checks the key as a service does that stores hashes. */
export function isAuthorized(header = ''): boolean {
  return header.startsWith('Bearer ') && hash('sha256', header.slice(7)) === keyHash;
}

/** The headers that every response of the service has. */
export const defaultHeaders = (): Record<string, string> => ({
  'X-Request-Id': randomUUID(),
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
});
export const JSON_TYPE = { 'Content-Type': 'application/json; charset=utf-8' };
export const NOT_STORED = { 'Cache-Control': 'no-store' };
export const REVALIDATED = { 'Cache-Control': 'private, no-cache', Vary: 'Accept-Encoding' };

/** A list as bytes, with the headers of the service. */
export function toListResponse(json: string): { body: Buffer; headers: Record<string, string> } {
  const body = Buffer.from(json);
  const ETag = `"${hash('sha256', body, 'base64url')}"`;
  const headers = { ...REVALIDATED, ...JSON_TYPE, ETag, 'Content-Length': String(body.length) };
  return { body, headers };
}

/** Opens a database whose commits are as durable as those of the service. */
export function openDatabase(): Database.Database {
  const database = new Database(file);
  database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS categories (
      id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, description TEXT)`);
  return database;
}

export type Insert = (category: NewCategory) => number | Promise<number>;

const prepareInsert = (database: Database.Database, rows: string): Database.Statement =>
  database
    .prepare(`INSERT INTO categories (name, description) VALUES ${rows} RETURNING id`)
    .pluck();

/** Returns a function that inserts each category at once, and returns its id. */
export function insertAtOnce(database = openDatabase()): Insert {
  const insert = prepareInsert(database, '(?, ?)');
  return ({ name, description = null }) => insert.get(name, description) as number;
}

/** Returns a function that inserts the categories of one turn of the event loop with one statement. */
export function insertInBatches(database = openDatabase()): Insert {
  const statements: Database.Statement[] = [];
  let pending: { category: NewCategory; resolve: (id: number) => void }[] = [];
  const insertPending = (): void => {
    const batch = pending;
    pending = [];
    const rows = batch.map(() => '(?, ?)').join();
    const statement = (statements[batch.length] ??= prepareInsert(database, rows));
    const values = batch.flatMap(({ category: { name, description = null } }) => [
      name,
      description,
    ]);
    const ids = (statement.all(values) as number[]).toSorted((a, b) => a - b);
    batch.forEach(({ resolve }, index) => resolve(ids[index]!));
  };
  return (category) => {
    if (pending.length === 0) setImmediate(insertPending);
    return new Promise((resolve) => {
      pending.push({ category, resolve });
    });
  };
}
