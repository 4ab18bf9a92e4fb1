import { Global, Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { CONFIG, type Config } from '../config.js';
import { DatabaseConnection } from './connection.js';
import { PetstoreDataSource } from './data-source.js';
import { DatabaseMetrics } from './metrics.js';
import { databaseOptions } from './options.js';
import { Revision } from './revision.js';

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
  providers: [DatabaseConnection, DatabaseMetrics, Revision],
  exports: [DatabaseConnection, DatabaseMetrics, Revision],
})
export class DatabaseModule {}
