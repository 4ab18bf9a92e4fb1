import { setImmediate as turn } from 'node:timers/promises';
import type { ObjectLiteral, Repository } from 'typeorm';
import { Deadline, withDeadline } from '../database/connection/deadline.js';
import {
  DatabaseUnavailableError,
  getDriverErrorCode,
  isRejectedStatement,
} from '../database/connection/driver-errors.js';
import { getDialect, type ServiceQueryRunner } from '../database/connection/service-data-source.js';
import { type InsertRow, toNewRow } from '../database/statements/statement-parts.js';
import { requestContext } from '../logging/logger.js';
import type { DatabaseMetrics } from '../metrics/database-metrics.js';
import { CreateStatements, type NewRow, RowNotStoredError } from './create-statements.js';
import { type IdempotencyKey, toKeyId } from './idempotency-key.decorator.js';
import { IdempotencyRecord } from './idempotency-record.entity.js';
import { findRecords, isRecordCollision, replay, toRecord } from './idempotency-records.js';

/**
 * The largest batch: beyond it, the cost of an fsync per row is already negligible. A statement of PostgreSQL may have
 * 65,535 parameters: those of 327 columns. On SQLite, rows of more than 163 columns are stored one by one.
 */
const MAX_BATCH_SIZE = 200;

/** How long the rows of a rejected batch are stored one by one before those that have arrived since, in milliseconds. */
const BUDGET_MS = 1_000;

