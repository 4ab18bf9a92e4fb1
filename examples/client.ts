/** A typed client in TypeScript: `npm run build && PETSTORE_API_KEY=… node dist/examples/client.js`. */
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import createClient, { type Client, type Middleware } from 'openapi-fetch';
import type { components, paths } from './petstore.js';

type Category = components['schemas']['Category'];

const ATTEMPTS = 4;

/** @param baseUrl the address of the service, with its version */
export function connect(baseUrl: string, key: string): Client<paths> {
  const client = createClient<paths>({
    baseUrl,
    headers: { Authorization: `Bearer ${key}` },
    fetch: patientFetch,
  });
  client.use(deprecations);
  return client;
}

/** Tries again after a 429 or a 503; but not a create after a 503, for it may be stored. */
async function patientFetch(request: Request): Promise<Response> {
  for (let attempt = 1; ; attempt++) {
    const response = await fetch(request.clone());
    const isSafe = request.method === 'GET' || request.method === 'HEAD';
    const isOnlyLate = response.status === 429 || (response.status === 503 && isSafe);
    if (!isOnlyLate || attempt === ATTEMPTS) return response;
    await response.body?.cancel();
    const seconds = Number(response.headers.get('Retry-After') ?? 1);
    // Up to a second more, so that not all clients come back at the same moment.
    await delay((seconds + Math.random()) * 1000);
  }
}

/** Tells the developer in time of an operation that goes away. */
const deprecations: Middleware = {
  onResponse({ request, response }) {
    if (!response.headers.has('Deprecation')) return;
    const sunset = response.headers.get('Sunset') ?? 'a day that is not set yet';
    console.warn(`${request.method} ${request.url} is deprecated and ends on ${sunset}.`);
  },
};

/** The categories, which are sent again only where they have changed. */
export class CategoryList {
  private categories: readonly Category[] = [];
  private etag: string | undefined;

  constructor(private readonly client: Client<paths>) {}

  /** @throws {Error} with the code of the service */
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

  const refused = await client.POST('/categories', { body: { name: ' ' } });
  console.log(`Refused: ${refused.error?.code}`);

  // What an id of a pet looks like is not specified yet, and neither is its type.
  await client.GET('/pets/{petId}', { params: { path: { petId: '1' as never } } });
}
