import { type Agent, type IncomingHttpHeaders, request } from 'node:http';

/** A response as received: not decompressed or parsed, redirects not followed. */
export interface HttpResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface RequestOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
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
    const options = { method, headers, ...(agent === undefined ? {} : { agent }) };
    const outgoing = request(url, options, (incoming) => {
      const chunks: Buffer[] = [];
      incoming
        .on('data', (chunk: Buffer) => chunks.push(chunk))
        .once('error', reject)
        .once('end', () =>
          resolve({
            status: incoming.statusCode!,
            headers: incoming.headers,
            body: Buffer.concat(chunks),
          }),
        );
    });
    outgoing.once('error', reject).end(body);
  });
}

/** Returns the headers of an authenticated request with a JSON body. */
export function jsonHeaders(key: string): Record<string, string> {
  return { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
}
