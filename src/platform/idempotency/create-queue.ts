import { setImmediate as turn } from 'node:timers/promises';
import type { EntityManager, ObjectLiteral, Repository } from 'typeorm';
import { Deadline, withDeadline } from '../database/connection/deadline.js';
import {
  DatabaseUnavailableError,
  getDriverErrorCode,
  TransactionConflictError,
} from '../database/connection/driver-errors.js';
import { getDialect } from '../database/connection/service-data-source.js';
import type { InsertRow } from '../database/statements/statement-parts.js';
import { requestContext } from '../logging/logger.js';
import type { DatabaseMetrics } from '../metrics/database-metrics.js';
import { CreateStatements, type NewRow } from './create-statements.js';
import type { IdempotencyKey } from './idempotency-key.decorator.js';
import { IdempotencyRecord } from './idempotency-record.entity.js';
import { findRecords, isRecordCollision, replay, toRecord } from './idempotency-records.js';

/** The largest batch: beyond it, the cost of an fsync per row is already negligible. */
const MAX_BATCH_SIZE = 500;

/** The largest number of parameters of a statement of SQLite; PostgreSQL allows twice as many. */
const MAX_PARAMETERS = 32_766;

/** How long the rows of a rejected batch are stored one by one before those that have arrived since, in milliseconds. */
const BUDGET_MS = 1_000;

/** A create request that waits for its response. */
interface Item<Response> extends NewRow {
  readonly deadline: Deadline;
  /** @param getResponse returns the response, or throws an error for the client */
  readonly resolve: (getResponse: () => Response) => void;
  readonly reject: (error: unknown) => void;
}

type Items<Response> = readonly Item<Response>[];

/**
 * Creates rows, each once for its Idempotency-Key. Requests that arrive in one turn of the event loop, or while others are
 * stored, share a transaction, and one fsync (docs/decisions/0003-batched-inserts.md). If the database rejects it, the
 * requests whose keys have records get the recorded responses, and the rows of the others are stored one by one, also
 * with one fsync.
 */
export class CreateQueue<Entity extends ObjectLiteral, Response> {
  private readonly statements: CreateStatements<Entity, Response>;
  private readonly waiting: Item<Response>[] = [];
  /** One batch at a time: on PostgreSQL others would wait for its commit, because each changes the table's revision. */
  private isRunning = false;
  /** Whether the last look-up has found a record. */
  private expectsRecords = false;

  /** @param toResponse converts a new row to what the client gets */
  constructor(
    private readonly repository: Repository<Entity>,
    toResponse: (row: Entity) => Response,
    private readonly metrics: DatabaseMetrics,
  ) {
    this.statements = new CreateStatements(repository, toResponse);
  }

  /**
   * Creates a row, which is durable when the promise resolves, and returns its response, or that of an earlier request
   * with the same key.
   *
   * @throws {TypeError} if a value of the row has no column
   * @throws {QueryFailedError} if the database rejects the row
   * @throws {ApiError} IDEMPOTENCY_KEY_REUSED
   * @throws {DatabaseUnavailableError}
   */
  async add(row: InsertRow<Entity>, key?: IdempotencyKey): Promise<Response> {
    const deadline = new Deadline();
    const newRow = this.statements.toNewRow(row, key);
    const created = new Promise<() => Response>((resolve, reject) => {
      this.waiting.push({ ...newRow, deadline, resolve, reject });
      if (this.isRunning) return;
      this.isRunning = true;
      // Batches have no request: several share the work.
      setImmediate(() => void requestContext.run(undefined, () => this.run()));
    });
    const getResponse = await withDeadline(created, deadline);
    return getResponse();
  }

  private async run(): Promise<void> {
    while (this.waiting.length > 0) {
      const waiting = this.takeBatch();
      // While many clients repeat requests, one look-up is cheaper than a rejected batch.
      const batch = this.expectsRecords ? await this.replayRecorded(waiting) : waiting;
      const error = await this.store(batch);
      if (error === undefined) continue;
      if (batch.length > 1) await this.storeEach(await this.replayRecorded(batch));
      else await this.rejectAll(new Map([[batch[0]!, error]]));
    }
    this.isRunning = false;
  }

  /** Removes the first requests from the queue, and returns those whose clients still wait. */
  private takeBatch(): Items<Response> {
    const { manager, metadata } = this.repository;
    const records = manager.dataSource.getMetadata(IdempotencyRecord);
    const columns = metadata.columns.length + records.columns.length;
    const size = Math.min(MAX_BATCH_SIZE, Math.floor(MAX_PARAMETERS / columns));
    // A client whose deadline has passed has got a 503.
    return this.waiting.splice(0, size).filter(({ deadline }) => deadline.remaining > 0);
  }

  /**
   * Stores the rows of requests, all or none. Of those with the same key, the first one is stored, and the others get its
   * response.
   *
   * @returns the error if the database rejects a row
   */
  private async store(items: Items<Response>): Promise<unknown> {
    if (items.length === 0) return undefined;
    const groups = [...Map.groupBy(items, (item) => toId(item.key) ?? item).values()];
    const firsts = groups.map(([first]) => first!);
    return this.commit(items, async (beforeCommit) => {
      const responses = await this.statements.store(firsts, beforeCommit);
      return () =>
        groups.forEach(([first, ...copies], index) => {
          const response = responses[index]!;
          first!.resolve(() => response);
          if (copies.length > 0) void replayAll(copies, () => toRecord(first!.key!, response));
        });
    });
  }

