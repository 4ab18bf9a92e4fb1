import type { ServerResponse } from 'node:http';
import { type Connection, getAcceptedBytes, isDone } from './connections.js';
import { MAX_LIST_BYTES, MAX_SUPERSEDED_BYTES } from './server-options.js';

/** The size, in bytes, from which a body may be kept in memory until its client has read it. */
const LARGE = 64 * 1024;

/** A list in memory that several responses may have. */
interface SharedBody {
  /** The bytes of all its representations, at most. */
  readonly bytes: number;
  /** If it is false, only connections that read the body hold it. */
  readonly isCached: boolean;
}

/** A connection that is sent a body. */
interface Reader {
  readonly connection: Connection;
  readonly body: SharedBody;
  /** When it began to read, in milliseconds of the monotonic clock, and the bytes that it had been sent before. */
  readonly since: number;
  readonly start: number;
}

/** What a cache holds. */
interface CacheEntry {
  readonly bytes: number;
  /** Called when it must be removed from its cache. */
  evict(): void;
}

/**
 * The lists in memory: cached ones, and former ones that connections still read. If the former take too much, the slowest
 * of their connections are closed; if both do, the least recently used are removed from their caches. What is cached is
 * sent to any number of clients, however slow.
 */
export class SharedBodies {
  /** How many connections were closed. */
  closed = 0;
  private readonly readers = new Set<Reader>();
  /** The bytes of what is cached, the least recently used first. */
  private readonly entries = new Map<CacheEntry, number>();
  private cachedBytes = 0;

  /** Call it when an entry of a cache is used, or has become larger. */
  use(entry: CacheEntry): void {
    const former = this.entries.get(entry) ?? 0;
    // A Map keeps the order of insertion.
    this.entries.delete(entry);
    this.entries.set(entry, entry.bytes);
    this.cachedBytes += entry.bytes - former;
    if (entry.bytes > former) this.limit();
  }

  /** Call it after a representation of a body was written to a response, with its length in bytes. */
  addReader(response: ServerResponse, body: SharedBody, length: number): void {
    if (length < LARGE || isDone(response)) return;
    const connection = response.req.socket as Connection;
    const start = connection.bytesWritten - length;
    const reader = { connection, body, since: performance.now(), start };
    this.readers.add(reader);
    response.once('close', () => this.readers.delete(reader));
    if (!body.isCached) this.limit();
  }

  private limit(): void {
    let superseded = this.closeSlowest();
    for (const [entry, bytes] of this.entries) {
      // A single list may be larger than the limit.
      if (this.cachedBytes + superseded <= MAX_LIST_BYTES || this.entries.size === 1) return;
      this.entries.delete(entry);
      this.cachedBytes -= bytes;
      entry.evict();
      superseded = this.closeSlowest();
    }
  }

  /** @returns the bytes of the bodies that only connections hold, and go on reading */
  private closeSlowest(): number {
    // A response that was detached from its connection is not closed.
    for (const reader of this.readers) if (reader.connection.destroyed) this.readers.delete(reader);
    const superseded = [...this.readers].filter(({ body }) => !body.isCached);
    const counts = new Map<SharedBody, number>();
    for (const { body } of superseded) counts.set(body, (counts.get(body) ?? 0) + 1);
    let sum = [...counts.keys()].reduce((total, { bytes }) => total + bytes, 0);
    if (sum <= MAX_SUPERSEDED_BYTES) return sum;
    const now = performance.now();
    const getSpeed = ({ connection, since, start }: Reader): number =>
      (getAcceptedBytes(connection) - start) / Math.max(1, now - since);
    for (const { connection, body } of superseded.toSorted((a, b) => getSpeed(a) - getSpeed(b))) {
      if (sum <= MAX_SUPERSEDED_BYTES || counts.size === 1) break;
      this.closed++;
      connection.destroy();
      const others = counts.get(body)! - 1;
      counts.set(body, others);
      if (others === 0 && counts.delete(body)) sum -= body.bytes;
    }
    return sum;
  }
}
