import type { QueryRunner } from 'typeorm';
import { isPostgres } from '../connection/is-postgres.js';

/** An expression of PostgreSQL for a new revision: JavaScript represents it exactly. */
export const RANDOM_REVISION = 'floor(random() * 9007199254740992)';

/**
 * Makes PostgreSQL replace the revision of a table with every statement that changes it, in the same
 * transaction. The row lock serializes the transactions that change the table, so a revision implies
 * every change up to it; ids alone do not, because transactions may commit in a different order from
 * their ids. It is random, because a counter would repeat its values for other rows after a failover to a
 * server that lacks the last transactions, and after a restore. Call it in the migration of a table that has a
 * `CachedList`. SQLite needs no trigger (see `TableRevisionTracker`).
 */
export async function addRevisionTrigger(queryRunner: QueryRunner, table: string): Promise<void> {
  if (!isPostgres(queryRunner.dataSource)) return;
  await queryRunner.query(
    `INSERT INTO "revisions" ("name", "value") VALUES ('${table}', ${RANDOM_REVISION})`,
  );
  await queryRunner.query(
    `CREATE TRIGGER "tr_${table}_revision" AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON "${table}"
     FOR EACH STATEMENT EXECUTE FUNCTION raise_revision()`,
  );
}

/** Reverts {@link addRevisionTrigger}. */
export async function dropRevisionTrigger(queryRunner: QueryRunner, table: string): Promise<void> {
  if (!isPostgres(queryRunner.dataSource)) return;
  await queryRunner.query(`DROP TRIGGER "tr_${table}_revision" ON "${table}"`);
  await queryRunner.query(`DELETE FROM "revisions" WHERE "name" = '${table}'`);
}
