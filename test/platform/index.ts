/** What the tests of modules import; docs/platform.md describes the names. */
export { startApp, type TestApp, useApp } from './support/app.js';
export { describeResource } from './support/describe-resource.js';
export { onEachConnection, RetryingClient } from './support/retrying-client.js';
export { dumpSchema } from './support/schema-dump.js';
