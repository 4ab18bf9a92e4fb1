import type { MigrationInterface, QueryRunner } from 'typeorm';

export class CreateIdempotencyRecords1763600000004 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.query(
      `CREATE TABLE "idempotency_records" (
         "api_key_id" bigint NOT NULL,
         "key" varchar(255) NOT NULL,
         "fingerprint" varchar(64) NOT NULL,
         "response" text NOT NULL,
         "created_at" bigint NOT NULL,
         CONSTRAINT "pk_idempotency_records" PRIMARY KEY ("api_key_id", "key")
       )`,
    );
    await queryRunner.query(
      'CREATE INDEX "ix_idempotency_records_created_at" ON "idempotency_records" ("created_at")',
    );
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.dropTable('idempotency_records');
  }
}
