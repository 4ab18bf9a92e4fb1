import { setTimeout as delay } from 'node:timers/promises';
import { inspect } from 'node:util';

// Bound before a test mocks it.
const now = performance.now.bind(performance);

/**
 * Polls `fn` every 50 ms until its result satisfies `predicate`, by default until it is truthy.
 *
 * @param timeout milliseconds; by default enough for what happens soon, on a busy machine, too
 * @returns the result that satisfies the predicate
 * @throws {Error} with the last result after the timeout
 */
export async function waitFor<T>(
  fn: () => T | Promise<T>,
  predicate: (result: T) => boolean = Boolean,
  timeout = 30_000,
): Promise<T> {
  const deadline = now() + timeout;
  for (;;) {
    const result = await fn();
    if (predicate(result)) return result;
    if (now() > deadline) {
      throw new Error(
        `Timed out after ${timeout} ms; the last result was ${inspect(result, { depth: 1 })}`,
      );
    }
    await delay(50);
  }
}
