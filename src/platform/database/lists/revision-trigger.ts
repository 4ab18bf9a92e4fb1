import { Logger } from '@nestjs/common';
import type { DataSource, QueryRunner } from 'typeorm';
import { getDialect } from '../connection/service-data-source.js';

/** An expression of PostgreSQL for a new revision: 48 random bits, which JavaScript represents exactly. */
export const RANDOM_REVISION = `('x' || left(replace(gen_random_uuid()::text, '-', ''), 12))::bit(48)::bigint`;

/** The expression of earlier migrations, whose numbers `setseed` repeats. */
export const SEEDED_REVISION = 'floor(random() * 9007199254740992)';

/** Returns the name of the table of the revisions, with its schema. */
export async function getRevisions(queryRunner: QueryRunner): Promise<string> {
  const [{ schema }]: [{ schema: string }] = await queryRunner.query(
    `SELECT "relnamespace"::regnamespace AS "schema" FROM pg_class WHERE "oid" = '"revisions"'::regclass`,
  );
  return `${schema}."revisions"`;
}

/**
 * Defines the function of the triggers, which replaces the revision of the changed table.
 *
 * @param revisions the table of the revisions, in later versions with its schema
 */
export async function defineRaiseRevision(
  queryRunner: QueryRunner,
  value: string,
  revisions = '"revisions"',
): Promise<void> {
  await queryRunner.query(
    `CREATE OR REPLACE FUNCTION raise_revision() RETURNS trigger LANGUAGE plpgsql AS $$
     BEGIN
       UPDATE ${revisions} SET "value" = ${value} WHERE "name" = TG_TABLE_NAME;
       RETURN NULL;
     END $$`,
  );
}

/** Returns statements that create the trigger of a table, or repair it. */
function toTriggerSql(table: string): string {
  const name = `"tr_${table}_revision"`;
  // Triggers do not fire in sessions that replicate rows, unless they are enabled always.
  return `CREATE OR REPLACE TRIGGER ${name} AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON "${table}" FOR EACH STATEMENT EXECUTE FUNCTION raise_revision(); ALTER TABLE "${table}" ENABLE ALWAYS TRIGGER ${name}`;
}

/**
 * Makes PostgreSQL replace the revision of a table with every statement that changes it, in the same transaction. Call it
 * in the migration of a table that has a `CachedList`. The row lock serializes the transactions that change the table, so
 * a revision implies every change up to it; ids do not. It is random, because a counter would repeat its values for
 * other rows after a failover or a restore.
 */
export async function addRevisionTrigger(queryRunner: QueryRunner, table: string): Promise<void> {
  if (!getDialect(queryRunner.dataSource).hasRevisionTable) return;
  await queryRunner.query(
    `INSERT INTO "revisions" ("name", "value") VALUES ('${table}', ${RANDOM_REVISION})`,
  );
  await queryRunner.query(toTriggerSql(table));
}

/** Reverts {@link addRevisionTrigger}. */
export async function dropRevisionTrigger(queryRunner: QueryRunner, table: string): Promise<void> {
  if (!getDialect(queryRunner.dataSource).hasRevisionTable) return;
  await queryRunner.query(`DROP TRIGGER "tr_${table}_revision" ON "${table}"`);
  await queryRunner.query(`DELETE FROM "revisions" WHERE "name" = '${table}'`);
}

/**
 * Warns of tables whose trigger is not that of their migration: pg_restore --disable-triggers enables it for some sessions
 * only, and a table that replaces another has none.
 */
export async function checkRevisionTriggers(dataSource: DataSource): Promise<void> {
  if (!getDialect(dataSource).hasRevisionTable) return;
  // 60: after each INSERT, UPDATE, DELETE and TRUNCATE statement. A: in all sessions.
  const rows: { name: string }[] = await dataSource.query(
    `SELECT "name" FROM "revisions" WHERE to_regclass(quote_ident("name")) IS NOT NULL AND NOT EXISTS (
       SELECT FROM pg_trigger WHERE "tgrelid" = to_regclass(quote_ident("name")) AND "tgtype" = 60
         AND "tgenabled" = 'A' AND "tgfoid" = to_regproc('raise_revision'))`,
  );
  for (const { name } of rows)
    new Logger('Database').warn(
      `Lists may lack changes of the table ${name}: its trigger is missing or not always enabled. Repair it with: ${toTriggerSql(name)}; UPDATE "revisions" SET "value" = ${RANDOM_REVISION}`,
    );
}
