/** Statements that change rows and return them, so that no other request can come between. */
import type { ObjectLiteral, Repository } from 'typeorm';
import { Deadline, withDeadline } from '../connection/deadline.js';
import { getDialect, readRows } from '../connection/service-data-source.js';
import { createVersion } from './columns.js';
import {
  buildInsert,
  type Criteria,
  getColumn,
  type InsertRow,
  selectColumns,
  type Statement,
  StatementParameters,
  toConditions,
  toEntities,
  toNewRow,
} from './statement-parts.js';

/** The new values of a row. Undefined leaves a property unchanged. */
export type Changes<Entity> = {
  readonly [Name in Exclude<keyof Entity, 'id' | 'version'>]?: Entity[Name] | undefined;
};

/**
 * Returns the row that meets the criteria.
 *
 * @param criteria usually the id; at least one property
 * @param lock keeps other transactions from changing the row until that of the repository ends
 * @returns undefined if no row meets the criteria
 * @throws {DatabaseUnavailableError}
 */
export async function selectOne<Entity extends ObjectLiteral>(
  repository: Repository<Entity>,
  criteria: Criteria<Entity>,
  { lock = false } = {},
): Promise<Entity | undefined> {
  const { manager, metadata } = repository;
  const parameters = new StatementParameters(manager.dataSource);
  const where = toCondition(repository, criteria, parameters);
  const { isPrimary, rowLock } = getDialect(manager.dataSource);
  const sql = `SELECT ${selectColumns(metadata)} FROM "${metadata.tableName}" WHERE ${where} AND ${isPrimary} LIMIT 1${lock ? rowLock : ''}`;
  const rows = readRows<Record<string, unknown>>(manager, sql, parameters.values);
  return toEntities(repository, await withDeadline(rows))[0];
}

/**
 * Inserts a row and returns it as it is stored, with its id. TypeORM's `insert` returns only the id, as a
 * string (`ColumnMetadata.createValueMap`). Use a `CreateQueue` for a create request that inserts only one row.
 *
 * @throws {QueryFailedError} if the row violates a constraint: see `toConstraintError`
 * @throws {Error} if a trigger has dropped it
 * @throws {DatabaseUnavailableError}
 */
export async function insertReturning<Entity extends ObjectLiteral>(
  repository: Repository<Entity>,
  row: InsertRow<Entity>,
): Promise<Entity> {
  const insert = buildInsert(repository, [toNewRow(repository, row)]);
  const stored = await runReturning(repository, insert);
  if (stored === undefined) throw new Error('The row was not stored: a trigger has dropped it');
  return stored;
}

/**
 * Updates the row that meets the criteria and returns it as this statement has stored it. An UPDATE
 * followed by a SELECT could return the values of another request.
 *
 * @param criteria usually the id; at least one property
 * @param changes without any, the row is only read, and its version stays the same
 * @returns undefined if no row meets the criteria
 * @throws {QueryFailedError} if the row violates a constraint: see `toConstraintError`
 * @throws {DatabaseUnavailableError}
 */
export async function updateReturning<Entity extends ObjectLiteral>(
  repository: Repository<Entity>,
  criteria: Criteria<Entity>,
  changes: Changes<Entity>,
): Promise<Entity | undefined> {
  const { metadata } = repository;
  const changed = Object.entries(changes).filter(([, value]) => value !== undefined);
  if (changed.length === 0) return selectOne(repository, criteria);
  const parameters = new StatementParameters(repository.manager.dataSource);
  const assignments = changed.map(([property, value]) => {
    const column = getColumn(repository, property);
    return `"${column.databaseName}" = ${parameters.add(value, column)}`;
  });
  if (metadata.versionColumn !== undefined)
    assignments.push(`"version" = ${parameters.add(createVersion(), metadata.versionColumn)}`);
  const where = toCondition(repository, criteria, parameters);
  const sql = `UPDATE "${metadata.tableName}" SET ${assignments.join(', ')} WHERE ${where}`;
  return runReturning(repository, { sql, values: parameters.values });
}

/**
 * Deletes the row that meets the criteria and returns it, as {@link updateReturning} does.
 *
 * @throws {QueryFailedError} if another row references it: see `isForeignKeyViolation`
 */
export async function deleteReturning<Entity extends ObjectLiteral>(
  repository: Repository<Entity>,
  criteria: Criteria<Entity>,
): Promise<Entity | undefined> {
  const { manager, metadata } = repository;
  const parameters = new StatementParameters(manager.dataSource);
  const where = toCondition(repository, criteria, parameters);
  const sql = `DELETE FROM "${metadata.tableName}" WHERE ${where}`;
  return runReturning(repository, { sql, values: parameters.values });
}

async function runReturning<Entity extends ObjectLiteral>(
  repository: Repository<Entity>,
  { sql, values }: Statement,
): Promise<Entity | undefined> {
  const returning = `${sql} RETURNING ${selectColumns(repository.metadata)}`;
  const deadline = new Deadline();
  // In a transaction, its owner checks the deadline before the COMMIT.
  if (repository.queryRunner === undefined) deadline.beforeCommit();
  const result: Record<string, unknown>[] | [Record<string, unknown>[], number] =
    await withDeadline(repository.query(returning, values), deadline);
  // TypeORM returns the rows and their number for UPDATE and DELETE on PostgreSQL.
  const rows = Array.isArray(result[0]) ? result[0] : (result as Record<string, unknown>[]);
  return toEntities(repository, rows)[0];
}

/** @throws {TypeError} if there are no criteria, or one is undefined: the statement would affect other rows */
function toCondition<Entity extends ObjectLiteral>(
  repository: Repository<Entity>,
  criteria: Criteria<Entity>,
  parameters: StatementParameters,
): string {
  const conditions = toConditions(repository, criteria, parameters);
  if (conditions.length === 0 || conditions.length < Object.keys(criteria).length)
    throw new TypeError(`A statement on ${repository.metadata.name} lacks criteria`);
  return conditions.join(' AND ');
}
