import { setImmediate as turn } from 'node:timers/promises';
import type { EntityManager, ObjectLiteral, Repository } from 'typeorm';
import { ApplyValueTransformers } from 'typeorm/util/ApplyValueTransformers.js';
import type { DatabaseMetrics } from '../../metrics/database-metrics.js';
import { Deadline, withDeadline } from '../connection/deadline.js';
import { isDataOrConstraintError } from '../connection/driver-errors.js';
import { isPostgres } from '../connection/is-postgres.js';
import { assignId } from '../statements/columns.js';
import {
  buildInsert,
  type InsertRow,
  requireColumns,
  StatementParameters,
} from '../statements/row-mapping.js';

/** The largest batch: beyond it, the cost of an fsync per row is already negligible. */
const MAX_BATCH_SIZE = 500;

/** A row to insert, and the row of a second table that belongs to it. */
interface Item<Entity> {
  readonly row: InsertRow<Entity>;
  readonly toCompanion: ((inserted: Entity) => ObjectLiteral) | undefined;
  readonly deadline: Deadline;
  readonly resolve: (inserted: Entity) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Inserts rows. Those that arrive in one turn of the event loop, or while others are inserted, share an INSERT, and one
 * fsync (measured in docs/decisions/0003-batched-inserts.md).
 */
export class BatchInserter<Entity extends ObjectLiteral> {
  private readonly pending: Item<Entity>[] = [];
  /** One batch at a time: on PostgreSQL others would wait for its commit, because each changes the table's revision. */
  private isInserting = false;

  /** @param companions a second table, with a row for some of the rows */
  constructor(
    private readonly repository: Repository<Entity>,
    private readonly companions: Repository<ObjectLiteral>,
    private readonly metrics: DatabaseMetrics,
  ) {}

  /**
   * Inserts a row. It is durable when the promise resolves.
   *
   * @param toCompanion returns a row of the second table for the same transaction; may be called repeatedly
   * @returns the row with its id
   * @throws {TypeError} if a value of the row has no column
   * @throws {QueryFailedError} if the database rejects one of the two rows
   * @throws {DatabaseUnavailableError}
   */
  insert(row: InsertRow<Entity>, toCompanion?: Item<Entity>['toCompanion']): Promise<Entity> {
    return new Promise((resolve, reject) => {
      requireColumns(this.repository, row);
      const withId = assignId(this.repository.metadata, row);
      const deadline = new Deadline();
      this.pending.push({ row: withId, toCompanion, deadline, resolve, reject });
      if (this.isInserting) return;
      this.isInserting = true;
      setImmediate(() => void this.insertPending());
    });
  }

  private async insertPending(): Promise<void> {
    while (this.pending.length > 0) await this.insertBatch(this.pending.splice(0, MAX_BATCH_SIZE));
    this.isInserting = false;
  }

  private async insertBatch(items: readonly Item<Entity>[]): Promise<void> {
    const { deadline } = items[0]!;
    const { tableName } = this.repository.metadata;
    this.metrics.batchSizes?.observe({ db_collection_name: tableName }, items.length);
    const stopTimer = this.metrics.batchDurations?.startTimer({ db_collection_name: tableName });
    try {
      const inserted = await withDeadline(this.insertTogether(items, deadline), deadline);
      items.forEach(({ resolve, reject }, index) => {
        const result = inserted[index]!;
        if (result instanceof Error) reject(result);
        else resolve(result);
      });
    } catch (error) {
      for (const { reject } of items) reject(error);
    } finally {
      stopTimer?.();
    }
  }

  private async insertTogether(
    items: readonly Item<Entity>[],
    deadline: Deadline,
  ): Promise<(Entity | Error)[]> {
    const { manager } = this.repository;
    const inTransaction = (insert: (own: EntityManager) => Promise<(Entity | Error)[]>) =>
      manager.transaction(async (own) => {
        const results = await insert(own);
        deadline.beforeCommit();
        return results;
      });
    try {
      if (items.every(({ toCompanion }) => toCompanion === undefined)) {
        // One statement is one transaction.
        deadline.beforeCommit();
        return await this.insertRows(manager, items);
      }
      return isPostgres(manager.dataSource)
        ? await this.insertWithReservedIds(manager, items, deadline)
        : await inTransaction((own) => this.insertRows(own, items));
    } catch (error) {
      // After any other error, the rows may have been stored.
      if (!isDataOrConstraintError(error) || items.length === 1) throw error;
      return inTransaction((own) => this.insertAccepted(own, items, deadline, true));
    }
  }

