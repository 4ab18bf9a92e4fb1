/** Requests that take effect once: the response is recorded in the transaction of what the request changes. */
import type { IncomingMessage } from 'node:http';
import type { DataSource, EntityManager } from 'typeorm';
import { withDeadline } from '../database/connection/deadline.js';
import {
  DatabaseUnavailableError,
  TransactionConflictError,
} from '../database/connection/driver-errors.js';
import { runTransaction } from '../database/connection/run-transaction.js';
import { readRows } from '../database/connection/service-data-source.js';
import {
  selectColumns,
  StatementParameters,
  toConditions,
  toEntities,
} from '../database/statements/statement-parts.js';
import { ApiError } from '../errors/api-error.js';
import { requestContext } from '../logging/logger.js';
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
  if (key?.record) return replay(key, key.record) as Result;
  return runTransaction(dataSource, async (manager) => {
    const result = await work(manager);
    if (key !== undefined) await manager.insert(IdempotencyRecord, toRecord(key, result));
    return result;
  }).catch((error: unknown) => replayAfter(error, dataSource.manager, key) as Promise<Result>);
}

/**
 * Returns the response of an earlier request with the key of one that has failed, for whatever reason but an outage: the
 * earlier one may itself be the reason, such as a pet that is not for sale any more. Call it once the transaction of the
 * failed request has ended: before, the earlier one could still be committed.
 *
 * @throws what the request has failed with, if there is no earlier one
 * @throws {ApiError} IDEMPOTENCY_KEY_REUSED if the earlier request was a different one
 */
export async function replayAfter(
  error: unknown,
  manager: EntityManager,
  key: IdempotencyKey | undefined,
): Promise<unknown> {
  const isOutage =
    error instanceof DatabaseUnavailableError || error instanceof TransactionConflictError;
  if (isOutage || !(await isRecorded(manager, key))) throw error;
  return replay(key!, key!.record!);
}

/**
 * Whether a request with this key, by default that of the request that is handled, has been successful. The next call of
 * `transactionOnce` or `Resource.create` with the key repeats its response.
 */
export async function isRecorded(
  manager: EntityManager,
  key = (requestContext.getStore() as IncomingMessage | undefined)?.idempotencyKey,
): Promise<boolean> {
  if (key === undefined) return false;
  if (key.record === undefined) await withDeadline(findRecords(manager, [key]));
  return key.record !== null;
}

/** Reads the records of keys with one statement, and returns them; null for a key without one. */
export async function findRecords(
  manager: EntityManager,
  keys: readonly IdempotencyKey[],
): Promise<(IdempotencyRecord | null)[]> {
  const records = manager.getRepository(IdempotencyRecord);
  const parameters = new StatementParameters(manager.dataSource);
  const criteria = {
    apiKeyId: [...new Set(keys.map(({ apiKeyId }) => apiKeyId))],
    key: [...new Set(keys.map(({ value }) => value))],
  };
  const rows = await readRows<Record<string, unknown>>(
    manager,
    `SELECT ${selectColumns(records.metadata)} FROM "${records.metadata.tableName}"
     WHERE ${toConditions(records, criteria, parameters).join(' AND ')}`,
    parameters.values,
  );
  const found = new Map(
    toEntities(records, rows).map((record) => [`${record.apiKeyId} ${record.key}`, record]),
  );
  return keys.map((key) => (key.record = found.get(`${key.apiKeyId} ${key.value}`) ?? null));
}

/** @throws {ApiError} IDEMPOTENCY_KEY_REUSED if the earlier request was a different one */
export function replay(key: IdempotencyKey, record: IdempotencyRecord): unknown {
  markReplayed(key, record);
  return JSON.parse(record.response);
}

/**
 * Marks the response of a request as that of an earlier one.
 *
 * @throws {ApiError} IDEMPOTENCY_KEY_REUSED if the earlier request was a different one
 */
export function markReplayed(key: IdempotencyKey, earlier: { readonly fingerprint: string }): void {
  if (!matches(key, earlier))
    throw new ApiError(
      'IDEMPOTENCY_KEY_REUSED',
      'This Idempotency-Key was used for a different request: send a new key.',
    );
  key.onReplay();
}

/** Whether a fingerprint is that of the same request, also if the previous release recorded it. */
function matches(key: IdempotencyKey, { fingerprint }: { readonly fingerprint: string }): boolean {
  return fingerprint === key.fingerprint || fingerprint === key.getFormerFingerprint?.();
}

/** Returns the record of a response. */
export function toRecord(key: IdempotencyKey, response: unknown): IdempotencyRecord {
  const { apiKeyId, value, fingerprint } = key;
  const recorded = JSON.stringify(response);
  return { apiKeyId, key: value, fingerprint, response: recorded, createdAt: new Date() };
}
