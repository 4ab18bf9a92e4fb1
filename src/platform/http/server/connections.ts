import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** An open connection, with the responses to the two most recent requests that arrived on it. */
export interface Connection extends Socket {
  requestCount: number;
  latestResponse?: ServerResponse;
  previousResponse?: ServerResponse | undefined;
}

/** The open connections of an HTTP server. */
export class Connections implements Iterable<Connection> {
  private readonly open = new Set<Connection>();

  /** Tracks a connection until it closes. */
  add(connection: Connection): void {
    connection.requestCount = 0;
    this.open.add(connection);
    connection.once('close', () => this.open.delete(connection));
  }

  /** The number of open connections, idle ones included. */
  get size(): number {
    return this.open.size;
  }

  /** The number of connections with a request in flight; pipelined requests count once. */
  get active(): number {
    return [...this.open].filter((connection) => !isIdle(connection)).length;
  }

  [Symbol.iterator](): Iterator<Connection> {
    return this.open.values();
  }
}

/** Whether no request is in flight and the last response has left the process. */
export function isIdle({ latestResponse }: Connection): boolean {
  return (
    latestResponse === undefined || latestResponse.writableFinished || latestResponse.destroyed
  );
}
