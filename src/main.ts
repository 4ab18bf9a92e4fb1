import './platform/application/check-node-version.js';

// Stack traces have the lines of the sources. Node reads only the maps of modules that are imported after this call. Node 20
// lacks the function: a static import would fail before the check.
const { setSourceMapsSupport } = await import('node:module');
setSourceMapsSupport(true, { nodeModules: false });
const { AppModule } = await import('./app.module.js');
const { runService } = await import('./platform/application/run-service.js');
const { PRODUCT } = await import('./product.js');

await runService(AppModule, PRODUCT);
