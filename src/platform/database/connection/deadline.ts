import { DatabaseUnavailableError } from './driver-errors.js';

/**
 * How long a request waits for its key, and then for its other work in the database, in milliseconds:
 * it gets a response within 5 seconds. The timeouts of the pool can add up: waiting for a shared query, for
 * a connection, then for its own query.
 */
const QUERY_DEADLINE_MS = 2_300;

/**
 * Waits for work in the database until the deadline of a request. The work itself is not cancelled.
 *
 * @throws {DatabaseUnavailableError} if the deadline passes
 */
export async function withDeadline<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_resolve, reject) => {
    const fail = (): void => {
      const cause = new Error(`No response from the database within ${QUERY_DEADLINE_MS} ms`);
      reject(new DatabaseUnavailableError(cause));
    };
    // Timers run before sockets are read: if the event loop was blocked, the response may have arrived.
    timer = setTimeout(() => setImmediate(fail), QUERY_DEADLINE_MS);
  });
  return Promise.race([work, deadline]).finally(() => clearTimeout(timer));
}
