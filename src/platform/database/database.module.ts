import { Global, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { CONFIG, type Config } from '../config/config.js';
import { DatabaseConnection } from './database-connection.js';
import { PetstoreDataSource } from './petstore-data-source.js';
import { DatabaseMetrics } from './database-metrics.js';
import { databaseOptions } from './data-source-options.js';
import { TableRevisionTracker } from './table-revision-tracker.js';

@Global()
@Module({
  imports: [
    TypeOrmModule.forRootAsync({
      inject: [CONFIG],
      useFactory: ({ database, queryTimeout }: Config) => ({
        ...databaseOptions(database, { queryTimeout }),
        // DatabaseConnection does it.
        manualInitialization: true,
      }),
      dataSourceFactory: async (options) => new PetstoreDataSource(options!),
    }),
  ],
  providers: [DatabaseConnection, DatabaseMetrics, TableRevisionTracker],
  exports: [DatabaseConnection, DatabaseMetrics, TableRevisionTracker],
})
export class DatabaseModule {}
