/** A typed TypeScript client: `API_KEY=… npx tsx client.ts`, after the commands of docs/clients.md. */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import createClient, { type Client, type Middleware } from 'openapi-fetch';
import type { components, paths } from './api.js';

type Category = components['schemas']['Category'];

/** When the client gives up, and how long it waits. All times are in milliseconds. */
const DEFAULT_RETRY = {
  /** The maximum number of attempts. */
  attempts: 4,
  /** The time limit of each attempt, until the whole response has arrived. */
  attemptTimeout: 5_000,
  /** The time limit of all attempts and the waits between them, more than the minute of a rate limit. */
  deadline: 90_000,
  /** The longest wait before the second attempt; it doubles with each further one. */
  firstDelay: 200,
};
type RetryOptions = typeof DEFAULT_RETRY;

/**
 * Creates a client that retries and warns about deprecated operations.
 * @param baseUrl URL of the service, including the version
 * @param retry overrides of the limits
 */
export function connect(
  baseUrl: string,
  key: string,
  retry: Partial<RetryOptions> = {},
): Client<paths> {
  const client = createClient<paths>({
    baseUrl,
    headers: { Authorization: `Bearer ${key}` },
    fetch: (request) => fetchWithRetry(request, { ...DEFAULT_RETRY, ...retry }),
  });
  client.use(idempotencyKeys, createDeprecationWarnings());
  return client;
}

/** Gives each create request without a key one, the same for all of its attempts, so that only one of them creates something. */
const idempotencyKeys: Middleware = {
  onRequest({ request }) {
    const isMissing = request.method === 'POST' && !request.headers.has('Idempotency-Key');
    if (isMissing) request.headers.set('Idempotency-Key', randomUUID());
  },
};

/** Retries after 429, and after 503, a lost connection and a timeout if the request may be repeated. */
async function fetchWithRetry(request: Request, retry: RetryOptions): Promise<Response> {
  const endsAt = performance.now() + retry.deadline;
  for (let attempt = 1; ; attempt++) {
    const remaining = Math.max(0, endsAt - performance.now());
    const result = await attemptFetch(request, Math.min(retry.attemptTimeout, remaining));
    const wait = getDelay(result, attempt, retry);
    const mayRetry = attempt < retry.attempts && performance.now() + wait < endsAt;
    if (!isRetryable(request, result) || !mayRetry) {
      if (result instanceof Response) return result;
      throw result;
    }
    await delay(wait, undefined, { signal: request.signal });
  }
}

/** Sends a request once. @returns the complete response, or the error of the connection */
async function attemptFetch(request: Request, timeout: number): Promise<Response | Error> {
  // Node 22.14 may lose AbortSignal.timeout to garbage collection within AbortSignal.any.
  const controller = new AbortController();
  const expired = new DOMException('The attempt timed out.', 'TimeoutError');
  const timer = setTimeout(() => controller.abort(expired), timeout);
  try {
    const signal = AbortSignal.any([request.signal, controller.signal]);
    const response = await fetch(request.clone(), { signal });
    // A connection that is lost while the body arrives is retried, too.
    const body = await response.arrayBuffer();
    return new Response(body.byteLength === 0 ? null : body, response);
  } catch (error) {
    // The caller has cancelled the request.
    if (request.signal.aborted) throw error;
    return error as Error;
  } finally {
    clearTimeout(timer);
  }
}

function isRetryable({ method, headers }: Request, result: Response | Error): boolean {
  const isRepeatable = method === 'GET' || method === 'HEAD' || headers.has('Idempotency-Key');
  if (!(result instanceof Response)) return isRepeatable;
  return result.status === 429 || (result.status === 503 && isRepeatable);
}

/** Returns how long to wait: what `Retry-After` says, and a random part of what doubles with each attempt. */
function getDelay(result: Response | Error, attempt: number, { firstDelay }: RetryOptions): number {
  const retryAfter = result instanceof Response ? parseRetryAfter(result) : 0;
  // Clients that wait for the same time must not come back at the same time.
  return retryAfter + firstDelay * 2 ** (attempt - 1) * Math.random();
}

/** Returns `Retry-After` in milliseconds: it is a number of seconds or an HTTP date (RFC 9110, section 10.2.3). */
function parseRetryAfter({ headers }: Response): number {
  const value = headers.get('Retry-After') ?? '0';
  const milliseconds = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.now();
  return Number.isNaN(milliseconds) ? 0 : Math.max(0, milliseconds);
}

/** Warns once about each deprecated operation, with its sunset date. */
function createDeprecationWarnings(): Middleware {
  const warned = new Set<string>();
  return {
    onResponse({ request, response, schemaPath }) {
      const operation = `${request.method} ${schemaPath}`;
      if (!response.headers.has('Deprecation') || warned.has(operation)) return;
      warned.add(operation);
      const sunset = response.headers.get('Sunset') ?? 'a date not yet announced';
      console.warn(`${operation} is deprecated and ends on ${sunset}.`);
    },
  };
}

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
  const { API_URL = 'http://127.0.0.1:3000/v1', API_KEY = '' } = process.env;
  const client = connect(API_URL, API_KEY);

  const { data, error } = await client.POST('/categories', {
    body: { name: 'dog', description: 'Dogs of every breed and size' },
  });
  if (error?.code === 'UNAUTHORIZED') throw new Error('Set API_KEY to a valid key.');
  if (error !== undefined) throw new Error(`${error.code}: ${error.message}`);
  console.log(`Created ${data.id}: ${data.name}`);

  const list = new CategoryList(client);
  const first = await list.read();
  const second = await list.read();
  console.log(`Listed ${first.length}, and unchanged: ${first === second}`);

  const rejected = await client.POST('/categories', { body: { name: ' ' } });
  console.log(`Rejected: ${rejected.error?.code}`);
}
