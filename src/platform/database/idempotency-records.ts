/**
 * Requests that clients can repeat without repeating their effect. The response is recorded in the
 * transaction that stores what the request creates, so that either both exist or neither.
 */
import type { DataSource, EntityManager } from 'typeorm';
import { ApiError } from '../errors/api-error.js';
import { withDeadline } from './deadline.js';
import { isDataOrConstraintError } from './driver-errors.js';
import { IdempotencyRecord } from './idempotency-record.entity.js';
import { buildInsert } from './row-mapping.js';

/** The Idempotency-Key of a request, and what identifies the request. */
export interface IdempotencyKey {
  /** The id of the API key: the keys of different clients never meet. */
  readonly apiKeyId: number;
  readonly value: string;
  /** A hash of the request's method, URL and body. */
  readonly fingerprint: string;
  /** Called if the response is that of an earlier request. */
  readonly onReplay: () => void;
}

/**
 * Runs a transaction once for an Idempotency-Key: if an earlier request with the key has been committed,
 * its result is returned instead. The request waits until its deadline at most.
 *
 * @param key without one, this is an ordinary transaction
 * @param work returns what the client gets, which is recorded as JSON
 * @throws {ApiError} IDEMPOTENCY_KEY_REUSED if the earlier request was a different one
 * @throws {DatabaseUnavailableError}
 */
export async function transactionOnce<Result>(
  dataSource: DataSource,
  key: IdempotencyKey | undefined,
  work: (manager: EntityManager) => Promise<Result>,
): Promise<Result> {
  if (key === undefined) return withDeadline(dataSource.transaction(work));
  try {
    return await withDeadline(
      dataSource.transaction(async (manager) => {
        const response = await work(manager);
        await recordResponses(manager, [{ key, response }]);
        return response;
      }),
    );
  } catch (error) {
    if (!isDataOrConstraintError(error)) throw error;
    const [response] = (await withDeadline(findResponses(dataSource.manager, [key]))).values();
    if (response === undefined) throw error;
    return replay(key, response) as Result;
  }
}

/**
 * Records responses.
 *
 * @throws {QueryFailedError} a violated constraint if a key has a response. On PostgreSQL, this is decided
 *   once a concurrent transaction that records the same key has ended.
 */
export async function recordResponses(
  manager: EntityManager,
  responses: readonly { readonly key: IdempotencyKey; readonly response: unknown }[],
): Promise<void> {
  const createdAt = new Date();
  const records = responses.map(({ key: { apiKeyId, value, fingerprint }, response }) => ({
    apiKeyId,
    key: value,
    fingerprint,
    response: JSON.stringify(response),
    createdAt,
  }));
  // In one order, so that two transactions cannot each wait for a key of the other.
  records.sort((a, b) => a.apiKeyId - b.apiKeyId || (a.key < b.key ? -1 : 1));
  const { sql, values } = buildInsert(manager.getRepository(IdempotencyRecord), records);
  await manager.query(sql, values);
}

/** Returns the records of those keys that have one, by {@link toId}. */
export async function findResponses(
  manager: EntityManager,
  keys: readonly IdempotencyKey[],
): Promise<Map<string, IdempotencyRecord>> {
  const conditions = keys.map(({ apiKeyId, value }) => ({ apiKeyId, key: value }));
  const records = await manager.findBy(IdempotencyRecord, conditions);
  return new Map(records.map((record) => [toId(record.apiKeyId, record.key), record]));
}

/** Identifies an Idempotency-Key among those of all clients. */
export function toId(apiKeyId: number, key: string): string {
  return `${apiKeyId} ${key}`;
}

/**
 * Returns the recorded response.
 *
 * @throws {ApiError} IDEMPOTENCY_KEY_REUSED if it is that of a different request
 */
export function replay(key: IdempotencyKey, record: IdempotencyRecord): unknown {
  if (key.fingerprint !== record.fingerprint)
    throw new ApiError(
      'IDEMPOTENCY_KEY_REUSED',
      'This Idempotency-Key was used for a different request: send a new key.',
    );
  key.onReplay();
  return JSON.parse(record.response);
}
