import { type Agent, type IncomingHttpHeaders, request } from 'node:http';

/** An answer as it came over the wire: nothing is decompressed, parsed or followed. */
export interface HttpResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface RequestOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  /** Keeps connections open; without one each exchange has its own. */
  readonly agent?: Agent;
}

/** Sends one request and reads the whole answer. */
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

/** The headers of a request with a key, and with a JSON body. */
export function jsonHeaders(key: string): Record<string, string> {
  return { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
}
