import { type DynamicModule, Global, Module } from '@nestjs/common';
import { InjectDataSource, TypeOrmModule } from '@nestjs/typeorm';
import type { DataSource } from 'typeorm';
import { CONFIG, type Config } from '../config/config.js';
import {
  createServiceDataSource,
  databaseOptions,
  type Schema,
} from './connection/create-data-source.js';
import { DatabaseStartup } from './connection/database-startup.js';
import { checkRevisionTriggers } from './lists/revision-trigger.js';

/** Provides the DataSource, and the connection to the database, to all modules. */
@Global()
@Module({
  providers: [DatabaseStartup],
  exports: [DatabaseStartup],
})
export class DatabaseModule {
  constructor(@InjectDataSource() dataSource: DataSource, database: DatabaseStartup) {
    database.onReady(() => checkRevisionTriggers(dataSource));
  }

  /** @param schema the entities and migrations of all features */
  static forRoot(schema: Schema): DynamicModule {
    return {
      module: DatabaseModule,
      imports: [
        TypeOrmModule.forRootAsync({
          inject: [CONFIG],
          useFactory: (config: Config) => ({
            ...databaseOptions(config, schema, config.databasePoolSize),
            // DatabaseStartup connects, and retries.
            manualInitialization: true,
          }),
          dataSourceFactory: async (options) => createServiceDataSource(options!),
        }),
      ],
    };
  }
}
