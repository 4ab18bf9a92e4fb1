/** Requests that take effect once: the response is recorded in the transaction of what the request changes. */
import type { DataSource, EntityManager } from 'typeorm';
import { Deadline, withDeadline } from '../database/connection/deadline.js';
import { isDataOrConstraintError } from '../database/connection/driver-errors.js';
import { ApiError } from '../errors/api-error.js';
import type { IdempotencyKey } from './idempotency-key.decorator.js';
import { IdempotencyRecord } from './idempotency-record.entity.js';

/**
 * Runs a transaction once for an Idempotency-Key: if an earlier request with the key has been committed, its result is
 * returned instead.
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
  const deadline = new Deadline();
  const run = (): Promise<Result> =>
    dataSource.transaction(async (manager) => {
      const result = await work(manager);
      if (key !== undefined) await manager.insert(IdempotencyRecord, toRecord(key, result));
      deadline.beforeCommit();
      return result;
    });
  const once = key === undefined ? run() : runOnce(dataSource.manager, key, run);
  return withDeadline(once, deadline);
}

/**
 * Runs work that records its response, and returns that of an earlier request with the key if that is why it fails.
 *
 * @throws {ApiError} IDEMPOTENCY_KEY_REUSED if the earlier request was a different one
 */
export async function runOnce<Result>(
  manager: EntityManager,
  key: IdempotencyKey,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!isDataOrConstraintError(error)) throw error;
    const { apiKeyId, value } = key;
    const record = await withDeadline(
      manager.findOneBy(IdempotencyRecord, { apiKeyId, key: value }),
    );
    if (record === null) throw error;
    if (!matchesRecord(key, record))
      throw new ApiError(
        'IDEMPOTENCY_KEY_REUSED',
        'This Idempotency-Key was used for a different request: send a new key.',
      );
    key.onReplay();
    return JSON.parse(record.response) as Result;
  }
}

/** Whether a record is that of the same request, also if the previous release wrote it. */
export function matchesRecord(key: IdempotencyKey, { fingerprint }: IdempotencyRecord): boolean {
  return fingerprint === key.fingerprint || fingerprint === key.getFormerFingerprint?.();
}

/** Returns the record of a response. */
export function toRecord(key: IdempotencyKey, response: unknown): IdempotencyRecord {
  const { apiKeyId, value, fingerprint } = key;
  const recorded = JSON.stringify(response);
  return { apiKeyId, key: value, fingerprint, response: recorded, createdAt: new Date() };
}
