import { type DynamicModule, Global, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { CONFIG, type Config } from '../config/config.js';
import { databaseOptions, type Schema } from './connection/data-source-options.js';
import { DatabaseAvailability } from './connection/database-availability.js';
import { DatabaseConnection } from './connection/database-connection.js';
import { DatabaseMetrics } from '../metrics/database-metrics.js';
import { ResourceKit } from '../resource/resource-kit.js';
import { PetstoreDataSource } from './connection/petstore-data-source.js';
import { QUERY_TIMEOUT_MS } from './connection/timeouts.js';
import { TableRevisionTracker } from './lists/table-revision-tracker.js';

/** Provides the DataSource, the connection to the database and the resource kit to all modules. */
@Global()
@Module({
  providers: [
    DatabaseAvailability,
    DatabaseConnection,
    DatabaseMetrics,
    ResourceKit,
    TableRevisionTracker,
  ],
  exports: [DatabaseAvailability, DatabaseConnection, ResourceKit],
})
export class DatabaseModule {
  /** @param schema the entities and migrations of all features */
  static forRoot(schema: Schema): DynamicModule {
    return {
      module: DatabaseModule,
      imports: [
        TypeOrmModule.forRootAsync({
          inject: [CONFIG],
          useFactory: ({ database, databasePoolSize: poolSize }: Config) => ({
            ...databaseOptions(database, schema, { poolSize, queryTimeout: QUERY_TIMEOUT_MS }),
            // DatabaseConnection does it.
            manualInitialization: true,
          }),
          dataSourceFactory: async (options) => new PetstoreDataSource(options!),
        }),
      ],
    };
  }
}
