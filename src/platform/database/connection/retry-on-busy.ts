import { setTimeout as delay } from 'node:timers/promises';
import { isBusyError } from './driver-errors.js';

/** The longest delay between two attempts to get the write lock of SQLite, in milliseconds. */
const MAX_RETRY_DELAY_MS = 50;

/**
 * Runs a statement, and retries it while another process holds the write lock of the SQLite file. Unlike
 * SQLite's own `busy_timeout`, it does not block the event loop.
 *
 * @param timeout milliseconds after which the error of the last attempt is thrown
 */
export async function retryOnBusy<T>(run: () => Promise<T>, timeout: number): Promise<T> {
  const deadline = performance.now() + timeout;
  for (let retryDelay = 1; ; retryDelay = Math.min(retryDelay * 2, MAX_RETRY_DELAY_MS)) {
    try {
      return await run();
    } catch (error) {
      if (!isBusyError(error) || performance.now() > deadline) throw error;
    }
    await delay(retryDelay);
  }
}
