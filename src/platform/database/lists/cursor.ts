/** The cursors of lists: opaque texts, each of which identifies the row that its page follows. */
import { createHash } from 'node:crypto';
import type { EntityMetadata } from 'typeorm';
import { ApiError } from '../../errors/api-error.js';

export type Id = number | string;

/** What a cursor belongs to: one of another table, or of other filters, is invalid. */
interface CursorList {
  readonly metadata: EntityMetadata;
  readonly filters: object;
}

export function toCursor({ metadata, filters }: CursorList, id: Id): string {
  const list = JSON.stringify([metadata.tableName, filters]);
  const hash = createHash('sha256').update(list).digest('base64url').slice(0, HASH_LENGTH);
  return Buffer.from(`${hash}${id}`).toString('base64url');
}

const HASH_LENGTH = 8;

/**
 * Returns the id of a cursor. Its row may be deleted.
 *
 * @throws {ApiError} VALIDATION_FAILED if the list has no such cursor
 */
export function parseCursor(list: CursorList, cursor: string): Id {
  const text = Buffer.from(cursor, 'base64url').toString().slice(HASH_LENGTH);
  const id = list.metadata.primaryColumns[0]!.type === 'varchar' ? text : Number(text);
  // PostgreSQL would reject NUL.
  const isId = typeof id === 'string' ? !id.includes('\0') : Number.isSafeInteger(id);
  if (!isId || toCursor(list, id) !== cursor)
    throw new ApiError('VALIDATION_FAILED', 'The cursor is not one of this list.');
  return id;
}
