import type { MigrationInterface, QueryRunner } from 'typeorm';
import { getDialect } from '../../connection/service-data-source.js';
import { defineRaiseRevision, getRevisions, SEEDED_REVISION } from '../revision-trigger.js';

/**
 * Makes the triggers of revisions, those of modules included, fire in sessions that replicate rows, too. Such a session,
 * and that of pg_restore, has an empty search path.
 */
export class AlwaysRaiseRevisions1763600000008 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    if (!getDialect(queryRunner.dataSource).hasRevisionTable) return;
    await defineRaiseRevision(queryRunner, SEEDED_REVISION, await getRevisions(queryRunner));
    await this.alterTriggers(queryRunner, 'ENABLE ALWAYS');
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    if (!getDialect(queryRunner.dataSource).hasRevisionTable) return;
    await this.alterTriggers(queryRunner, 'ENABLE');
    await defineRaiseRevision(queryRunner, SEEDED_REVISION);
  }

  private async alterTriggers(queryRunner: QueryRunner, action: string): Promise<void> {
    const triggers: { table: string; name: string }[] = await queryRunner.query(
      `SELECT "tgrelid"::regclass AS "table", quote_ident("tgname") AS "name" FROM pg_trigger
       WHERE "tgfoid" = 'raise_revision'::regproc`,
    );
    for (const { table, name } of triggers)
      await queryRunner.query(`ALTER TABLE ${table} ${action} TRIGGER ${name}`);
  }
}
