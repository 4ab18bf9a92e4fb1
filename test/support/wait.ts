import { setTimeout as delay } from 'node:timers/promises';
import { inspect } from 'node:util';

/**
 * Asks again and again until the answer is what is waited for.
 *
 * @param ask what to ask
 * @param holds whether the answer will do
 * @param timeout milliseconds after which to give up
 * @returns the answer
 */
export async function waitFor<T>(
  ask: () => T | Promise<T>,
  holds: (answer: T) => boolean,
  timeout: number,
): Promise<T> {
  // Not Date.now(): tests move that clock.
  const deadline = performance.now() + timeout;
  for (;;) {
    const answer = await ask();
    if (holds(answer)) return answer;
    if (performance.now() > deadline) {
      throw new Error(`After ${timeout} ms it is still ${inspect(answer, { depth: 1 })}`);
    }
    await delay(50);
  }
}
