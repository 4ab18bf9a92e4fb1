import type { ObjectLiteral, Repository } from 'typeorm';
import { withDeadline } from '../database/connection/deadline.js';
import type { InsertRow } from '../database/statements/row-mapping.js';
import { BatchInserter } from '../database/writes/batch-inserter.js';
import type { DatabaseMetrics } from '../metrics/database-metrics.js';
import type { IdempotencyKey } from './idempotency-key.decorator.js';
import { IdempotencyRecord } from './idempotency-record.entity.js';
import { runOnce, toRecord } from './idempotency-records.js';

/** Inserts the rows of create requests in batches, each once for its Idempotency-Key. */
export class IdempotentInserter<Entity extends ObjectLiteral, Response> {
  private readonly inserter: BatchInserter<Entity>;
  /** The newest request in progress, by API key and Idempotency-Key. */
  private readonly running = new Map<string, Promise<Response>>();

  /** @param toResponse converts a new row to what the client gets */
  constructor(
    private readonly repository: Repository<Entity>,
    private readonly toResponse: (row: Entity) => Response,
    metrics: DatabaseMetrics,
  ) {
    const records = repository.manager.getRepository<ObjectLiteral>(IdempotencyRecord);
    this.inserter = new BatchInserter(repository, records, metrics);
  }

  /**
   * Inserts a row, which is durable when the promise resolves, and returns its response, or that of an earlier request
   * with the same key.
   *
   * @throws {QueryFailedError} if the database rejects the row
   * @throws {ApiError} IDEMPOTENCY_KEY_REUSED
   * @throws {DatabaseUnavailableError}
   */
  async insert(row: InsertRow<Entity>, key?: IdempotencyKey): Promise<Response> {
    if (key === undefined) return this.toResponse(await this.inserter.insert(row));
    const id = `${key.apiKeyId} ${key.value}`;
    const previous = this.running.get(id);
    const response = runOnce(this.repository.manager, key, async () => {
      // A batch with both would be rejected.
      if (previous !== undefined) await withDeadline(previous.catch(() => undefined));
      const toCompanion = (stored: Entity) => toRecord(key, this.toResponse(stored));
      return this.toResponse(await this.inserter.insert(row, toCompanion));
    }).finally(() => {
      if (this.running.get(id) === response) this.running.delete(id);
    });
    this.running.set(id, response);
    return response;
  }
}
