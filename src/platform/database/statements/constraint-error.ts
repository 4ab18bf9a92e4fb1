import type { ObjectLiteral, Repository } from 'typeorm';
import type { ForeignKeyMetadata } from 'typeorm/metadata/ForeignKeyMetadata.js';
import { ApiError } from '../../errors/api-error.js';
import { withDeadline } from '../connection/deadline.js';
import {
  getDriverError,
  isForeignKeyViolation,
  isUniqueViolation,
} from '../connection/driver-errors.js';
import { StatementParameters } from './row-mapping.js';

/**
 * Converts the error of an INSERT or UPDATE that violated a foreign key or a unique constraint to one that names the
 * properties. Call it after the rollback of a transaction: it may read the referenced tables.
 *
 * @param row the properties of the entity that were to be stored
 * @param paths where the body has the value of a property, if not in a property of the same name: such as
 *   `{ categoryId: 'category.id' }`
 * @param joined the foreign keys of other tables, by the property that is an array of the ids
 * @returns VALIDATION_FAILED for a foreign key, ALREADY_EXISTS for a unique constraint, or the error
 *   itself if it has another cause
 */
export async function toConstraintError<Entity extends ObjectLiteral>(
  error: unknown,
  repository: Repository<Entity>,
  row: object,
  paths: Readonly<Record<string, string>> = {},
  joined: Readonly<Record<string, ForeignKeyMetadata>> = {},
): Promise<unknown> {
  if (isForeignKeyViolation(error))
    return withDeadline(toForeignKeyError(error, repository, row, paths, joined));
  return isUniqueViolation(error) ? toUniqueError(error, repository, paths) : error;
}

async function toForeignKeyError(
  error: unknown,
  repository: Repository<ObjectLiteral>,
  row: object,
  paths: Readonly<Record<string, string>>,
  joined: Readonly<Record<string, ForeignKeyMetadata>>,
): Promise<unknown> {
  const { metadata, manager } = repository;
  const own = metadata.foreignKeys.map((key) => [key.columns[0]!.propertyName, key] as const);
  const [all, missing]: [string[], string[]] = [[], []];
  for (const [property, key] of [...own, ...Object.entries(joined)]) {
    const value = (row as Record<string, unknown>)[property] ?? [];
    const parameters = new StatementParameters(manager.dataSource);
    const placeholders = [value].flat().map((id) => parameters.add(id, key.columns[0]!));
    if (placeholders.length === 0) continue;
    const rows: { id: unknown }[] = await repository.query(
      `SELECT "id" FROM "${key.referencedTablePath}" WHERE "id" IN (${placeholders.join(', ')})`,
      parameters.values,
    );
    const existing = new Set(rows.map(({ id }) => String(id)));
    const index = parameters.values.findIndex((id) => !existing.has(String(id)));
    const path = paths[property] ?? property;
    all.push(path);
    if (index !== -1) missing.push(Array.isArray(value) ? `${path}[${index}]` : path);
  }
  if (all.length === 0) return error;
  // If all exist now, one of them was created after the statement failed.
  const messages = (missing.length > 0 ? missing : all).map(
    (path) => `${path} must reference an existing resource`,
  );
  return new ApiError('VALIDATION_FAILED', `${messages.join('; ')}.`, { cause: error });
}

function toUniqueError(
  error: unknown,
  { metadata }: Repository<ObjectLiteral>,
  paths: Readonly<Record<string, string>>,
): unknown {
  const columns = getUniqueColumns(getDriverError(error)).flatMap(
    (name) => metadata.findColumnWithDatabaseName(name) ?? [],
  );
  // The database itself generated the value, so the request is not the cause.
  if (columns.length > 0 && columns.every(({ isGenerated }) => isGenerated)) return error;
  const properties = columns.map(({ propertyName }) => paths[propertyName] ?? propertyName);
  const values = properties.length === 0 ? 'values' : LIST_FORMAT.format(properties);
  const message = `Another resource has the same ${values}.`;
  return new ApiError('ALREADY_EXISTS', message, { cause: error });
}

const LIST_FORMAT = new Intl.ListFormat('en-GB');

/**
 * Returns the columns of a violated unique constraint from the text of the driver; of an expression, none. SQLite:
 * `UNIQUE constraint failed: pets.name, pets.owner_id`. PostgreSQL, in the language of the server: `Key (name,
 * owner_id)=(Rex, 1) already exists.`
 */
function getUniqueColumns(driverError: unknown): string[] {
  const { message, detail } = driverError as { message: string; detail?: string };
  const columns =
    detail === undefined
      ? message.slice(message.indexOf(': ') + 2).replaceAll(/\w+\.(?=\w)/g, '')
      : (/\((.*?)\)=\(/s.exec(detail)?.[1] ?? '');
  return columns.split(', ').map((name) => name.replaceAll('"', ''));
}
