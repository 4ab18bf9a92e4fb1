/** What the TypeORM CLI uses: the service's DataSource, with the service's configuration. */
import { loadConfig, loadEnvFile } from './src/platform/config/config.js';
import { PetstoreDataSource } from './src/platform/database/petstore-data-source.js';
import { databaseOptions } from './src/platform/database/data-source-options.js';

loadEnvFile();
export default new PetstoreDataSource(databaseOptions(loadConfig().database));
