import { type EntityManager, type EntityMetadata, VirtualColumn } from 'typeorm';

/** A property whose ids a link table contains. */
export interface Link {
  readonly property: string;
  readonly table: string;
  /** The column with the id of the row that has the property. */
  readonly owner: string;
  /** The column with an id of the array. */
  readonly item: string;
}

/** By the class of the entity. */
const links = new WeakMap<object, readonly Link[]>();

/**
 * Declares an array of ids that a link table contains, such as the ids of the tags of a pet: each in a row of
 * `pet_tags(pet_id, tag_id)` with foreign keys, of which that of the owner has `ON DELETE CASCADE`. Reading a row
 * includes the array, in ascending order. `insertReturning` and `updateReturning` store it; a `BatchInserter` and
 * TypeORM's own methods do not. The table needs an entity, too.
 *
 * @param table the link table
 * @param columns its columns: that of the owner's id, and that of an id of the array
 */
export function LinkColumn(
  table: string,
  { owner, item }: Pick<Link, 'owner' | 'item'>,
): PropertyDecorator {
  return (target, property) => {
    const link = { property: String(property), table, owner, item };
    links.set(target.constructor, [...(links.get(target.constructor) ?? []), link]);
    // JSON, in SQL of both databases. A subquery, so that the row and its links are of the same moment.
    const query = (alias: string): string =>
      `SELECT '[' || coalesce(string_agg(CAST("${item}" AS varchar), ',' ORDER BY "${item}"), '') || ']'
       FROM "${table}" WHERE "${owner}" = ${alias}."id"`;
    VirtualColumn({ type: 'simple-json', query })(target, property);
  };
}

/** Returns the properties of an entity that link tables contain. */
export function getLinks({ target }: EntityMetadata): readonly Link[] {
  return typeof target === 'string' ? [] : (links.get(target) ?? []);
}

/**
 * Replaces the links of a row, which the transaction must have locked. An id that occurs repeatedly is stored once.
 *
 * @throws {QueryFailedError} if an id does not exist: see `toConstraintError`
 */
export async function replaceLinks(
  manager: EntityManager,
  { table, owner, item }: Link,
  ownerId: number,
  ids: readonly number[],
): Promise<void> {
  const { driver } = manager.dataSource;
  const ownerParameter = driver.createParameter('', 0);
  await manager.query(`DELETE FROM "${table}" WHERE "${owner}" = ${ownerParameter}`, [ownerId]);
  const items = [...new Set(ids)];
  if (items.length === 0) return;
  const tuples = items.map(
    (_id, index) =>
      `(${driver.createParameter('', 2 * index)}, ${driver.createParameter('', 2 * index + 1)})`,
  );
  await manager.query(
    `INSERT INTO "${table}" ("${owner}", "${item}") VALUES ${tuples.join(', ')}`,
    items.flatMap((id) => [ownerId, id]),
  );
}
