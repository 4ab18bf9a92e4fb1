import { Logger } from '@nestjs/common';

const MINUTE_MS = 60_000;
/** How many clients are logged within a minute: it bounds the log and the memory. */
const MAX_CLIENTS = 20;

/** Counts failed authentication attempts, and logs at most one per client and minute. */
export class FailureLog {
  count = 0;
  private readonly logger = new Logger('Authentication');
  /** When each client was logged, oldest first. */
  private readonly loggedAt = new Map<string, number>();

  /** @param client the result of `toClient`, which is empty for an invalid address */
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
