import { type ObjectLiteral, QueryFailedError, type Repository } from 'typeorm';
import type { ColumnMetadata } from 'typeorm/metadata/ColumnMetadata.js';
import type { ForeignKeyMetadata } from 'typeorm/metadata/ForeignKeyMetadata.js';
import { ApiError } from '../../errors/api-error.js';
import { withDeadline } from '../connection/deadline.js';
import {
  getDriverError,
  isForeignKeyViolation,
  isUniqueViolation,
} from '../connection/driver-errors.js';
import { readRows } from '../connection/service-data-source.js';
import { StatementParameters } from './statement-parts.js';

/**
 * Converts the error of an INSERT or UPDATE that violated a foreign key or a unique constraint to one that names the
 * properties. Call it after the rollback of a transaction: it may read the referenced tables.
 *
 * @param row the properties of the entity that were to be stored
 * @param paths where the body has the value of a property, if not in a property of the same name: such as
 *   `{ petId: 'pet.id' }`
 * @param parent the property whose value is in the path of the request
 * @returns VALIDATION_FAILED for a foreign key, NOT_FOUND for that of the parent, ALREADY_EXISTS for a unique constraint, or the error
 *   itself if it has another cause
 */
export async function toConstraintError<Entity extends ObjectLiteral>(
  error: unknown,
  repository: Repository<Entity>,
  row: object,
  paths: Readonly<Record<string, string>> = {},
  parent = '',
): Promise<unknown> {
  if (isForeignKeyViolation(error))
    return withDeadline(toForeignKeyError(error, repository, row, paths, parent));
  return isUniqueViolation(error) ? toUniqueError(error, repository, paths) : error;
}

async function toForeignKeyError(
  error: unknown,
  repository: Repository<ObjectLiteral>,
  row: object,
  paths: Readonly<Record<string, string>>,
  parent: string,
): Promise<unknown> {
  const keys = getForeignKeys(repository);
  const values = row as ObjectLiteral;
  const [missing] =
    error instanceof MissingReferenceError
      ? [error.properties]
      : await findMissing(repository, [values], keys);
  // If all exist now, one of them was created after the statement failed.
  const properties =
    missing.length > 0 ? missing : Object.keys(keys).filter((each) => values[each]);
  if (properties.length === 0) return error;
  if (missing.includes(parent))
    return new ApiError('NOT_FOUND', 'Resource not found.', { cause: error });
  const messages = properties.map(
    (property) => `${paths[property] ?? property} must reference an existing resource`,
  );
  return new ApiError('VALIDATION_FAILED', `${messages.join('; ')}.`, { cause: error });
}

const getForeignKeys = ({ metadata }: Repository<ObjectLiteral>) =>
  Object.fromEntries(metadata.foreignKeys.map((key) => [key.columns[0]!.propertyName, key]));

/** Returns for each row the properties whose references do not exist, such as `petId`. */
async function findMissing(
  { manager }: Repository<ObjectLiteral>,
  rows: readonly ObjectLiteral[],
  keys: Readonly<Record<string, ForeignKeyMetadata>>,
): Promise<string[][]> {
  const missing: string[][] = rows.map(() => []);
  for (const [property, key] of Object.entries(keys)) {
    const ids = [...new Set(rows.flatMap((row): unknown => row[property] ?? []))];
    if (ids.length === 0) continue;
    const parameters = new StatementParameters(manager.dataSource);
    const placeholders = ids.map((id) => parameters.add(id, key.columns[0]!));
    const found = await readRows<{ id: unknown }>(
      manager,
      `SELECT "id" FROM "${key.referencedTablePath}" WHERE "id" IN (${placeholders.join(', ')})`,
      parameters.values,
    );
    const existing = new Set(found.map(({ id }) => String(id)));
    const lacking = new Set(ids.filter((_id, i) => !existing.has(String(parameters.values[i]))));
    rows.forEach((row, index) => {
      if (lacking.has(row[property])) missing[index]!.push(property);
    });
  }
  return missing;
}

