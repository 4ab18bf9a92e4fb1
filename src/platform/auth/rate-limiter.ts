import { RateLimiterMemory, RateLimiterPostgres, RateLimiterRes } from 'rate-limiter-flexible';
import type { DataSource } from 'typeorm';
import { withDeadline } from '../database/connection/deadline.js';
import { ApiError } from '../errors/api-error.js';

/** The window of every rate limit, in seconds. */
const WINDOW = 60;

/** A limit of requests per minute and key. The window starts with the first request. */
export class RateLimiter {
  private readonly limiter: RateLimiterMemory | RateLimiterPostgres;

  /**
   * @param policy the name of the limit in the RateLimit fields
   * @param limit requests per minute
   * @param message the message of the error once the limit is exceeded
   * @param database a PostgreSQL database in which all instances count together, with one statement per
   *   request; while it is unavailable, and without it, each instance counts its own requests
   */
  constructor(
    private readonly policy: string,
    private readonly limit: number,
    private readonly message: string,
    database?: DataSource,
  ) {
    const options = { points: limit, duration: WINDOW };
    const memory = new RateLimiterMemory(options);
    this.limiter =
      database === undefined
        ? memory
        : new RateLimiterPostgres({
            ...options,
            keyPrefix: policy,
            storeClient: database,
            storeType: 'typeorm',
            tableName: 'rate_limits',
            tableCreated: true,
            // Further requests of the window are rejected without a statement.
            inMemoryBlockOnConsumed: limit + 1,
            insuranceLimiter: memory,
          });
  }

  /**
   * Counts a request.
   *
   * @returns the response headers that describe the limit (draft-ietf-httpapi-ratelimit-headers-10)
   * @throws {ApiError} TOO_MANY_REQUESTS with the same headers and Retry-After
   */
  async consume(key: string): Promise<Record<string, string>> {
    try {
      return this.getHeaders(await withDeadline(this.limiter.consume(key)));
    } catch (result) {
      if (!(result instanceof RateLimiterRes)) throw result;
      // The library counts rejected requests, too. In the database they do no harm.
      if (this.limiter instanceof RateLimiterMemory) await this.refund(key);
      throw new ApiError('TOO_MANY_REQUESTS', this.message, {
        headers: { ...this.getHeaders(result), 'Retry-After': String(toSeconds(result)) },
      });
    }
  }

  /** Takes back a request that should not count, unless its window has ended. */
  async refund(key: string): Promise<void> {
    const window = await this.limiter.get(key);
    if (window !== null && window.msBeforeNext > 0) await this.limiter.reward(key);
  }

  private getHeaders(result: RateLimiterRes): Record<string, string> {
    return {
      'RateLimit-Policy': `"${this.policy}";q=${this.limit};w=${WINDOW}`,
      RateLimit: `"${this.policy}";r=${result.remainingPoints};t=${toSeconds(result)}`,
    };
  }
}

function toSeconds({ msBeforeNext }: RateLimiterRes): number {
  return Math.max(1, Math.ceil(msBeforeNext / 1000));
}
