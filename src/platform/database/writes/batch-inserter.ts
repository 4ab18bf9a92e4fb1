import DataLoader from 'dataloader';
import type { EntityManager, ObjectLiteral, Repository } from 'typeorm';
import { isPostgres } from '../connection/is-postgres.js';
import type { DatabaseMetrics } from '../../metrics/database-metrics.js';
import { withDeadline } from '../connection/deadline.js';
import { isDataOrConstraintError } from '../connection/driver-errors.js';
import type { IdempotencyKey } from '../../idempotency/idempotency-key.decorator.js';
import {
  addRecords,
  findResponses,
  recordResponses,
  replay,
  toId,
} from '../../idempotency/idempotency-records.js';
import { buildInsert } from '../statements/row-mapping.js';

/** The largest batch: beyond it, the cost of an fsync per row is already negligible. */
const MAX_BATCH_SIZE = 500;

/**
 * The values of a new row: every property but those that the database assigns, the id and the version.
 * A property that may be null may be omitted.
 */
export type InsertRow<Entity> = {
  [
    Name in keyof Entity as Name extends 'id' | 'version'
      ? never
      : null extends Entity[Name]
        ? never
        : Name
  ]: Entity[Name];
} & { [Name in keyof Entity as null extends Entity[Name] ? Name : never]?: Entity[Name] };

/** A row to insert, and the Idempotency-Key of its request. */
interface Item<Entity> {
  readonly row: InsertRow<Entity>;
  readonly key: IdempotencyKey | undefined;
}

/**
 * Inserts rows. Those that arrive in one turn of the event loop share an INSERT, so that one fsync
 * covers them. Measured with 64 connections: two to five times as many durable creates per second as
 * Fastify with one commit each (docs/decisions/0003-batched-inserts.md). A single create request is not
 * delayed.
 */
export class BatchInserter<Entity extends ObjectLiteral, Response> {
  private readonly loader = new DataLoader(
    (batch: readonly Item<Entity>[]) => withDeadline(this.insertBatch(batch)),
    { cache: false, maxBatchSize: MAX_BATCH_SIZE, batchScheduleFn: setImmediate },
  );

  /** @param toResponse converts a new row to what the client gets */
  constructor(
    private readonly repository: Repository<Entity>,
    private readonly toResponse: (row: Entity) => Response,
    private readonly metrics: DatabaseMetrics,
  ) {}

  /**
   * Inserts a row. It is durable when the promise resolves.
   *
   * @param key if an earlier request with this key has inserted a row, no row is inserted, and its response
   *   is returned, from JSON
   * @returns the response for the row with its id
   * @throws {QueryFailedError} if the database rejects the row
   * @throws {ApiError} IDEMPOTENCY_KEY_REUSED
   * @throws {DatabaseUnavailableError}
   */
  insert(row: InsertRow<Entity>, key?: IdempotencyKey): Promise<Response> {
    return this.loader.load({ row, key });
  }

  private async insertBatch(batch: readonly Item<Entity>[]): Promise<(Response | Error)[]> {
    const results = new Map<Item<Entity>, Response | Error>();
    await this.insertInto(results, batch);
    return batch.map((item) => results.get(item)!);
  }

  /** Inserts items, and adds their results. */
  private async insertInto(
    results: Map<Item<Entity>, Response | Error>,
    batch: readonly Item<Entity>[],
  ): Promise<void> {
    const [items, copies] = separateCopies(batch);
    this.metrics.batchSizes.observe({ table: this.repository.metadata.tableName }, items.length);
    try {
      const responses = await this.insertItems(items);
      items.forEach((item, index) => results.set(item, responses[index]!));
    } catch (error) {
      await this.recover(results, items, error as Error);
    }
    const remaining = await this.replayRecorded(results, copies);
    if (remaining.length > 0) await this.insertInto(results, remaining);
  }

