import type { DataSourceOptions } from 'typeorm';
import type { Config } from '../../config/config.js';
import { PostgresDataSource, postgresOptions } from './postgres.js';
import type { ServiceDataSource } from './service-data-source.js';
import { SqliteDataSource, sqliteOptions } from './sqlite.js';

/** The options that features contribute: their entities and migrations. */
export type Schema = Required<Pick<DataSourceOptions, 'entities' | 'migrations'>>;

/** Returns TypeORM's options for the database of a service. */
export function databaseOptions(
  { database, product }: Pick<Config, 'database' | 'product'>,
  schema: Schema,
  poolSize?: number,
): DataSourceOptions {
  const options =
    database.type === 'sqlite'
      ? sqliteOptions(database.file)
      : postgresOptions(database.url, product.name, poolSize);
  return { ...options, ...schema, migrationsTableName: 'migrations', logging: false };
}

/** Creates the DataSource of a database, which is not connected yet. */
export function createServiceDataSource(options: DataSourceOptions): ServiceDataSource {
  return options.type === 'postgres'
    ? new PostgresDataSource(options)
    : new SqliteDataSource(options);
}
