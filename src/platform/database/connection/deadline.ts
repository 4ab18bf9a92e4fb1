import { DatabaseUnavailableError } from './driver-errors.js';
import { REQUEST_DEADLINE_MS } from './timeouts.js';

/**
 * Waits for work in the database until the deadline of a request. The work itself is not cancelled.
 *
 * @throws {DatabaseUnavailableError} if the deadline passes
 */
export async function withDeadline<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<never>((_resolve, reject) => {
    const fail = (): void => {
      const cause = new Error(`No response from the database within ${REQUEST_DEADLINE_MS} ms`);
      reject(new DatabaseUnavailableError(cause));
    };
    // Timers run before sockets are read: if the event loop was blocked, the response may have arrived.
    timer = setTimeout(() => setImmediate(fail), REQUEST_DEADLINE_MS);
  });
  return Promise.race([work, deadline]).finally(() => clearTimeout(timer));
}
