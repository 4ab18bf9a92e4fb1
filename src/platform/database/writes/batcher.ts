/** The largest batch: beyond it, the cost of an fsync per row is already negligible. */
const MAX_BATCH_SIZE = 500;

interface Pending<Item, Result> {
  readonly item: Item;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/** Collects the items of one turn of the event loop, and processes them together. */
export class Batcher<Item, Result> {
  private pending: Pending<Item, Result>[] = [];

  /** @param process returns a result or an error for each item, in their order, or throws the error of all */
  constructor(
    private readonly process: (items: readonly Item[]) => Promise<readonly (Result | Error)[]>,
  ) {}

  /** Returns the result for an item, or throws its error. */
  add(item: Item): Promise<Result> {
    if (this.pending.length === 0) setImmediate(() => this.processPending());
    return new Promise((resolve, reject) => {
      this.pending.push({ item, resolve, reject });
    });
  }

  private processPending(): void {
    const { pending } = this;
    this.pending = [];
    for (let start = 0; start < pending.length; start += MAX_BATCH_SIZE)
      void this.processBatch(pending.slice(start, start + MAX_BATCH_SIZE));
  }

  private async processBatch(batch: readonly Pending<Item, Result>[]): Promise<void> {
    try {
      const results = await this.process(batch.map(({ item }) => item));
      batch.forEach(({ resolve, reject }, index) => {
        const result = results[index]!;
        if (result instanceof Error) reject(result);
        else resolve(result);
      });
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }
}
