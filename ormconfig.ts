/** The DataSource of TypeORM's CLI, with the configuration of the service. */
import { FEATURES } from './src/features.js';
import { createDataSource } from './src/platform/application/data-source.js';
import { loadConfig, loadEnvFile } from './src/platform/config/config.js';
import { PRODUCT } from './src/product.js';

loadEnvFile();
export default createDataSource(loadConfig(PRODUCT), FEATURES);
