/** `npm run openapi`: writes `openapi.json`, the OpenAPI document of the code. */
import '../check-node-version.js';
import { writeFile } from 'node:fs/promises';
import { createApp } from '../app.js';
import { FEATURES } from '../features.js';
import { loadConfig } from '../platform/config/config.js';
import { getTags } from '../platform/feature.decorator.js';
import { createDocument } from '../platform/openapi/openapi-document.js';
import { isMain } from './command.js';

/** Renders the document of the default configuration, with sorted keys, so that diffs are small. */
export async function renderDocument(): Promise<string> {
  const config = loadConfig({});
  const app = await createApp(config, { logger: false });
  const document = createDocument(app, config, getTags(FEATURES));
  return `${JSON.stringify(sortKeys(document), null, 2)}\n`;
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, item]) => [key, sortKeys(item)]));
}

if (isMain(import.meta)) {
  await writeFile('openapi.json', await renderDocument());
}
