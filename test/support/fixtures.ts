import type { DataSource } from 'typeorm';
import type { ColumnMetadata } from 'typeorm/metadata/ColumnMetadata.js';
import { epochMillisTransformer } from '../../src/platform/database/columns.js';

/**
 * Inserts a row with a valid value in every required column, and the rows it references.
 *
 * @returns the id of the row
 */
export async function insertRow(dataSource: DataSource, table: string): Promise<number> {
  const { target, columns, foreignKeys } = dataSource.getMetadata(table);
  const row: Record<string, unknown> = {};
  for (const column of columns) {
    if (column.isGenerated || column.isNullable) continue;
    const foreignKey = foreignKeys.find((candidate) => candidate.columns[0] === column);
    row[column.propertyName] =
      foreignKey === undefined
        ? sampleValue(column)
        : await insertRow(dataSource, foreignKey.referencedTablePath);
  }
  const { identifiers } = await dataSource.getRepository(target).insert(row);
  return Number(identifiers[0]!['id']);
}

function sampleValue({ type, transformer }: ColumnMetadata): unknown {
  if (transformer === epochMillisTransformer) return new Date(0);
  if (type === 'boolean') return true;
  return type === 'varchar' || type === 'text' ? 'x' : 1;
}
