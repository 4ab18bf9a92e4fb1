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
  /** Whether it limits what cannot be rolled back any more. */
  isCommitting = false;

  /** Call it before a statement that a transaction can roll back: it throws if the deadline has passed. */
  beforeStatement(): void {
    this.isCommitting = false;
    if (this.remaining === 0) throw this.expire();
  }

  /** Call it before one that cannot be rolled back: a COMMIT, or a change outside of transactions. */
  beforeCommit(): void {
    this.beforeStatement();
    this.isCommitting = true;
  }

  /** The time until it passes, in milliseconds; 0 after that, because a timer of a negative time makes Node print a warning. */
  get remaining(): number {
    return this.hasPassed ? 0 : Math.max(0, this.end - performance.now());
  }

  /** @returns the error for the client */
  expire(): DatabaseUnavailableError {
    this.hasPassed = true;
    const cause = new Error(`No response from the database within ${OPERATION_TIMEOUT_MS} ms`);
    return new DatabaseUnavailableError(cause, this.isCommitting);
  }

  /** Leaves the rest of the request's time to its next operation. Those at the same time count once. */
  saveTimeLeft(): void {
    if (this.request === undefined) return;
    const { databaseTimeLeft = REQUEST_TIMEOUT_MS } = this.request;
    const left = Math.max(0, this.requestEnd - performance.now());
    this.request.databaseTimeLeft = Math.min(databaseTimeLeft, left);
  }
}

/** Returns the request that is handled, unless its response has begun: what goes on has no client that waits. */
function getRequest(): RequestInProgress | undefined {
  const request = requestContext.getStore();
  return request?.res?.headersSent === true ? undefined : request;
}

/**
 * Waits for work in the database until a deadline, which work that changes something asks, too. `Promise.race` would cost
 * twice the time.
 *
 * @throws {DatabaseUnavailableError} if the deadline passes
 */
export function withDeadline<T>(work: Promise<T>, deadline = new Deadline()): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const finish = (): void => {
      clearTimeout(timer);
      deadline.saveTimeLeft();
    };
    const fail = (): void => {
      finish();
      reject(deadline.expire());
    };
    // Timers run before sockets are read: if the event loop was blocked, the response may have arrived.
    const timer = setTimeout(() => setImmediate(fail), deadline.remaining);
    // Every request gets here: `finally` would make two promises more.
    work.then(
      (value) => {
        finish();
        resolve(value);
      },
      (error: unknown) => {
        finish();
        reject(error);
      },
    );
  });
}
