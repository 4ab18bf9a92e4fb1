/** The limits of the work in the database, in milliseconds. Together they let every request get a response within 5 seconds. */
import { setTimeout as delay } from 'node:timers/promises';
import { requestContext } from '../../logging/logger.js';
import {
  DatabaseUnavailableError,
  isBusyError,
  TransactionConflictError,
} from './driver-errors.js';

/** How long a request waits for a free connection of the pool, or for a new one. */
export const CONNECT_TIMEOUT_MS = 2_000;

/** How long the request to cancel a query of PostgreSQL may take. */
export const CANCEL_TIMEOUT_MS = 200;

/**
 * How long a transaction, or on PostgreSQL a single statement, may take before it is rolled back. On SQLite also how long a
 * statement waits for the write lock of another process.
 */
export const TRANSACTION_TIMEOUT_MS = 2_000;

/** How long a request waits for one operation, such as the look-up of its API key: its other timeouts can add up to more. */
export const OPERATION_TIMEOUT_MS = 2_300;

/** How long a request waits for all of its operations. The rest is for an event loop that is busy. */
export const REQUEST_TIMEOUT_MS = 4_000;

/** The longest delay before a statement or a transaction is repeated. */
const MAX_REPETITION_DELAY_MS = 20;

/** Returns the error of the statements of a transaction that was rolled back because it took too long. */
export function createTransactionTimeoutError(): DatabaseUnavailableError {
  const message = `The transaction took longer than ${TRANSACTION_TIMEOUT_MS} ms: the database hangs, the transaction waits for a lock, or its code waits for something other than its manager`;
  return new DatabaseUnavailableError(new Error(message));
}

/**
 * Runs a statement or a transaction, and repeats it after a conflict with another. SQLite: until another process releases
 * the write lock. PostgreSQL: at most twice after a rollback. Unlike those of SQLite's `busy_timeout`, the delays do not
 * block the event loop. They are random, so that two transactions do not conflict again.
 */
export async function repeatOnConflict<T>(run: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + TRANSACTION_TIMEOUT_MS;
  for (let repetitions = 0; ; repetitions++) {
    try {
      return await run();
    } catch (error) {
      const isConflict = error instanceof TransactionConflictError && repetitions < 2;
      if (!(isConflict || isBusyError(error)) || performance.now() > deadline) throw error;
    }
    await delay(Math.random() * MAX_REPETITION_DELAY_MS);
  }
}

/**
 * The deadline of an operation, which is earlier if its request has waited for others. Once it has passed, the request gets
 * an error, and what is not committed is rolled back.
 */
export class Deadline {
  private readonly request = requestContext.getStore();
  private readonly start = performance.now();
  /** When the request has waited as long as it may. No client waits for what begins after its response. */
  private readonly requestEnd =
    this.start +
    ((this.request?.res?.headersSent ? undefined : this.request?.databaseTimeLeft) ??
      REQUEST_TIMEOUT_MS);
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
