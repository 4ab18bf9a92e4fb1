import { hash, randomUUID } from 'node:crypto';
import { STATUS_CODES } from 'node:http';
import Fastify, { type FastifyError, type FastifyReply, type RouteShorthandOptions } from 'fastify';

// The code that the Fastify baselines share, which is everything except the database: idiomatic Fastify
// with hooks and JSON schemas for bodies and responses.

export interface NewCategory {
  name: string;
  description?: string;
}

export interface CategoryRow {
  id: number;
  name: string;
  description: string | null | undefined;
}

const { PORT = '3000', API_KEY = '', ETAG = 'on' } = process.env;
const keyHashes = new Set([hash('sha256', API_KEY)]);

export const app = Fastify({
  genReqId: () => randomUUID(),
  // Rejects unknown properties, which Fastify removes by default.
  ajv: { customOptions: { removeAdditional: false, coerceTypes: false } },
});

app.addHook('onRequest', async (request, reply) => {
  reply
    .header('X-Request-Id', request.id)
    .header('X-Content-Type-Options', 'nosniff')
    .header('Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'");
  const [scheme, key] = (request.headers.authorization ?? '').split(' ');
  if (scheme !== 'Bearer' || key === undefined || !keyHashes.has(hash('sha256', key))) {
    reply.code(401).header('WWW-Authenticate', 'Bearer realm="petstore"');
    return reply.send({
      code: 'UNAUTHORIZED',
      message: 'The API key is missing or invalid.',
      status: 401,
    });
  }
  return undefined;
});

app.setErrorHandler<FastifyError>((error, _request, reply) => {
  const status = error.statusCode ?? 500;
  const message = status < 500 ? error.message : 'Internal error';
  void reply.code(status).send({ code: toErrorCode(status), message, status });
});

function toErrorCode(status: number): string {
  return (STATUS_CODES[status] ?? 'Error').toUpperCase().replaceAll(' ', '_');
}

const category = {
  type: 'object',
  required: ['id', 'name'],
  properties: {
    id: { type: 'integer' },
    name: { type: 'string' },
    description: { type: 'string' },
  },
};

const newCategory = {
  type: 'object',
  required: ['name'],
  additionalProperties: false,
  properties: {
    name: { type: 'string', minLength: 1, maxLength: 100, pattern: '\\S' },
    description: { type: 'string', maxLength: 1000 },
  },
};

export const listRouteOptions: RouteShorthandOptions = {
  schema: { response: { 200: { type: 'array', items: category }, 304: { type: 'null' } } },
  // Equivalent to @fastify/etag.
  onSend: async (request, reply, payload) => {
    if (ETAG !== 'on') return payload;
    const etag = `"${hash('sha1', payload as string, 'base64')}"`;
    reply.header('ETag', etag);
    if (request.headers['if-none-match'] !== etag) return payload;
    reply.code(304);
    return null;
  },
};

export const createRouteOptions: RouteShorthandOptions = {
  schema: { body: newCategory, response: { 201: category } },
};

export function sendList(reply: FastifyReply, rows: CategoryRow[]): FastifyReply {
  for (const row of rows) row.description ??= undefined;
  return reply
    .header('Cache-Control', 'private, no-cache')
    .header('Vary', 'Accept-Encoding')
    .send(rows);
}

export function sendCreated(
  reply: FastifyReply,
  created: NewCategory & { id: number | bigint },
): FastifyReply {
  return reply.code(201).header('Cache-Control', 'no-store').send(created);
}

export async function listen(): Promise<void> {
  await app.listen({ host: '127.0.0.1', port: Number(PORT) });
}
