/** Starts OpenTelemetry's SDK for Node. Its packages are installed beside this file: docs/install.md has the commands. */
import { register } from 'import-in-the-middle/register-hooks.mjs';

// The service imports Express as an ES module, which needs a loader hook; the others are loaded with require.
register({ include: ['express'] });

const defaults = {
  OTEL_SERVICE_NAME: 'api',
  OTEL_NODE_ENABLED_INSTRUMENTATIONS: 'http,express,pg',
  OTEL_METRICS_EXPORTER: 'none',
  OTEL_LOGS_EXPORTER: 'none',
  // The default includes the detectors of clouds, which send requests, and warn if they get no response.
  OTEL_NODE_RESOURCE_DETECTORS: 'env,host,os,process,container',
};
for (const [name, value] of Object.entries(defaults)) process.env[name] ??= value;
await import('@opentelemetry/auto-instrumentations-node/register');
