import type { DatabaseError } from 'pg';
import { QueryFailedError } from 'typeorm';
import { ApiError } from '../../errors/api-error.js';

/** The database could not be reached or do its work; `DatabaseHealth` logs the outage. */
export class DatabaseUnavailableError extends ApiError {
  override readonly name = 'DatabaseUnavailableError';

  /**
   * @param cause the error of the driver
   * @param isOutcomeUnknown whether the request may have taken effect
   */
  constructor(cause?: unknown, isOutcomeUnknown = false) {
    const advice = isOutcomeUnknown
      ? 'The request may have taken effect: retry it with the same Idempotency-Key, or check first.'
      : 'Please retry later.';
    super('SERVICE_UNAVAILABLE', `Service temporarily unavailable. ${advice}`, {
      headers: { 'Retry-After': '1' },
      cause: explain(cause),
      skipLog: true,
    });
  }
}

/** PostgreSQL has ended a transaction or a statement because of concurrent ones. Nothing was stored. */
export class TransactionConflictError extends ApiError {
  override readonly name = 'TransactionConflictError';

  constructor(cause: unknown) {
    super('SERVICE_UNAVAILABLE', 'The request conflicted with others. Please retry later.', {
      headers: { 'Retry-After': '1' },
      cause,
      skipLog: true,
    });
  }
}

/** PostgreSQL: a statement writes on a read-only connection or server. */
export const READ_ONLY_TRANSACTION = '25006';

/** PostgreSQL: no space is left on the disk. */
export const DISK_FULL = '53100';

/**
 * SQLite: a file that cannot be used now. PostgreSQL: failures of the connection, password, resources, operator and system
 * (08, 28, 53, 57, 58), a read-only server, a missing database or privilege. Node: each error of the operating system,
 * such as ENOENT for a Unix socket without a server, and those of TLS, sockets and streams; other codes that begin with
 * ERR_ are of wrong arguments.
 */
const UNAVAILABLE =
  /^(SQLITE_(BUSY|FULL|IOERR|READONLY|CANTOPEN|CORRUPT|NOTADB|PROTOCOL|NOMEM)|(08|28|53|57|58)...$|(25006|3D000|42501)$|E(?!RR_)[A-Z_]+$|ERR_(SSL|SOCKET|STREAM)_)/;

/** PostgreSQL: a wrong number of parameters or, if FATAL, PgBouncer closing the session. */
const PROTOCOL_VIOLATION = '08P01';

/** PostgreSQL: a serialization failure, a deadlock; the `lock_timeout` of the role, which has the code of NOWAIT. */
const CONFLICT = /^(40(001|P01) |55P03 ProcessInterrupts)/;

/** PostgreSQL: the classes of a rejected password, a missing database, and a missing privilege, table or column. */
const MISCONFIGURED = /^(28|3D|42)/;

/** The tables that requests of all modules use. */
export const PLATFORM_TABLE = /\b(api_keys|idempotency_records|migrations|revisions)\b/;

/** The messages of pg and TypeORM, which have no code, for a connection that is lost, closed or silent. */
const NO_CONNECTION =
  /^(timeout exceeded when trying to connect|Connection terminated|Received unexpected|Client (has encountered a connection error|was closed) and is not queryable|Driver not Connected|There was an error establishing an SSL connection)/;

type DriverError = Partial<DatabaseError>;

/**
 * Translates an error that the driver threw to a DatabaseUnavailableError or a TransactionConflictError, or returns it,
 * such as that of a wrong statement. Call it only where the driver is called: ECONNREFUSED means a database only there.
 *
 * @param isCommit whether the statement has an effect that cannot be rolled back
 */
export function translateDriverError(error: unknown, isCommit = false): unknown {
  const { routine = '' } = Object(getDriverError(error)) as DriverError;
  if (CONFLICT.test(`${getDriverErrorCode(error)} ${routine}`))
    return new TransactionConflictError(error);
  if (!isUnavailable(error) && !lacksPlatformTable(error)) return error;
  return new DatabaseUnavailableError(error, isCommit && hasUnknownOutcome(error));
}

/** Returns the error of a standby, or of a schema without a table of the platform, in words of an operator. */
function explain(error: unknown): unknown {
  // Node has an error for each address of a host, and none of their messages.
  if (error instanceof AggregateError) return error.errors[0];
  const { message, routine } = Object(getDriverError(error)) as DriverError;
  const isStandby = routine === 'PreventCommandDuringRecovery';
  if (!isStandby && !lacksPlatformTable(error)) return error;
  const text = isStandby
    ? 'The server is a standby, not the primary, which DATABASE_URL must name'
    : `The database schema is outdated, or the role may not use it: ${message}`;
  return Object.assign(new Error(text), { code: getDriverErrorCode(error) });
}

