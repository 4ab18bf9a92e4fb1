import { hash, randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import Database from 'better-sqlite3';
import express, { type NextFunction, type Request, type Response } from 'express';

// Idiomatic Express with better-sqlite3: middleware, manual body validation, prepared statements.

interface CategoryRow {
  id: number;
  name: string;
  description: string | null | undefined;
}

const { PORT = '3000', API_KEY = '', DATABASE_FILE = 'express.sqlite' } = process.env;

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
const keyHashes = new Set([hash('sha256', API_KEY)]);

const app = express();
app.disable('x-powered-by');
app.set('etag', 'strong');

app.use((request, response, next) => {
  response.setHeader('X-Request-Id', randomUUID());
  response.setHeader('X-Content-Type-Options', 'nosniff');
  response.setHeader('Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'");
  const [scheme, key] = (request.headers.authorization ?? '').split(' ');
  if (scheme === 'Bearer' && key !== undefined && keyHashes.has(hash('sha256', key))) return next();
  response.setHeader('WWW-Authenticate', 'Bearer realm="petstore"');
  return sendError(response, 401, 'The API key is missing or invalid.');
});
app.use(express.json());

app.get('/v1/categories', (_request, response) => {
  const rows = selectAll.all();
  // JSON.stringify omits undefined properties.
  for (const row of rows) row.description ??= undefined;
  response.setHeader('Cache-Control', 'private, no-cache');
  response.setHeader('Vary', 'Accept-Encoding');
  response.json(rows);
});

app.post('/v1/categories', (request, response) => {
  const violation = validateBody(request.body);
  if (violation !== undefined) return sendError(response, 400, violation);
  const { name, description } = request.body as { name: string; description?: string };
  const { lastInsertRowid } = insert.run(name, description ?? null);
  response.setHeader('Cache-Control', 'no-store');
  response.status(201).json({ id: lastInsertRowid, name, description });
});

app.use(
  (
    error: Error & { status?: number },
    _request: Request,
    response: Response,
    _next: NextFunction,
  ) => {
    const status = error.status ?? 500;
    sendError(response, status, status < 500 ? error.message : 'Internal error');
  },
);

function sendError(response: Response, status: number, message: string): void {
  const code = (STATUS_CODES[status] ?? 'Error').toUpperCase().replaceAll(' ', '_');
  response.status(status).json({ code, message, status });
}

function validateBody(body: unknown): string | undefined {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    return 'the body must be an object';
  }
  const { name, description, ...rest } = body as Record<string, unknown>;
  if (typeof name !== 'string' || name.length > 100 || name.trim() === '') {
    return 'name must be a string of 1 to 100 characters';
  }
  if (description !== undefined && (typeof description !== 'string' || description.length > 1000)) {
    return 'description must be a string of at most 1000 characters';
  }
  const [unknownProperty] = Object.keys(rest);
  return unknownProperty === undefined ? undefined : `unknown property ${unknownProperty}`;
}

app.listen(Number(PORT), '127.0.0.1');
