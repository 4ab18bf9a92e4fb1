import crypto from 'node:crypto';
import { setImmediate as turn } from 'node:timers/promises';
import type { EntityManager, ObjectLiteral, Repository } from 'typeorm';
import { ApplyValueTransformers } from 'typeorm/util/ApplyValueTransformers.js';
import { requestContext } from '../../logging/logger.js';
import type { DatabaseMetrics } from '../../metrics/database-metrics.js';
import { Deadline, withDeadline } from '../connection/deadline.js';
import { getDriverErrorCode, rejectsRow } from '../connection/driver-errors.js';
import { isPostgres } from '../connection/is-postgres.js';
import { prepare, readRows } from '../connection/service-data-source.js';
import { assignId } from '../statements/columns.js';
import { findViolations } from '../statements/constraint-error.js';
import {
  buildInsert,
  type InsertRow,
  requireColumns,
  StatementParameters,
} from '../statements/statement-parts.js';

/** The largest batch: beyond it, the cost of an fsync per row is already negligible. */
const MAX_BATCH_SIZE = 500;

/** The largest numbers of parameters of a statement. */
const MAX_PARAMETERS = { postgres: 65_535, sqlite: 32_766 };

/** How many inserts find the rejected rows of a batch before rows that have arrived since are inserted. */
const MAX_ATTEMPTS = 40;

/** How many rejected requests get their responses before rows that have arrived since are inserted. */
const MAX_REJECTIONS = 50;

/** PostgreSQL: reserves ids of a table. */
const RESERVE_IDS = `SELECT nextval("sequence") AS "id"
 FROM (SELECT pg_get_serial_sequence($1, 'id') AS "sequence" OFFSET 0) AS "names", generate_series(1, $2)`;

/** A row of a second table that belongs to a new row. */
export interface Companion<Entity> {
  /** Returns its values. May be called repeatedly. */
  toRow(inserted: Entity): ObjectLiteral;
  /** The property whose text is the only value that depends on the id, which it has as it is. */
  readonly idText?: string | undefined;
}

interface Item<Entity, Own> {
  readonly row: InsertRow<Entity>;
  readonly companion: Own | undefined;
  readonly deadline: Deadline;
  readonly resolve: (inserted: Entity) => void;
  readonly reject: (error: unknown) => void;
}

/** Rows of which the database has rejected at least one. */
interface Rejected<Each> {
  readonly items: readonly Each[];
  /** Its last error; undefined if they are to be inserted as they are. */
  readonly error?: unknown;
}

/** Rows to insert together, or to divide if the database is known to reject one of them. */
interface Range<Each> {
  readonly items: readonly Each[];
  isRejected: boolean;
  /** The other half, if the database has rejected both together. */
  readonly second?: Range<Each>;
}

/** Finds which companions the second table would reject: returns for each the error of its client, or undefined. */
type FindConflicts<Own> = (companions: readonly Own[]) => Promise<readonly unknown[]>;

/**
 * Inserts rows. Those that arrive in one turn of the event loop, or while others are inserted, share an INSERT, and one
 * fsync (measured in docs/decisions/0003-batched-inserts.md).
 *
 * If the database rejects a row, its batch is inserted again without the rows that the database explains: one statement
 * finds all that violate the same constraint. What it does not explain is divided. A row that was rejected once, and its
 * neighbours, never delay new ones by more than a few statements: they no longer share a batch.
 */
export class BatchInserter<Entity extends ObjectLiteral, Own extends Companion<Entity>> {
  private readonly pending: Item<Entity, Own>[] = [];
  private readonly rejected: Rejected<Item<Entity, Own>>[] = [];
  /** Reject rows whose cause was found. */
  private readonly rejections: (() => void)[] = [];
  /** One batch at a time: on PostgreSQL others would wait for its commit, because each changes the table's revision. */
  private isInserting = false;
  private keepsRows: boolean | undefined;
  /** The error of the last rejected batch, if its cause was found: what follows may have the same one. */
  private expectedError: unknown;

  /** @param companions a second table, with a row for some of the rows */
  constructor(
    private readonly repository: Repository<Entity>,
    private readonly companions: Repository<ObjectLiteral>,
    private readonly findConflicts: FindConflicts<Own>,
    private readonly metrics: DatabaseMetrics,
  ) {}

