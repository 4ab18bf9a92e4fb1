import type { MigrationInterface, QueryRunner } from 'typeorm';
import { getDialect } from '../../connection/service-data-source.js';
import { defineRaiseRevision } from '../revision-trigger.js';

/** Counts the changes of each tracked table. PostgreSQL only: SQLite counts its commits itself. */
export class CreateRevisions1763600000001 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    if (!getDialect(queryRunner.dataSource).hasRevisionTable) return;
    await queryRunner.query(
      `CREATE TABLE "revisions" (
         "name" varchar(63) CONSTRAINT "pk_revisions" PRIMARY KEY,
         "value" bigint NOT NULL
       )`,
    );
    await defineRaiseRevision(queryRunner, '"value" + 1');
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    if (!getDialect(queryRunner.dataSource).hasRevisionTable) return;
    await queryRunner.query('DROP FUNCTION raise_revision()');
    await queryRunner.dropTable('revisions');
  }
}