function isUnavailable(error: unknown): boolean {
  const cause = getDriverError(error);
  const code = getDriverErrorCode(error);
  if (code === '') return cause instanceof Error && NO_CONNECTION.test(cause.message);
  const { severity, routine } = cause as DriverError;
  if (code === PROTOCOL_VIOLATION) return severity === 'FATAL';
  // A policy of row security rejects a row with the code of a missing privilege, and a trigger with any code.
  if (routine === 'ExecWithCheckOptions' || routine === 'exec_stmt_raise') return false;
  return UNAVAILABLE.test(code);
}

/**
 * Whether a table of the platform, or one of its columns, does not exist, such as after a failover to a server without the
 * newest migration. The message names a missing table; that of a column is the first one of the statement, but revisions,
 * which is in statements on tables of modules, too.
 */
function lacksPlatformTable(error: unknown): boolean {
  if (!(error instanceof QueryFailedError)) return false;
  const { message } = error.driverError;
  const problem = `${getDriverErrorCode(error)} ${message}`;
  if (/^(42P01|\S+ no such table)/.test(problem)) return PLATFORM_TABLE.test(message);
  const [, table = ''] = /(?:FROM|INTO|UPDATE) "(?!revisions)(\w+)"/.exec(error.query) ?? [];
  return /^(42703|\S+ no such column)/.test(problem) && PLATFORM_TABLE.test(table);
}

/** Whether a failed statement may have been carried out: no response, a session that ended, a file that SQLite could not sync. */
function hasUnknownOutcome(error: unknown): boolean {
  const wasSent = error instanceof QueryFailedError && !error.message.endsWith('not queryable');
  return wasSent && /^(08...|57P..|E\w+|SQLITE_IOERR.*|)$/.test(getDriverErrorCode(error));
}

/** Returns the error of the driver behind an error of TypeORM or of this file. */
export function getDriverError(error: unknown): unknown {
  if (error instanceof DatabaseUnavailableError || error instanceof TransactionConflictError)
    return getDriverError(error.cause);
  return error instanceof QueryFailedError ? error.driverError : error;
}

/** Returns the driver's code of an error, such as `SQLITE_FULL` or `57P01`; empty if it has none. */
export function getDriverErrorCode(error: unknown): string {
  const { code = '' } = Object(getDriverError(error)) as { code?: unknown };
  return String(code);
}

/**
 * Whether a database that could not be opened may be opened later, although the operator corrects nothing: not a file of
 * SQLite, unless it is locked, and not with a wrong user of PostgreSQL, or without a privilege, the database or a table.
 */
export function isTemporary(error: unknown): boolean {
  const code = getDriverErrorCode(error);
  if (code.startsWith('SQLITE_')) return isBusyError(error);
  if (error instanceof TransactionConflictError) return true;
  return error instanceof DatabaseUnavailableError && !MISCONFIGURED.test(code);
}

/** Describes an error of the driver for the log: its message and its code. */
export function describeDriverError(error: unknown): string {
  const code = getDriverErrorCode(error);
  const cause = getDriverError(error);
  const message = cause instanceof Error ? cause.message : String(cause);
  return code === '' ? message : `${message} (${code})`;
}

/**
 * Whether the database rejected the data of a statement, for example for a violated constraint: nothing was stored
 * (classes 22 and 23 of https://www.postgresql.org/docs/18/errcodes-appendix.html).
 */
export function isDataOrConstraintError(error: unknown): boolean {
  return hasRejectedStatement(error, /^(SQLITE_CONSTRAINT|2[23]...$)/);
}

/** Whether the database itself rejected a statement, for whatever reason: PostgreSQL has codes of five characters. */
export function isRejectedStatement(error: unknown): boolean {
  if (error instanceof TransactionConflictError) return true;
  return hasRejectedStatement(error, /^(SQLITE_|[\dA-Z]{5}$)/);
}

/** Whether a statement references a missing row, or deletes a referenced one. */
export function isForeignKeyViolation(error: unknown): boolean {
  return hasRejectedStatement(error, /^(SQLITE_CONSTRAINT_FOREIGNKEY|23503|23001)$/);
}

/** Whether a statement violated a unique constraint, a unique index or a primary key. */
export function isUniqueViolation(error: unknown): boolean {
  return hasRejectedStatement(error, /^(SQLITE_CONSTRAINT_(UNIQUE|PRIMARYKEY)|23505)$/);
}

/** Whether PostgreSQL has no room for a value: a text that is too long, a number out of range, a fraction. SQLite has room. */
export function isInvalidForColumn(error: unknown): boolean {
  return hasRejectedStatement(error, /^(22001|22003|22P02)$/);
}

function hasRejectedStatement(error: unknown, codes: RegExp): boolean {
  return error instanceof QueryFailedError && codes.test(getDriverErrorCode(error));
}

/** Whether another process holds the lock of the SQLite file. Nothing was done; a retry may succeed. */
export function isBusyError(error: unknown): boolean {
  return /^SQLITE_BUSY(_RECOVERY)?$/.test(getDriverErrorCode(error));
}
