import type { DataSource } from 'typeorm';
import { withDeadline } from '../database/connection/deadline.js';
import { type IdempotencyKey, toKeyId } from './idempotency-key.decorator.js';

/** For each database and Idempotency-Key, a promise that settles when the latest request with the key ends. */
const turns = new WeakMap<DataSource, Map<string, Promise<unknown>>>();

/**
 * Waits until the earlier requests with an Idempotency-Key in this process have ended. Each would hold a connection of the
 * pool while it waits for the locks of their rows.
 *
 * @returns a function that ends the turn of this request
 * @throws {DatabaseUnavailableError} if that takes too long
 */
export async function takeTurn(dataSource: DataSource, key: IdempotencyKey): Promise<() => void> {
  const latest = turns.get(dataSource) ?? new Map<string, Promise<unknown>>();
  turns.set(dataSource, latest);
  const id = toKeyId(key);
  const previous = latest.get(id) ?? Promise.resolve();
  const { promise, resolve } = Promise.withResolvers<void>();
  const turn = Promise.all([previous, promise]).finally(() => {
    if (latest.get(id) === turn) latest.delete(id);
  });
  latest.set(id, turn);
  try {
    await withDeadline(previous);
  } catch (error) {
    resolve();
    throw error;
  }
  return resolve;
}
