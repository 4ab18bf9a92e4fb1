/**
 * Requests that clients can repeat without repeating their effect. The response is recorded in the
 * transaction that stores what the request creates, so that either both exist or neither.
 */
import type { DataSource, EntityManager } from 'typeorm';
import { withDeadline } from '../database/connection/deadline.js';
import { isDataOrConstraintError } from '../database/connection/driver-errors.js';
import { selectRows } from '../database/statements/row-mapping.js';
import { ApiError } from '../errors/api-error.js';
import type { IdempotencyKey } from './idempotency-key.decorator.js';
import { IdempotencyRecord } from './idempotency-record.entity.js';

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
  const run = runOnce(
    key,
    async () => (await findRecords(dataSource.manager, [key]))[0],
    () =>
      dataSource.transaction(async (manager) => {
        const result = await work(manager);
        await manager.insert(IdempotencyRecord, toRecord(key, result));
        return result;
      }),
  );
  return withDeadline(run);
}

/**
 * Runs work that records its response, and returns the recorded response of an earlier request with the key if that is
 * why the work fails. Most keys are new, so it does not look for a record before.
 *
 * @param findRecord looks for the record of the key
 */
export async function runOnce<Result>(
  key: IdempotencyKey,
  findRecord: () => Promise<IdempotencyRecord | undefined>,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    const record = isDataOrConstraintError(error) ? await findRecord() : undefined;
    if (record === undefined) throw error;
    return replay(key, record) as Result;
  }
}

/** Returns the record of a response. */
export function toRecord(
  { apiKeyId, value, fingerprint }: IdempotencyKey,
  response: unknown,
): IdempotencyRecord {
  return {
    apiKeyId,
    key: value,
    fingerprint,
    response: JSON.stringify(response),
    createdAt: new Date(),
  };
}

/** Returns the records of keys, in their order; undefined for a key that has none. */
export async function findRecords(
  manager: EntityManager,
  keys: readonly IdempotencyKey[],
): Promise<(IdempotencyRecord | undefined)[]> {
  // The key of one client may be that of another, too.
  const records = await selectRows(manager.getRepository(IdempotencyRecord), {
    apiKeyId: [...new Set(keys.map(({ apiKeyId }) => apiKeyId))],
    key: [...new Set(keys.map(({ value }) => value))],
  });
  return keys.map(({ apiKeyId, value }) =>
    records.find((record) => record.apiKeyId === apiKeyId && record.key === value),
  );
}

/**
 * Returns the recorded response.
 *
 * @throws {ApiError} IDEMPOTENCY_KEY_REUSED if it is that of a different request
 */
function replay(key: IdempotencyKey, record: IdempotencyRecord): unknown {
  if (key.fingerprint !== record.fingerprint)
    throw new ApiError(
      'IDEMPOTENCY_KEY_REUSED',
      'This Idempotency-Key was used for a different request: send a new key.',
    );
  key.onReplay();
  return JSON.parse(record.response);
}