/** A create request that waits for its response. */
interface Item<Response> extends NewRow {
  readonly deadline: Deadline;
  readonly resolve: (response: Response) => void;
  readonly reject: (error: unknown) => void;
  /** Whether the row was stored again, because the record with which its key collided was not found. */
  isRepeated?: boolean;
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
    const newRow = toNewRow(this.repository, row);
    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    this.waiting.push({ row: newRow, key, deadline, resolve, reject });
    if (!this.isRunning) {
      this.isRunning = true;
      // Several requests share the work: its log lines have the id of none.
      void requestContext.run(undefined, () => this.run());
    }
    return withDeadline(promise, deadline);
  }

  private async run(): Promise<void> {
    await turn();
    while (this.waiting.length > 0) {
      const waiting = this.waiting.splice(0, MAX_BATCH_SIZE);
      // While many clients repeat requests, one look-up is cheaper than a rejected batch.
      const batch = this.expectsRecords ? await this.replayRecorded(waiting) : waiting;
      await this.storeAccepted(batch);
    }
    this.isRunning = false;
  }

  /** Stores the rows of requests, and if the database rejects them, those that it accepts. */
  private async storeAccepted(batch: Items<Response>): Promise<void> {
    try {
      await this.store(batch);
    } catch (error) {
      if (!isRejection(error)) rejectAll(batch, error);
      else if (batch.length === 1) await this.rejectRows(new Map([[batch[0]!, error]]));
      else await this.storeEach(await this.replayRecorded(batch));
    }
  }

  /**
   * Stores the rows of requests, all or none. Of those with the same key, the first one is stored, and the others get its
   * response.
   *
   * @throws {unknown} the error of a row that the database rejects, or of the database
   */
  private async store(batch: Items<Response>): Promise<void> {
    const items = batch.filter(isAwaited);
    if (items.length === 0) return;
    const groups = [
      ...Map.groupBy(items, (item) => (item.key ? toKeyId(item.key) : item)).values(),
    ];
    const firsts = groups.map(([first]) => first!);
    const responses = await this.commit(items, (beforeCommit) =>
      this.statements.store(firsts, beforeCommit),
    );
    for (const [index, [first, ...copies]] of groups.entries()) {
      first!.resolve(responses[index]!);
      if (copies.length === 0) continue;
      const record = toRecord(first!.key!, responses[index]);
      void replayAll(new Map(copies.map((copy) => [copy, record])));
    }
  }

  /** Replays the responses of requests whose keys have records, and returns the other requests. */
  private async replayRecorded(items: Items<Response>): Promise<Items<Response>> {
    const keys = items.map(({ key }) => key);
    if (keys.every((key) => key === undefined)) return items;
    try {
      const found = await withDeadline(findRecords(this.repository.manager, keys));
      const records = new Map<Item<Response>, IdempotencyRecord>();
      for (const [index, record] of found.entries()) if (record) records.set(items[index]!, record);
      void replayAll(records);
      this.expectsRecords = records.size > 0;
      return items.filter((item) => !records.has(item));
    } catch (error) {
      rejectAll(items, error);
      return [];
    }
  }

  /**
   * Stores rows with one commit, but without those that the database rejects. After a second, the rows that are left return
   * to the front of the queue.
   */
  private async storeEach(batch: Items<Response>): Promise<void> {
    const items = batch.filter(isAwaited);
    if (items.length === 0) return;
    let outcome;
    try {
      outcome = await this.commit(items, (beforeCommit) =>
        this.storeAtSavepoints(items, beforeCommit),
      );
    } catch (error) {
      if (!isRejection(error)) return rejectAll(items, error);
      // One of the rows undoes the whole transaction.
      const end = performance.now() + BUDGET_MS;
      const left = [...items];
      while (left.length > 0 && performance.now() < end) {
        await this.storeAccepted([left.shift()!]);
        await turn();
      }
      this.waiting.unshift(...left);
      return;
    }
    const { responses, failures } = outcome;
    this.waiting.unshift(...items.slice(responses.size + failures.size));
    for (const [item, response] of responses) item.resolve(response);
    await this.rejectRows(failures);
  }

  /** Stores rows in one transaction, each at a savepoint. Returns the responses, and the errors of rows that are rejected. */
  private storeAtSavepoints(items: Items<Response>, beforeCommit: () => void) {
    const { manager } = this.repository;
    const { checkImmediately } = getDialect(manager.dataSource);
    const end = performance.now() + BUDGET_MS;
    return manager.transaction(async (transaction) => {
      const responses = new Map<Item<Response>, Response>();
      const failures = new Map<Item<Response>, unknown>();
      const runner = transaction.queryRunner as ServiceQueryRunner;
      if (checkImmediately !== undefined) await runner.queryWithNext(checkImmediately);
      for (const [index, item] of items.entries()) {
        if (performance.now() > end) break;
        // Savepoints have names of their own, so that none of the rows before is undone.
        const savepoint = `SAVEPOINT "row_${index}"`;
        try {
          await runner.queryWithNext(savepoint);
          const [response] = await this.statements.insert(transaction, [item]);
          // The record of a key is sent with the end of the savepoint.
          if (item.key) await runner.query(`RELEASE ${savepoint}`);
          else await runner.queryWithNext(`RELEASE ${savepoint}`);
          responses.set(item, response!);
        } catch (error) {
          if (!isRejection(error)) throw error;
          await runner.queryWithNext(`ROLLBACK TO ${savepoint}`);
          failures.set(item, error);
        }
      }
      beforeCommit();
      return { responses, failures };
    });
  }

  /**
   * Rejects requests because of their rows. First it looks their keys up again: a row that a copy of the request has stored
   * meanwhile, here or in another instance, may be what they violate.
   */
  private async rejectRows(failures: ReadonlyMap<Item<Response>, unknown>): Promise<void> {
    for (const item of await this.replayRecorded([...failures.keys()])) {
      const error = failures.get(item);
      const isCollision = isRecordCollision(error);
      // The record has been deleted since the collision: the row is stored again.
      if (isCollision && !item.isRepeated) {
        item.isRepeated = true;
        this.waiting.unshift(item);
        continue;
      }
      this.metrics.rejectedRows?.inc({
        db_collection_name: this.repository.metadata.tableName,
        db_response_status_code: getDriverErrorCode(error),
      });
      const message = 'The record of an Idempotency-Key exists, and cannot be read';
      item.reject(isCollision ? new Error(message, { cause: error }) : error);
    }
  }

  /**
   * Runs a transaction until its deadline.
   *
   * @throws {unknown} its error: nothing was stored, unless that says otherwise
   */
  private async commit<Result>(
    items: Items<Response>,
    run: (beforeCommit: () => void) => Promise<Result>,
  ): Promise<Result> {
    const labels = { db_collection_name: this.repository.metadata.tableName };
    this.metrics.batchSizes?.observe(labels, items.length);
    const stopTimer = this.metrics.batchDurations?.startTimer(labels);
    // The client of a row may have waited for a while: the batch has a deadline of its own.
    const deadline = new Deadline();
    // A row can be stored after the deadline of its request, because the batch is committed if any client still waits.
    for (const item of items) item.deadline.mayTakeEffect = items.length > 1;
    const beforeCommit = (): void => {
      if (!items.some(isAwaited)) throw deadline.expire();
      deadline.beforeCommit();
      for (const item of items) item.deadline.mayTakeEffect = true;
    };
    try {
      return await withDeadline(run(beforeCommit), deadline);
    } catch (error) {
      for (const item of items) item.deadline.mayTakeEffect = false;
      // After another error than the database's own, such as one of its protocol, the rows may have been stored.
      const isRolledBack = error instanceof RowNotStoredError || isRejectedStatement(error);
      if (deadline.mayTakeEffect && isRejection(error) && !isRolledBack)
        throw new DatabaseUnavailableError(error, true);
      throw error;
    } finally {
      stopTimer?.();
    }
  }
}

/** Whether the client still waits: once the deadline has passed, it has got a 503, and its row must not be stored. */
const isAwaited = ({ deadline }: Item<never>): boolean => deadline.remaining > 0;

/** Whether a transaction failed because of its rows, and not because the database did. */
const isRejection = (error: unknown): boolean => !(error instanceof DatabaseUnavailableError);

function rejectAll(items: Items<never>, error: unknown): void {
  for (const { reject } of items) reject(error);
}

/** Replays recorded responses, each in a turn of the event loop: most of their time is that of the responses. */
async function replayAll<Response>(
  records: ReadonlyMap<Item<Response>, IdempotencyRecord>,
): Promise<void> {
  for (const [item, record] of records) {
    try {
      item.resolve(replay(item.key!, record) as Response);
    } catch (error) {
      item.reject(error);
    }
    await turn();
  }
}