  /** Replays the responses of requests whose keys have records, and returns the other requests. */
  private async replayRecorded(items: Items<Response>): Promise<Items<Response>> {
    const keys = items.map(({ key }) => key);
    if (keys.every((key) => key === undefined)) return items;
    try {
      const found = await withDeadline(findRecords(this.repository.manager, keys));
      const records = new Map(items.map((item, index) => [item, found[index]]));
      void replayAll(
        items.filter((item) => records.get(item)),
        (item) => records.get(item)!,
      );
      const others = items.filter((item) => !records.get(item));
      this.expectsRecords = others.length < items.length;
      return others;
    } catch (error) {
      for (const { reject } of items) reject(error);
      return [];
    }
  }

  /**
   * Stores rows with one commit, but without those that the database rejects. After a second, the rows that are left return
   * to the front of the queue.
   */
  private async storeEach(items: Items<Response>): Promise<void> {
    if (items.length === 0) return;
    const { manager } = this.repository;
    const { checkImmediately } = getDialect(manager.dataSource);
    let failures = new Map<Item<Response>, unknown>();
    const error = await this.commit(items, (beforeCommit) => {
      const end = performance.now() + BUDGET_MS;
      return manager.transaction(async (transaction) => {
        if (checkImmediately !== undefined) await transaction.query(checkImmediately);
        failures = new Map();
        const settle: (() => void)[] = [];
        for (const item of items) {
          if (performance.now() > end) break;
          settle.push(await this.storeAtSavepoint(transaction, item, failures));
        }
        beforeCommit();
        return () => {
          this.waiting.unshift(...items.slice(settle.length));
          for (const each of settle) each();
        };
      });
    });
    if (error === undefined) await this.rejectAll(failures);
    else await this.storeAlone(items);
  }

  /** Stores a row, or adds the error to the failures. Returns what to do once the transaction is committed. */
  private async storeAtSavepoint(
    transaction: EntityManager,
    item: Item<Response>,
    failures: Map<Item<Response>, unknown>,
  ): Promise<() => void> {
    try {
      const [response] = await transaction.transaction((own) =>
        this.statements.insert(own, [item]),
      );
      return () => item.resolve(() => response!);
    } catch (error) {
      if (!isRejection(error)) throw error;
      failures.set(item, error);
      return () => undefined;
    }
  }

  /** Stores rows with a commit for each, because one of them undoes the whole transaction. */
  private async storeAlone(items: Items<Response>): Promise<void> {
    const end = performance.now() + BUDGET_MS;
    const failures = new Map<Item<Response>, unknown>();
    let count = 0;
    do {
      const item = items[count++]!;
      const error = await this.store([item]);
      if (error !== undefined) failures.set(item, error);
    } while (count < items.length && performance.now() < end);
    this.waiting.unshift(...items.slice(count));
    await this.rejectAll(failures);
  }

  /**
   * Rejects requests because of their rows. First it looks their keys up again: a row that a copy of the request has stored
   * meanwhile, here or in another instance, may be what they violate.
   */
  private async rejectAll(failures: ReadonlyMap<Item<Response>, unknown>): Promise<void> {
    for (const item of await this.replayRecorded([...failures.keys()])) {
      const error = failures.get(item);
      // The record was deleted since.
      if (isRecordCollision(error)) {
        this.waiting.unshift(item);
        continue;
      }
      this.metrics.rejectedRows?.inc({
        db_collection_name: this.repository.metadata.tableName,
        db_response_status_code: getDriverErrorCode(error),
      });
      item.reject(error);
    }
  }

  /**
   * Runs a transaction until its deadline, and then what settles its requests. Rejects them all if the database fails.
   *
   * @returns the error if the database rejects a row: nothing was stored
   */
  private async commit(
    items: Items<Response>,
    run: (beforeCommit: () => void) => Promise<() => void>,
  ): Promise<unknown> {
    const labels = { db_collection_name: this.repository.metadata.tableName };
    this.metrics.batchSizes?.observe(labels, items.length);
    const stopTimer = this.metrics.batchDurations?.startTimer(labels);
    // The client of a row may have waited for a while: the batch has a deadline of its own.
    const deadline = new Deadline();
    const beforeCommit = (): void => {
      if (items.every((item) => item.deadline.remaining === 0)) throw deadline.expire();
      deadline.beforeCommit();
      for (const item of items) item.deadline.isCommitting = true;
    };
    try {
      const settle = await withDeadline(run(beforeCommit), deadline);
      settle();
    } catch (error) {
      for (const item of items) item.deadline.isCommitting = false;
      if (isRejection(error)) return error;
      for (const { reject } of items) reject(error);
    } finally {
      stopTimer?.();
    }
    return undefined;
  }
}

/** Returns what identifies a key, or undefined without one. */
const toId = (key: IdempotencyKey | undefined): string | undefined =>
  key && `${key.apiKeyId} ${key.value}`;

/** Whether a transaction failed because of its rows, and not because the database did. */
const isRejection = (error: unknown): boolean =>
  !(error instanceof DatabaseUnavailableError || error instanceof TransactionConflictError);

/** Replays recorded responses, each in a turn of the event loop: most of their time is that of the responses. */
async function replayAll<Response>(
  items: Items<Response>,
  getRecord: (item: Item<Response>) => IdempotencyRecord,
): Promise<void> {
  for (const item of items) {
    item.resolve(() => replay(item.key!, getRecord(item)) as Response);
    await turn();
  }
}
