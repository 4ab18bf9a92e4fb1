import type { ObjectLiteral, Repository } from 'typeorm';
import type { ColumnMetadata } from 'typeorm/metadata/ColumnMetadata.js';
import { ApiError } from '../errors/api-error.js';
import { withDeadline } from '../database/connection/deadline.js';
import {
  getDriverError,
  isForeignKeyViolation,
  isInvalidForColumn,
  isUniqueViolation,
} from '../database/connection/driver-errors.js';
import { readRows } from '../database/connection/service-data-source.js';
import { StatementParameters } from '../database/statements/statement-parts.js';

/** Where bodies have the properties of an entity, if elsewhere: null if clients do not see one. */
export type Paths = Readonly<Record<string, string | null>>;

/**
 * Converts the error of an INSERT or UPDATE that violated a foreign key or a unique constraint, or whose values do not fit
 * their columns, to one that names the properties. Call it after the rollback of a transaction: it may read the referenced tables.
 *
 * @param row the properties of the entity that were to be stored
 * @param paths where the body has the value of a property, if not in a property of the same name: such as
 *   `{ petId: 'pet.id' }`; null if clients do not see it
 * @param parent the property whose value is in the path of the request
 * @returns VALIDATION_FAILED for a foreign key or a value that does not fit its column, NOT_FOUND for that of the parent,
 *   ALREADY_EXISTS for a unique constraint, or the error itself if it has another cause
 */
export async function toConstraintError<Entity extends ObjectLiteral>(
  error: unknown,
  repository: Repository<Entity>,
  row: object,
  paths: Paths = {},
  parent = '',
): Promise<unknown> {
  if (isForeignKeyViolation(error))
    return withDeadline(toForeignKeyError(error, repository, row, paths, parent));
  if (isInvalidForColumn(error)) return toInvalidValueError(error, repository, row, paths);
  return isUniqueViolation(error) ? toUniqueError(error, repository, paths) : error;
}

/** Names the properties whose values do not fit their columns: the error of PostgreSQL does not. */
function toInvalidValueError(
  error: unknown,
  { metadata }: Repository<ObjectLiteral>,
  row: ObjectLiteral,
  paths: Paths,
): unknown {
  const names = metadata.columns
    .filter((column) => !fits(row[column.propertyName], column))
    .map(({ propertyName }) => paths[propertyName] ?? propertyName);
  if (names.length === 0) return error;
  const message = `The database has no room for the value of ${LIST_FORMAT.format(names)}.`;
  return new ApiError('VALIDATION_FAILED', message, { cause: error });
}

/** Whether a column has room for a text or a number: texts are counted in code points, as by PostgreSQL. */
function fits(value: unknown, { type, length }: ColumnMetadata): boolean {
  if (typeof value === 'string') return length === '' || Array.from(value).length <= Number(length);
  if (typeof value !== 'number' || !/^(int|integer|bigint)$/.test(String(type))) return true;
  return Number.isSafeInteger(value) && (type === 'bigint' || Math.abs(value) < 2 ** 31);
}

async function toForeignKeyError(
  error: unknown,
  { manager, metadata }: Repository<ObjectLiteral>,
  row: ObjectLiteral,
  paths: Paths,
  parent: string,
): Promise<unknown> {
  const references: string[] = [];
  const missing: string[] = [];
  for (const { columns, referencedTablePath } of metadata.foreignKeys) {
    const column = columns[0]!;
    const { propertyName } = column;
    // The property of a `@ManyToOne` has the other entity, or only its id.
    const value: unknown = column.getEntityValue(row) ?? undefined;
    if (value === undefined) continue;
    references.push(propertyName);
    const parameters = new StatementParameters(manager.dataSource);
    const id = parameters.add(value, column);
    const select = `SELECT 1 FROM "${referencedTablePath}" WHERE "id" = ${id}`;
    const found = await readRows(manager, select, parameters.values);
    if (found.length === 0) missing.push(propertyName);
  }
  // If all exist now, one of them was created after the statement failed.
  const properties = missing.length > 0 ? missing : references;
  if (properties.length === 0) return error;
  if (missing.includes(parent))
    return new ApiError('NOT_FOUND', 'Resource not found.', { cause: error });
  const messages = properties.map(
    (property) => `${paths[property] ?? property} must reference an existing resource`,
  );
  return new ApiError('VALIDATION_FAILED', `${messages.join('; ')}.`, { cause: error });
}

function toUniqueError(
  error: unknown,
  { metadata }: Repository<ObjectLiteral>,
  paths: Paths,
): unknown {
  const columns = getUniqueColumns(getDriverError(error)).flatMap(
    (name) => metadata.findColumnWithDatabaseName(name) ?? [],
  );
  // The database itself generated the value, so the request is not the cause.
  if (columns.length > 0 && columns.every(({ isGenerated }) => isGenerated)) return error;
  const properties = columns.flatMap(({ propertyName: name }) =>
    paths[name] === null ? [] : (paths[name] ?? name),
  );
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
