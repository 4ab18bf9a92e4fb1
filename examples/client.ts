/** A typed TypeScript client: `npm run build:tools && PETSTORE_API_KEY=… node build/examples/client.js`. */
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import createClient, { type Client, type Middleware } from 'openapi-fetch';
import type { components, paths } from './petstore.js';

type Category = components['schemas']['Category'];

const ATTEMPTS = 4;

/**
 * Creates a client that retries and warns about deprecated operations.
 * @param baseUrl URL of the service, including the version
 */
export function connect(baseUrl: string, key: string): Client<paths> {
  const client = createClient<paths>({
    baseUrl,
    headers: { Authorization: `Bearer ${key}` },
    fetch: fetchWithRetry,
  });
  client.use(deprecationWarnings);
  return client;
}

/** Retries after 429 and 503, except create requests after 503, because the row may have been stored. */
async function fetchWithRetry(request: Request): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(request.clone());
    const isSafe = request.method === 'GET' || request.method === 'HEAD';
    const isRetryable = response.status === 429 || (response.status === 503 && isSafe);
    if (!isRetryable || attempt === ATTEMPTS) return response;
    await response.body?.cancel();
    const seconds = Number(response.headers.get('Retry-After') ?? 1);
    // Up to one second of jitter, so that clients do not all retry at the same time.
    await delay((seconds + Math.random()) * 1000);
  }
}

/** Warns about each request to a deprecated operation, with its sunset date. */
const deprecationWarnings: Middleware = {
  onResponse({ request, response }) {
    if (!response.headers.has('Deprecation')) return;
    const sunset = response.headers.get('Sunset') ?? 'a date not yet announced';
    console.warn(`${request.method} ${request.url} is deprecated and ends on ${sunset}.`);
  },
};

/** Reads the list of categories with conditional requests, so that an unchanged list is not sent again. */
export class CategoryList {
  private categories: readonly Category[] = [];
  private etag: string | undefined;

  constructor(private readonly client: Client<paths>) {}

  /** @throws {Error} with the error code and message of the response */
  async read(): Promise<readonly Category[]> {
    const { data, error, response } = await this.client.GET('/categories', {
      headers: this.etag === undefined ? {} : { 'If-None-Match': this.etag },
    });
    if (response.status === 304) return this.categories;
    if (error !== undefined) throw new Error(`${error.code}: ${error.message}`);
    this.etag = response.headers.get('ETag') ?? undefined;
    return (this.categories = data);
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { PETSTORE_URL = 'http://127.0.0.1:3000/v1', PETSTORE_API_KEY = '' } = process.env;
  const client = connect(PETSTORE_URL, PETSTORE_API_KEY);

  const { data, error } = await client.POST('/categories', {
    body: { name: 'dog', description: 'Dogs of every breed and size' },
  });
  if (error?.code === 'UNAUTHORIZED') throw new Error('Set PETSTORE_API_KEY to a valid key.');
  if (error !== undefined) throw new Error(`${error.code}: ${error.message}`);
  console.log(`Created ${data.id}: ${data.name}`);

  const list = new CategoryList(client);
  const first = await list.read();
  const second = await list.read();
  console.log(`Listed ${first.length}, and unchanged: ${first === second}`);

  const rejected = await client.POST('/categories', { body: { name: ' ' } });
  console.log(`Refused: ${rejected.error?.code}`);

  // The type of a pet id is not specified yet; `never` compiles with any type.
  await client.GET('/pets/{petId}', { params: { path: { petId: '1' as never } } });
}
