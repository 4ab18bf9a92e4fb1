import { type MigrationInterface, type QueryRunner, Table } from 'typeorm';

export class CreateIdempotencyRecords1763600000004 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    const primaryKeyConstraintName = 'pk_idempotency_records';
    await queryRunner.createTable(
      new Table({
        name: 'idempotency_records',
        columns: [
          { name: 'api_key_id', type: 'bigint', isPrimary: true, primaryKeyConstraintName },
          {
            name: 'key',
            type: 'varchar',
            length: '255',
            isPrimary: true,
            primaryKeyConstraintName,
          },
          { name: 'fingerprint', type: 'varchar', length: '64' },
          { name: 'response', type: 'text' },
          { name: 'created_at', type: 'bigint' },
        ],
        indices: [{ name: 'ix_idempotency_records_created_at', columnNames: ['created_at'] }],
      }),
    );
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.dropTable('idempotency_records');
  }
}
