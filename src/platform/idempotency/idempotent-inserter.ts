import crypto from 'node:crypto';
import type { EntityManager, ObjectLiteral, Repository, ValueTransformer } from 'typeorm';
import { ApplyValueTransformers } from 'typeorm/util/ApplyValueTransformers.js';
import { readRows, type ServiceDataSource } from '../database/connection/service-data-source.js';
import { assignId } from '../database/statements/columns.js';
import {
  buildInsert,
  type InsertRow,
  requireColumns,
  StatementParameters,
} from '../database/statements/statement-parts.js';
import {
  BatchInserter,
  RowNotStoredError,
  type RowWriter,
} from '../database/writes/batch-inserter.js';
import type { DatabaseMetrics } from '../metrics/database-metrics.js';
import type { IdempotencyKey } from './idempotency-key.decorator.js';
import { IdempotencyRecord } from './idempotency-record.entity.js';
import {
  findRecorded,
  insertRecords,
  type Outcome,
  replay,
  toRecord,
} from './idempotency-records.js';

/** The largest batch: beyond it, the cost of an fsync per row is already negligible. */
const MAX_BATCH_SIZE = 500;

/** The largest number of parameters of a statement of SQLite; PostgreSQL allows twice as many. */
const MAX_PARAMETERS = 32_766;

const RESERVE_IDS = `SELECT nextval("sequence") AS "id"
 FROM (SELECT pg_get_serial_sequence($1, 'id') AS "sequence" OFFSET 0) AS "names", generate_series(1, $2)`;

/** A row to insert, and the key of its request. */
interface NewRow {
  readonly row: ObjectLiteral;
  readonly key: IdempotencyKey | undefined;
}

/** Inserts the rows of create requests in batches, each once for its Idempotency-Key, whose record is stored with the row. */
export class IdempotentInserter<Entity extends ObjectLiteral, Response> implements RowWriter<
  NewRow,
  Outcome<Response>
