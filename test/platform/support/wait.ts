import { setTimeout as delay } from 'node:timers/promises';
import { inspect } from 'node:util';

/** Enough for what happens soon on an idle machine, and many times as much on a busy one. */
const TIMEOUT_MS = 60_000;

// Bound before a test mocks it.
const now = performance.now.bind(performance);

/**
 * Polls `fn` every 50 ms until its result satisfies `predicate`, by default until it is truthy.
 *
 * @returns the result that satisfies the predicate
 * @throws {Error} with the last result after a minute
 */
export async function waitFor<T>(
  fn: () => T | Promise<T>,
  predicate: (result: T) => boolean = Boolean,
): Promise<T> {
  const deadline = now() + TIMEOUT_MS;
  for (;;) {
    const result = await fn();
    if (predicate(result)) return result;
    if (now() > deadline) {
      throw new Error(
        `Timed out after ${TIMEOUT_MS} ms; the last result was ${inspect(result, { depth: 1 })}`,
      );
    }
    await delay(50);
  }
}
