import type { MigrationInterface, QueryRunner } from 'typeorm';

export class AddApiKeySuccessors1763600000009 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.query('ALTER TABLE "api_keys" ADD COLUMN "successor_id" bigint');
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.query('ALTER TABLE "api_keys" DROP COLUMN "successor_id"');
  }
}
