import type { EntityManager, ObjectLiteral, Repository } from 'typeorm';
import type { DatabaseMetrics } from '../../metrics/database-metrics.js';
import { withDeadline } from '../connection/deadline.js';
import { isDataOrConstraintError } from '../connection/driver-errors.js';
import { isPostgres } from '../connection/is-postgres.js';
import {
  buildInsert,
  type InsertRow,
  selectRows,
  StatementParameters,
} from '../statements/row-mapping.js';
import { Batcher } from './batcher.js';

/** A row to insert, and the row of a second table that belongs to it. */
interface Item<Entity> {
  readonly row: InsertRow<Entity>;
  readonly toCompanion: ((inserted: Entity) => ObjectLiteral) | undefined;
}

/**
 * Inserts rows. Those that arrive in one turn of the event loop share an INSERT, so that one fsync
 * covers them. Measured with 64 connections: two to five times as many durable creates per second as
 * Fastify with one commit each (docs/decisions/0003-batched-inserts.md). A single create request is not
 * delayed.
 */
export class BatchInserter<Entity extends ObjectLiteral> {
  private readonly batcher = new Batcher<Item<Entity>, Entity>((items) =>
    withDeadline(this.insertBatch(items)),
  );

  /** @param companions a second table, with a row for some of the rows */
  constructor(
    private readonly repository: Repository<Entity>,
    private readonly companions: Repository<ObjectLiteral>,
    private readonly metrics: DatabaseMetrics,
  ) {}

  /**
   * Inserts a row. It is durable when the promise resolves.
   *
   * @param toCompanion returns a row of the second table, which is inserted in the same transaction; may be called
   *   repeatedly
   * @returns the row with its id
   * @throws {QueryFailedError} if the database rejects one of the two rows
   * @throws {DatabaseUnavailableError}
   */
  insert(row: InsertRow<Entity>, toCompanion?: Item<Entity>['toCompanion']): Promise<Entity> {
    return this.batcher.add({ row, toCompanion });
  }

  private async insertBatch(items: readonly Item<Entity>[]): Promise<(Entity | Error)[]> {
    this.metrics.batchSizes.observe({ table: this.repository.metadata.tableName }, items.length);
    try {
      return await this.insertAll(items);
    } catch (error) {
      // After any other error, the rows may have been stored.
      if (!isDataOrConstraintError(error) || items.length === 1) throw error;
      return this.insertAccepted(items, error as Error);
    }
  }

  /**
   * Inserts the items that the database accepts, with one commit.
   *
   * @param error why it rejected all of them together
   * @returns the errors of the others
   */
  private async insertAccepted(
    items: readonly Item<Entity>[],
    error: Error,
  ): Promise<(Entity | Error)[]> {
    const stored = await this.findStoredCompanions(items);
    const others = items.filter((item) => !stored.has(item));
    const results = await this.repository.manager.transaction((manager) =>
      this.insertHalves(manager, others),
    );
    const byItem = new Map(others.map((item, index) => [item, results[index]!]));
    return items.map((item) => byItem.get(item) ?? error);
  }

  /** Returns the items whose companion would have the key of one that is stored. */
  private async findStoredCompanions(
    items: readonly Item<Entity>[],
  ): Promise<ReadonlySet<Item<Entity>>> {
    // The key does not depend on the id.
    const companions = items.flatMap((item) => {
      const companion = item.toCompanion?.(this.toEntity(item.row, 0));
      return companion === undefined ? [] : { item, companion };
    });
    if (companions.length === 0) return new Set();
    const { primaryColumns } = this.companions.metadata;
    const criteria = primaryColumns.map(({ propertyName }) => [
      propertyName,
      [...new Set(companions.map(({ companion }) => companion[propertyName] as unknown))],
    ]);
    const stored = await selectRows(this.companions, Object.fromEntries(criteria));
    const keys = new Set(stored.map((row) => this.toCompanionKey(row)));
    const found = companions.filter(({ companion }) => keys.has(this.toCompanionKey(companion)));
    return new Set(found.map(({ item }) => item));
  }

