import type { DataSource } from 'typeorm';
import type { Paging, RowChunks } from '../../../src/platform/database/lists/list-rows.js';
import { CachedJsonResponse } from '../../../src/platform/http/responses/cached-json-response.js';

const { jest } = import.meta;

/** Records the statements matching the pattern that are sent to the database, those of transactions included. */
export function recordStatements({ logger }: DataSource, pattern: RegExp): string[] {
  const statements: string[] = [];
  jest.spyOn(logger, 'logQuery').mockImplementation((sql: string) => {
    if (pattern.test(sql)) statements.push(sql);
  });
  return statements;
}

/** Matches the query that reads the whole list. */
export const LIST_QUERY = /^SELECT\b.*\bFROM "categories"/is;
/** Matches the statement that inserts a batch of categories: on PostgreSQL, it is part of another one. */
export const INSERT_QUERY = /INSERT INTO "categories"/i;

/** A page of rows as `toResponse` sends it. */
export type Page<Entity> = Paging & { readonly rows: Entity[] };

/** Creates the response of a `CachedList`: its rows, with what belongs to the page. */
export async function toResponse(
  chunks: RowChunks<object>,
  paging: Paging,
): Promise<CachedJsonResponse> {
  const rows: object[] = [];
  for await (const chunk of chunks) rows.push(...chunk);
  return CachedJsonResponse.ofObject({ rows, ...paging });
}

/** Returns what a response of {@link toResponse} contains. */
export function toPage<Entity>(response: CachedJsonResponse): Page<Entity> {
  return response.toJSON() as Page<Entity>;
}
