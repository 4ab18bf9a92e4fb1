import { setTimeout as delay } from 'node:timers/promises';
import { inspect } from 'node:util';

/**
 * Asks again and again until the answer is what is waited for.
 *
 * @param fn what to ask
 * @param predicate whether the answer will do
 * @param timeout milliseconds after which to give up
 * @returns the answer
 */
export async function waitFor<T>(
  fn: () => T | Promise<T>,
  predicate: (answer: T) => boolean,
  timeout: number,
): Promise<T> {
  // Not Date.now(): tests move that clock.
  const deadline = performance.now() + timeout;
  for (;;) {
    const answer = await fn();
    if (predicate(answer)) return answer;
    if (performance.now() > deadline) {
      throw new Error(`After ${timeout} ms it is still ${inspect(answer, { depth: 1 })}`);
    }
    await delay(50);
  }
}
