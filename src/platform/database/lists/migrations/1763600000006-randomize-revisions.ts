import type { MigrationInterface, QueryRunner } from 'typeorm';
import { isPostgres } from '../../connection/is-postgres.js';
import { RANDOM_REVISION } from '../revision-trigger.js';

/** Replaces the counters of revisions, which repeat after a failover or a restore, with random numbers. */
export class RandomizeRevisions1763600000006 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await this.replaceFunction(queryRunner, RANDOM_REVISION);
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await this.replaceFunction(queryRunner, '"value" + 1');
  }

  private async replaceFunction(queryRunner: QueryRunner, value: string): Promise<void> {
    if (!isPostgres(queryRunner.dataSource)) return;
    await queryRunner.query(
      `CREATE OR REPLACE FUNCTION raise_revision() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN
         UPDATE "revisions" SET "value" = ${value} WHERE "name" = TG_TABLE_NAME;
         RETURN NULL;
       END $$`,
    );
    await queryRunner.query(`UPDATE "revisions" SET "value" = ${RANDOM_REVISION}`);
  }
}
