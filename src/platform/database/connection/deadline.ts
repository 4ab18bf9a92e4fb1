import { DatabaseUnavailableError } from './driver-errors.js';
import { REQUEST_DEADLINE_MS } from './timeouts.js';

/** The deadline of a request. Once it has passed, the request gets an error, and what is not committed is rolled back. */
export class Deadline {
  private readonly end = performance.now() + REQUEST_DEADLINE_MS;
  private hasPassed = false;
  private isCommitting = false;

  /** Call it before a statement that a transaction can roll back: it throws if the deadline has passed. */
  beforeStatement(): void {
    this.isCommitting = false;
    if (this.hasPassed || this.remaining === 0) throw this.pass();
  }

  /** Call it before one that cannot be rolled back: a COMMIT, or a change outside of transactions. */
  beforeCommit(): void {
    this.beforeStatement();
    this.isCommitting = true;
  }

  /** The time until it passes, in milliseconds; 0 after that, because a timer of a negative time makes Node print a warning. */
  get remaining(): number {
    return Math.max(0, this.end - performance.now());
  }

  /** @returns the error for the client */
  pass(): DatabaseUnavailableError {
    this.hasPassed = true;
    const cause = new Error(`No response from the database within ${REQUEST_DEADLINE_MS} ms`);
    return new DatabaseUnavailableError(cause, this.isCommitting);
  }
}

/**
 * Waits for work in the database until the deadline of a request, which work that changes something asks, too.
 *
 * @throws {DatabaseUnavailableError} if the deadline passes
 */
export async function withDeadline<T>(work: Promise<T>, deadline = new Deadline()): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const passed = new Promise<never>((_resolve, reject) => {
    const fail = (): void => reject(deadline.pass());
    // Timers run before sockets are read: if the event loop was blocked, the response may have arrived.
    timer = setTimeout(() => setImmediate(fail), deadline.remaining);
  });
  return Promise.race([work, passed]).finally(() => clearTimeout(timer));
}
