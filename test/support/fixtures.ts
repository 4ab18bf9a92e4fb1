import type { DataSource } from 'typeorm';
import type { ColumnMetadata } from 'typeorm/metadata/ColumnMetadata.js';

/** Inserts a row with something valid in every column that must have a value, and the rows it refers to; gives its id. */
export async function insertRow(dataSource: DataSource, table: string): Promise<number> {
  const { target, columns, foreignKeys } = dataSource.getMetadata(table);
  const row: Record<string, unknown> = {};
  for (const column of columns) {
    if (column.isGenerated || column.isNullable) continue;
    const key = foreignKeys.find((candidate) => candidate.columns[0] === column);
    row[column.propertyName] =
      key === undefined
        ? sampleValue(column)
        : await insertRow(dataSource, key.referencedTablePath);
  }
  const { identifiers } = await dataSource.getRepository(target).insert(row);
  return Number(identifiers[0]!['id']);
}

function sampleValue({ type }: ColumnMetadata): unknown {
  if (type === 'boolean') return true;
  return type === 'varchar' || type === 'text' ? 'x' : 1;
}
