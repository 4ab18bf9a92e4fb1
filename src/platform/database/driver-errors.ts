import { QueryFailedError } from 'typeorm';
import { ApiError } from '../errors/api-error.js';

/**
 * Whether the database refused what a statement says, such as a constraint that it breaks: nothing
 * of it was stored, and trying again would not help. PostgreSQL's classes 22 and 23 are data
 * exceptions and violated constraints (https://www.postgresql.org/docs/18/errcodes-appendix.html).
 */
export function isDataOrConstraintError(error: unknown): boolean {
  return (
    error instanceof QueryFailedError &&
    /^(SQLITE_CONSTRAINT|2[23]...$)/.test(getCode(error.driverError))
  );
}

/** Whether another process holds the lock of the SQLite file. Nothing was done; later it may be. */
export function isBusyError(error: unknown): boolean {
  const cause: unknown = error instanceof QueryFailedError ? error.driverError : error;
  return /^SQLITE_BUSY(_RECOVERY)?$/.test(getCode(cause));
}

/** Whether a statement broke a foreign key: it refers to a row that does not exist, or deletes one that is referred to. */
export function isForeignKeyViolation(error: unknown): boolean {
  return (
    error instanceof QueryFailedError &&
    /^(SQLITE_CONSTRAINT_FOREIGNKEY|23503|23001)$/.test(getCode(error.driverError))
  );
}

/**
 * SQLite's result codes for a file that cannot be used now; PostgreSQL's classes for a connection,
 * resources, an operator or the system that fail (08, 53, 57, 58), a rolled back transaction (40) and
 * a server that only reads (25006); Node's codes of a connection that fails.
 */
const UNAVAILABLE =
  /^(SQLITE_(BUSY|LOCKED|FULL|IOERR|READONLY|CANTOPEN|CORRUPT|NOTADB|PROTOCOL|NOMEM)|(08|40|53|57|58)...$|25006$|ECONNREFUSED$|ECONNRESET$|EPIPE$|ETIMEDOUT$|EHOSTUNREACH$|ENETUNREACH$|ENOTFOUND$|EAI_AGAIN$)/;

/** What pg says, without a code, where it got no connection. */
const NO_CONNECTION =
  /^(timeout exceeded when trying to connect|Connection terminated|Driver not Connected)/;

/** Whether the database could not be reached or could not do its work: the same request may succeed later. */
export function isUnavailable(error: unknown): boolean {
  const queryFailed = error instanceof QueryFailedError;
  const cause: unknown = queryFailed ? error.driverError : error;
  const code = getCode(cause);
  if (code !== '') return UNAVAILABLE.test(code);
  // A failed query without a code is one that pg itself gave up on.
  return queryFailed || (cause instanceof Error && NO_CONNECTION.test(cause.message));
}

/** The driver's code of a failure, such as `SQLITE_FULL`, `57P01` or `ECONNREFUSED`; empty where it has none. */
export function getDriverErrorCode(error: unknown): string {
  return getCode(error instanceof QueryFailedError ? error.driverError : error);
}

function getCode(error: unknown): string {
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : '';
}

/**
 * Milliseconds that a request waits for the database at most, for its key and then for its work, so
 * that it is answered within 5 seconds. The limits of the pool alone would let it wait longer: for a
 * query that others began, then for a connection, then for its own query.
 */
const QUERY_DEADLINE_MS = 2_300;

/**
 * Waits for the database as long as a request may; what was begun goes on.
 *
 * @throws {ApiError} SERVICE_UNAVAILABLE
 */
export async function withDeadline<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const limit = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(databaseUnavailable()), QUERY_DEADLINE_MS);
  });
  return Promise.race([work, limit]).finally(() => clearTimeout(timer));
}

/** What a client is told while the database is away. */
export function databaseUnavailable(cause?: unknown): ApiError {
  return new ApiError(
    'SERVICE_UNAVAILABLE',
    'The database does not answer. Try again later.',
    { 'Retry-After': '1' },
    cause,
  );
}
