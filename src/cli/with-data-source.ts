import { createDataSource } from '../data-source.js';
import type { DatabaseConfig } from '../platform/config/config.js';
import type { PetstoreDataSource } from '../platform/database/connection/petstore-data-source.js';

/** Runs an action on a database, and closes the connection. */
export async function withDataSource(
  database: DatabaseConfig,
  action: (dataSource: PetstoreDataSource) => Promise<void>,
): Promise<void> {
  const dataSource = createDataSource(database);
  await dataSource.initialize();
  try {
    await action(dataSource);
  } finally {
    await dataSource.destroy();
  }
}
