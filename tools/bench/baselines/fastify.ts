/**
 * Idiomatic Fastify, with hooks and JSON schemas. `MODE` is `sqlite` (better-sqlite3 with prepared statements),
 * `cached` (the same with the service's way to cache lists and to batch inserts) or `pg` (a pool of 10 connections,
 * which is also the size of the service's, and named queries, which each connection prepares once).
 */
import { hash } from 'node:crypto';
import Fastify from 'fastify';
import { Pool, types } from 'pg';
import type { NewCategory } from '../categories.js';
import * as shared from './shared.js';

type Row = { description?: string | null | undefined };
type ListResponse = ReturnType<typeof shared.toListResponse>;
type Store = { list: () => Row[] | Promise<Row[]> | ListResponse; insert: shared.Insert };

const SELECT = 'SELECT id, name, description FROM categories ORDER BY id';

const STORES: Record<string, () => Store | Promise<Store>> = {
  sqlite: () => {
    const database = shared.openDatabase();
    const select = database.prepare<[], Row>(SELECT);
    return { insert: shared.insertAtOnce(database), list: () => select.all() };
  },
  cached: () => {
    const database = shared.openDatabase();
    const select = database.prepare<[], Row>(SELECT);
    // The number changes with every commit of another connection.
    const readVersion = database.prepare('PRAGMA data_version').pluck();
    const insert = shared.insertInBatches(database);
    let cached: { version: unknown; response: ListResponse } | undefined;
    const list = (): ListResponse => {
      const version = readVersion.get();
      if (cached?.version === version) return cached!.response;
      const json = JSON.stringify(select.all(), (_key, value: unknown) => value ?? undefined);
      cached = { version, response: shared.toListResponse(json) };
      return cached.response;
    };
    return {
      list,
      insert: async (category) => {
        const id = await insert(category);
        cached = undefined;
        return id;
      },
    };
  },
  pg: async () => {
    // By default, pg returns bigint values as strings.
    types.setTypeParser(types.builtins.INT8, Number);
    const pool = new Pool({ connectionString: shared.url });
    await pool.query(`CREATE TABLE IF NOT EXISTS categories (
      id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, description text)`);
    const text = 'INSERT INTO categories (name, description) VALUES ($1, $2) RETURNING id';
    return {
      list: async () => (await pool.query<Row>({ name: 'list', text: SELECT })).rows,
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

app.get(
  '/v1/categories',
  {
    schema: { response: { 200: { type: 'array', items: category } } },
    // As @fastify/etag does; the cached list has one.
    onSend: async (_request, reply, payload) => {
      if (!reply.hasHeader('ETag'))
        reply.header('ETag', `"${hash('sha1', payload as string, 'base64')}"`);
    },
  },
  async (_request, reply) => {
    const list = await store.list();
    if (!Array.isArray(list)) return reply.headers(list.headers).send(list.body);
    for (const row of list) row.description ??= undefined;
    return reply.headers(shared.REVALIDATED).send(list);
  },
);

app.post<{ Body: NewCategory }>(
  '/v1/categories',
  { schema: { body: newCategory, response: { 201: category } } },
  async (request, reply) => {
    const created = { id: await store.insert(request.body), ...request.body };
    return reply.code(201).headers(shared.NOT_STORED).send(created);
  },
);

await app.listen({ host: '127.0.0.1', port: shared.port });
