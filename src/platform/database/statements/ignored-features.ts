import type { Type } from '@nestjs/common';
import type { ObjectLiteral, Repository } from 'typeorm';
import type { ColumnMetadata } from 'typeorm/metadata/ColumnMetadata.js';

/** Features of columns, as TypeORM's metadata has them, and what to do instead. */
const COLUMN_FEATURES = [
  ['isDeleteDate', true, '@DeleteDateColumn', 'declare a nullable @Column, and filter by null'],
  ['isUpdateDate', true, '@UpdateDateColumn', 'declare a @Column, and set it'],
  ['isCreateDate', true, '@CreateDateColumn', 'declare a @Column, and set it'],
  ['isVirtualProperty', true, '@VirtualColumn', 'compute the value for the response'],
  ['isSelect', false, 'select: false', 'leave the property out of responses'],
  ['isInsert', false, 'insert: false', 'leave the property out of new rows'],
  ['isUpdate', false, 'update: false', 'leave the property out of changes'],
] as const;

/** The methods of a subscriber that only TypeORM's own statements call. */
const ENTITY_EVENTS = ['Insert', 'Update', 'Remove', 'SoftRemove', 'Recover']
  .flatMap((action) => [`before${action}`, `after${action}`])
  .concat('afterLoad');

/** Whether a column and its property have a name. */
const isNamed = (column: ColumnMetadata | undefined, name: string): column is ColumnMetadata =>
  column?.propertyName === name && column.databaseName === name;

/**
 * Refuses an entity with features of TypeORM that the statements of the resource kit would ignore, or a column that they
 * could not store.
 *
 * @throws {TypeError} with a sentence for each
 */
export function refuseIgnoredFeatures({ metadata, manager }: Repository<ObjectLiteral>): void {
  const { columns, primaryColumns, versionColumn } = metadata;
  const { listeners, eagerRelations, inheritancePattern, orderBy, name, target } = metadata;
  const ignored = columns.flatMap((column) =>
    COLUMN_FEATURES.filter(([key, value]) => column[key] === value).map(
      ([, , feature, instead]) => `${feature} of ${name}.${column.propertyPath}: ${instead}.`,
    ),
  );
  for (const { propertyName } of listeners)
    ignored.push(`the listener ${name}.${propertyName}: call it in the service.`);
  for (const { propertyName } of eagerRelations)
    ignored.push(`eager: true of ${name}.${propertyName}: read the relation in the service.`);
  if (inheritancePattern !== undefined)
    ignored.push(`@TableInheritance of ${name}: give each entity a table.`);
  if (orderBy !== undefined) ignored.push(`orderBy of ${name}: lists have the order of the ids.`);
  for (const subscriber of manager.dataSource.subscribers) {
    const entity = (subscriber.listenTo?.() ?? Object) as Type;
    const event = ENTITY_EVENTS.find((each) => (subscriber as ObjectLiteral)[each] !== undefined);
    if (event !== undefined && (target === entity || (target as Type).prototype instanceof entity))
      ignored.push(`${subscriber.constructor.name}.${event} for ${name}: call it in the service.`);
  }
  const [id] = primaryColumns;
  if (!isNamed(id, 'id') || id.generationStrategy === 'uuid' || primaryColumns.length > 1)
    ignored.push(`the id of ${name}: declare it as a property named id, with @IdColumn.`);
  if (versionColumn && !isNamed(versionColumn, 'version'))
    ignored.push(
      `the version of ${name}: declare it as a property named version, with the @VersionColumn of the platform.`,
    );
  for (const column of columns) {
    if (column.isNullable && (column.default ?? null) !== null)
      ignored.push(`the default of ${name}.${column.propertyPath}: set it in the service.`);
    if (
      !column.isPrimary &&
      (column.isVirtual ||
        column.embeddedMetadata !== undefined ||
        (column.isGenerated && !column.isNullable && column.default === undefined))
    )
      ignored.push(
        `the column of ${name}.${column.propertyPath}: declare a property of its own for it, or, if it is generated, give it a default.`,
      );
  }
  if (ignored.length === 0) return;
  throw new TypeError(
    ignored.map((each) => `The resource kit does not support ${each}`).join('\n'),
  );
}
