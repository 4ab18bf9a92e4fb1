/** What the tests of modules import; docs/platform.md describes it. */
export { startApp, type TestApp, useApp } from './support/app.js';
export { describeResource } from './support/describe-resource.js';
