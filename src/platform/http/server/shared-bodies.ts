import type { ServerResponse } from 'node:http';
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

/** What a cache holds. */
interface CacheEntry {
  readonly bytes: number;
  /** Removes the entry from its cache. */
  evict(): void;
}

/**
 * The lists in memory: cached ones, and former ones that connections still read. If the former take too much, the
 * connections that read the oldest are closed; if both do, the least recently used are removed from their caches. What is
 * cached is sent to any number of clients, however slow.
 */
export class SharedBodies {
  /** How many connections were closed. */
  closed = 0;
  /** The responses that clients read, in the order in which they began. */
  private readonly readers = new Map<ServerResponse, SharedBody>();
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
    if (length < LARGE || response.writableFinished || response.destroyed) return;
    this.readers.set(response, body);
    response.once('close', () => this.readers.delete(response));
    if (!body.isCached) this.limit();
  }

  private limit(): void {
    let superseded = this.closeOldest();
    for (const [entry, bytes] of this.entries) {
      // A single list may be larger than the limit.
      if (this.cachedBytes + superseded <= MAX_LIST_BYTES || this.entries.size === 1) return;
      this.entries.delete(entry);
      this.cachedBytes -= bytes;
      entry.evict();
      superseded = this.closeOldest();
    }
  }

  /** @returns the bytes of the bodies that only connections hold, and go on reading */
  private closeOldest(): number {
    const superseded = new Set<SharedBody>();
    for (const [response, body] of this.readers) {
      // A response that was detached from its connection is not closed.
      if (response.req.socket.destroyed) this.readers.delete(response);
      else if (!body.isCached) superseded.add(body);
    }
    let sum = [...superseded].reduce((total, { bytes }) => total + bytes, 0);
    for (const body of superseded) {
      if (sum <= MAX_SUPERSEDED_BYTES || sum === body.bytes) break;
      sum -= body.bytes;
      for (const [{ req }, read] of this.readers) {
        if (read !== body) continue;
        req.socket.destroy();
        this.closed++;
      }
    }
    return sum;
  }
}
