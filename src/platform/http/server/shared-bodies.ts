import type { ServerResponse } from 'node:http';
import { type Connection, getAcceptedBytes, isDone } from './connections.js';
import { MAX_SUPERSEDED_BYTES } from './server-options.js';

/** The size, in bytes, from which a body may be kept in memory until its client has read it. */
const LARGE = 64 * 1024;

/** A body that several responses may have, with its bytes. */
interface Body {
  readonly length: number;
}

/** A connection that is sent a body. */
interface Reader {
  readonly connection: Connection;
  readonly body: Body;
  /** What the body is of; once no cache holds it, connections alone do. */
  readonly source: { readonly isCached: boolean };
  /** When it began to read, in milliseconds of the monotonic clock, and the bytes that it had been sent before. */
  readonly since: number;
  readonly start: number;
}

/**
 * The large bodies that connections read and may share. If those that are superseded take too much memory, the slowest
 * connections are closed. The current ones are sent to any number of clients, however slow.
 */
export class SharedBodies {
  /** How many connections were closed. */
  closed = 0;
  private readonly readers = new Set<Reader>();
  private readonly sent = new WeakSet<Body>();

  /** Call it after a body was written to a response. */
  add(response: ServerResponse, body: Body, source: Reader['source']): void {
    if (body.length < LARGE) return;
    if (!isDone(response)) {
      const connection = response.req.socket as Connection;
      const start = connection.bytesWritten - body.length;
      const reader = { connection, body, source, since: performance.now(), start };
      this.readers.add(reader);
      response.once('close', () => this.readers.delete(reader));
    }
    // It may supersede another one.
    if (!this.sent.has(body)) this.limit();
    this.sent.add(body);
  }

  private limit(): void {
    // A response that was detached from its connection is not closed.
    for (const reader of this.readers) if (reader.connection.destroyed) this.readers.delete(reader);
    const superseded = [...this.readers].filter(({ source }) => !source.isCached);
    const counts = new Map<Body, number>();
    for (const { body } of superseded) counts.set(body, (counts.get(body) ?? 0) + 1);
    let bytes = [...counts.keys()].reduce((sum, { length }) => sum + length, 0);
    if (bytes <= MAX_SUPERSEDED_BYTES) return;
    const now = performance.now();
    const getSpeed = ({ connection, since, start }: Reader): number =>
      (getAcceptedBytes(connection) - start) / Math.max(1, now - since);
    for (const { connection, body } of superseded.toSorted((a, b) => getSpeed(a) - getSpeed(b))) {
      // A single body may be larger than the limit.
      if (bytes <= MAX_SUPERSEDED_BYTES || counts.size === 1) return;
      this.closed++;
      connection.destroy();
      const others = counts.get(body)! - 1;
      counts.set(body, others);
      if (others === 0 && counts.delete(body)) bytes -= body.length;
    }
  }
}
