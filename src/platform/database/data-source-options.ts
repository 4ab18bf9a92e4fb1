import { createRequire } from 'node:module';
import type { Client } from 'pg';
import type { DataSourceOptions } from 'typeorm';
import { ApiKey } from '../auth/api-key.entity.js';
import { CategoryEntity } from '../../modules/categories/category.entity.js';
import type { DatabaseConfig } from '../config/config.js';
import { CreateApiKeys1763600000000 } from '../auth/migrations/1763600000000-create-api-keys.js';
import { CreateRevisions1763600000001 } from './migrations/1763600000001-create-revisions.js';
import { CreateCategories1763600000002 } from '../../modules/categories/migrations/1763600000002-create-categories.js';

/** Every entity and every migration. A feature adds its own to both lists. */
const entities = [ApiKey, CategoryEntity];
const migrations = [
  CreateApiKeys1763600000000,
  CreateRevisions1763600000001,
  CreateCategories1763600000002,
];

/** Milliseconds that a statement waits for another process's write. */
export const SQLITE_BUSY_TIMEOUT = 2_000;

/**
 * TypeORM's options for the configured database.
 *
 * @param limits what the service adds: a query that hangs is given up, which a migration or a copy
 *   that takes its time must not be
 */
export function databaseOptions(
  database: DatabaseConfig,
  limits: { queryTimeout?: number } = {},
): DataSourceOptions {
  const common = {
    entities,
    migrations,
    migrationsTableName: 'migrations',
    logging: false as const,
  };
  if (database.type === 'sqlite') {
    return {
      ...common,
      type: 'better-sqlite3',
      database: database.file,
      timeout: SQLITE_BUSY_TIMEOUT,
      enableWAL: true,
      prepareDatabase: (connection: { pragma(source: string): void }) => {
        // An answered create survives a power cut: in WAL mode NORMAL, which many choose, may lose the
        // newest commits (https://sqlite.org/pragma.html#pragma_synchronous).
        connection.pragma('synchronous = FULL');
      },
    };
  }
  const { queryTimeout } = limits;
  return {
    ...common,
    type: 'postgres',
    url: database.url,
    applicationName: 'petstore',
    poolSize: database.poolSize,
    connectTimeoutMS: database.connectTimeout,
    // An idle connection that breaks is replaced at its next use; there is nothing to report.
    poolErrorHandler: () => undefined,
    extra: {
      Client: createPgClientWithHardTimeout(),
      keepAlive: true,
      // The server's limit stops the query; the client's, a little later, a server that hangs.
      ...(queryTimeout && { statement_timeout: queryTimeout, query_timeout: queryTimeout + 200 }),
    },
  };
}

/**
 * pg leaves a query that took too long pending on its connection, and the pool gives that connection
 * to the next one, which then waits for both. This client cuts the connection, and the pool makes
 * another. pg is loaded here, by those who need it: it takes 5 MB of memory.
 */
function createPgClientWithHardTimeout(): typeof Client {
  const pg = createRequire(import.meta.url)('pg') as { Client: typeof Client };
  return class extends pg.Client {
    // pg's overloads have no common signature.
    override query(...parameters: any[]): any {
      const result: unknown = (super.query as (...all: any[]) => unknown)(...parameters);
      if (!(result instanceof Promise)) return result;
      return result.catch((error: Error) => {
        if (error.message === 'Query read timeout') this.connection.stream.destroy();
        throw error;
      });
    }
  };
}