> {
  private readonly dataSource: ServiceDataSource;
  private readonly records: Repository<IdempotencyRecord>;
  private readonly batches: BatchInserter<NewRow, Outcome<Response>>;
  /** What {@link insertsParts} has found. */
  private hasParts: boolean | undefined;

  /**
   * @param toResponse converts a new row to what the client gets
   * @param bodyContainsId whether its result has the id as it is, or not at all, and depends on it in no other way
   */
  constructor(
    private readonly repository: Repository<Entity>,
    private readonly toResponse: (row: Entity) => Response,
    metrics: DatabaseMetrics,
    private readonly bodyContainsId = false,
  ) {
    this.dataSource = repository.manager.dataSource as ServiceDataSource;
    this.records = repository.manager.getRepository(IdempotencyRecord);
    this.batches = new BatchInserter(this, metrics);
  }

  /**
   * Inserts a row, which is durable when the promise resolves, and returns its response, or that of an earlier request
   * with the same key.
   *
   * @throws {TypeError} if a value of the row has no column
   * @throws {QueryFailedError} if the database rejects the row
   * @throws {ApiError} IDEMPOTENCY_KEY_REUSED
   * @throws {DatabaseUnavailableError}
   */
  async insertOnce(row: InsertRow<Entity>, key?: IdempotencyKey): Promise<Response> {
    requireColumns(this.repository, row);
    const withId = assignId(this.repository.metadata, row);
    // A row that cannot be converted must not fail the others of its batch.
    this.toResponse(this.toEntity(withId, 0));
    const id = key && `${key.apiKeyId} ${key.value}`;
    const { record, result } = await this.batches.add({ row: withId, key }, id);
    return record ? (replay(key!, record) as Response) : result!;
  }

  get tableName(): string {
    return this.repository.metadata.tableName;
  }

  get maxRows(): number {
    const own = this.repository.metadata.columns.length;
    const columns = own + this.records.metadata.columns.length;
    return Math.min(MAX_BATCH_SIZE, Math.floor(MAX_PARAMETERS / columns));
  }

  findStored(rows: readonly NewRow[]): Promise<(Outcome<Response> | undefined)[]> {
    const keys = rows.map(({ key }) => key);
    return findRecorded(this.repository.manager, keys);
  }

  async insert(rows: readonly NewRow[], beforeCommit: () => void): Promise<Outcome<Response>[]> {
    const inserted = await this.insertEntities(rows, beforeCommit);
    return inserted.map((entity) => ({ result: this.toResponse(entity) }));
  }

  private async insertEntities(
    rows: readonly NewRow[],
    beforeCommit: () => void,
  ): Promise<Entity[]> {
    const { manager } = this.repository;
    const { hasWritableWith } = this.dataSource.dialect;
    const isKeyed = rows.some(({ key }) => key !== undefined);
    // One INSERT is a transaction. With several rows on SQLite, another one is rolled back if a trigger drops a row.
    if (!isKeyed && (hasWritableWith || rows.length === 1) && !(await this.insertsParts())) {
      beforeCommit();
      return this.insertRows(manager, rows);
    }
    if (hasWritableWith) return this.insertOnPostgres(rows, isKeyed, beforeCommit);
    return manager.transaction(async (own) => {
      const entities = await this.insertRows(own, rows);
      beforeCommit();
      return entities;
    });
  }

  /** Whether an INSERT may store only some of its rows, or a row that it rejects. */
  private async insertsParts(): Promise<boolean> {
    const { manager } = this.repository;
    const sql = this.dataSource.dialect.findPartialInserts;
    return (this.hasParts ??= (await readRows(manager, sql, [this.tableName])).length > 0);
  }

  /** Inserts rows, and then their records, which contain the ids. */
  private async insertRows(manager: EntityManager, rows: readonly NewRow[]): Promise<Entity[]> {
    const parameters = new StatementParameters(this.dataSource);
    const values = rows.map(({ row }) => row);
    const sql = `${buildInsert(this.repository, values, parameters)} RETURNING "id"`;
    const text = rows.length === 1 ? this.dataSource.prepare(sql) : sql;
    const stored: { id: number | string }[] = await manager.query(text, parameters.values);
    if (stored.length < rows.length)
      throw new RowNotStoredError(`${stored.length} of ${rows.length} rows were stored`);
    // Ids ascend in the order of VALUES; that of RETURNING may differ (https://sqlite.org/lang_returning.html, section 3).
    const ids = stored.map(({ id }) => Number(id)).toSorted((a, b) => a - b);
    const entities = values.map((row, index) => this.toEntity(row, ids[index]));
    await insertRecords(manager, this.toRecords(rows, entities));
    return entities;
  }

  /**
   * Inserts rows and their records with one statement, which takes half the time of a transaction. The ids in the records
   * are reserved before: one that is skipped is not an effect. A single row is inserted with a placeholder in its record,
   * which the statement replaces by the id: with a reserved one, a create request would take 1.3 times as long (one
   * connection, 2026-11-27). From 16 rows on it would be slower (tools/bench/tried.md).
   */
  private async insertOnPostgres(
    rows: readonly NewRow[],
    isKeyed: boolean,
    beforeCommit: () => void,
  ): Promise<Entity[]> {
    const { manager, metadata } = this.repository;
    const values = rows.map(({ row }) => row);
    const isSingle = rows.length === 1;
    const needsIds = isKeyed && metadata.primaryColumns[0]!.isGenerated;
    const hasPlaceholder = needsIds && isSingle && this.bodyContainsId;
    const placeholder = hasPlaceholder ? this.choosePlaceholder(values[0]!) : undefined;
    const ids = needsIds && !hasPlaceholder ? await this.reserveIds(rows.length) : [];
    const entities = isKeyed
      ? values.map((row, index) => this.toEntity(row, placeholder ?? ids[index]))
      : [];
    const parameters = new StatementParameters(this.dataSource);
    const insert = buildInsert(this.repository, ids.length > 0 ? entities : values, parameters);
    let response = '?';
    if (placeholder !== undefined)
      response = `replace(?, ${parameters.addRaw(String(placeholder))}, (SELECT "id" FROM "rows")::text)`;
    const records = this.toRecords(rows, entities);
    const andRecords = isKeyed
      ? `, "records" AS (${buildInsert(this.records, records, parameters, { response })})`
      : '';
    // A row that a trigger drops makes the statement fail, which undoes it.
    const sql = `WITH "rows" AS (${insert} RETURNING "id")${andRecords}
      SELECT array_agg("id" ORDER BY "id") AS "ids", CASE WHEN count(*) < ${rows.length}
      THEN (count(*) || ' of ${rows.length} rows were stored')::int END AS "error" FROM "rows"`;
    beforeCommit();
    const text = isSingle ? this.dataSource.prepare(sql) : sql;
    const [stored]: [{ ids: string[] }] = await manager.query(text, parameters.values);
    return values.map((row, index) => this.toEntity(row, Number(stored.ids[index])));
  }

  /** Reserves ids of the table on PostgreSQL, which never assigns them again, and returns them. */
  private async reserveIds(count: number): Promise<number[]> {
    const sql = this.dataSource.prepare(RESERVE_IDS);
    const parameters = [`"${this.tableName}"`, count];
    const rows = await readRows<{ id: string }>(this.repository.manager, sql, parameters);
    return rows.map(({ id }) => Number(id));
  }

  /** Chooses a number that the response to a new row does not contain otherwise. */
  private choosePlaceholder(row: ObjectLiteral): number {
    const response = JSON.stringify(this.toResponse(this.toEntity(row, 0)));
    let number: number;
    do number = crypto.randomInt(2 ** 47, 2 ** 48 - 1);
    while (response.includes(String(number)));
    return number;
  }

  /** Returns the records in the order of their keys, so that two statements cannot wait for each other. */
  private toRecords(rows: readonly NewRow[], entities: readonly Entity[]): IdempotencyRecord[] {
    const records = rows.flatMap(({ key }, index) =>
      key === undefined ? [] : toRecord(key, this.toResponse(entities[index]!)),
    );
    return records.toSorted((a, b) => a.apiKeyId - b.apiKeyId || (a.key < b.key ? -1 : 1));
  }

  /** Returns a row as it will be read, with the id if the database assigns ids. */
  private toEntity(row: ObjectLiteral, id?: number): Entity {
    const entity: Record<string, unknown> = {};
    for (const { propertyName, isPrimary, isGenerated, transformer } of this.repository.metadata
      .columns) {
      const value: unknown = isPrimary && isGenerated ? id : (row[propertyName] ?? null);
      entity[propertyName] = transformer === undefined ? value : roundTrip(transformer, value);
    }
    return entity as Entity;
  }
}

/** Returns a value as it will be read after it was stored. */
const roundTrip = (transformer: ValueTransformer | ValueTransformer[], value: unknown): unknown =>
  ApplyValueTransformers.transformFrom(
    transformer,
    ApplyValueTransformers.transformTo(transformer, value),
  );
