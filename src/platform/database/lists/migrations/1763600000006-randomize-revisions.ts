import type { MigrationInterface, QueryRunner } from 'typeorm';
import { getDialect } from '../../connection/service-data-source.js';
import { defineRaiseRevision, SEEDED_REVISION } from '../revision-trigger.js';

/** Replaces the counters of revisions, which repeat after a failover or a restore, with random numbers. */
export class RandomizeRevisions1763600000006 implements MigrationInterface {
  async up(queryRunner: QueryRunner, value = SEEDED_REVISION): Promise<void> {
    if (!getDialect(queryRunner.dataSource).hasRevisionTable) return;
    await defineRaiseRevision(queryRunner, value);
    await queryRunner.query(`UPDATE "revisions" SET "value" = ${SEEDED_REVISION}`);
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await this.up(queryRunner, '"value" + 1');
  }
}
