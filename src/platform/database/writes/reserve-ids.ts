import type { ObjectLiteral, Repository } from 'typeorm';
import { prepare, readRows } from '../connection/service-data-source.js';

const RESERVE_IDS = `SELECT nextval("sequence") AS "id"
 FROM (SELECT pg_get_serial_sequence($1, 'id') AS "sequence" OFFSET 0) AS "names", generate_series(1, $2)`;

/** Reserves ids of a table on PostgreSQL, which never assigns them again, and returns them. */
export async function reserveIds(
  { manager, metadata }: Repository<ObjectLiteral>,
  count: number,
): Promise<number[]> {
  const parameters = [`"${metadata.tableName}"`, count];
  const rows = await readRows<{ id: string }>(manager, prepare(manager, RESERVE_IDS), parameters);
  return rows.map(({ id }) => Number(id));
}
