/**
 * Idiomatic Fastify, with hooks and JSON schemas. `MODE` is `sqlite` (better-sqlite3 with prepared statements), `cached` (the
 * same with the service's cache and batches) or `pg` (a pool of 10 connections, as in the service, and named queries).
 */
import { hash } from 'node:crypto';
import Database from 'better-sqlite3';
import Fastify, { type onSendAsyncHookHandler } from 'fastify';
import { Pool, types } from 'pg';
import type { NewCategory } from '../categories.js';
import * as shared from './shared.js';

type ListResponse = ReturnType<typeof shared.toListResponse>;
type Store = {
  list: () => NewCategory[] | Promise<NewCategory[]> | ListResponse;
  insert: (category: NewCategory) => number | Promise<number>;
};

const SELECT = 'SELECT id, name, description FROM categories ORDER BY id';
const INSERT = 'INSERT INTO categories (name, description)';

/** Opens a database whose commits are as durable as those of the service. */
function openDatabase(): Database.Database {
  const database = new Database(shared.file);
  database.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
    CREATE TABLE IF NOT EXISTS categories (
      id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, description TEXT)`);
  return database;
}

/** Returns a function that inserts the categories of one turn of the event loop with one statement. */
function insertInBatches(database: Database.Database): Store['insert'] {
  const insert = database.prepare<[string], number>(`${INSERT}
    SELECT value->>'name', value->>'description' FROM json_each(?) RETURNING id`);
  insert.pluck();
  let pending: { category: NewCategory; resolve: (id: number) => void }[] = [];
  const insertPending = (): void => {
    const batch = pending;
    pending = [];
    const json = JSON.stringify(batch.map(({ category }) => category));
    const ids = insert.all(json).toSorted((a, b) => a - b);
    batch.forEach(({ resolve }, index) => resolve(ids[index]!));
  };
  return (category) => {
    if (pending.length === 0) setImmediate(insertPending);
    return new Promise((resolve) => void pending.push({ category, resolve }));
  };
}

const STORES: Record<string, () => Store | Promise<Store>> = {
  sqlite: () => {
    const database = openDatabase();
    const select = database.prepare<[], NewCategory>(SELECT);
    const insert = database.prepare(`${INSERT} VALUES (?, ?) RETURNING id`).pluck();
    return {
      list: () => select.all(),
      insert: ({ name, description = null }) => insert.get(name, description) as number,
    };
  },
  cached: () => {
    const database = openDatabase();
    const select = database.prepare<[], NewCategory>(SELECT);
    // The number changes with every commit of another connection, such as that of the batches.
    const readVersion = database.prepare('PRAGMA data_version').pluck();
    let version: unknown;
    let response: ListResponse;
    return {
      list: () => {
        const current = readVersion.get();
        if (current === version) return response;
        version = current;
        const json = JSON.stringify(select.all(), (_key, value: unknown) => value ?? undefined);
        response = shared.toListResponse(json);
        return response;
      },
      insert: insertInBatches(openDatabase()),
    };
  },
  pg: async () => {
    // By default, pg returns bigint values as strings.
    types.setTypeParser(types.builtins.INT8, Number);
    const pool = new Pool({ connectionString: shared.url });
    await pool.query(`CREATE TABLE IF NOT EXISTS categories (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, description text)`);
    const text = `${INSERT} VALUES ($1, $2) RETURNING id`;
    return {
      list: async () => (await pool.query<NewCategory>({ name: 'list', text: SELECT })).rows,
      insert: async ({ name, description }) => {
        const query = { name: 'create', text, values: [name, description] };
        return (await pool.query<{ id: number }>(query)).rows[0]!.id;
      },
    };
  },
};
const store = await STORES[shared.mode]!();

const app = Fastify({
  // Rejects unknown properties, which Fastify removes by default.
  ajv: { customOptions: { removeAdditional: false, coerceTypes: false } },
});

app.addHook('onRequest', async (request, reply) => {
  reply.headers(shared.defaultHeaders());
  if (shared.isAuthorized(request.headers.authorization)) return undefined;
  return reply.code(401).send({ message: 'The API key is missing or invalid.' });
});

const name = { type: 'string', minLength: 1, maxLength: 100, pattern: '\\S' };
const description = { type: 'string', maxLength: 1000 };
const object = { type: 'object', required: ['name'], additionalProperties: false };
const newCategory = { ...object, properties: { name, description } };
const category = { ...object, properties: { id: { type: 'integer' }, name, description } };

const listSchema = { response: { 200: { type: 'array', items: category } } };
// The cached list has an ETag; the others get one as from @fastify/etag.
const onSend: onSendAsyncHookHandler = async (_request, reply, payload) => {
  if (!reply.hasHeader('ETag'))
    reply.header('ETag', `"${hash('sha1', payload as string, 'base64')}"`);
};
app.get('/v1/categories', { schema: listSchema, onSend }, async (_request, reply) => {
  const list = await store.list();
  if (!Array.isArray(list)) return reply.headers(list.headers).send(list.body);
  for (const row of list) row.description ??= undefined;
  return reply.headers(shared.REVALIDATED).send(list);
});

const schema = { body: newCategory, response: { 201: category } };
app.post<{ Body: NewCategory }>('/v1/categories', { schema }, async (request, reply) => {
  const created = { id: await store.insert(request.body), ...request.body };
  return reply.code(201).header('Cache-Control', 'no-store').send(created);
});

await app.listen({ host: '127.0.0.1', port: shared.port });