  /** Repeats recorded responses and retries the other items, if it is certain that nothing was stored. */
  private async recover(
    results: Map<Item<Entity>, Response | Error>,
    items: readonly Item<Entity>[],
    error: Error,
  ): Promise<void> {
    if (!isDataOrConstraintError(error)) {
      for (const item of items) results.set(item, error);
      return;
    }
    const remaining = await this.replayRecorded(results, items);
    if (remaining.length < items.length) {
      if (remaining.length > 0) await this.insertInto(results, remaining);
    } else if (items.length === 1) {
      results.set(items[0]!, error);
    } else {
      // The database rejected a row. One by one, the valid ones succeed.
      for (const item of items) await this.insertInto(results, [item]);
    }
  }

  /** Adds the results of items whose key has a response, and returns the other items. */
  private async replayRecorded(
    results: Map<Item<Entity>, Response | Error>,
    items: readonly Item<Entity>[],
  ): Promise<readonly Item<Entity>[]> {
    const keys = items.flatMap(({ key }) => key ?? []);
    if (keys.length === 0) return items;
    const records = await findResponses(this.repository.manager, keys);
    return items.filter((item) => {
      const { key } = item;
      const record = key && records.get(toId(key.apiKeyId, key.value));
      if (key === undefined || record === undefined) return true;
      try {
        results.set(item, replay(key, record) as Response);
      } catch (error) {
        results.set(item, error as Error);
      }
      return false;
    });
  }

  /** Inserts all items or none. */
  private async insertItems(items: readonly Item<Entity>[]): Promise<Response[]> {
    const { manager, metadata } = this.repository;
    const { sql, values, columns } = buildInsert(
      this.repository,
      items.map(({ row }) => row),
    );
    const insert = { sql: `${sql} RETURNING "id"`, values };
    const toResponse = ({ row }: Item<Entity>, id: number): Response => {
      const stored: Record<string, unknown> = { id };
      if (metadata.versionColumn !== undefined) stored['version'] = 1;
      for (const { propertyName } of columns)
        stored[propertyName] = (row as ObjectLiteral)[propertyName] ?? null;
      return this.toResponse(stored as Entity);
    };
    const execute = async (own: EntityManager, statement: typeof insert): Promise<Response[]> => {
      const ids = await insertRows(own, statement);
      return items.map((item, index) => toResponse(item, ids[index]!));
    };
    // One statement is one transaction.
    if (items.every(({ key }) => key === undefined)) return execute(manager, insert);
    if (isPostgres(manager.dataSource)) {
      const requests = items.map((item) => ({
        key: item.key,
        toResponse: (id: number) => toResponse(item, id),
      }));
      return execute(manager, addRecords(insert, requests));
    }
    return manager.transaction(async (transaction) => {
      const responses = await execute(transaction, insert);
      const keyed = items.flatMap(({ key }, index) =>
        key === undefined ? [] : { key, response: responses[index] },
      );
      await recordResponses(transaction, keyed);
      return responses;
    });
  }
}

/** Returns the ids of the new rows, in the order of the rows. */
async function insertRows(
  manager: EntityManager,
  { sql, values }: { readonly sql: string; readonly values: unknown[] },
): Promise<number[]> {
  const rows: { id: number | string }[] = await manager.query(sql, values);
  // Ids ascend in the order of VALUES; the order of RETURNING is not guaranteed
  // (https://sqlite.org/lang_returning.html, section 3).
  return rows.map(({ id }) => Number(id)).toSorted((a, b) => a - b);
}

/** Separates the items whose Idempotency-Key an earlier one of the batch has, too. */
function separateCopies<Entity>(
  batch: readonly Item<Entity>[],
): [items: Item<Entity>[], copies: Item<Entity>[]] {
  const ids = new Set<string>();
  const items: Item<Entity>[] = [];
  const copies: Item<Entity>[] = [];
  for (const item of batch) {
    const id = item.key && toId(item.key.apiKeyId, item.key.value);
    if (id !== undefined && ids.has(id)) {
      copies.push(item);
    } else {
      items.push(item);
      if (id !== undefined) ids.add(id);
    }
  }
  return [items, copies];
}
