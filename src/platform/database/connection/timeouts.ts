/** The limits of the work in the database, in milliseconds. Together they let every request get a response within 5 seconds. */

/** How long a request waits for a free connection of the pool, or for a new one. */
export const CONNECT_TIMEOUT_MS = 2_000;

/** How long the request to cancel a query of PostgreSQL may take. */
export const CANCEL_TIMEOUT_MS = 200;

/**
 * How long a transaction may take, or hold its connection to PostgreSQL, before it is rolled back, and how long a statement
 * waits for the write lock of another process on SQLite. On PostgreSQL, a statement is a transaction, too.
 */
export const TRANSACTION_TIMEOUT_MS = 2_000;

/** How long a request waits for an operation, such as the look-up of its key, or a list: the other timeouts can add up. */
export const OPERATION_TIMEOUT_MS = 2_300;

/** How long a request waits for all of its operations. The rest is for an event loop that is busy. */
export const REQUEST_TIMEOUT_MS = 4_000;
