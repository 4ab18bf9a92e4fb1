import { Pool, types } from 'pg';
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

// Idiomatic Fastify with pg: a pool of the default size, which is also that of the service, and named
// queries, which each connection prepares once.

const { DATABASE_URL } = process.env;

// By default, pg returns bigint values as strings.
types.setTypeParser(types.builtins.INT8, Number);

const pool = new Pool({ connectionString: DATABASE_URL });
await pool.query(`
  CREATE TABLE IF NOT EXISTS categories (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    description text
  )
`);

app.get('/v1/categories', listRouteOptions, async (_request, reply) => {
  const { rows } = await pool.query<CategoryRow>({
    name: 'list',
    text: 'SELECT id, name, description FROM categories ORDER BY id',
  });
  return sendList(reply, rows);
});

app.post<{ Body: NewCategory }>('/v1/categories', createRouteOptions, async (request, reply) => {
  const { name, description } = request.body;
  const { rows } = await pool.query<{ id: number }>({
    name: 'create',
    text: 'INSERT INTO categories (name, description) VALUES ($1, $2) RETURNING id',
    values: [name, description],
  });
  return sendCreated(reply, { id: rows[0]!.id, name, description });
});

await listen();
