import { Inject, Injectable } from '@nestjs/common';
import ipaddr from 'ipaddr.js';
import { CONFIG, type Config } from '../config/config.js';
import { RateLimiter } from './rate-limiter.js';

/** The limit of all clients together, as a multiple of the limit of one; it also bounds the memory. */
const GLOBAL_LIMIT_FACTOR = 20;
const ALL_CLIENTS = 'all';
const MESSAGE = 'Too many failed authentication attempts.';

/** Limits the failed authentication attempts of each client address, and of all addresses together. */
@Injectable()
export class AuthFailureLimiter {
  private readonly perClient: RateLimiter | undefined;
  private readonly global: RateLimiter | undefined;

  constructor(
    @Inject(CONFIG) { authFailuresPerMinute: limit }: Pick<Config, 'authFailuresPerMinute'>,
  ) {
    if (limit === 0) return;
    this.perClient = new RateLimiter('auth-failures', limit, MESSAGE);
    this.global = new RateLimiter('auth-failures-global', limit * GLOBAL_LIMIT_FACTOR, MESSAGE);
  }

  /**
   * Counts a failure before the attempt, so that concurrent attempts count too. Refund it if the attempt
   * did not fail.
   *
   * @throws {ApiError} TOO_MANY_REQUESTS
   */
  async consume(clientIp: string | undefined): Promise<void> {
    await this.global?.consume(ALL_CLIENTS);
    try {
      await this.perClient?.consume(normalizeClientIp(clientIp));
    } catch (error) {
      // One client must not exhaust the global limit.
      await this.global?.refund(ALL_CLIENTS);
      throw error;
    }
  }

  /** Takes back an attempt that did not fail. */
  async refund(clientIp: string | undefined): Promise<void> {
    await this.global?.refund(ALL_CLIENTS);
    await this.perClient?.refund(normalizeClientIp(clientIp));
  }
}

/**
 * Returns the client that an address belongs to. An IPv6 client has a whole /64 (RFC 4291, section
 * 2.5.4), so all of it counts as one. All invalid addresses, which a proxy may send, count as one, too.
 */
function normalizeClientIp(address: string | undefined): string {
  if (address === undefined || !ipaddr.isValid(address)) return '';
  const client = ipaddr.process(address);
  return client.kind() === 'ipv6' ? client.toByteArray().slice(0, 8).join('.') : client.toString();
}
