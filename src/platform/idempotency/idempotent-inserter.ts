import type { ObjectLiteral, Repository } from 'typeorm';
import { Deadline, withDeadline } from '../database/connection/deadline.js';
import type { InsertRow } from '../database/statements/statement-parts.js';
import { BatchInserter, type Companion } from '../database/writes/batch-inserter.js';
import type { DatabaseMetrics } from '../metrics/database-metrics.js';
import type { IdempotencyKey } from './idempotency-key.decorator.js';
import { IdempotencyRecord } from './idempotency-record.entity.js';
import { findRecords, markReplayed, replay, toRecord } from './idempotency-records.js';

/** The record of a row to insert. */
interface PendingRecord<Entity> extends Companion<Entity> {
  readonly key: IdempotencyKey;
}

/** A row is not inserted, because its key has a record. */
class RecordedError extends Error {
  constructor(readonly record: IdempotencyRecord) {
    super('The Idempotency-Key has a record');
  }
}

/**
 * A request in progress. It has no reference to the request: a Map that grows leaves its former tables to the garbage
 * collector, which would keep all that they refer to for many collections (measured: a quarter of a request's CPU time).
 */
interface Running<Response> {
  readonly fingerprint: string;
  readonly response: Promise<Response>;
}

/** Inserts the rows of create requests in batches, each once for its Idempotency-Key. */
export class IdempotentInserter<Entity extends ObjectLiteral, Response> {
  private readonly batches: BatchInserter<Entity, PendingRecord<Entity>>;
  /** The newest request in progress, by API key and Idempotency-Key. */
  private readonly running = new Map<string, Running<Response>>();

  /**
   * @param toResponse converts a new row to what the client gets
   * @param bodyContainsId whether its result has the id as it is, or not at all, and depends on it in no other way
   */
  constructor(
    { manager, target }: Repository<Entity>,
    private readonly toResponse: (row: Entity) => Response,
    metrics: DatabaseMetrics,
    private readonly bodyContainsId = false,
  ) {
    this.batches = new BatchInserter(
      manager.getRepository<Entity>(target),
      manager.getRepository<ObjectLiteral>(IdempotencyRecord),
      async (rows: readonly PendingRecord<Entity>[]) => {
        const keys = rows.map(({ key }) => key);
        const records = await findRecords(manager, keys);
        return records.map((record) => (record ? new RecordedError(record) : undefined));
      },
      metrics,
    );
  }

  /**
   * Inserts a row, which is durable when the promise resolves, and returns its response, or that of an earlier request
   * with the same key.
   *
   * @throws {QueryFailedError} if the database rejects the row
   * @throws {ApiError} IDEMPOTENCY_KEY_REUSED
   * @throws {DatabaseUnavailableError}
   */
  async insertOnce(row: InsertRow<Entity>, key?: IdempotencyKey): Promise<Response> {
    if (key === undefined) return this.toResponse(await this.batches.add(row));
    const id = `${key.apiKeyId} ${key.value}`;
    const response = this.insertAfter(this.running.get(id), row, key).finally(() => {
      if (this.running.get(id)?.response === response) this.running.delete(id);
    });
    this.running.set(id, { fingerprint: key.fingerprint, response });
    return response;
  }

  /** @param previous a request with the same key, which would make the database reject the batch of both */
  private async insertAfter(
    previous: Running<Response> | undefined,
    row: InsertRow<Entity>,
    key: IdempotencyKey,
  ): Promise<Response> {
    if (key.record) return replay(key, key.record) as Response;
    const deadline = new Deadline();
    if (previous !== undefined) {
      const waiting = previous.response.then(
        (value) => ({ value }),
        () => undefined,
      );
      const result = await withDeadline(waiting, deadline);
      if (result !== undefined) {
        markReplayed(key, previous);
        return result.value;
      }
    }
    const toRow = (inserted: Entity): IdempotencyRecord => toRecord(key, this.toResponse(inserted));
    const idText = this.bodyContainsId ? ('response' satisfies keyof IdempotencyRecord) : undefined;
    try {
      return this.toResponse(await this.batches.add(row, { key, toRow, idText }, deadline));
    } catch (error) {
      if (error instanceof RecordedError) return replay(key, error.record) as Response;
      throw error;
    }
  }
}