  /**
   * Adds a row to the next batch. It is durable when the promise resolves.
   *
   * @param companion a row of the second table for the same transaction
   * @param deadline how long the caller waits; the other rows of its batch have deadlines of their own
   * @returns the row with its id
   * @throws {TypeError} if a value of the row has no column
   * @throws {QueryFailedError} if the database rejects one of the two rows
   * @throws {DatabaseUnavailableError}
   */
  add(row: InsertRow<Entity>, companion?: Own, deadline = new Deadline()): Promise<Entity> {
    const inserted = new Promise<Entity>((resolve, reject) => {
      requireColumns(this.repository, row);
      const withId = assignId(this.repository.metadata, row);
      this.pending.push({ row: withId, companion, deadline, resolve, reject });
      if (this.isInserting) return;
      this.isInserting = true;
      // Not in the context of this request: others share the work.
      setImmediate(() => void requestContext.run(undefined, () => this.insertPending()));
    });
    return withDeadline(inserted, deadline);
  }

  private async insertPending(): Promise<void> {
    while (this.pending.length + this.rejected.length + this.rejections.length > 0) {
      const batch = this.pending.splice(0, this.getMaxBatchSize());
      // While many clients retry, one look-up is cheaper than a rejected batch.
      const isExpected = batch.length > 0 && this.expectedError !== undefined;
      await this.insertBatch(isExpected ? await this.explain(batch, this.expectedError) : batch);
      const rejected = this.rejected.shift();
      if (rejected !== undefined) await this.insertRejected(rejected);
      // Most of the time of a retried request is that of its response.
      for (const reject of this.rejections.splice(0, MAX_REJECTIONS)) reject();
      if (this.rejections.length > 0) await turn();
    }
    this.isInserting = false;
  }

  private getMaxBatchSize(): number {
    const { metadata, manager } = this.repository;
    const columns = metadata.columns.length + this.companions.metadata.columns.length;
    const limit = isPostgres(manager.dataSource) ? MAX_PARAMETERS.postgres : MAX_PARAMETERS.sqlite;
    return Math.min(MAX_BATCH_SIZE, Math.floor(limit / columns));
  }

  /** Inserts rows with one commit, or leaves them to {@link insertRejected} if the database rejects one of them. */
  private insertBatch(items: readonly Item<Entity, Own>[]): Promise<void> {
    return this.run(items, async (open, deadline) => {
      try {
        const inserted = await this.insertTogether(open, deadline);
        open.forEach(({ resolve }, index) => resolve(inserted[index]!));
      } catch (error) {
        if (!rejectsRow(error)) throw error;
        this.rejected.push({ items: open, error });
      }
    });
  }

  /** Inserts the rows of a rejected batch again without those that the database explains, or divides it. */
  private async insertRejected({ items, error }: Rejected<Item<Entity, Own>>): Promise<void> {
    const left = error === undefined ? items : await this.explain(items, error);
    if (error === undefined || left.length < items.length) await this.insertBatch(left);
    else if (left.length === 1) this.refuse(left[0]!, error);
    else await this.run(left, (open, deadline) => this.divide(open, error, deadline));
  }

  /** Runs the insertion of rows that clients still wait for, and rejects them all if it fails. */
  private async run(
    items: readonly Item<Entity, Own>[],
    insert: (open: readonly Item<Entity, Own>[], deadline: Deadline) => Promise<void>,
  ): Promise<void> {
    const open = items.filter(isOpen);
    if (open.length === 0) return;
    for (const item of open) item.deadline.isCommitting = true;
    const { tableName } = this.repository.metadata;
    this.metrics.batchSizes?.observe({ db_collection_name: tableName }, open.length);
    const stopTimer = this.metrics.batchDurations?.startTimer({ db_collection_name: tableName });
    // Not that of a row, whose client may have waited for a while.
    const deadline = new Deadline();
    try {
      await withDeadline(insert(open, deadline), deadline);
    } catch (error) {
      for (const { reject } of open) reject(error);
    } finally {
      stopTimer?.();
    }
  }

  /**
   * Rejects the rows of which one statement for each constraint finds that they violate it, and returns the others. The
   * constraints remain the only guard: what is found here was committed before.
   */
  private async explain(
    items: readonly Item<Entity, Own>[],
    error: unknown,
  ): Promise<readonly Item<Entity, Own>[]> {
    const rows = items.map(({ row }) => row);
    try {
      const violations =
        items.length === 1 ? [] : await withDeadline(findViolations(error, this.repository, rows));
      const left = await this.reject(items, violations);
      this.expectedError = left.length < items.length ? error : undefined;
      return left;
    } catch (failure) {
      for (const { reject } of items) reject(failure);
      return [];
    }
  }

