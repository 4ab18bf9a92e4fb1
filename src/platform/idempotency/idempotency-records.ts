/** Requests that take effect once: the response is recorded in the transaction of what the request changes. */
import type { DatabaseError } from 'pg';
import type { DataSource, EntityManager } from 'typeorm';
import {
  DatabaseUnavailableError,
  getDriverError,
  isUniqueViolation,
} from '../database/connection/driver-errors.js';
import { type AfterCommit, runTransaction } from '../database/connection/run-transaction.js';
import { withDeadline } from '../database/connection/deadline.js';
import {
  getDialect,
  readRows,
  type ServiceQueryRunner,
} from '../database/connection/service-data-source.js';
import {
  buildInsert,
  selectColumns,
  StatementParameters,
  toConditions,
} from '../database/statements/statement-parts.js';
import { ApiError } from '../errors/api-error.js';
import { type IdempotencyKey, toKeyId } from './idempotency-key.decorator.js';
import { IdempotencyRecord } from './idempotency-record.entity.js';
import { takeTurn } from './key-turns.js';

/**
 * Runs a transaction once for an Idempotency-Key: if an earlier request with the key has been committed, its result is
 * returned instead. The work checks its rules itself, so that a repeated request is not asked about what the first one has
 * changed.
 *
 * @param key without one, this is an ordinary transaction
 * @param work returns what the client gets, which is recorded as JSON; `afterCommit` registers what happens only then, and
 *   not for a repeated request, such as an event: the response does not wait for it, and stands if it fails
 * @returns what the work has returned; with a key, its JSON value, also the first time: without classes and dates
 * @throws {ApiError} IDEMPOTENCY_KEY_REUSED if the earlier request was a different one
 * @throws {DatabaseUnavailableError}
 */
export async function transactionOnce<Result>(
  dataSource: DataSource,
  key: IdempotencyKey | undefined,
  work: (manager: EntityManager, afterCommit: AfterCommit) => Promise<Result>,
): Promise<Result> {
  if (key === undefined) return runTransaction(dataSource, work);
  const endTurn = await takeTurn(dataSource, key);
  const getResult = await runTransaction(dataSource, async (manager, afterCommit) => {
    const [earlier] = await findRecords(manager, [key]);
    if (earlier !== undefined) return () => replay(key, earlier);
    const record = toRecord(key, await work(manager, afterCommit));
    await insertRecords(manager, [record]);
    // Interceptors get the JSON value that a repeated request gets, too.
    return (): unknown => JSON.parse(record.response);
  })
    .catch(async (error: unknown) => {
      if (error instanceof DatabaseUnavailableError) throw error;
      // A copy of the request, in a batch or in another instance, may be why this failed.
      const [earlier] = await withDeadline(findRecords(dataSource.manager, [key]));
      if (earlier === undefined) throw error;
      return () => replay(key, earlier);
    })
    .finally(endTurn);
  return getResult() as Result;
}

/** Looks for the records of keys with one statement. Returns undefined for a key without one. */
export async function findRecords(
  manager: EntityManager,
  keys: readonly (IdempotencyKey | undefined)[],
): Promise<(IdempotencyRecord | undefined)[]> {
  const records = manager.getRepository(IdempotencyRecord);
  const parameters = new StatementParameters(manager.dataSource);
  const criteria = {
    apiKeyId: [...new Set(keys.flatMap((key) => key?.apiKeyId ?? []))],
    value: [...new Set(keys.flatMap((key) => key?.value ?? []))],
  };
  const found = await readRows<IdempotencyRecord>(
    manager,
    `SELECT ${selectColumns(records.metadata)}, ${getDialect(manager.dataSource).awaitsStandbys}
     FROM "${records.metadata.tableName}"
     WHERE ${toConditions(records, criteria, parameters).join(' AND ')}`,
    parameters.values,
  );
  const byKey = new Map(found.map((record) => [toKeyId(record), record]));
  return keys.map((key) => key && byKey.get(toKeyId(key)));
}

/**
 * Returns the recorded response of an earlier request, and marks the response of this one as its repetition.
 *
 * @throws {ApiError} IDEMPOTENCY_KEY_REUSED if the earlier request was a different one
 */
export function replay(key: IdempotencyKey, { fingerprint, response }: IdempotencyRecord): unknown {
  if (fingerprint !== key.fingerprint && fingerprint !== key.getFormerFingerprint?.())
    throw new ApiError(
      'IDEMPOTENCY_KEY_REUSED',
      'This Idempotency-Key was used for a different request: send a new key.',
    );
  key.onReplay();
  return JSON.parse(response);
}

/**
 * Inserts records with one statement: TypeORM's query builder would take the time of another one. On
 * PostgreSQL it is sent with the end of the transaction or of its savepoint, which fails if a key has a record already.
 */
export async function insertRecords(
  manager: EntityManager,
  records: readonly IdempotencyRecord[],
): Promise<void> {
  const { sql, values } = buildInsert(manager.getRepository(IdempotencyRecord), records);
  await (manager.queryRunner as ServiceQueryRunner).queryWithNext(sql, values);
}

/** Whether a statement failed because a key already has a record: PostgreSQL names the constraint, SQLite the columns. */
export function isRecordCollision(error: unknown): boolean {
  if (!isUniqueViolation(error)) return false;
  const { constraint, message } = getDriverError(error) as DatabaseError;
  return constraint === undefined
    ? message.includes(': idempotency_records.api_key_id,')
    : constraint === 'pk_idempotency_records';
}

/** Returns the record of a response. */
export function toRecord(key: IdempotencyKey, response: unknown): IdempotencyRecord {
  const { apiKeyId, value, fingerprint } = key;
  // A handler without a body returns undefined.
  const recorded = JSON.stringify(response ?? null);
  return { apiKeyId, value, fingerprint, response: recorded, createdAt: Date.now() };
}
