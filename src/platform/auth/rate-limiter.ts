import { ApiError } from '../errors/api-error.js';

/** The window of every rate limit, in seconds. */
const WINDOW_S = 60;

interface Window {
  readonly startedAt: number;
  count: number;
}

/**
 * Limits the requests per minute of each client, in fixed windows that start with a client's first request.
 * The windows are in the memory of this instance, and are removed after they have ended.
 */
export class RateLimiter {
  /** The windows in the order of their start. */
  private readonly windows = new Map<string, Window>();

  /** @param policy the name of the limit in the RateLimit fields */
  constructor(private readonly policy: string) {}

  /**
   * Counts a request, unless the limit per minute is exceeded.
   *
   * @returns the response headers that describe the limit (draft-ietf-httpapi-ratelimit-headers-10)
   * @throws {ApiError} TOO_MANY_REQUESTS with the same headers and Retry-After
   */
  consume(client: string, limit: number, message: string): Record<string, string> {
    // The clock of the system may be set.
    const now = performance.now();
    const window = this.getWindow(client, now);
    const seconds = Math.ceil(WINDOW_S - (now - window.startedAt) / 1000);
    const isExceeded = window.count >= limit;
    if (!isExceeded) window.count++;
    const headers = {
      'RateLimit-Policy': `"${this.policy}";q=${limit};w=${WINDOW_S}`,
      RateLimit: `"${this.policy}";r=${Math.max(0, limit - window.count)};t=${seconds}`,
    };
    if (isExceeded)
      throw new ApiError('TOO_MANY_REQUESTS', message, {
        headers: { ...headers, 'Retry-After': String(seconds) },
      });
    return headers;
  }

  /** Takes back a request that should not count. */
  refund(client: string): void {
    const window = this.windows.get(client);
    if (window !== undefined && window.count > 0) window.count--;
  }

  private getWindow(client: string, now: number): Window {
    for (const [each, { startedAt }] of this.windows) {
      if (now - startedAt < WINDOW_S * 1000) break;
      this.windows.delete(each);
    }
    const window = this.windows.get(client) ?? { startedAt: now, count: 0 };
    this.windows.set(client, window);
    return window;
  }
}
