import './platform/application/check-node-version.js';
import { AppModule } from './app.module.js';
import { runService } from './platform/application/run-service.js';
import { PRODUCT } from './product.js';

await runService(AppModule, PRODUCT);
