import type { Type } from '@nestjs/common';
import {
  type MigrationInterface,
  type QueryRunner,
  Table,
  TableColumn,
  TableForeignKey,
} from 'typeorm';
import {
  addRevisionTrigger,
  dropRevisionTrigger,
} from '../../../src/platform/database/lists/revision-trigger.js';
import { idColumn, type IdOptions } from '../../../src/platform/database/statements/columns.js';

/** Returns a migration that creates the table of an entity with a kind of ids, and its revision. */
export function createTable(
  entity: Type,
  timestamp: number,
  options?: IdOptions,
): Type<MigrationInterface> {
  const migrations = {
    [`Create${entity.name}${timestamp}`]: class implements MigrationInterface {
      async up(queryRunner: QueryRunner): Promise<void> {
        const { dataSource } = queryRunner;
        const { driver } = dataSource;
        const metadata = dataSource.getMetadata(entity);
        const table = Table.create(metadata, driver);
        const id = new TableColumn(idColumn(queryRunner, `pk_${table.name}`, options));
        table.columns = table.columns.map((column) => (column.name === 'id' ? id : column));
        table.foreignKeys = metadata.foreignKeys.map((key) => TableForeignKey.create(key, driver));
        await queryRunner.createTable(table);
        await addRevisionTrigger(queryRunner, table.name);
      }

      async down(queryRunner: QueryRunner): Promise<void> {
        const { tableName } = queryRunner.dataSource.getMetadata(entity);
        await dropRevisionTrigger(queryRunner, tableName);
        await queryRunner.dropTable(tableName);
      }
    },
  };
  return Object.values(migrations)[0]!;
}
