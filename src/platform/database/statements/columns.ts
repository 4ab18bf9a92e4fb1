/** Columns for entities and migrations that work on both databases. */
import {
  PrimaryColumn,
  type QueryRunner,
  type TableColumnOptions,
  type ValueTransformer,
  VersionColumn as TypeOrmVersionColumn,
} from 'typeorm';
import { isPostgres } from '../connection/is-postgres.js';

/** Converts a bigint, which PostgreSQL's driver returns as a string, to a number of up to 53 bits. */
export const bigintTransformer: ValueTransformer = {
  to: (value: unknown) => value,
  from: (value: string | number | null) => (value === null ? null : Number(value)),
};

/** Stores a Date as milliseconds since 1970 UTC, which both databases store and compare in the same way. */
export const epochMillisTransformer: ValueTransformer = {
  to: (date: Date | null | undefined) => date?.getTime() ?? date,
  from: (time: number | string | null) => (time === null ? null : new Date(Number(time))),
};

/**
 * Declares the id of an entity: assigned by the database, ascending, never reused. {@link idColumn} is
 * its column in a migration.
 */
export function IdColumn(constraintName: string): PropertyDecorator {
  return PrimaryColumn({
    type: 'bigint',
    generated: 'increment',
    primaryKeyConstraintName: constraintName,
    transformer: bigintTransformer,
  });
}

/** The id column of a migration. SQLite assigns values only to a column of the type INTEGER, which has 64 bits, too. */
export function idColumn({ dataSource }: QueryRunner, constraintName: string): TableColumnOptions {
  return {
    name: 'id',
    type: isPostgres(dataSource) ? 'bigint' : 'integer',
    isPrimary: true,
    primaryKeyConstraintName: constraintName,
    isGenerated: true,
    generationStrategy: 'increment',
  };
}

/**
 * Declares the version of a row, which clients see as its ETag: 1 for a new row, incremented by each
 * `updateReturning` and by TypeORM's own updates. The property must be named `version`.
 * {@link versionColumn} is its column in a migration.
 */
export function VersionColumn(): PropertyDecorator {
  return TypeOrmVersionColumn({ type: 'integer', default: 1 });
}

/** The version column of a migration. */
export const versionColumn: TableColumnOptions = { name: 'version', type: 'integer', default: 1 };
