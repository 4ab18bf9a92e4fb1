import type { Product } from './platform/index.js';

/** What the service is called, and the version of its API. */
export const PRODUCT: Product = {
  name: 'petstore',
  title: 'Petstore',
  description: 'Lists and creates the categories of a pet store.',
  version: '1.0.0',
  keyPrefixes: ['pet'],
  guide: ['/docs/clients.md', '/examples/client.ts', '/examples/curl.sh'],
};
