/** Builds statements that TypeORM's query builder cannot express or runs too slowly. */
import type { DataSource, EntityMetadata, ObjectLiteral, Repository } from 'typeorm';
import type { ColumnMetadata } from 'typeorm/metadata/ColumnMetadata.js';
import { ApiError } from '../../errors/api-error.js';
import { getDialect } from '../connection/service-data-source.js';
import { createVersion, ID_OPTIONS, type IdOptions } from './columns.js';
import { createUuid } from './uuid.js';

/** The column types whose values the drivers return as they are. */
const PLAIN_TYPES = new Set<unknown>(['varchar', 'text', 'integer', 'double precision']);

/** The column types whose values are read as they were written; a bigint needs a transformer. */
const EXACT_TYPES =
  /^(varchar|character varying|text|smallint|integer|double precision|boolean|jsonb?|enum)$/;

/** Whether the database may convert values of a row, such as decimals or dates: its response needs the stored values. */
export function convertsValues({ metadata, manager }: Repository<ObjectLiteral>): boolean {
  return metadata.columns.some((column) => {
    const type = manager.dataSource.driver.normalizeType(column);
    if (type === 'bigint') return column.transformer === undefined;
    return !EXACT_TYPES.test(type) || column.type === 'simple-array';
  });
}

/** The id, which is ignored unless clients assign it, and the properties that may be null. */
type OptionalName<Entity> = keyof {
  [Name in keyof Entity as Name extends 'id' ? Name : null extends Entity[Name] ? Name : never]: 0;
};

/** The values of a new row. */
export type InsertRow<Entity> = Omit<Entity, OptionalName<Entity> | 'version'> &
  Partial<Pick<Entity, OptionalName<Entity>>>;

/** Returns all columns of a table, named after the properties, for SELECT or RETURNING. */
export function selectColumns({ columns }: EntityMetadata): string {
  return columns
    .map(({ databaseName, propertyName }) => `"${databaseName}" AS "${propertyName}"`)
    .join(', ');
}

/** Converts rows read with {@link selectColumns} to entities, in place: TypeORM's hydration takes twice the time. */
export function toEntities<Entity extends ObjectLiteral>(
  { metadata: { columns }, manager }: Repository<Entity>,
  rows: Record<string, unknown>[],
): Entity[] {
  const { driver } = manager.dataSource;
  const converted = columns.filter(
    ({ transformer, type }) => transformer !== undefined || !PLAIN_TYPES.has(type),
  );
  for (const row of rows) {
    for (const column of converted)
      row[column.propertyName] = driver.prepareHydratedValue(row[column.propertyName], column);
  }
  return rows as Entity[];
}

/** Collects the values of a statement, in the form in which the driver stores them. */
export class StatementParameters {
  readonly values: unknown[] = [];

  constructor(private readonly dataSource: DataSource) {}

  /** Adds a value for a column, and returns its placeholder. */
  add(value: unknown, column: ColumnMetadata): string {
    return this.addRaw(this.dataSource.driver.preparePersistentValue(value, column));
  }

  /** Adds a value as it is, and returns its placeholder. */
  addRaw(value: unknown): string {
    this.values.push(value);
    return this.dataSource.driver.createParameter('', this.values.length - 1);
  }
}

/** @throws {TypeError} if a value of a row has no column: it would be lost */
export function requireColumns(repository: Repository<ObjectLiteral>, row: ObjectLiteral): void {
  for (const property in row) if (row[property] !== undefined) getColumn(repository, property);
}

/**
 * Returns a row to insert: with its version, with the id that the client or the service assigns, and without any other.
 *
 * @throws {TypeError} if a value has no column
 * @throws {ApiError} VALIDATION_FAILED if the path of a URL cannot have the id of a client (RFC 3986, section 5.2.4)
 */
