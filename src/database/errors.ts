import { QueryFailedError } from 'typeorm';

/**
 * Whether the database refused what a statement says, such as a constraint that it breaks: nothing
 * of it was stored, and trying again would not help. PostgreSQL's classes 22 and 23 are data
 * exceptions and violated constraints (https://www.postgresql.org/docs/18/errcodes-appendix.html).
 */
export function isRefusal(error: unknown): boolean {
  const { code } =
    error instanceof QueryFailedError ? (error.driverError as { code?: string }) : {};
  return code !== undefined && /^(SQLITE_CONSTRAINT|22|23)/.test(code);
}
