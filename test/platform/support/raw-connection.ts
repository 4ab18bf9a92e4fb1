import { EventEmitter, once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** The longest wait for a response, on a busy machine. */
const TIMEOUT_MS = 60_000;

/** A response as received; header names are in lower case. */
export interface RawResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

/** A handwritten HTTP request. */
export interface RawRequest {
  readonly method?: string;
  readonly target?: string;
  /** Header lines such as `Accept: text/html`. */
  readonly headers?: readonly string[];
  readonly body?: string | Uint8Array;
}

/** Serializes a request. The only header that it adds is Host. */
export function rawRequest(request: RawRequest): Buffer {
  const { method = 'GET', target = '/v1/categories', headers = [], body = '' } = request;
  const lines = [`${method} ${target} HTTP/1.1`, 'Host: petstore', ...headers];
  return Buffer.concat([
    Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'),
    typeof body === 'string' ? Buffer.from(body) : body,
  ]);
}

/** A TCP connection to the service, for requests that an HTTP client would not send. */
export class RawConnection {
  /** Whether the service has closed the connection. */
  ended = false;
  private readonly chunks: Buffer[] = [];
  /** Emits `change` after every chunk, and when the service closes the connection. */
  private readonly events = new EventEmitter();

  private constructor(private readonly socket: Socket) {
    socket.on('data', (chunk) => {
      this.chunks.push(chunk);
      this.events.emit('change');
    });
    // A reset also closes the connection; the data received before it has been read.
    for (const event of ['end', 'close', 'error'])
      socket.on(event, () => {
        this.ended = true;
        this.events.emit('change');
      });
  }

  /** Opens a connection to the service at a URL. */
  static async open(url: string): Promise<RawConnection> {
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    await once(socket, 'connect');
    return new RawConnection(socket);
  }

  /** Everything received so far. */
  get received(): string {
    return Buffer.concat(this.chunks).toString('latin1');
  }

  /** All complete responses received so far, including interim (1xx) ones. */
  get responses(): RawResponse[] {
    return parse(this.received);
  }

  send(bytes: string | Uint8Array): this {
    if (this.socket.writable) this.socket.write(bytes);
    return this;
  }

  /** Waits until all data has been handed to the operating system. */
  flushed(): Promise<void> {
    return new Promise((resolve) => {
      this.socket.write('', () => resolve());
    });
  }

  /** Half-closes the connection; the service can still respond. */
  endWrites(): this {
    this.socket.end();
    return this;
  }

  /** Sends a TCP reset. */
  reset(): void {
    this.socket.resetAndDestroy();
  }

  /** Waits for `count` responses in total and returns the last of them. */
  async nextResponse(count = 1): Promise<RawResponse> {
    await this.waitUntil(() => this.responses.length >= count || this.ended, `${count} responses`);
    const response = this.responses[count - 1];
    if (response !== undefined) return response;
    throw new Error(`The service closed the connection after sending:\n${this.received}`);
  }

  /** Waits until the service closes the connection and returns all responses. */
  async closed(): Promise<RawResponse[]> {
    await this.waitUntil(() => this.ended, 'end of the connection');
    return this.responses;
  }

  close(): void {
    this.socket.destroy();
  }

  /** Waits until the predicate is true. */
  private async waitUntil(predicate: () => boolean, description: string): Promise<void> {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    while (!predicate())
      await once(this.events, 'change', { signal }).catch((cause: unknown) => {
        throw new Error(`No ${description} in time, but:\n${this.received}`, { cause });
      });
  }
}

/** Opens a connection, sends the bytes and returns all responses once the service closes it. */
export async function sendRaw(url: string, bytes: string | Uint8Array): Promise<RawResponse[]> {
  const connection = await RawConnection.open(url);
  try {
    return await connection.send(bytes).closed();
  } finally {
    connection.close();
  }
}

/** Parses complete responses. None is chunked, because the service always sends a Content-Length. */
function parse(text: string): RawResponse[] {
  const responses: RawResponse[] = [];
  for (let start = 0; ;) {
    const headEnd = text.indexOf('\r\n\r\n', start);
    if (headEnd === -1) return responses;
    const [statusLine = '', ...lines] = text.slice(start, headEnd).split('\r\n');
    const [, status] = /^HTTP\/1\.1 (\d{3}) /.exec(statusLine) ?? [];
    if (status === undefined) throw new Error(`Invalid response:\n${text.slice(start)}`);
    const headers = Object.fromEntries(
      lines.map((line) => {
        const colon = line.indexOf(':');
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
      }),
    );
    const bodyStart = headEnd + 4;
    start = bodyStart + Number(headers['content-length'] ?? 0);
    if (text.length < start) return responses;
    const body = Buffer.from(text.slice(bodyStart, start), 'latin1').toString();
    responses.push({ status: Number(status), headers, text: body });
  }
}
