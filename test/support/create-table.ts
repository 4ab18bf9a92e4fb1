import type { Type } from '@nestjs/common';
import { type MigrationInterface, type QueryRunner, Table, TableForeignKey } from 'typeorm';
import { isPostgres } from '../../src/platform/database/connection/is-postgres.js';
import {
  addRevisionTrigger,
  dropRevisionTrigger,
} from '../../src/platform/database/lists/revision-trigger.js';

/** Returns a migration that creates the table of an entity, and its revision. */
export function createTable(entity: Type, timestamp: number): Type<MigrationInterface> {
  const migrations = {
    [`Create${entity.name}${timestamp}`]: class implements MigrationInterface {
      async up(queryRunner: QueryRunner): Promise<void> {
        const { dataSource } = queryRunner;
        const metadata = dataSource.getMetadata(entity);
        const table = Table.create(metadata, dataSource.driver);
        table.foreignKeys = metadata.foreignKeys.map((key) =>
          TableForeignKey.create(key, dataSource.driver),
        );
        // SQLite assigns values only to a column of the type INTEGER, and compares byte by byte.
        if (!isPostgres(dataSource))
          for (const column of table.columns)
            Object.assign(
              column,
              { collation: undefined },
              column.isGenerated && { type: 'integer' },
            );
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
