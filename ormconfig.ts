/** What the TypeORM CLI uses: the service's DataSource, with the service's configuration. */
import { loadConfig, loadEnvFile } from './src/config.js';
import { PetstoreDataSource } from './src/database/data-source.js';
import { databaseOptions } from './src/database/options.js';

loadEnvFile();
export default new PetstoreDataSource(databaseOptions(loadConfig().database));
