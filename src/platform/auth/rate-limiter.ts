import { ApiError } from '../errors/api-error.js';

/** The window of every rate limit, in seconds. */
const WINDOW_S = 60;

interface Window {
  readonly startedAt: number;
  count: number;
}

/**
 * Limits the requests, or the failures, per minute of each client, in fixed windows that start with a client's first one.
 * The windows are in the memory of this instance, and are removed after they have ended: a shared limit costs a statement
 * per request, and a gateway in front of several instances limits better.
 */
export class RateLimiter {
  /** The windows in the order of their start. */
  private readonly windows = new Map<string, Window>();
  /** The attempts in progress of each client: their number, and the callbacks that continue those that wait. */
  private readonly attempts = new Map<string, { count: number; waiting: (() => void)[] }>();

  /** The number of requests that exceeded the limit. */
  rejected = 0;

  /** @param policy the name of the limit in the RateLimit fields */
  constructor(readonly policy: string) {}

  /**
   * Counts a request, unless the limit per minute is exceeded.
   *
   * @returns the response headers that describe the limit (draft-ietf-httpapi-ratelimit-headers-10)
   * @throws {ApiError} TOO_MANY_REQUESTS with the same headers and Retry-After
   */
  consume(client: string, limit: number, message: string): Record<string, string> {
    const window = this.getWindow(client, limit, message);
    this.windows.set(client, window);
    window.count++;
    return this.toHeaders(window, limit);
  }

  /**
   * Runs an authentication attempt, and counts it if it fails, which is if `run` returns undefined. The attempts that have
   * failed and those that run never exceed the limit together; further ones wait.
   *
   * @throws {ApiError} TOO_MANY_REQUESTS as `consume`
   */
  async attempt<T>(
    client: string,
    limit: number,
    message: string,
    run: () => Promise<T | undefined>,
  ): Promise<T | undefined> {
    const attempts = this.attempts.get(client) ?? { count: 0, waiting: [] };
    this.attempts.set(client, attempts);
    attempts.count++;
    try {
      while (
        this.getWindow(client, limit, message).count + attempts.count - attempts.waiting.length >
        limit
      )
        await new Promise<void>((resolve) => attempts.waiting.push(resolve));
      const result = await run();
      if (result === undefined) this.consume(client, limit, message);
      return result;
    } finally {
      // Continues the next attempt. If the limit is exceeded now, that one is rejected, and continues the one after it.
      attempts.waiting.shift()?.();
      if (--attempts.count === 0) this.attempts.delete(client);
    }
  }

  /**
   * Returns the current window of a client, or a new one.
   *
   * @throws {ApiError} TOO_MANY_REQUESTS if the limit is reached
   */
  private getWindow(client: string, limit: number, message: string): Window {
    // The monotonic clock: that of the system may be set.
    const now = performance.now();
    for (const [each, { startedAt }] of this.windows) {
      if (now - startedAt < WINDOW_S * 1000) break;
      this.windows.delete(each);
    }
    const window = this.windows.get(client) ?? { startedAt: now, count: 0 };
    if (window.count < limit) return window;
    this.rejected++;
    const headers = { ...this.toHeaders(window, limit), 'Retry-After': getSecondsLeft(window) };
    throw new ApiError('TOO_MANY_REQUESTS', message, { headers });
  }

  private toHeaders(window: Window, limit: number): Record<string, string> {
    const remaining = Math.max(0, limit - window.count);
    return {
      'RateLimit-Policy': `"${this.policy}";q=${limit};w=${WINDOW_S}`,
      RateLimit: `"${this.policy}";r=${remaining};t=${getSecondsLeft(window)}`,
    };
  }
}

function getSecondsLeft({ startedAt }: Window): string {
  return String(Math.ceil(WINDOW_S - (performance.now() - startedAt) / 1000));
}
