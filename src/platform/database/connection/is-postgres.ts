import type { DataSource } from 'typeorm';

/** Whether a database is PostgreSQL; otherwise it is SQLite. */
export function isPostgres({ options }: Pick<DataSource, 'options'>): boolean {
  return options.type === 'postgres';
}