/** The database has rejected a row of a batch, because rows that it refers to do not exist. */
class MissingReferenceError extends QueryFailedError {
  constructor(
    { query, parameters, driverError }: QueryFailedError,
    readonly properties: readonly string[],
  ) {
    super(query, parameters, driverError);
  }
}

/**
 * Finds the rows that violate the constraint for which the database rejected one of them. It reads each table once,
 * whatever the number of rows.
 *
 * @param rows the properties of entities that one statement was to store
 * @returns for each row its error, for `toConstraintError`, or undefined
 */
export async function findViolations(
  error: unknown,
  repository: Repository<ObjectLiteral>,
  rows: readonly ObjectLiteral[],
): Promise<readonly unknown[]> {
  if (isForeignKeyViolation(error)) {
    const missing = await findMissing(repository, rows, getForeignKeys(repository));
    return missing.map((properties) =>
      properties.length === 0
        ? undefined
        : new MissingReferenceError(error as QueryFailedError, properties),
    );
  }
  if (!isUniqueViolation(error)) return [];
  const stored = await findStored(repository, rows, findUniqueColumns(error, repository));
  return rows.map((_row, index) => (stored[index] === true ? error : undefined));
}

/** Returns what is the same for the same values, in whatever form the driver returns them; null is not text. */
const toKey = (values: readonly unknown[]): string =>
  JSON.stringify(values.map((value) => value && String(value as string | number)));

/** Returns for each row whether another one with the same values is stored. */
async function findStored(
  { metadata, manager }: Repository<ObjectLiteral>,
  rows: readonly ObjectLiteral[],
  columns: readonly ColumnMetadata[],
): Promise<boolean[]> {
  const constraints = [
    metadata.primaryColumns,
    ...metadata.uniques.map((unique) => unique.columns),
    // A partial one allows what others forbid.
    ...metadata.indices
      .filter((index) => index.isUnique && !index.where)
      .map((each) => each.columns),
  ];
  const isDeclared = constraints.some(
    (each) => each.length === columns.length && each.every((column) => columns.includes(column)),
  );
  if (!isDeclared || columns.some(({ isGenerated }) => isGenerated)) return [];
  const parameters = new StatementParameters(manager.dataSource);
  const conditions = rows.map((row) => {
    const equations = columns.map(
      (column) =>
        `"${column.databaseName}" = ${parameters.add(row[column.propertyName] ?? null, column)}`,
    );
    return `(${equations.join(' AND ')})`;
  });
  const names = columns.map(({ databaseName }) => `"${databaseName}"`).join(', ');
  const found = await readRows<ObjectLiteral>(
    manager,
    `SELECT ${names} FROM "${metadata.tableName}" WHERE ${conditions.join(' OR ')}`,
    parameters.values,
  );
  const keys = new Set(found.map((row) => toKey(columns.map((each) => row[each.databaseName]))));
  return rows.map((_row, index) => {
    const start = index * columns.length;
    return keys.has(toKey(parameters.values.slice(start, start + columns.length)));
  });
}

function toUniqueError(
  error: unknown,
  repository: Repository<ObjectLiteral>,
  paths: Readonly<Record<string, string>>,
): unknown {
  const columns = findUniqueColumns(error, repository);
  // The database itself generated the value, so the request is not the cause.
  if (columns.length > 0 && columns.every(({ isGenerated }) => isGenerated)) return error;
  const properties = columns.map(({ propertyName }) => paths[propertyName] ?? propertyName);
  const values = properties.length === 0 ? 'values' : LIST_FORMAT.format(properties);
  const message = `Another resource has the same ${values}.`;
  return new ApiError('ALREADY_EXISTS', message, { cause: error });
}

const LIST_FORMAT = new Intl.ListFormat('en-GB');

const findUniqueColumns = (error: unknown, { metadata }: Repository<ObjectLiteral>) =>
  getUniqueColumns(getDriverError(error)).flatMap(
    (name) => metadata.findColumnWithDatabaseName(name) ?? [],
  );

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
