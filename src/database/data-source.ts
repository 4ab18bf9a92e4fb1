import { DataSource, type Migration } from 'typeorm';
import { idType } from './columns.js';

/** The DataSource of the service, of the key commands and of TypeORM's CLI. */
export class PetstoreDataSource extends DataSource {
  /**
   * Connects and brings the schema up to date.
   *
   * @returns the migrations that it took
   */
  async open(): Promise<Migration[]> {
    await this.initialize();
    try {
      return await this.runMigrations();
    } catch {
      // Another process may have migrated at the same moment, and then nothing is left to do. What
      // is really wrong fails again.
      return this.runMigrations();
    }
  }

  /** Entities declare their id as `bigint`, which it is; SQLite knows the same 64 bits by another name. */
  protected override async buildMetadatas(): Promise<void> {
    await super.buildMetadatas();
    for (const column of this.entityMetadatas.flatMap((entity) => entity.columns)) {
      if (column.generationStrategy === 'increment') column.type = idType(this);
    }
  }
}
