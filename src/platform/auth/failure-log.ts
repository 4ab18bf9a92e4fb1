import { Logger } from '@nestjs/common';

const MINUTE_MS = 60_000;
/** How many clients are logged within a minute: it bounds the log and the memory. */
const MAX_CLIENTS = 20;

/** Counts failed authentications, and logs one of each client and minute. */
export class FailureLog {
  count = 0;
  private readonly logger = new Logger('Authentication');
  /** When the clients were logged, in that order. */
  private readonly loggedAt = new Map<string, number>();

  /** @param client as of `toClient`; empty if its address is invalid */
  add(client: string): void {
    this.count++;
    const now = performance.now();
    for (const [each, time] of this.loggedAt) {
      if (now - time < MINUTE_MS) break;
      this.loggedAt.delete(each);
    }
    if (this.loggedAt.has(client) || this.loggedAt.size === MAX_CLIENTS) return;
    this.loggedAt.set(client, now);
    this.logger.warn(
      `Rejected an invalid API key from ${client || 'an invalid address'}, failure ${this.count} since the start`,
    );
  }
}
