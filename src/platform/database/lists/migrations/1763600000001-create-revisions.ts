import { type MigrationInterface, type QueryRunner, Table } from 'typeorm';
import { isPostgres } from '../../connection/is-postgres.js';

/** Counts the changes of each tracked table. PostgreSQL only: SQLite counts its commits itself. */
export class CreateRevisions1763600000001 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    if (!isPostgres(queryRunner.dataSource)) return;
    await queryRunner.createTable(
      new Table({
        name: 'revisions',
        columns: [
          {
            name: 'name',
            type: 'varchar',
            length: '63',
            isPrimary: true,
            primaryKeyConstraintName: 'pk_revisions',
          },
          { name: 'value', type: 'bigint' },
        ],
      }),
    );
    await queryRunner.query(
      `CREATE FUNCTION raise_revision() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN
         UPDATE "revisions" SET "value" = "value" + 1 WHERE "name" = TG_TABLE_NAME;
         RETURN NULL;
       END $$`,
    );
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    if (!isPostgres(queryRunner.dataSource)) return;
    await queryRunner.query('DROP FUNCTION raise_revision()');
    await queryRunner.dropTable('revisions');
  }
}
