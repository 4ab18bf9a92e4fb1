/**
 * Requests that clients can repeat without repeating their effect. The response is recorded in the
 * transaction that stores what the request creates, so that either both exist or neither.
 */
import { randomInt } from 'node:crypto';
import type { DataSource, EntityManager } from 'typeorm';
import { ApiError } from '../errors/api-error.js';
import { withDeadline } from '../database/connection/deadline.js';
import { isDataOrConstraintError } from '../database/connection/driver-errors.js';
import type { IdempotencyKey } from './idempotency-key.decorator.js';
import { IdempotencyRecord } from './idempotency-record.entity.js';
import { buildInsert } from '../database/statements/row-mapping.js';

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
  const { sql, values } = buildInsert(manager.getRepository(IdempotencyRecord), records);
  await manager.query(sql, values);
}

/**
 * Extends an INSERT on PostgreSQL, so that the same statement records the responses. A transaction of two
 * statements takes four round trips instead of one, and meanwhile holds the lock of the table's revision.
 *
 * The responses contain ids that only the statement knows, so it replaces a random number of 15 digits in
 * them. A client cannot know the number, and would have to send it to change its own recorded response.
 *
 * @param insert `INSERT ... RETURNING "id"`, which assigns ids that ascend in the order of its rows
 * @param requests for each row the key of its request, if any, and the response for an id
 * @throws {QueryFailedError} when it is executed: a violated constraint if a key has a response
 */
export function addRecords(
  insert: { readonly sql: string; readonly values: readonly unknown[] },
  requests: readonly {
    readonly key: IdempotencyKey | undefined;
    readonly toResponse: (id: number) => unknown;
  }[],
): { sql: string; values: unknown[] } {
  const placeholder = randomInt(100_000_000_000_000, 2 ** 47);
  const records = requests.flatMap(({ key, toResponse }, index) =>
    key === undefined
      ? []
      : {
          position: index + 1,
          api_key_id: key.apiKeyId,
          key: key.value,
          fingerprint: key.fingerprint,
          response: JSON.stringify(toResponse(placeholder)),
        },
  );
  const parameter = (index: number): string => `$${insert.values.length + index}`;
  // In one order, so that two statements cannot each wait for a key of the other.
  const sql = `WITH "inserted" AS (${insert.sql}), "recorded" AS (
      INSERT INTO "idempotency_records" ("api_key_id", "key", "fingerprint", "response", "created_at")
      SELECT "api_key_id", "key", "fingerprint",
        replace("response", ${parameter(1)}::text, "id"::text), ${parameter(2)}::bigint
      FROM json_to_recordset(${parameter(3)}::json) AS "request" (
        "position" bigint, "api_key_id" bigint, "key" text, "fingerprint" text, "response" text)
      JOIN (SELECT "id", row_number() OVER (ORDER BY "id") AS "position" FROM "inserted") AS "row"
        USING ("position")
      ORDER BY "api_key_id", "key")
    SELECT "id" FROM "inserted"`;
  const values = [...insert.values, String(placeholder), Date.now(), JSON.stringify(records)];
  return { sql, values };
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
