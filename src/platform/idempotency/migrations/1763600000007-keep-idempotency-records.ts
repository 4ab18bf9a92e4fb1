import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Milliseconds since 1970 UTC. */
const NOW = 'extract(epoch FROM now()) * 1000';

/**
 * Makes PostgreSQL keep each record for 24 hours by its own clock, whatever the clocks of the instances, those of the
 * previous release included: their application name is `petstore`. Operators may delete records at any time.
 */
export class KeepIdempotencyRecords1763600000007 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    if (queryRunner.dataSource.options.type !== 'postgres') return;
    await queryRunner.query(
      `CREATE FUNCTION keep_idempotency_record() RETURNS trigger LANGUAGE plpgsql AS $$
       DECLARE
         "time" bigint := ${NOW};
       BEGIN
         IF TG_OP = 'INSERT' THEN
           NEW."created_at" := "time";
           RETURN NEW;
         END IF;
         IF OLD."created_at" > "time" - 86400000 AND current_setting('application_name') = 'petstore' THEN
           RAISE EXCEPTION 'The record of an Idempotency-Key is kept for 24 hours by the clock of the database';
         END IF;
         RETURN OLD;
       END $$`,
    );
    await queryRunner.query(
      `CREATE TRIGGER "tr_idempotency_records_keep" BEFORE INSERT OR DELETE ON "idempotency_records"
       FOR EACH ROW EXECUTE FUNCTION keep_idempotency_record()`,
    );
    await queryRunner.query(
      `UPDATE "idempotency_records" SET "created_at" = ${NOW} WHERE "created_at" > ${NOW}`,
    );
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    if (queryRunner.dataSource.options.type !== 'postgres') return;
    await queryRunner.query('DROP FUNCTION keep_idempotency_record() CASCADE');
  }
}
