import { requestContext } from '../../logging/logger.js';

/**
 * Lets concurrent callers share one run of a task: the next one, never the one in progress, so each caller gets a result
 * that started after its call. At most one run is in progress. It has no deadline of a caller.
 */
export function singleFlight<T>(task: () => Promise<T>): () => Promise<T> {
  let running: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;
  return () =>
    (next ??= running.then(() => {
      next = undefined;
      const run = requestContext.run(undefined, task);
      running = run.catch(() => undefined);
      return run;
    }));
}
