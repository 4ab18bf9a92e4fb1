import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Creates a table for instances of the previous release. It is dropped in the next one. */
export class CreateRateLimits1763600000005 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    if (queryRunner.dataSource.options.type !== 'postgres') return;
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
    if (queryRunner.dataSource.options.type === 'postgres')
      await queryRunner.dropTable('rate_limits');
  }
}