  private toCompanionKey(row: ObjectLiteral): string {
    const { primaryColumns } = this.companions.metadata;
    return primaryColumns.map(({ propertyName }) => String(row[propertyName])).join(' ');
  }

  /** Inserts all items, in one transaction, or none. */
  private insertAll(items: readonly Item<Entity>[]): Promise<Entity[]> {
    const { manager } = this.repository;
    // One statement is one transaction.
    if (items.every(({ toCompanion }) => toCompanion === undefined))
      return this.insertRows(manager, items);
    return isPostgres(manager.dataSource)
      ? this.insertWithReservedIds(manager, items)
      : manager.transaction((own) => this.insertRows(own, items));
  }

  /** Inserts the items that the database accepts, and returns the errors of the others. */
  private async insertHalves(
    manager: EntityManager,
    items: readonly Item<Entity>[],
  ): Promise<(Entity | Error)[]> {
    const results: (Entity | Error)[] = [];
    const middle = Math.ceil(items.length / 2);
    for (const half of [items.slice(0, middle), items.slice(middle)]) {
      if (half.length === 0) continue;
      try {
        // A savepoint, so that all halves share one commit.
        results.push(...(await manager.transaction((own) => this.insertRows(own, half))));
      } catch (error) {
        if (!isDataOrConstraintError(error)) throw error;
        results.push(
          ...(half.length === 1 ? [error as Error] : await this.insertHalves(manager, half)),
        );
      }
    }
    return results;
  }

  /** Inserts rows, and then their companions. */
  private async insertRows(
    manager: EntityManager,
    items: readonly Item<Entity>[],
  ): Promise<Entity[]> {
    const parameters = new StatementParameters(manager.dataSource);
    const sql = buildInsert(
      this.repository,
      items.map(({ row }) => row),
      parameters,
    );
    const rows: { id: number | string }[] = await manager.query(
      `${sql} RETURNING "id"`,
      parameters.values,
    );
    // Ids ascend in the order of VALUES; the order of RETURNING is not guaranteed
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

  /**
   * Inserts rows and their companions on PostgreSQL. With ids that it reserves first, one statement suffices: a
   * transaction of two takes twice as many round trips, most of them while it holds the lock of the table's revision.
   */
  private async insertWithReservedIds(
    manager: EntityManager,
    items: readonly Item<Entity>[],
  ): Promise<Entity[]> {
    const ids: { id: string }[] = await manager.query(
      `SELECT nextval("sequence") AS "id"
       FROM (SELECT pg_get_serial_sequence($1, 'id') AS "sequence" OFFSET 0) AS "names", generate_series(1, $2)`,
      [`"${this.repository.metadata.tableName}"`, items.length],
    );
    const inserted = items.map(({ row }, index) => this.toEntity(row, Number(ids[index]!.id)));
    const parameters = new StatementParameters(manager.dataSource);
    const rows = buildInsert(this.repository, inserted, parameters);
    const companions = buildInsert(
      this.companions,
      this.getCompanions(items, inserted),
      parameters,
    );
    await manager.query(`WITH "rows" AS (${rows}) ${companions}`, parameters.values);
    return inserted;
  }

  /** Returns the companions in the order of their keys, so that two statements cannot wait for each other. */
  private getCompanions(
    items: readonly Item<Entity>[],
    inserted: readonly Entity[],
  ): ObjectLiteral[] {
    return items
      .flatMap(({ toCompanion }, index) => toCompanion?.(inserted[index]!) ?? [])
      .toSorted((a, b) => (this.toCompanionKey(a) < this.toCompanionKey(b) ? -1 : 1));
  }

  private toEntity(row: ObjectLiteral, id: number): Entity {
    const entity: Record<string, unknown> = {};
    for (const { propertyName, isVersion } of this.repository.metadata.columns)
      entity[propertyName] = isVersion ? 1 : ((row[propertyName] as unknown) ?? null);
    return { ...entity, id } as unknown as Entity;
  }
}