  /**
   * Rejects the rows whose companions the second table has, or that have an error, and returns the others.
   *
   * @param errors an error or undefined for each row
   */
  private async reject(
    items: readonly Item<Entity, Own>[],
    errors: readonly unknown[],
  ): Promise<readonly Item<Entity, Own>[]> {
    const companions = items.flatMap(({ companion }) => companion ?? []);
    const conflicts =
      companions.length === 0 ? [] : await withDeadline(this.findConflicts(companions));
    const reasons = new Map(companions.map((each, index) => [each, conflicts[index]]));
    return items.filter((item, index) => {
      const conflict = item.companion && reasons.get(item.companion);
      if (conflict !== undefined) this.rejections.push(() => item.reject(conflict));
      else if (errors[index] !== undefined)
        this.rejections.push(() => this.refuse(item, errors[index]));
      else return isOpen(item);
      return false;
    });
  }

  private refuse({ reject }: Item<Entity, Own>, error: unknown): void {
    const { tableName } = this.repository.metadata;
    this.metrics.rejectedRows?.inc({
      db_collection_name: tableName,
      db_response_status_code: getDriverErrorCode(error),
    });
    reject(error);
  }

  /** Inserts rows in one transaction. */
  private async insertTogether(
    items: readonly Item<Entity, Own>[],
    deadline: Deadline,
  ): Promise<Entity[]> {
    const { manager } = this.repository;
    const hasCompanions = items.some(({ companion }) => companion !== undefined);
    if (isPostgres(manager.dataSource) && hasCompanions) {
      const [{ row, companion }] = items as [Item<Entity, Own>];
      const { isGenerated } = this.repository.metadata.primaryColumns[0]!;
      if (items.length === 1 && isGenerated && companion?.idText !== undefined)
        return [await this.insertPair(manager, row, companion, companion.idText, deadline)];
      return this.insertWithReservedIds(manager, items, deadline);
    }
    // One statement is one transaction, unless SQLite keeps what precedes a failure.
    const isAtomic =
      isPostgres(manager.dataSource) || (items.length === 1 && !(await this.keepsRejectedRows()));
    if (isAtomic && !hasCompanions) {
      deadline.beforeCommit();
      return this.insertRows(manager, items);
    }
    return manager.transaction(async (own) => {
      const inserted = await this.insertRows(own, items);
      requireOpen(items, deadline);
      deadline.beforeCommit();
      return inserted;
    });
  }

  /** Whether SQLite may keep a row that it rejects, because a trigger or a constraint is declared with FAIL. */
  private async keepsRejectedRows(): Promise<boolean> {
    const { manager, metadata } = this.repository;
    const sql = `SELECT 1 FROM "sqlite_master" WHERE "tbl_name" = ? AND "sql" LIKE '%FAIL%'`;
    this.keepsRows ??= (await readRows(manager, sql, [metadata.tableName])).length > 0;
    return this.keepsRows;
  }

  /**
   * Divides rows until the database accepts the parts without those that it rejects, in one transaction. After some
   * attempts it leaves the rest for later. One rejected row costs at most 2·log₂(n) inserts.
   */
  private async divide(
    items: readonly Item<Entity, Own>[],
    firstError: unknown,
    deadline: Deadline,
  ): Promise<void> {
    const ranges: Range<Item<Entity, Own>>[] = [{ items, isRejected: true }];
    const accepted = new Map<Item<Entity, Own>, Entity>();
    const refused = new Map<Item<Entity, Own>, unknown>();
    let error = firstError;
    const { manager } = this.repository;
    try {
      await manager.transaction(async (own) => {
        // Otherwise a deferred one would reject all rows at COMMIT.
        if (isPostgres(manager.dataSource)) await own.query('SET CONSTRAINTS ALL IMMEDIATE');
        for (let attempts = 0; ranges.length > 0 && attempts < MAX_ATTEMPTS;) {
          const range = ranges.pop()!;
          if (!range.isRejected || range.items.length === 1) {
            attempts++;
            // SQLite blocks the event loop during a statement.
            await turn();
            requireOpen(items, deadline);
            deadline.beforeStatement();
            try {
              // A savepoint.
              const inserted = await own.transaction((each) => this.insertRows(each, range.items));
              range.items.forEach((item, index) => accepted.set(item, inserted[index]!));
              if (range.second !== undefined) range.second.isRejected = true;
              continue;
            } catch (rejection) {
              if (!rejectsRow(rejection)) throw rejection;
              error = rejection;
              if (range.items.length === 1) refused.set(range.items[0]!, rejection);
            }
          }
          if (range.items.length > 1) ranges.push(...halve(range.items));
        }
        requireOpen(items, deadline);
        deadline.beforeCommit();
      });
    } catch (rejection) {
      // At COMMIT: SQLite cannot check a deferred constraint before.
      if (!rejectsRow(rejection)) throw rejection;
      this.rejected.push(...halve(items));
      return;
    }
    for (const [item, inserted] of accepted) item.resolve(inserted);
    // Another instance may have inserted the companion of a refused row since the cause was looked for.
    await this.reject([...refused.keys()], [...refused.values()]);
    const rest = ranges.flatMap((range) => range.items);
    if (rest.length > 0) this.rejected.unshift({ items: rest, error });
  }

