import { once } from 'node:events';
import { connect, type Socket } from 'node:net';

/** One answer as it came over the wire; the names of its headers are in lower case. */
export interface RawResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}

/** What a client that speaks HTTP by hand writes. */
export interface RawRequest {
  readonly method?: string;
  readonly target?: string;
  /** `HTTP/1.1` unless told. */
  readonly version?: string;
  /** Lines such as `Host: petstore`, which stands there by itself unless `host` is false. */
  readonly headers?: readonly string[];
  readonly host?: boolean;
  readonly body?: string | Uint8Array;
}

/** The bytes of a request. Nothing is added that was not asked for, neither a length nor a type. */
export function rawRequest({
  method = 'GET',
  target = '/v1/categories',
  version = 'HTTP/1.1',
  headers = [],
  host = true,
  body = '',
}: RawRequest): Buffer {
  const lines = [`${method} ${target} ${version}`, ...(host ? ['Host: petstore'] : []), ...headers];
  return Buffer.concat([
    Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'),
    typeof body === 'string' ? Buffer.from(body) : body,
  ]);
}

/** A TCP connection to the service, for what no HTTP client would send. */
export class RawConnection {
  /** Whether the service has ended the connection. */
  ended = false;
  private readonly chunks: Buffer[] = [];
  /** Called whenever something came. */
  private changed: () => void = () => undefined;

  private constructor(private readonly socket: Socket) {
    const closed = (): void => {
      this.ended = true;
      this.changed();
    };
    socket
      .on('data', (chunk) => {
        this.chunks.push(chunk);
        this.changed();
      })
      .on('end', closed)
      .on('close', closed)
      // A reset ends the connection too; what came before it was read.
      .on('error', closed);
  }

  /** @param url the address of the service */
  static async open(url: string): Promise<RawConnection> {
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    await once(socket, 'connect');
    return new RawConnection(socket);
  }

  /** Everything that came so far. */
  get received(): string {
    return Buffer.concat(this.chunks).toString('latin1');
  }

  /** Every whole answer that came so far, interim ones (1xx) included. */
  get responses(): RawResponse[] {
    return parse(this.received);
  }

  send(bytes: string | Uint8Array): this {
    if (this.socket.writable) this.socket.write(bytes);
    return this;
  }

  /** Waits until what was sent has left this process. */
  flushed(): Promise<void> {
    return new Promise((resolve) => {
      this.socket.write('', () => resolve());
    });
  }

  /** Ends this side; the service can still answer. */
  endWrites(): this {
    this.socket.end();
    return this;
  }

  /** Resets the connection, as a client that was killed does. */
  reset(): void {
    this.socket.resetAndDestroy();
  }

  /** Waits for a number of answers, and gives the newest of them. */
  async nextResponse(count = 1, timeout = 5_000): Promise<RawResponse> {
    await this.until(
      () => this.responses.length >= count || this.ended,
      timeout,
      `${count} answers`,
    );
    const nextResponse = this.responses[count - 1];
    if (nextResponse === undefined) throw new Error(`The service ended with:\n${this.received}`);
    return nextResponse;
  }

  /** Waits until the service has ended the connection, and gives every answer that it sent. */
  async closed(timeout = 5_000): Promise<RawResponse[]> {
    await this.until(() => this.ended, timeout, 'the end');
    return this.responses;
  }

  close(): void {
    this.socket.destroy();
  }

  /** Waits for a condition on what was received. */
  private until(holds: () => boolean, timeout: number, what: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => reject(new Error(`Waited ${timeout} ms for ${what}; received:\n${this.received}`)),
        timeout,
      );
      this.changed = () => {
        if (!holds()) return;
        clearTimeout(timer);
        resolve();
      };
      this.changed();
    });
  }
}

/** Opens a connection, sends the bytes, and gives every answer when the service has ended it. */
export async function sendRaw(url: string, bytes: string | Uint8Array): Promise<RawResponse[]> {
  const connection = await RawConnection.open(url);
  try {
    return await connection.send(bytes).closed();
  } finally {
    connection.close();
  }
}

/** The service says the length of every body, so this reads no chunks. */
function parse(text: string): RawResponse[] {
  const responses: RawResponse[] = [];
  for (let start = 0; ;) {
    const headEnd = text.indexOf('\r\n\r\n', start);
    if (headEnd === -1) return responses;
    const [statusLine = '', ...lines] = text.slice(start, headEnd).split('\r\n');
    const [, status] = /^HTTP\/1\.1 (\d{3}) /.exec(statusLine) ?? [];
    if (status === undefined) throw new Error(`This is no answer:\n${text.slice(start)}`);
    const headers = Object.fromEntries(
      lines.map((line) => {
        const colon = line.indexOf(':');
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
      }),
    );
    const bodyStart = headEnd + 4;
    const bodyEnd = bodyStart + Number(headers['content-length'] ?? 0);
    if (text.length < bodyEnd) return responses;
    const body = Buffer.from(text.slice(bodyStart, bodyEnd), 'latin1').toString();
    responses.push({ status: Number(status), headers, text: body });
    start = bodyEnd;
  }
}
