/** What entities and migrations share, so that the same of either serves both databases. */
import type { Type } from '@nestjs/common';
import {
  type DataSource,
  getMetadataArgsStorage,
  type QueryRunner,
  type TableColumnOptions,
  type ValueTransformer,
} from 'typeorm';

/**
 * Keeps a point in time as milliseconds since 1970 UTC: the one form that both databases keep and
 * compare alike. PostgreSQL's driver gives a bigint as text.
 */
export const epochMillisTransformer: ValueTransformer = {
  to: (date: Date | null | undefined) => date?.getTime() ?? date,
  from: (time: number | string | null) => (time === null ? null : new Date(Number(time))),
};

/** The name of an entity's table, which is known before the database is open. */
export function getTableName(entity: Type): string {
  return getMetadataArgsStorage().tables.find(({ target }) => target === entity)!.name!;
}

/** Keeps a whole number of up to 53 bits. PostgreSQL's driver gives a bigint as text. */
export const bigintTransformer: ValueTransformer = {
  to: (value: unknown) => value,
  from: (value: string | number | null) => (value === null ? null : Number(value)),
};

/** The highest id: every JSON number up to it is exact (RFC 8259, section 6). */
export const MAX_ID = Number.MAX_SAFE_INTEGER;

/** Whether a database is PostgreSQL; it is SQLite otherwise. */
export function isPostgres({ options }: Pick<DataSource, 'options'>): boolean {
  return options.type === 'postgres';
}

/** The type of a generated id: 64 bits on either database. SQLite counts only an INTEGER up by itself. */
export function idType(dataSource: Pick<DataSource, 'options'>): 'integer' | 'bigint' {
  return isPostgres(dataSource) ? 'bigint' : 'integer';
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

/**
 * Makes PostgreSQL raise the revision of a table with every statement that changes it, in the same
 * transaction, so that both become visible in the same moment. The row lock makes the transactions
 * that change the table commit one after the other: whoever sees a revision sees every change up to
 * it, which the ids alone would not tell, because they may commit in another order than they were
 * drawn. SQLite needs none of it (see `Revision`).
 */
export async function addRevisionTrigger(queryRunner: QueryRunner, table: string): Promise<void> {
  if (!isPostgres(queryRunner.dataSource)) return;
  await queryRunner.query(`INSERT INTO "revisions" ("name", "value") VALUES ('${table}', 0)`);
  await queryRunner.query(
    `CREATE TRIGGER "tr_${table}_revision" AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON "${table}"
     FOR EACH STATEMENT EXECUTE FUNCTION raise_revision()`,
  );
}

/** Undoes {@link addRevisionTrigger}. */
export async function dropRevisionTrigger(queryRunner: QueryRunner, table: string): Promise<void> {
  if (!isPostgres(queryRunner.dataSource)) return;
  await queryRunner.query(`DROP TRIGGER "tr_${table}_revision" ON "${table}"`);
  await queryRunner.query(`DELETE FROM "revisions" WHERE "name" = '${table}'`);
}
