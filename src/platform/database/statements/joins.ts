/** Join entities: the references of an array of ids, a row each. */
import { In, Not, type ObjectLiteral, type Repository } from 'typeorm';
import type { ColumnMetadata } from 'typeorm/metadata/ColumnMetadata.js';
import type { ForeignKeyMetadata } from 'typeorm/metadata/ForeignKeyMetadata.js';

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
  const [owner, reference] = getColumns(joins);
  const rows = ids.map((each) => ({ [owner.propertyName]: id, [reference.propertyName]: each }));
  const insert = joins.createQueryBuilder().insert().values(rows).orIgnore().updateEntity(false);
  // Before the DELETE, whose locks another transaction that deletes a referenced row may wait for.
  if (rows.length > 0) await insert.execute();
  await joins.delete({ [owner.propertyName]: id, [reference.propertyName]: Not(In(ids)) });
}

/** Returns the foreign key of the ids of a join entity. */
export function getReferenceKey(joins: Repository<ObjectLiteral>): ForeignKeyMetadata {
  const [, reference] = getColumns(joins);
  return joins.metadata.foreignKeys.find(({ columns }) => columns[0] === reference)!;
}

const getColumns = ({ metadata }: Repository<ObjectLiteral>) =>
  metadata.primaryColumns as [owner: ColumnMetadata, reference: ColumnMetadata];
