import { type Agent, type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http';

/** A response as received: not decompressed, redirects not followed. */
export class HttpResponse {
  constructor(
    readonly status: number,
    readonly headers: IncomingHttpHeaders,
    readonly body: Buffer,
  ) {}

  get text(): string {
    return this.body.toString();
  }

  /** Parses the body. @returns the value, whose type is not checked */
  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- shorter than an assertion at each call
  json<T = unknown>(): T {
    return JSON.parse(this.text) as T;
  }
}

export interface RequestOptions {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Buffer;
  /** Reuses connections; without an agent each request opens its own. */
  readonly agent?: Agent;
}

/** Sends a request and reads the complete response. */
export function sendRequest(
  url: string,
  { method = 'GET', headers = {}, body, agent }: RequestOptions = {},
): Promise<HttpResponse> {
  return new Promise((resolve, reject) => {
    // Node's default agent would reuse connections.
    const options = { method, headers, agent: agent ?? false };
    const outgoing = request(url, options, (incoming) => {
      const chunks: Buffer[] = [];
      incoming
        .on('data', (chunk: Buffer) => chunks.push(chunk))
        .once('error', reject)
        .once('end', () =>
          resolve(new HttpResponse(incoming.statusCode!, incoming.headers, Buffer.concat(chunks))),
        );
    });
    outgoing.once('error', reject).end(body);
  });
}

/** A category in a response. */
export interface Category {
  readonly id: number;
  readonly name: string;
  readonly description?: string;
}

/** Lists and creates categories with an API key. */
export class CategoriesClient {
  /**
   * @param url the address of the service, such as `http://127.0.0.1:3000`
   * @param agent reuses connections; without an agent each request opens its own
   */
  constructor(
    private readonly url: string,
    private readonly key: string,
    private readonly agent?: Agent,
  ) {}

  /** Sends `GET /v1/categories`, or another method. */
  list(headers: Record<string, string> = {}, method = 'GET'): Promise<HttpResponse> {
    return this.send(method, headers);
  }

  /** Sends `POST /v1/categories`. */
  create(name: string, description?: string): Promise<HttpResponse> {
    const headers = { 'content-type': 'application/json' };
    return this.send('POST', headers, JSON.stringify({ name, description }));
  }

  /** Returns the list. @throws {Error} if the response is not 200 */
  async getAll(): Promise<Category[]> {
    const response = await this.list();
    if (response.status !== 200) throw new Error(`List: ${response.status} ${response.text}`);
    return response.json();
  }

  /** Returns the names in the list. @throws {Error} if the response is not 200 */
  async getNames(): Promise<string[]> {
    return (await this.getAll()).map(({ name }) => name);
  }

  private send(method: string, added: object, body?: string): Promise<HttpResponse> {
    const headers = { authorization: `Bearer ${this.key}`, ...added };
    const { agent } = this;
    const options = { method, headers, ...(body && { body }), ...(agent && { agent }) };
    return sendRequest(`${this.url}/v1/categories`, options);
  }
}

/** Returns the headers of an authenticated request with a JSON body. */
export function jsonHeaders(key: string): Record<string, string> {
  return { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
}
