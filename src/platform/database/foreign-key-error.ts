import type { ObjectLiteral, Repository } from 'typeorm';
import { ApiError } from '../errors/api-error.js';
import { isForeignKeyViolation } from './driver-errors.js';

/**
 * Converts the error of a statement that violated a foreign key to one that names the property. Call it
 * with the error rather than checking beforehand: only the constraint itself is reliable.
 *
 * @param row the properties of the entity that were to be stored
 * @returns VALIDATION_FAILED, or the error itself if it has another cause
 */
export async function toForeignKeyError<Entity extends ObjectLiteral>(
  error: unknown,
  repository: Repository<Entity>,
  row: object,
): Promise<unknown> {
  if (!isForeignKeyViolation(error)) return error;
  const { driver } = repository.manager.dataSource;
  const references = repository.metadata.foreignKeys.flatMap((key) => {
    const property = key.columns[0]!.propertyName;
    const id = (row as Record<string, unknown>)[property] ?? null;
    return id === null ? [] : [{ property, id, table: key.referencedTablePath }];
  });
  const missing: typeof references = [];
  for (const reference of references) {
    const rows: unknown[] = await repository.query(
      `SELECT 1 FROM "${reference.table}" WHERE "id" = ${driver.createParameter('', 0)}`,
      [reference.id],
    );
    if (rows.length === 0) missing.push(reference);
  }
  // If all exist now, one of them was created after the statement failed.
  const messages = (missing.length > 0 ? missing : references).map(
    ({ property, table }) => `${property} must reference an existing ${toNoun(table)}`,
  );
  return new ApiError('VALIDATION_FAILED', `${messages.join('; ')}.`, {}, error);
}

/** The singular of a table's name: `pet_categories` becomes `pet category`. */
function toNoun(table: string): string {
  return table
    .replaceAll('_', ' ')
    .replace(/ies$/, 'y')
    .replace(/(?<=(s|x|z|ch|sh))es$/, '')
    .replace(/(?<!s)s$/, '');
}
