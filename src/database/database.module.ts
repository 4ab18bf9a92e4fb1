import { Global, Logger, Module, type OnModuleInit } from '@nestjs/common';
import { InjectDataSource, TypeOrmModule } from '@nestjs/typeorm';
import { CONFIG, type Config } from '../config.js';
import { PetstoreDataSource } from './data-source.js';
import { databaseOptions } from './options.js';
import { Revision } from './revision.js';

@Global()
@Module({
  imports: [
    TypeOrmModule.forRootAsync({
      inject: [CONFIG],
      // The options are the DataSource's own; Nest is to know them, and to leave connecting to us.
      useFactory: ({ database }: Config) => ({
        ...databaseOptions(database),
        manualInitialization: true,
      }),
      dataSourceFactory: async (options) => new PetstoreDataSource(options!),
    }),
  ],
  providers: [Revision],
  exports: [Revision],
})
export class DatabaseModule implements OnModuleInit {
  private readonly logger = new Logger(DatabaseModule.name);

  constructor(@InjectDataSource() private readonly dataSource: PetstoreDataSource) {}

  async onModuleInit(): Promise<void> {
    for (const { name } of await this.dataSource.open()) this.logger.log(`Migrated: ${name}`);
  }
}
