import { Agent } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { type HttpResponse, jsonHeaders, sendRequest } from './http-client.js';

/** The number of connections of a {@link RetryingClient}. */
const CONNECTIONS = 64;
const RETRY_DELAY_MS = 50;

/** Sends requests to a service under load, and repeats each while it gets 503, as it may on a busy machine. */
export class RetryingClient {
  /** How often a request with this body got 503, which may have been executed nevertheless. */
  readonly unavailable = new Map<string, number>();
  private readonly agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });

  /** @param url the address of the service, such as `http://127.0.0.1:3000` */
  constructor(
    private readonly url: string,
    private readonly key: string,
  ) {}

  /**
   * Sends a request.
   *
   * @param path without the version, such as `/pets`
   * @param body an object, sent as JSON, or the bytes to send
   */
  async send(
    method: string,
    path: string,
    body?: object,
    headers: Record<string, string> = jsonHeaders(this.key),
  ): Promise<HttpResponse> {
    const content = body === undefined || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    for (;;) {
      const response = await sendRequest(`${this.url}/v1${path}`, {
        method,
        headers,
        agent: this.agent,
        ...(content === undefined ? {} : { body: content }),
      });
      if (response.status !== 503) return response;
      const key = String(content);
      this.unavailable.set(key, (this.unavailable.get(key) ?? 0) + 1);
      await delay(RETRY_DELAY_MS);
    }
  }

  /** Closes its connections. */
  close(): void {
    this.agent.destroy();
  }
}

/** Calls a function once per connection, concurrently, with the number of the connection. @returns the results in that order */
export const onEachConnection = <T>(fn: (number: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: CONNECTIONS }, (_, number) => fn(number)));
