import { type RequestInProgress, requestContext } from '../../logging/logger.js';
import { DatabaseUnavailableError } from './driver-errors.js';
import { OPERATION_TIMEOUT_MS, REQUEST_TIMEOUT_MS } from './timeouts.js';

/**
 * The deadline of an operation, which is earlier if its request has waited for others. Once it has passed, the request gets
 * an error, and what is not committed is rolled back.
 */
export class Deadline {
  private readonly request = getRequest();
  private readonly start = performance.now();
  /** When the request has waited as long as it may. */
  private readonly requestEnd = this.start + (this.request?.databaseTimeLeft ?? REQUEST_TIMEOUT_MS);
  private readonly end = Math.min(this.start + OPERATION_TIMEOUT_MS, this.requestEnd);
  private hasPassed = false;
  /** Whether the work may take effect after the deadline. */
  mayTakeEffect = false;

  /** Call this before a COMMIT, or a change outside of transactions. @throws {DatabaseUnavailableError} if it has passed */
  beforeCommit(): void {
    if (this.remaining === 0) throw this.expire();
    this.mayTakeEffect = true;
  }

  /** The time that is left, in milliseconds; never negative, because Node warns about negative timers. */
  get remaining(): number {
    return this.hasPassed ? 0 : Math.max(0, this.end - performance.now());
  }

  /** @returns the error for the client */
  expire(): DatabaseUnavailableError {
    this.hasPassed = true;
    const cause = new Error(`No response from the database within ${OPERATION_TIMEOUT_MS} ms`);
    return new DatabaseUnavailableError(cause, this.mayTakeEffect);
  }

  /** Leaves the rest of the request's time to its next operation. Concurrent operations count once. */
  saveTimeLeft(): void {
    if (this.request === undefined) return;
    const { databaseTimeLeft = REQUEST_TIMEOUT_MS } = this.request;
    const left = Math.max(0, this.requestEnd - performance.now());
    this.request.databaseTimeLeft = Math.min(databaseTimeLeft, left);
  }
}

/** Returns the request that is handled, unless its response has begun: no client waits for later work. */
function getRequest(): RequestInProgress | undefined {
  const request = requestContext.getStore();
  return request?.res?.headersSent === true ? undefined : request;
}

/**
 * Waits for work in the database until a deadline. Work that changes something also calls `deadline.beforeCommit()`.
 *
 * @throws {DatabaseUnavailableError} if the deadline passes
 */
export async function withDeadline<T>(work: Promise<T>, deadline = new Deadline()): Promise<T> {
  const { promise: passed, reject } = Promise.withResolvers<never>();
  // Timers run before sockets are read: if the event loop was blocked, the response may have arrived.
  const timer = setTimeout(() => setImmediate(() => reject(deadline.expire())), deadline.remaining);
  try {
    return await Promise.race([work, passed]);
  } finally {
    clearTimeout(timer);
    deadline.saveTimeLeft();
  }
}
