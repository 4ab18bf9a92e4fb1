import { type MigrationInterface, type QueryRunner, Table } from 'typeorm';
import { addRevisionTrigger, dropRevisionTrigger, idColumn } from '../../../platform/index.js';

export class CreateCategories1763600000002 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.createTable(
      new Table({
        name: 'categories',
        columns: [
          idColumn(queryRunner, 'pk_categories'),
          { name: 'name', type: 'varchar', length: '100' },
          { name: 'description', type: 'varchar', length: '1000', isNullable: true },
        ],
        checks: [{ name: 'ck_categories_id', expression: '"id" <= 9007199254740991' }],
      }),
    );
    await addRevisionTrigger(queryRunner, 'categories');
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await dropRevisionTrigger(queryRunner, 'categories');
    await queryRunner.dropTable('categories');
  }
}
