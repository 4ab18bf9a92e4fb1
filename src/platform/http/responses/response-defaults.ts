import { randomUUID } from 'node:crypto';
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Config } from '../../config/config.js';
import type { ErrorResponse } from './error-response.js';
import { apiSecurityHeaders } from './security-headers.js';

const REQUEST_ID_PATTERN = /^[\w.:;,/+=@~-]{1,128}$/;
/** An API key of the service, or most of one. A client may send it as its request id, which is logged. */
const API_KEY_PATTERN = /pet_[\w-]{16}/;

/** Sets what every response has: a request id, no caching unless its operation allows it, security headers. */
export class ResponseDefaults {
  private readonly headers: readonly (readonly [name: string, value: string])[];

  constructor(private readonly config: Pick<Config, 'bootstrapApiKey' | 'publicBaseUrl'>) {
    this.headers = [['Cache-Control', 'no-store'], ...apiSecurityHeaders(config)];
  }

  /** Sets the request id and the default headers. */
  apply(request: IncomingMessage, response: ServerResponse): void {
    request.id = this.getRequestId(request);
    response.setHeader('X-Request-Id', request.id);
    for (const [name, value] of this.headers) response.setHeader(name, value);
  }

  /**
   * Writes an error response for which Node has no response object, and closes the connection.
   *
   * @returns the request id of the response
   */
  writeRawResponse(
    socket: Socket,
    { body, headers }: ErrorResponse,
    request?: IncomingMessage,
  ): string {
    const id = request?.id ?? (request === undefined ? randomUUID() : this.getRequestId(request));
    const text = JSON.stringify(body);
    const head = {
      Date: new Date().toUTCString(),
      Connection: 'close',
      'X-Request-Id': id,
      ...Object.fromEntries(this.headers),
      'Content-Type': 'application/json; charset=utf-8',
      'Content-Length': Buffer.byteLength(text),
      ...headers,
    };
    const lines = Object.entries(head).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.end(
      `HTTP/1.1 ${body.status} ${STATUS_CODES[body.status]}\r\n${lines.join('')}\r\n${text}`,
      () => socket.destroy(),
    );
    return id;
  }

  private getRequestId({ headers }: IncomingMessage): string {
    const id = headers['x-request-id'];
    return typeof id === 'string' && REQUEST_ID_PATTERN.test(id) && !this.containsApiKey(id)
      ? id
      : randomUUID();
  }

  private containsApiKey(text: string): boolean {
    const { bootstrapApiKey } = this.config;
    return (
      API_KEY_PATTERN.test(text) ||
      (bootstrapApiKey !== undefined && text.includes(bootstrapApiKey))
    );
  }
}
