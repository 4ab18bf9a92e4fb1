import { isIP, SocketAddress } from 'node:net';
import { Inject, Injectable } from '@nestjs/common';
import { CONFIG, type Config } from '../config/config.js';
import { RateLimiter } from './rate-limiter.js';

/** The limit of all clients together, as a multiple of the limit of one; it also bounds the memory. */
const GLOBAL_LIMIT_FACTOR = 20;
const ALL_CLIENTS = 'all';
const MESSAGE = 'Too many failed authentication attempts.';

/** Limits the failed authentication attempts of each client address, and of all addresses together. */
@Injectable()
export class AuthFailureLimiter {
  private readonly perClient = new RateLimiter('auth-failures');
  private readonly global = new RateLimiter('auth-failures-global');

  constructor(@Inject(CONFIG) private readonly config: Pick<Config, 'authFailuresPerMinute'>) {}

  /**
   * Counts a failure before the attempt, so that concurrent attempts count, too.
   *
   * @throws {ApiError} TOO_MANY_REQUESTS
   */
  consume(clientIp: string | undefined): void {
    const limit = this.config.authFailuresPerMinute;
    if (limit === 0) return;
    this.global.consume(ALL_CLIENTS, limit * GLOBAL_LIMIT_FACTOR, MESSAGE);
    try {
      this.perClient.consume(toClient(clientIp), limit, MESSAGE);
    } catch (error) {
      // One client must not exhaust the global limit.
      this.global.refund(ALL_CLIENTS);
      throw error;
    }
  }

  /** Takes back an attempt that did not fail. */
  refund(clientIp: string | undefined): void {
    this.global.refund(ALL_CLIENTS);
    this.perClient.refund(toClient(clientIp));
  }
}

/**
 * Returns the client that an address belongs to. An IPv6 client has a whole /64 (RFC 4291, section
 * 2.5.4), so all of it counts as one. All invalid addresses, which a proxy may send, count as one, too.
 */
function toClient(address = ''): string {
  const [withoutZone = ''] = address.split('%');
  if (isIP(withoutZone) !== 6) return isIP(withoutZone) === 4 ? withoutZone : '';
  const canonical = new SocketAddress({ address: withoutZone, family: 'ipv6' }).address;
  const [, ipv4] = /^::ffff:([\d.]+)$/.exec(canonical) ?? [];
  if (ipv4 !== undefined) return ipv4;
  const [start, end] = canonical.split('::').map((part) => part.split(':').filter(Boolean));
  const zeros = Array.from({ length: 8 - start!.length - (end?.length ?? 0) }, () => '0');
  return [...start!, ...zeros, ...(end ?? [])].slice(0, 4).join(':');
}
