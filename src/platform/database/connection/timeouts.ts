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
 * How long a transaction may take, or hold its connection to PostgreSQL, before it is rolled back, and how long a statement
 * waits for the write lock of another process on SQLite. On PostgreSQL, a statement is a transaction, too.
 */
export const TRANSACTION_TIMEOUT_MS = 2_000;

/** How long the rows of a long list may be read on PostgreSQL, whose dead rows are kept meanwhile. */
export const SNAPSHOT_TIMEOUT_MS = 30_000;

/** How long a request waits for an operation, such as the look-up of its key, or a list: the other timeouts can add up. */
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
 * Runs a statement or a transaction, and repeats it if another is in its way: while another process holds the write lock of
 * a SQLite file, and at most twice if PostgreSQL has rolled it back. Unlike SQLite's own `busy_timeout`, the delays do not
 * block the event loop. They are random, so that transactions that have met do not meet again.
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
