import type { DataSource } from 'typeorm';

const SQLITE = [`SELECT "type", "name", "tbl_name", "sql" FROM "sqlite_master" ORDER BY 1, 2`];

// Omits ordinal_position, because dropped columns keep their numbers, and NOT NULL constraints, whose names those of
// replaced columns keep.
const POSTGRES = [
  `SELECT "table_name", "column_name", "data_type", "character_maximum_length", "is_nullable", "column_default", "is_identity"
     FROM information_schema.columns WHERE "table_schema" = 'public' ORDER BY 1, "ordinal_position"`,
  `SELECT "conname", "conrelid"::regclass::text AS "table", pg_get_constraintdef("oid") FROM pg_constraint
    WHERE "connamespace" = 'public'::regnamespace AND "contype" <> 'n' ORDER BY 1`,
  `SELECT "indexname", "indexdef" FROM pg_indexes WHERE "schemaname" = 'public' ORDER BY 1`,
  `SELECT "sequencename", "data_type" FROM pg_sequences WHERE "schemaname" = 'public' ORDER BY 1`,
  `SELECT "tgname", "tgenabled", pg_get_triggerdef("oid") FROM pg_trigger WHERE NOT "tgisinternal" ORDER BY 1`,
  `SELECT "proname", pg_get_functiondef("oid") FROM pg_proc
    WHERE "pronamespace" = 'public'::regnamespace ORDER BY 1`,
  `SELECT "typname" FROM pg_type WHERE "typnamespace" = 'public'::regnamespace ORDER BY 1`,
];

/** Returns the database schema, one string per schema object. */
export async function dumpSchema(dataSource: DataSource): Promise<string[]> {
  const queries = dataSource.options.type === 'postgres' ? POSTGRES : SQLITE;
  const dump: string[] = [];
  for (const query of queries) {
    const rows: unknown[] = await dataSource.query(query);
    // TypeORM encloses the checks of a SQLite table in parentheses each time it recreates the table.
    dump.push(...rows.map((row) => JSON.stringify(row).replaceAll(/([()])\1+/g, '$1')));
  }
  return dump;
}