export function toNewRow(
  repository: Repository<ObjectLiteral>,
  values: ObjectLiteral,
): ObjectLiteral {
  requireColumns(repository, values);
  const { target, versionColumn } = repository.metadata;
  const options = Reflect.getMetadata(ID_OPTIONS, target) as IdOptions | undefined;
  const { type = 'integer', byClient = type === 'text' } = options ?? {};
  if (['', '.', '..'].includes(values['id']))
    throw new ApiError(
      'VALIDATION_FAILED',
      'The id must not be empty, . or .., because of its URL.',
    );
  const row = { ...values };
  if (versionColumn !== undefined) row['version'] = createVersion();
  if (!byClient) row['id'] = type === 'uuid' ? createUuid() : undefined;
  return row;
}

/** The text of a statement, and the values of its placeholders. */
export interface Statement {
  readonly sql: string;
  readonly values: unknown[];
}

/**
 * Builds an INSERT of rows. A missing value is null; the database assigns the id unless the rows have it.
 *
 * @param rows values by the properties of the entity
 */
export function buildInsert(
  { metadata, manager }: Repository<ObjectLiteral>,
  rows: readonly ObjectLiteral[],
): Statement {
  const parameters = new StatementParameters(manager.dataSource);
  const columns = metadata.columns.filter(
    ({ isGenerated, propertyName }) => !isGenerated || rows[0]![propertyName] !== undefined,
  );
  const tuples = rows.map((row) => {
    const placeholders = columns.map((column) =>
      parameters.add(row[column.propertyName] ?? null, column),
    );
    return `(${placeholders.join(', ')})`;
  });
  const names = columns.map(({ databaseName }) => `"${databaseName}"`);
  const sql = `INSERT INTO "${metadata.tableName}" (${names.join(', ')}) VALUES ${tuples.join(', ')}`;
  return { sql, values: parameters.values };
}

/** The values that rows must have, or lists of allowed values. Null selects those without one; undefined stands for any value. */
export type Criteria<Entity> = {
  readonly [Name in keyof Entity]?:
    | Criterion<Entity[Name]>
    | readonly Criterion<Entity[Name]>[]
    | Extract<Entity[Name], null>
    | undefined;
};

/** Rows may be searched for any text, number or boolean, although they have only those of a union. */
type Criterion<Value> = Value extends string
  ? string
  : Value extends number
    ? number
    : Value extends boolean
      ? boolean
      : NonNullable<Value>;

/**
 * Returns the conditions of a WHERE clause: the same for all criteria that the same rows meet, whatever the order of their
 * names and values.
 *
 * @throws {TypeError} if the entity has no such property
 */
export function toConditions<Entity extends ObjectLiteral>(
  repository: Repository<Entity>,
  criteria: Criteria<Entity>,
  parameters: StatementParameters,
): string[] {
  const entries = Object.entries(criteria).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return entries.flatMap(([property, value]: [string, unknown]) => {
    if (value === undefined) return [];
    const column = getColumn(repository, property);
    if (value === null) return `"${column.databaseName}" IS NULL`;
    const values: readonly unknown[] = Array.isArray(value) ? value : [value];
    const { dataSource } = repository.manager;
    const { driver } = dataSource;
    const stored = new Set(
      values.map((each): unknown => driver.preparePersistentValue(each, column)),
    );
    // No row has an integer beyond those of the column, nor a fraction, which PostgreSQL would not compare.
    const type = driver.normalizeType(column);
    const cast = /^(integer|smallint)$/.test(type) ? getDialect(dataSource).bigintCast : '';
    const canMatch = (each: unknown): boolean =>
      !type.includes('int') || typeof each !== 'number' || Number.isSafeInteger(each);
    const sorted = [...stored]
      .filter(canMatch)
      .toSorted((a, b) => (String(a) < String(b) ? -1 : 1));
    const placeholders = sorted.map((each) => parameters.addRaw(each) + cast);
    // PostgreSQL does not allow an empty list.
    return placeholders.length === 0
      ? 'FALSE'
      : `"${column.databaseName}" IN (${placeholders.join(', ')})`;
  });
}

/** @throws {TypeError} if the entity has no such property */
export function getColumn(
  { metadata }: Repository<ObjectLiteral>,
  property: string,
): ColumnMetadata {
  const column = metadata.findColumnWithPropertyName(property);
  if (column === undefined) throw new TypeError(`${metadata.name} has no property ${property}`);
  return column;
}