  /**
   * Inserts the items that the database accepts, and returns the errors of the others. Each of these costs at most
   * 2·log₂(n) inserts.
   *
   * @param isRejected whether the database has rejected some of the items
   */
  private async insertAccepted(
    manager: EntityManager,
    items: readonly Item<Entity>[],
    deadline: Deadline,
    isRejected: boolean,
  ): Promise<(Entity | Error)[]> {
    if (!isRejected || items.length === 1) {
      // SQLite blocks the event loop during a statement.
      await turn();
      deadline.beforeStatement();
      try {
        // A savepoint.
        return await manager.transaction((own) => this.insertRows(own, items));
      } catch (error) {
        if (!isDataOrConstraintError(error)) throw error;
        if (items.length === 1) return [error as Error];
      }
    }
    const middle = Math.floor(items.length / 2);
    const first = await this.insertAccepted(manager, items.slice(0, middle), deadline, false);
    const isSecondRejected = !first.some((result) => result instanceof Error);
    const second = items.slice(middle);
    return [...first, ...(await this.insertAccepted(manager, second, deadline, isSecondRejected))];
  }

  /** Inserts rows, and then their companions. */
  private async insertRows(
    manager: EntityManager,
    items: readonly Item<Entity>[],
  ): Promise<Entity[]> {
    const parameters = new StatementParameters(manager.dataSource);
    const values = items.map(({ row }) => row);
    const rows: { id: number | string }[] = await manager.query(
      `${buildInsert(this.repository, values, parameters)} RETURNING "id"`,
      parameters.values,
    );
    // Ids of the database ascend in the order of VALUES; the order of RETURNING is not guaranteed
    // (https://sqlite.org/lang_returning.html, section 3).
    const ids = rows.map(({ id }) => Number(id)).toSorted((a, b) => a - b);
    const inserted = items.map(({ row }, index) => this.toEntity(row, ids[index]!));
    const companions = this.getCompanions(items, inserted);
    if (companions.length > 0) {
      const own = new StatementParameters(manager.dataSource);
      await manager.query(buildInsert(this.companions, companions, own), own.values);
    }
    return inserted;
  }

  /** Inserts rows and their companions on PostgreSQL with one statement, which takes half the time of a transaction. */
  private async insertWithReservedIds(
    manager: EntityManager,
    items: readonly Item<Entity>[],
    deadline: Deadline,
  ): Promise<Entity[]> {
    const { primaryColumns, tableName } = this.repository.metadata;
    const ids: { id: string }[] = primaryColumns[0]!.isGenerated
      ? await manager.query(
          `SELECT nextval("sequence") AS "id"
           FROM (SELECT pg_get_serial_sequence($1, 'id') AS "sequence" OFFSET 0) AS "names", generate_series(1, $2)`,
          [`"${tableName}"`, items.length],
        )
      : [];
    const inserted = items.map(({ row }, index) => this.toEntity(row, Number(ids[index]?.id)));
    const parameters = new StatementParameters(manager.dataSource);
    const rows = buildInsert(this.repository, inserted, parameters);
    const companions = this.getCompanions(items, inserted);
    deadline.beforeCommit();
    await manager.query(
      `WITH "rows" AS (${rows}) ${buildInsert(this.companions, companions, parameters)}`,
      parameters.values,
    );
    return inserted;
  }

  /** Returns the companions in the order of their keys, so that two statements cannot wait for each other. */
  private getCompanions(
    items: readonly Item<Entity>[],
    inserted: readonly Entity[],
  ): ObjectLiteral[] {
    const { primaryColumns } = this.companions.metadata;
    const companions = items.flatMap(
      ({ toCompanion }, index) => toCompanion?.(inserted[index]!) ?? [],
    );
    const keys = new Map(
      companions.map((row) => [row, primaryColumns.map((key) => row[key.propertyName]).join(' ')]),
    );
    return companions.toSorted((a, b) => (keys.get(a)! < keys.get(b)! ? -1 : 1));
  }

  /** @param id what the database assigned, if it assigns ids */
  private toEntity(row: ObjectLiteral, id: number): Entity {
    const entity: Record<string, unknown> = {};
    for (const { propertyName, isPrimary, isGenerated, transformer } of this.repository.metadata
      .columns) {
      const value: unknown = isPrimary && isGenerated ? id : (row[propertyName] ?? null);
      // As it will be read.
      entity[propertyName] =
        transformer === undefined
          ? value
          : ApplyValueTransformers.transformFrom(
              transformer,
              ApplyValueTransformers.transformTo(transformer, value),
            );
    }
    return entity as Entity;
  }
}
