import type { DataSourceOptions } from 'typeorm';
import { ApiKey } from '../auth/api-keys.entity.js';
import { CategoryEntity } from '../categories/categories.entity.js';
import type { DatabaseConfig } from '../config.js';
import { CreateApiKeys1763600000000 } from './migrations/1763600000000-create-api-keys.js';
import { CreateCategories1763600000001 } from './migrations/1763600000001-create-categories.js';

/** Every entity and every migration. A feature adds its own to both lists. */
const entities = [ApiKey, CategoryEntity];
const migrations = [CreateApiKeys1763600000000, CreateCategories1763600000001];

/** Milliseconds that a write waits for another process's write; the service answers nobody meanwhile. */
const SQLITE_BUSY_TIMEOUT = 2_000;

/** TypeORM's options for the configured database. */
export function databaseOptions(database: DatabaseConfig): DataSourceOptions {
  const common = {
    entities,
    migrations,
    migrationsTableName: 'migrations',
    logging: false as const,
  };
  if (database.type === 'postgres') return { ...common, type: 'postgres', url: database.url };
  return {
    ...common,
    type: 'better-sqlite3',
    database: database.file,
    timeout: SQLITE_BUSY_TIMEOUT,
    enableWAL: true,
    prepareDatabase: (connection: { pragma(source: string): void }) => {
      // An answered create survives a power cut: in WAL mode the default, NORMAL, may lose the
      // newest commits (https://sqlite.org/pragma.html#pragma_synchronous).
      connection.pragma('synchronous = FULL');
    },
  };
}
