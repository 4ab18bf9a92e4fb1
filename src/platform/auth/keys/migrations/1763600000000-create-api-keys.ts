import { type MigrationInterface, type QueryRunner, Table } from 'typeorm';
import { idColumn } from '../../../database/statements/columns.js';

export class CreateApiKeys1763600000000 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.createTable(
      new Table({
        name: 'api_keys',
        columns: [
          idColumn(queryRunner, 'pk_api_keys'),
          { name: 'name', type: 'varchar', length: '100' },
          { name: 'hash', type: 'varchar', length: '64' },
          { name: 'created_at', type: 'bigint' },
          { name: 'expires_at', type: 'bigint', isNullable: true },
          { name: 'revoked_at', type: 'bigint', isNullable: true },
          { name: 'last_used_at', type: 'bigint', isNullable: true },
        ],
        uniques: [{ name: 'uq_api_keys_hash', columnNames: ['hash'] }],
      }),
    );
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.dropTable('api_keys');
  }
}
