import type { EntityManager, ObjectLiteral, Repository, ValueTransformer } from 'typeorm';
import { ApplyValueTransformers } from 'typeorm/util/ApplyValueTransformers.js';
import type { Dialect } from '../database/connection/dialect.js';
import { getDialect } from '../database/connection/service-data-source.js';
import { buildInsert } from '../database/statements/statement-parts.js';
import { type IdempotencyKey, toKeyId } from './idempotency-key.decorator.js';
import { insertRecords, toRecord } from './idempotency-records.js';

/** A row to insert, and the key of its request. */
export interface NewRow {
  readonly row: ObjectLiteral;
  readonly key: IdempotencyKey | undefined;
}

/** The database has not stored a row, although it has not rejected it: a trigger has dropped it. */
export class RowNotStoredError extends Error {
  override readonly name = 'RowNotStoredError';
}

/** The statements that store the rows of create requests, with the records of their keys. */
export class CreateStatements<Entity extends ObjectLiteral, Response> {
  private readonly dialect: Dialect;

  /** @param toResponse converts a new row to what the client gets */
  constructor(
    private readonly repository: Repository<Entity>,
    private readonly toResponse: (row: Entity) => Response,
  ) {
    this.dialect = getDialect(repository.manager.dataSource);
  }

  /**
   * Stores rows, all or none, and returns their responses in the same order.
   *
   * @param beforeCommit to be called before the statement that stores the rows; it throws if no client waits for them
   */
  async store(rows: readonly NewRow[], beforeCommit: () => void): Promise<Response[]> {
    const { manager } = this.repository;
    const { toCompleteInsert } = this.dialect;
    if (toCompleteInsert === undefined || rows.some(({ key }) => key !== undefined))
      return manager.transaction(async (transaction) => {
        const responses = await this.insert(transaction, rows);
        beforeCommit();
        return responses;
      });
    // The rows are committed before they are converted, which must not fail then.
    this.toResponses(rows, Array<number>(rows.length).fill(0));
    // A transaction would take another round trip, while others wait for the revision of the table.
    return this.insert(manager, rows, (insert) => {
      beforeCommit();
      return toCompleteInsert(insert, rows.length);
    });
  }

  /**
   * Inserts rows and their records in a transaction, or with `complete` rows without records outside of one.
   *
   * @param complete returns the statement to send, once it is built: that fails if the value of a JSON column cannot be
   *   serialized
   * @throws {QueryFailedError} if the database rejects a row; the transaction may reject only at its end
   * @throws {RowNotStoredError}
   */
  async insert(
    manager: EntityManager,
    rows: readonly NewRow[],
    complete?: (insert: string) => string,
  ): Promise<Response[]> {
    const { sql, values } = buildInsert(
      this.repository,
      rows.map(({ row }) => row),
    );
    const insert = `${sql} RETURNING "id"`;
    const stored: { id: number | string }[] = await manager.query(
      complete?.(insert) ?? `${insert}, ${this.dialect.inTransaction}`,
      values,
    );
    if (stored.length < rows.length)
      throw new RowNotStoredError(`${stored.length} of ${rows.length} rows were stored`);
    const responses = this.toResponses(
      rows,
      stored.map(({ id }) => id),
    );
    const records = rows.flatMap(({ key }, index) => (key ? toRecord(key, responses[index]) : []));
    if (records.length === 0) return responses;
    // In one order, the batches of two instances do not deadlock: a table without lists has no revision to wait for.
    records.sort((a, b) => (toKeyId(a) < toKeyId(b) ? -1 : 1));
    await insertRecords(manager, records);
    return responses;
  }

  /** Converts rows as they will be read, with their ids if the database assigns them. */
  private toResponses(rows: readonly NewRow[], stored: readonly (number | string)[]): Response[] {
    const { columns } = this.repository.metadata;
    // Ids ascend in the order of VALUES; that of RETURNING may differ (https://sqlite.org/lang_returning.html, section 3).
    const ids = stored.map(Number).toSorted((a, b) => a - b);
    return rows.map(({ row }, index) => {
      const entity: Record<string, unknown> = {};
      for (const { propertyName, isPrimary, isGenerated, transformer } of columns) {
        const value: unknown = row[propertyName] ?? null;
        if (isPrimary && isGenerated) entity[propertyName] = ids[index];
        else entity[propertyName] = transformer ? roundTrip(transformer, value) : value;
      }
      return this.toResponse(entity as Entity);
    });
  }
}

/** Returns a value as it will be read after it was stored. */
const roundTrip = (transformer: ValueTransformer | ValueTransformer[], value: unknown): unknown =>
  ApplyValueTransformers.transformFrom(
    transformer,
    ApplyValueTransformers.transformTo(transformer, value),
  );
