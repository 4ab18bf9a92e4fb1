import { createHash, hash, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

// The upper bound: plain node:http, one route, and the complete response in memory. POST is only for
// seeding.

const { PORT = '3000', API_KEY = '' } = process.env;
const SECURITY_HEADERS = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
};
const keyHash = hash('sha256', API_KEY);
const categories: { id: number; name: string; description?: string }[] = [];
let list = Buffer.from('[]');
let etag = '';
let stale = true;

const server = createServer((request, response) => {
  const requestId = randomUUID();
  const authorization = request.headers.authorization ?? '';
  if (!authorization.startsWith('Bearer ') || hash('sha256', authorization.slice(7)) !== keyHash) {
    const body = JSON.stringify({
      code: 'UNAUTHORIZED',
      message: 'The API key is missing or invalid.',
      status: 401,
    });
    response.writeHead(401, {
      'X-Request-Id': requestId,
      ...SECURITY_HEADERS,
      'WWW-Authenticate': 'Bearer realm="petstore"',
      'Content-Type': 'application/json; charset=utf-8',
      'Content-Length': Buffer.byteLength(body),
    });
    response.end(body);
    return;
  }
  if (request.method === 'POST') {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const category = {
        id: categories.length + 1,
        ...JSON.parse(Buffer.concat(chunks).toString()),
      };
      categories.push(category);
      stale = true;
      response.writeHead(201, {
        ...SECURITY_HEADERS,
        'Content-Type': 'application/json; charset=utf-8',
      });
      response.end(JSON.stringify(category));
    });
    return;
  }
  if (stale) {
    list = Buffer.from(JSON.stringify(categories));
    etag = `"${createHash('sha256').update(list).digest('base64url')}"`;
    stale = false;
  }
  if (request.headers['if-none-match'] === etag) {
    response.writeHead(304, {
      'X-Request-Id': requestId,
      ...SECURITY_HEADERS,
      'Cache-Control': 'private, no-cache',
      ETag: etag,
      Vary: 'Accept-Encoding',
    });
    response.end();
    return;
  }
  response.writeHead(200, {
    'X-Request-Id': requestId,
    ...SECURITY_HEADERS,
    'Cache-Control': 'private, no-cache',
    ETag: etag,
    Vary: 'Accept-Encoding',
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': list.length,
  });
  response.end(list);
});
server.listen(Number(PORT), '127.0.0.1');
