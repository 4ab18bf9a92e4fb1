/** The DataSource of TypeORM's CLI, with the configuration of the service. */
import { createDataSource } from './src/data-source.js';
import { loadConfig, loadEnvFile } from './src/platform/config/config.js';

loadEnvFile();
export default createDataSource(loadConfig().database);
