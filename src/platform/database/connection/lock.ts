/** Lets one task at a time use something, in the order of their calls. */
export class Lock {
  private last: Promise<unknown> = Promise.resolve();

  /** @returns a function that releases the lock */
  acquire(): Promise<() => void> {
    return new Promise((resolve) => {
      const previous = this.last;
      this.last = new Promise<void>((release) => void previous.then(() => resolve(release)));
    });
  }

  /** Runs a task with the lock. */
  async run<T>(task: () => Promise<T>): Promise<T> {
    const release = await this.acquire();
    return task().finally(release);
  }
}
