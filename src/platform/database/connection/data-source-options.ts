import { Client } from 'pg';
import type { DataSourceOptions } from 'typeorm';
import type { DatabaseConfig } from '../../config/config.js';
import { getDriverErrorCode, READ_ONLY_TRANSACTION } from './driver-errors.js';
import { CONNECT_TIMEOUT_MS, QUERY_TIMEOUT_MS, SQLITE_BUSY_TIMEOUT_MS } from './timeouts.js';

/**
 * How long a connection to PostgreSQL is used, in seconds. Without a limit, it would stay at a server
 * that its name does not refer to any more.
 */
const MAX_CONNECTION_LIFETIME_S = 300;

/** The options that features contribute: their entities and migrations. */
export type Schema = Required<Pick<DataSourceOptions, 'entities' | 'migrations'>>;

/**
 * Returns TypeORM's options for a database.
 *
 * @param options.servesRequests whether the timeouts of requests apply: a migration or a copy may exceed them
 */
export function databaseOptions(
  database: DatabaseConfig,
  schema: Schema,
  { servesRequests = false, poolSize }: { servesRequests?: boolean; poolSize?: number } = {},
): DataSourceOptions {
  const common = { ...schema, migrationsTableName: 'migrations', logging: false as const };
  if (database.type === 'sqlite') {
    return {
      ...common,
      type: 'better-sqlite3',
      database: database.file,
      // SQLite blocks the event loop while it waits; `retryOnBusy` does not.
      timeout: servesRequests ? 0 : SQLITE_BUSY_TIMEOUT_MS,
      enableWAL: true,
      prepareDatabase: (connection: { pragma(source: string): void }) => {
        // A 201 survives a power failure. With NORMAL, a common choice in WAL mode, the newest
        // commits may be lost (https://sqlite.org/pragma.html#pragma_synchronous).
        connection.pragma('synchronous = FULL');
      },
    };
  }
  return {
    ...common,
    type: 'postgres',
    url: database.url,
    applicationName: 'petstore',
    ...(poolSize && { poolSize }),
    connectTimeoutMS: CONNECT_TIMEOUT_MS,
    // The pool replaces an idle connection that breaks; there is nothing to report.
    poolErrorHandler: () => undefined,
    extra: {
      Client: PetstorePgClient,
      keepAlive: true,
      maxLifetimeSeconds: MAX_CONNECTION_LIFETIME_S,
      // The server's timeout cancels the query; the client's, slightly later, detects a server that hangs.
      ...(servesRequests && {
        statement_timeout: QUERY_TIMEOUT_MS,
        query_timeout: QUERY_TIMEOUT_MS + 200,
      }),
    },
  };
}

/**
 * Closes its connection if a query timed out or was rejected because the connection is read-only, and the
 * pool opens another. After a timeout pg leaves the query pending, and the next query of the connection
 * would wait for both. A connection to a server that was read-only stays so.
 */
class PetstorePgClient extends Client {
  // The overloads of pg have no common signature.
  override query(...parameters: any[]): any {
    const result: unknown = (super.query as (...all: any[]) => unknown)(...parameters);
    if (!(result instanceof Promise)) return result;
    return result.catch((error: Error) => {
      if (
        error.message === 'Query read timeout' ||
        getDriverErrorCode(error) === READ_ONLY_TRANSACTION
      )
        this.connection.stream.destroy();
      throw error;
    });
  }
}
