import type { MigrationInterface, QueryRunner } from 'typeorm';

export class AddApiKeyScopes1763600000003 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.query(
      `ALTER TABLE "api_keys" ADD COLUMN "scopes" varchar(20) NOT NULL DEFAULT 'read write'`,
    );
    await queryRunner.query('ALTER TABLE "api_keys" ADD COLUMN "requests_per_minute" integer');
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.query('ALTER TABLE "api_keys" DROP COLUMN "requests_per_minute"');
    await queryRunner.query('ALTER TABLE "api_keys" DROP COLUMN "scopes"');
  }
}
