import Database from 'better-sqlite3';
import {
  type CategoryRow,
  type NewCategory,
  app,
  createRouteOptions,
  listRouteOptions,
  listen,
  sendCreated,
  sendList,
} from './fastify-app.js';

// Idiomatic Fastify with better-sqlite3 and prepared statements.

const { DATABASE_FILE = 'fastify.sqlite' } = process.env;

const database = new Database(DATABASE_FILE);
database.pragma('journal_mode = WAL');
database.pragma('synchronous = FULL');
database.exec(`
  CREATE TABLE IF NOT EXISTS categories (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    description TEXT
  )
`);
const selectAll = database.prepare<[], CategoryRow>(
  'SELECT id, name, description FROM categories ORDER BY id',
);
const insert = database.prepare<[string, string | null]>(
  'INSERT INTO categories (name, description) VALUES (?, ?)',
);

app.get('/v1/categories', listRouteOptions, (_request, reply) => sendList(reply, selectAll.all()));

app.post<{ Body: NewCategory }>('/v1/categories', createRouteOptions, (request, reply) => {
  const { name, description } = request.body;
  const { lastInsertRowid } = insert.run(name, description ?? null);
  return sendCreated(reply, { id: lastInsertRowid, name, description });
});

await listen();
