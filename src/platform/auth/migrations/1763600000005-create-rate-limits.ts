import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Creates the table in which instances of the previous release count requests. The next release drops it. */
export class CreateRateLimits1763600000005 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    if (queryRunner.dataSource.options.type !== 'postgres') return;
    // The counts are worthless after a crash, so the table needs no write-ahead log.
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
