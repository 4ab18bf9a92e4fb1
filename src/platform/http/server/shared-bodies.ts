import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { MAX_LIST_BYTES, MAX_SUPERSEDED_BYTES } from './server-options.js';

/** The size, in bytes, from which the connections that read a body are tracked. */
const LARGE = 64 * 1024;

/** A list in memory, which several responses may share. */
interface SharedBody {
  /** The bytes of all its representations, at most. */
  readonly bytes: number;
  /** Whether the cache holds the body; otherwise a newer one has replaced it, and only responses being sent need it. */
  readonly isCached: boolean;
}

/** A connection that reads a body. A reference to its response would cost 5 µs of garbage collection each (V8 14). */
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
 * Limits the memory of lists: of cached ones, and of superseded ones that connections still read. Above the limit of the
 * superseded ones, the connections that read the oldest are closed; above the limit of all, lists that were not used
 * recently are evicted from their caches. A cached list is sent to any number of clients, however slow.
 */
export class SharedBodies {
  /** How many connections were closed. */
  closed = 0;
  /** The readers, in the order in which they began. */
  private readonly readers = new Set<Reader>();
  /**
   * The cached entries, each with its size and its last use when it was added or moved to the end. An entry that was used
   * since then is moved to the end instead of being evicted (second-chance page replacement). The exact order of use changes
   * with every request: keeping it takes 8 % of the CPU time of a short list, and sorting takes time for each entry.
   */
  private readonly entries = new Map<CacheEntry, Pick<CacheEntry, 'bytes' | 'lastUse'>>();
  private cachedBytes = 0;

  /** Call it when an entry is added to a cache, or has another body. */
  update(entry: CacheEntry): void {
    const { bytes, lastUse } = entry;
    this.cachedBytes += bytes - (this.entries.get(entry)?.bytes ?? 0);
    this.entries.delete(entry);
    this.entries.set(entry, { bytes, lastUse });
    // The former list of the entry may be in memory now only because connections read it.
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

  /** Closes the connections that read the oldest superseded bodies, and returns the bytes of those that are left. */
  private closeOldest(): number {
    const superseded = new Set<SharedBody>();
    for (const reader of this.readers) {
      // A response that was detached from its connection does not emit `close`.
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
