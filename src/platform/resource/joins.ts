/** Join entities: the references of an array of ids, a row each. */
import type { ObjectLiteral, Repository } from 'typeorm';
import type { ColumnMetadata } from 'typeorm/metadata/ColumnMetadata.js';
import type { ForeignKeyMetadata } from 'typeorm/metadata/ForeignKeyMetadata.js';
import { buildInsert, StatementParameters } from '../database/statements/row-mapping.js';

/**
 * Stores the references of a row, and removes those that it no longer has; of an id that is repeated, only one. Call it in
 * the transaction that inserts the row, or has locked it.
 *
 * @param joins the join entity: its primary key is the id of the row, with ON DELETE CASCADE, and an id that it refers to
 * @throws {QueryFailedError} if the row of an id does not exist
 */
export async function storeReferences(
  joins: Repository<ObjectLiteral>,
  id: unknown,
  ids: readonly unknown[],
): Promise<void> {
  const { metadata, manager } = joins;
  const [owner, reference] = getColumns(joins);
  const rows = ids.map((each) => ({ [owner.propertyName]: id, [reference.propertyName]: each }));
  // Before the DELETE, whose locks another transaction that deletes a referenced row may wait for.
  if (rows.length > 0) {
    const parameters = new StatementParameters(manager.dataSource);
    const insert = buildInsert(joins, rows, parameters);
    await manager.query(`${insert} ON CONFLICT DO NOTHING`, parameters.values);
  }
  const parameters = new StatementParameters(manager.dataSource);
  const isOwn = `"${owner.databaseName}" = ${parameters.add(id, owner)}`;
  const kept = ids.map((each) => parameters.add(each, reference)).join(', ');
  const isRemoved = kept === '' ? 'TRUE' : `"${reference.databaseName}" NOT IN (${kept})`;
  await manager.query(
    `DELETE FROM "${metadata.tableName}" WHERE ${isOwn} AND ${isRemoved}`,
    parameters.values,
  );
}

/** Returns the foreign key of the ids of a join entity. */
export function getReferenceKey(joins: Repository<ObjectLiteral>): ForeignKeyMetadata {
  const [, reference] = getColumns(joins);
  return joins.metadata.foreignKeys.find(({ columns }) => columns[0] === reference)!;
}

const getColumns = ({ metadata }: Repository<ObjectLiteral>) =>
  metadata.primaryColumns as [owner: ColumnMetadata, reference: ColumnMetadata];
