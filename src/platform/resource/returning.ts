/** Statements that change rows and return them, so that no other request can come between. */
import type { EntityManager, ObjectLiteral, Repository } from 'typeorm';
import type { InsertRow } from '../database/writes/batch-inserter.js';
import { withDeadline } from '../database/connection/deadline.js';
import { getLinks, replaceLinks } from '../database/statements/link-column.js';
import {
  buildInsert,
  type Criteria,
  getColumn,
  selectColumns,
  StatementParameters,
  toConditions,
  toEntities,
} from '../database/statements/row-mapping.js';

/** The new values of a row. Undefined leaves a property unchanged. */
export type Changes<Entity> = {
  readonly [Name in Exclude<keyof Entity, 'id' | 'version'>]?: Entity[Name] | undefined;
};

/**
 * Inserts a row and returns it as it is stored, with its id. TypeORM's `insert` returns only the id, as a
 * string (`ColumnMetadata.createValueMap`). Use a `BatchInserter` for a create request that inserts only one row.
 *
 * @throws {QueryFailedError} if the row violates a constraint: see `toConstraintError`
 * @throws {DatabaseUnavailableError}
 */
export async function insertReturning<Entity extends ObjectLiteral>(
  repository: Repository<Entity>,
  row: InsertRow<Entity>,
): Promise<Entity> {
  const inserted = await withLinks(repository, row, (own) => {
    const { sql, values } = buildInsert(own, [row]);
    return runReturning(own, `${sql} RETURNING ${selectColumns(own.metadata)}`, values);
  });
  return inserted!;
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
  const parameters = new StatementParameters(repository);
  const assignments = new Set(
    Object.entries(changes).flatMap(([property, value]) => {
      if (value === undefined) return [];
      const column = getColumn(repository, property);
      // Links are rows of another table, but their change is one of this row, which the statement locks.
      if (column.isVirtualProperty) return '"id" = "id"';
      return `"${column.databaseName}" = ${parameters.add(value, column)}`;
    }),
  );
  if (assignments.size > 0 && metadata.versionColumn !== undefined)
    assignments.add('"version" = "version" + 1');
  const where = toCondition(repository, criteria, parameters);
  if (assignments.size === 0) {
    const sql = `SELECT ${selectColumns(metadata)} FROM "${metadata.tableName}" WHERE ${where}`;
    return runReturning(repository, sql, parameters.values);
  }
  const sql = `UPDATE "${metadata.tableName}" SET ${[...assignments].join(', ')} WHERE ${where}
    RETURNING ${selectColumns(metadata)}`;
  return withLinks(repository, changes, (own) => runReturning(own, sql, parameters.values));
}

/**
 * Updates the row that meets the criteria with values that depend on its current ones, such as the result
 * of a JSON merge patch, and returns it. If another request changes the row between the read and the
 * update, both are repeated, so that no change is lost. The entity must have a `VersionColumn`.
 *
 * @param criteria usually the id; at least one property
 * @param getChanges returns the new values, and throws what the caller gets; may be called repeatedly
 * @returns undefined if no row meets the criteria
 * @throws {QueryFailedError} if the row violates a constraint: see `toConstraintError`
 * @throws {DatabaseUnavailableError}
 */
export async function modifyReturning<Entity extends ObjectLiteral & { version: number }>(
  repository: Repository<Entity>,
  criteria: Criteria<Entity>,
  getChanges: (row: Entity) => Changes<Entity> | Promise<Changes<Entity>>,
): Promise<Entity | undefined> {
  for (;;) {
    const row = await updateReturning(repository, criteria, {});
    if (row === undefined) return undefined;
    const current = { ...criteria, version: row.version };
    const updated = await updateReturning(repository, current, await getChanges(row));
    if (updated !== undefined) return updated;
  }
}

/**
 * Deletes the row that meets the criteria and returns it; of its links, SQLite returns none.
 *
 * @param criteria usually the id; at least one property
 * @returns undefined if no row meets the criteria
 * @throws {QueryFailedError} if another row references it: see `isForeignKeyViolation`
 * @throws {DatabaseUnavailableError}
 */
export async function deleteReturning<Entity extends ObjectLiteral>(
  repository: Repository<Entity>,
  criteria: Criteria<Entity>,
): Promise<Entity | undefined> {
  const { metadata } = repository;
  const parameters = new StatementParameters(repository);
  const where = toCondition(repository, criteria, parameters);
  const sql = `DELETE FROM "${metadata.tableName}" WHERE ${where} RETURNING ${selectColumns(metadata)}`;
  return runReturning(repository, sql, parameters.values);
}

/**
 * Runs a statement that writes a row, and stores the links of the row in the same transaction, which is a new one
 * unless the repository belongs to one.
 */
async function withLinks<Entity extends ObjectLiteral>(
  repository: Repository<Entity>,
  values: Readonly<Record<string, unknown>>,
  write: (own: Repository<Entity>) => Promise<Entity | undefined>,
): Promise<Entity | undefined> {
  const { metadata, manager, target } = repository;
  const links = getLinks(metadata);
  if (links.length === 0) return write(repository);
  const run = async (own: EntityManager): Promise<Entity | undefined> => {
    const row = await write(own.getRepository(target));
    if (row === undefined) return undefined;
    const id = Number(row['id']);
    for (const link of links) {
      const ids = values[link.property] as readonly number[] | undefined;
      if (ids !== undefined) await replaceLinks(own, link, id, ids);
    }
    // If the statement waited for another transaction, it has returned the links of before.
    const sql = `SELECT ${selectColumns(metadata)} FROM "${metadata.tableName}" WHERE "id" = `;
    return runReturning(
      own.getRepository(target),
      sql + own.dataSource.driver.createParameter('', 0),
      [id],
    );
  };
  return manager.queryRunner === undefined ? withDeadline(manager.transaction(run)) : run(manager);
}

async function runReturning<Entity extends ObjectLiteral>(
  repository: Repository<Entity>,
  sql: string,
  values: unknown[],
): Promise<Entity | undefined> {
  const result: Record<string, unknown>[] | [Record<string, unknown>[], number] =
    await withDeadline(repository.query(sql, values));
  // For UPDATE and DELETE on PostgreSQL, TypeORM returns the rows and their number.
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