  /** Inserts rows, and then their companions. */
  private async insertRows(
    manager: EntityManager,
    items: readonly Item<Entity, Own>[],
  ): Promise<Entity[]> {
    const parameters = new StatementParameters(manager.dataSource);
    const values = items.map(({ row }) => row);
    const sql = `${buildInsert(this.repository, values, parameters)} RETURNING "id"`;
    const rows: { id: number | string }[] = await manager.query(
      items.length === 1 ? prepare(manager, sql) : sql,
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
    items: readonly Item<Entity, Own>[],
    deadline: Deadline,
  ): Promise<Entity[]> {
    const { primaryColumns, tableName } = this.repository.metadata;
    // An id that is skipped is not an effect.
    const ids = primaryColumns[0]!.isGenerated
      ? await readRows<{ id: string }>(manager, prepare(manager, RESERVE_IDS), [
          `"${tableName}"`,
          items.length,
        ])
      : [];
    const inserted = items.map(({ row }, index) => this.toEntity(row, Number(ids[index]?.id)));
    const parameters = new StatementParameters(manager.dataSource);
    const rows = buildInsert(this.repository, inserted, parameters);
    const companions = this.getCompanions(items, inserted);
    deadline.beforeCommit();
    const sql = `WITH "rows" AS (${rows}) ${buildInsert(this.companions, companions, parameters)}`;
    await manager.query(items.length === 1 ? prepare(manager, sql) : sql, parameters.values);
    return inserted;
  }

  /**
   * Inserts a row and its companion on PostgreSQL with one statement, which writes the id into a text: without the one that
   * reserves the id, 40 % more rows are created per second. For 16 rows and more it would be slower (tools/bench/tried.md).
   *
   * @param property that of the text
   */
  private async insertPair(
    manager: EntityManager,
    row: InsertRow<Entity>,
    companion: Own,
    property: string,
    deadline: Deadline,
  ): Promise<Entity> {
    const toRow = (id: number): ObjectLiteral => companion.toRow(this.toEntity(row, id));
    const text = String(toRow(0)[property]);
    // The text must have no other number like it.
    let id: number;
    do id = crypto.randomInt(2 ** 47, 2 ** 48 - 1);
    while (text.includes(String(id)));
    const parameters = new StatementParameters(manager.dataSource);
    const insert = buildInsert(this.repository, [row], parameters);
    const position = parameters.values.push(String(id));
    const companions = buildInsert(this.companions, [toRow(id)], parameters, {
      [property]: `replace(?, $${position}, (SELECT "id" FROM "row")::text)`,
    });
    deadline.beforeCommit();
    const [inserted]: [{ id: string }] = await manager.query(
      prepare(
        manager,
        `WITH "row" AS (${insert} RETURNING "id"), "companion" AS (${companions}) SELECT "id" FROM "row"`,
      ),
      parameters.values,
    );
    return this.toEntity(row, Number(inserted.id));
  }

  /** Returns the companions in the order of their keys, so that two statements cannot wait for each other. */
  private getCompanions(
    items: readonly Item<Entity, Own>[],
    inserted: readonly Entity[],
  ): ObjectLiteral[] {
    const { primaryColumns } = this.companions.metadata;
    const companions = items.flatMap(
      ({ companion }, index) => companion?.toRow(inserted[index]!) ?? [],
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

/** Whether the client of a row still waits. If not, it has got a 503. */
const isOpen = ({ deadline }: { readonly deadline: Deadline }): boolean => deadline.remaining > 0;

/** @throws {DatabaseUnavailableError} if no client waits for any of the rows */
function requireOpen(items: readonly { readonly deadline: Deadline }[], batch: Deadline): void {
  if (!items.some(isOpen)) throw batch.expire();
}

/** Returns the halves of rows that the database rejects together, the first one last. */
function halve<Each>(items: readonly Each[]): Range<Each>[] {
  const middle = Math.floor(items.length / 2);
  const second = { items: items.slice(middle), isRejected: false };
  return [second, { items: items.slice(0, middle), isRejected: false, second }];
}
