import type { DataSource, QueryRunner, TableColumnOptions, ValueTransformer } from 'typeorm';

/**
 * Keeps a point in time as milliseconds since 1970 UTC: the one form that both databases keep and
 * compare alike. PostgreSQL's driver gives a bigint as text.
 */
export const epoch: ValueTransformer = {
  to: (date: Date | null | undefined) => date?.getTime() ?? date,
  from: (time: number | string | null) => (time === null ? null : new Date(Number(time))),
};

/** The highest id: every JSON number up to it is exact (RFC 8259, section 6). */
export const MAX_ID = Number.MAX_SAFE_INTEGER;

/** The type of a generated id: 64 bits on either database. SQLite counts only an INTEGER up by itself. */
export function idType({ options }: Pick<DataSource, 'options'>): 'integer' | 'bigint' {
  return options.type === 'postgres' ? 'bigint' : 'integer';
}

/** The id column of a migration: assigned by the database, ascending, never reused. */
export function idColumn({ dataSource }: QueryRunner, constraintName: string): TableColumnOptions {
  return {
    name: 'id',
    type: idType(dataSource),
    isPrimary: true,
    primaryKeyConstraintName: constraintName,
    isGenerated: true,
    generationStrategy: 'increment',
  };
}
