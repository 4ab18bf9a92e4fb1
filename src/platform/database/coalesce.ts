/**
 * Makes a task shared: all who call while it runs share the next run, never the one under way, so
 * that each caller gets a result that was begun after it asked. At most one run is under way.
 *
 * @param task its error reaches those who share the run
 */
export function coalesce<T>(task: () => Promise<T>): () => Promise<T> {
  let running: Promise<unknown> = Promise.resolve();
  let next: Promise<T> | undefined;
  return () =>
    (next ??= running.then(() => {
      next = undefined;
      const run = task();
      running = run.catch(() => undefined);
      return run;
    }));
}
