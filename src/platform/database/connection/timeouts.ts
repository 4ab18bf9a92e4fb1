/** The limits of the work in the database, in milliseconds. Together they let every request get a response within 5 seconds. */
import { setTimeout as delay } from 'node:timers/promises';
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

/** How long the rows of a long list may be read on PostgreSQL, whose dead rows are kept meanwhile. */
export const SNAPSHOT_TIMEOUT_MS = 30_000;

/** How long a request waits for one operation, such as the look-up of its API key: its other timeouts can add up to more. */
export const OPERATION_TIMEOUT_MS = 2_300;

/** How long a request waits for all of its operations. The rest is for an event loop that is busy. */
export const REQUEST_TIMEOUT_MS = 4_000;

/** The longest delay before a statement or a transaction is repeated. */
const MAX_REPETITION_DELAY_MS = 20;

/** Returns the error of the statements of a transaction that was rolled back because it took too long. */
export function createTransactionTimeoutError(): DatabaseUnavailableError {
  const message = `The transaction took longer than ${TRANSACTION_TIMEOUT_MS} ms. Within it, use only its manager, and wait for nothing but the database`;
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
