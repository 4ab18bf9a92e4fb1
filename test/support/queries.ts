import type { DataSource } from 'typeorm';

const { jest } = import.meta;

/** Records the statements that the service sends through the DataSource and that match a pattern. */
export function recordQueries(dataSource: DataSource, pattern: RegExp): string[] {
  const statements: string[] = [];
  const query = dataSource.query.bind(dataSource);
  jest.spyOn(dataSource, 'query').mockImplementation(async (sql, ...rest) => {
    if (typeof sql === 'string' && pattern.test(sql)) statements.push(sql);
    return query(sql, ...rest);
  });
  return statements;
}

/** The reading of the whole list. */
export const LIST_QUERY = /^SELECT\b.*\bFROM "categories"/is;
/** The writing of a group of categories. */
export const INSERT_QUERY = /^INSERT INTO "categories"/i;
