import { Inject, Injectable } from '@nestjs/common';
import ipaddr from 'ipaddr.js';
import { CONFIG, type Config } from '../config/config.js';

const MINUTE = 60_000;
/** How many addresses are kept apart; about 1 MB. The one that was quiet the longest goes first. */
const MAX_TRACKED_CLIENTS = 10_000;
/** All addresses together fail at most as often as this many of them, so that many addresses help nobody. */
const GLOBAL_LIMIT_FACTOR = 20;

/**
 * Counts the look-ups of keys that fail, by client address, as leaky buckets: an address may fail as
 * often as the limit says at once, and again as its failures run out, evenly over the minute. Each
 * bucket is one number, the time at which it will be empty (the generic cell rate algorithm, ITU-T
 * I.371, annex A).
 */
@Injectable()
export class AuthFailureLimiter {
  private readonly emptyAt = new Map<string, number>();
  private allEmptyAt = 0;
  /** Milliseconds in which one failure runs out, of one address and of all; 0 where nothing is counted. */
  private readonly cost: number;
  private readonly sharedCost: number;

  constructor(@Inject(CONFIG) { authFailuresPerMinute }: Pick<Config, 'authFailuresPerMinute'>) {
    this.cost = authFailuresPerMinute === 0 ? 0 : MINUTE / authFailuresPerMinute;
    this.sharedCost = this.cost / GLOBAL_LIMIT_FACTOR;
  }

  /**
   * Counts a failure before it is known to be one, so that requests at the same moment count too.
   * Give it back where it was none.
   *
   * @returns 0 where it was counted, else the milliseconds after which one will be
   */
  consume(address: string | undefined): number {
    const client = normalizeClientIp(address);
    const now = performance.now();
    const emptyAt = Math.max(now, this.emptyAt.get(client) ?? 0);
    const allEmptyAt = Math.max(now, this.allEmptyAt);
    const wait = Math.max(emptyAt + this.cost, allEmptyAt + this.sharedCost) - now - MINUTE;
    // Less than a microsecond is what the sums above are off by.
    if (wait > 0.001) return wait;
    this.set(client, emptyAt + this.cost);
    this.allEmptyAt = allEmptyAt + this.sharedCost;
    return 0;
  }

  refund(address: string | undefined): void {
    const client = normalizeClientIp(address);
    const emptyAt = this.emptyAt.get(client);
    if (emptyAt !== undefined) this.set(client, emptyAt - this.cost);
    this.allEmptyAt -= this.sharedCost;
  }

  private set(client: string, emptyAt: number): void {
    this.emptyAt.delete(client);
    if (emptyAt > performance.now()) this.emptyAt.set(client, emptyAt);
    if (this.emptyAt.size > MAX_TRACKED_CLIENTS)
      this.emptyAt.delete(this.emptyAt.keys().next().value!);
  }
}

/**
 * Whom an address stands for: an IPv6 client has a whole /64 to choose from (RFC 4291, section
 * 2.5.4), so all of it is one. What is no address, because a proxy wrote something else, is one too.
 */
function normalizeClientIp(address: string | undefined): string {
  if (address === undefined || !ipaddr.isValid(address)) return '';
  const client = ipaddr.process(address);
  return client.kind() === 'ipv6' ? client.toByteArray().slice(0, 8).join('.') : client.toString();
}
