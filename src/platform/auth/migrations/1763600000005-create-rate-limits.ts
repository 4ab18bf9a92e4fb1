import type { MigrationInterface, QueryRunner } from 'typeorm';
import { isPostgres } from '../../database/statements/columns.js';

/** Counts the requests of each API key over all instances. PostgreSQL only, in the form that rate-limiter-flexible needs. */
export class CreateRateLimits1763600000005 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    if (!isPostgres(queryRunner.dataSource)) return;
    // What it counts is worthless after a crash, so it needs no write-ahead log.
    await queryRunner.query(
      `CREATE UNLOGGED TABLE "rate_limits" (
         "key" varchar(255) CONSTRAINT "pk_rate_limits" PRIMARY KEY,
         "points" integer NOT NULL DEFAULT 0,
         "expire" bigint
       )`,
    );
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    if (isPostgres(queryRunner.dataSource)) await queryRunner.dropTable('rate_limits');
  }
}
