import type { MigrationInterface, QueryRunner } from 'typeorm';
import { getDialect } from '../../connection/service-data-source.js';
import {
  defineRaiseRevision,
  getRevisions,
  RANDOM_REVISION,
  SEEDED_REVISION,
} from '../revision-trigger.js';

/** Makes revisions independent of `setseed`, with which a session of an operator repeats the numbers of `random()`. */
export class UnseedRevisions1763600000010 implements MigrationInterface {
  async up(queryRunner: QueryRunner, value = RANDOM_REVISION): Promise<void> {
    if (!getDialect(queryRunner.dataSource).hasRevisionTable) return;
    await defineRaiseRevision(queryRunner, value, await getRevisions(queryRunner));
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await this.up(queryRunner, SEEDED_REVISION);
  }
}
