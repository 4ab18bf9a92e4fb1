import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
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

/** A connection that reads a body. Its response is not kept: garbage collection would take 5 µs longer for each (V8 14). */
interface Reader {
  readonly connection: Socket;
  readonly body: SharedBody;
}

interface CacheEntry {
  readonly bytes: number;
  /** When a request last used the entry, in milliseconds of the monotonic clock. */
  readonly lastUse: number;
  /** Removes the entry from its cache. */
  evict(): void;
}

/**
 * The lists in memory: cached ones, and former ones that connections still read. If the former take too much, the
 * connections that read the oldest are closed; if both do, those that were not used for a while are removed from their caches. What is
 * cached is sent to any number of clients, however slow.
 */
export class SharedBodies {
  /** How many connections were closed. */
  closed = 0;
  /** In the order in which they began. */
  private readonly readers = new Set<Reader>();
  /**
   * The bytes of what is cached, and when it had been used last when it was added or moved to the end. An entry that was used
   * since is moved to the end instead of being evicted (the second chance of page replacement): an order of use, which
   * changes with every request, takes 8 % of the CPU time of a short list, and sorting takes as long as there are entries.
   */
  private readonly entries = new Map<CacheEntry, Pick<CacheEntry, 'bytes' | 'lastUse'>>();
  private cachedBytes = 0;

  /** Call it when an entry is added to a cache, or has another body. */
  update(entry: CacheEntry): void {
    const { bytes, lastUse } = entry;
    this.cachedBytes += bytes - (this.entries.get(entry)?.bytes ?? 0);
    this.entries.delete(entry);
    this.entries.set(entry, { bytes, lastUse });
    // A former list may be in memory now only because connections read it.
    this.limit();
  }

  /** Call it after a representation of a body was written to a response, with its length in bytes. */
  addReader(response: ServerResponse, body: SharedBody, length: number): void {
    if (length < LARGE || response.writableFinished || response.destroyed) return;
    const reader = { connection: response.req.socket, body };
    this.readers.add(reader);
    response.once('close', () => this.readers.delete(reader));
    if (!body.isCached) this.limit();
  }

  private limit(): void {
    let superseded = this.closeOldest();
    for (const [entry, { bytes, lastUse }] of this.entries) {
      // A single list may be larger than the limit.
      if (this.entries.size === 1 || this.cachedBytes + superseded <= MAX_LIST_BYTES) return;
      this.entries.delete(entry);
      if (entry.lastUse > lastUse) this.entries.set(entry, { bytes, lastUse: entry.lastUse });
      else {
        this.cachedBytes -= bytes;
        entry.evict();
        superseded = this.closeOldest();
      }
    }
  }

  /** @returns the bytes of the bodies that only connections hold, and go on reading */
  private closeOldest(): number {
    const superseded = new Set<SharedBody>();
    for (const reader of this.readers) {
      // A response that was detached from its connection is not closed.
      if (reader.connection.destroyed) this.readers.delete(reader);
      else if (!reader.body.isCached) superseded.add(reader.body);
    }
    let sum = [...superseded].reduce((total, { bytes }) => total + bytes, 0);
    for (const body of superseded) {
      if (sum <= MAX_SUPERSEDED_BYTES || sum === body.bytes) break;
      sum -= body.bytes;
      for (const reader of this.readers) {
        if (reader.body !== body) continue;
        reader.connection.destroy();
        this.closed++;
      }
    }
    return sum;
  }
}
