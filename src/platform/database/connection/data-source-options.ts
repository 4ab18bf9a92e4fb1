import type { Client } from 'pg';
import type { DataSourceOptions } from 'typeorm';
import type { Config } from '../../config/config.js';
import { CONNECT_TIMEOUT_MS } from './timeouts.js';

/**
 * How long a connection to PostgreSQL is used, in seconds. Without a limit, it would stay at a server
 * that its name does not refer to any more.
 */
const MAX_CONNECTION_LIFETIME_S = 300;

/** The options that features contribute: their entities and migrations. */
export type Schema = Required<Pick<DataSourceOptions, 'entities' | 'migrations'>>;

/** Returns TypeORM's options for the database of a service. */
export function databaseOptions(
  { database, product }: Pick<Config, 'database' | 'product'>,
  schema: Schema,
  poolSize?: number,
): DataSourceOptions {
  const common = { ...schema, migrationsTableName: 'migrations', logging: false as const };
  if (database.type === 'sqlite') {
    return {
      ...common,
      type: 'better-sqlite3',
      database: database.file,
      // SQLite blocks the event loop while it waits; `retryOnBusy` does not.
      timeout: 0,
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
    applicationName: product.name,
    ...(poolSize && { poolSize }),
    connectTimeoutMS: CONNECT_TIMEOUT_MS,
    // The pool replaces an idle connection that breaks; there is nothing to report.
    poolErrorHandler: () => undefined,
    // Not statement_timeout, which PgBouncer rejects: it would be a property of the session.
    extra: {
      keepAlive: true,
      maxLifetimeSeconds: MAX_CONNECTION_LIFETIME_S,
      // An error after the pool's listener and before TypeORM's would end the process. So the next statement fails.
      onConnect: (client: Client) => void client.on('error', () => undefined),
    },
  };
}
