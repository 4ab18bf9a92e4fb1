import type { Type } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import { ApiError } from '../errors/api-error.js';
import { isForeignKeyViolation } from './driver-errors.js';

/**
 * Says which reference of a row that could not be stored is to a row that does not exist. To be called
 * with the error of the statement: only the foreign key itself is sure, whatever a look beforehand says.
 *
 * @param row the properties of the entity that were to be stored
 * @returns VALIDATION_FAILED, or the error itself where no foreign key was broken
 */
export async function toForeignKeyError(
  error: unknown,
  dataSource: DataSource,
  entity: Type,
  row: object,
): Promise<unknown> {
  if (!isForeignKeyViolation(error)) return error;
  const given = dataSource.getMetadata(entity).foreignKeys.flatMap((key) => {
    const property = key.columns[0]!.propertyName;
    const id = (row as Record<string, unknown>)[property] ?? null;
    return id === null ? [] : [{ property, id, table: key.referencedTablePath }];
  });
  const unknown: typeof given = [];
  for (const reference of given) {
    const rows: unknown[] = await dataSource.query(
      `SELECT 1 FROM "${reference.table}" WHERE "id" = ${dataSource.driver.createParameter('', 0)}`,
      [reference.id],
    );
    if (rows.length === 0) unknown.push(reference);
  }
  // Where all exist by now, one of them did not a moment ago.
  const problems = (unknown.length > 0 ? unknown : given).map(
    ({ property, table }) =>
      `${property} must be the id of one of the ${table.replaceAll('_', ' ')}`,
  );
  return new ApiError('VALIDATION_FAILED', `${problems.join('; ')}.`, {}, error);
}
