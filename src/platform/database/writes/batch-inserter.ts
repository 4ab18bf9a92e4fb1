import { QueryFailedError } from 'typeorm';
import { setImmediate as turn } from 'node:timers/promises';
import { requestContext } from '../../logging/logger.js';
import type { DatabaseMetrics } from '../../metrics/database-metrics.js';
import { Deadline, withDeadline } from '../connection/deadline.js';
import { getDriverErrorCode } from '../connection/driver-errors.js';

/** How many repeated requests get their responses before rows that have arrived since are inserted. */
const MAX_REPLAYS = 50;

/** The statements that insert rows into a table. */
export interface RowWriter<Row, Result> {
  readonly tableName: string;
  /** The largest number of rows of {@link insert}. */
  readonly maxRows: number;
  /**
   * Inserts rows in one transaction, and returns the results in the same order.
   *
   * @param beforeCommit to be called before the statement that stores the rows; it throws if no client waits for them
   * @throws {QueryFailedError} if the database rejects a row
   * @throws {RowNotStoredError} if it ignores one
   */
  insert(rows: readonly Row[], beforeCommit: () => void): Promise<readonly Result[]>;
  /** Returns the results of the rows whose keys have been stored, and undefined for the others. */
  findStored(rows: readonly Row[]): Promise<readonly (Result | undefined)[]>;
}

/** The database has not stored a row, although it has not rejected it: a trigger has dropped it. */
export class RowNotStoredError extends Error {
  override readonly name = 'RowNotStoredError';
}

interface Item<Row, Result> {
  readonly row: Row;
  readonly key: string | undefined;
  readonly deadline: Deadline;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

type Items<Row, Result> = readonly Item<Row, Result>[];

/**
 * Inserts rows. Those that arrive in one turn of the event loop, or while others are inserted, share an INSERT, and one
 * fsync (docs/decisions/0003-batched-inserts.md). If the database rejects a batch, the rows whose keys have been stored get
 * the stored results, and the others are inserted together once more. If no key has been stored, each half is inserted as a
 * batch of its own, down to a single row: row by row, 500 commits would take longer than a request may wait on a slow disk.
 */
export class BatchInserter<Row, Result> {
  private readonly pending: Item<Row, Result>[] = [];
  /** What is left of rejected batches. */
  private readonly parts: Items<Row, Result>[] = [];
  /** The responses to repeated requests, which wait for their turn. */
  private readonly replays: (() => void)[] = [];
  /** One batch at a time: on PostgreSQL others would wait for its commit, because each changes the table's revision. */
  private isInserting = false;
  /** Whether rows of the last batch had keys that have been stored. */
  private expectsStored = false;

  constructor(
    private readonly writer: RowWriter<Row, Result>,
    private readonly metrics: DatabaseMetrics,
  ) {}

  /**
   * Adds a row to the next batch. It is durable when the promise resolves.
   *
   * @param key what only one of the stored rows can have
   * @returns the result of the row, or of an earlier one with the same key
   * @throws {QueryFailedError} if the database rejects the row
   * @throws {DatabaseUnavailableError}
   */
  add(row: Row, key?: string): Promise<Result> {
    const deadline = new Deadline();
    const inserted = new Promise<Result>((resolve, reject) => {
      this.pending.push({ row, key, deadline, resolve, reject });
      if (this.isInserting) return;
      this.isInserting = true;
      // Batches have no request: several share the work.
      setImmediate(() => void requestContext.run(undefined, () => this.insertPending()));
    });
    return withDeadline(inserted, deadline);
  }

  private async insertPending(): Promise<void> {
    while (this.pending.length + this.parts.length + this.replays.length > 0) {
      await this.insertBatch(this.pending.splice(0, this.writer.maxRows));
      await this.insert(this.parts.shift() ?? []);
      // Most of the time of a repeated request is that of its response.
      for (const replay of this.replays.splice(0, MAX_REPLAYS)) replay();
      if (this.replays.length > 0) await turn();
    }
    this.isInserting = false;
  }

  private async insertBatch(batch: Items<Row, Result>): Promise<void> {
    // While many clients repeat requests, one look-up is cheaper than a rejected batch.
    const items = this.expectsStored ? await this.resolveStored(batch) : batch;
    const groups = [...Map.groupBy(items, (item) => item.key ?? item).values()];
    await this.insert(groups.map(([first]) => first!));
    const copies = groups.flatMap(([, ...others]) => others);
    if (copies.length === 0) return;
    this.pending.unshift(...copies);
    this.expectsStored = true;
  }

  /** Inserts rows together. If the database rejects them, those without the stored ones, or the halves, are next. */
  private async insert(items: Items<Row, Result>): Promise<void> {
    const error = await this.tryInsert(items);
    if (error === undefined) return;
    const others = await this.resolveStored(items);
    const middle = Math.ceil(others.length / 2);
    if (others.length < items.length) this.parts.unshift(others);
    // The clients of the first half have waited the longest.
    else if (others.length > 1) this.parts.unshift(others.slice(0, middle), others.slice(middle));
    else {
      this.metrics.rejectedRows?.inc({
        db_collection_name: this.writer.tableName,
        db_response_status_code: getDriverErrorCode(error),
      });
      others[0]!.reject(error);
    }
  }

  /**
   * Inserts the rows that clients still wait for, with one commit, and rejects them all if the database fails.
   *
   * @returns the error if the database rejects one of the rows: nothing was stored
   */
  private async tryInsert(items: Items<Row, Result>): Promise<unknown> {
    // A client whose deadline has passed has got a 503.
    const isOpen = ({ deadline }: Item<Row, Result>): boolean => deadline.remaining > 0;
    const open = items.filter(isOpen);
    if (open.length === 0) return undefined;
    for (const item of open) item.deadline.isCommitting = true;
    const labels = { db_collection_name: this.writer.tableName };
    this.metrics.batchSizes?.observe(labels, open.length);
    const stopTimer = this.metrics.batchDurations?.startTimer(labels);
    // The client of a row may have waited for a while: the batch has a deadline of its own.
    const deadline = new Deadline();
    const beforeCommit = (): void => {
      if (!open.some(isOpen)) throw deadline.expire();
      deadline.beforeCommit();
    };
    try {
      const rows = open.map(({ row }) => row);
      const results = await withDeadline(this.writer.insert(rows, beforeCommit), deadline);
      open.forEach(({ resolve }, index) => resolve(results[index]!));
    } catch (error) {
      if (error instanceof QueryFailedError || error instanceof RowNotStoredError) return error;
      for (const { reject } of open) reject(error);
    } finally {
      stopTimer?.();
    }
    return undefined;
  }

  /** Queues the results of the rows whose keys have been stored, and returns the others. */
  private async resolveStored(items: Items<Row, Result>): Promise<Items<Row, Result>> {
    if (items.every(({ key }) => key === undefined)) return items;
    try {
      const stored = await withDeadline(this.writer.findStored(items.map(({ row }) => row)));
      stored.forEach((result, index) => {
        if (result !== undefined) this.replays.push(() => items[index]!.resolve(result));
      });
      const others = items.filter((_item, index) => stored[index] === undefined);
      this.expectsStored = others.length < items.length;
      return others;
    } catch (error) {
      for (const { reject } of items) reject(error);
      return [];
    }
  }
}
