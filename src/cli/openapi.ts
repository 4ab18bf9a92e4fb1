/** `npm run openapi`: writes `openapi.json`, the OpenAPI document of the code. */
import '../platform/application/check-node-version.js';
import { writeFile } from 'node:fs/promises';
import type { Type } from '@nestjs/common';
import { Command } from 'commander';
import { createApp } from '../platform/application/create-app.js';
import { AppModule } from '../app.module.js';
import { loadConfig } from '../platform/config/config.js';
import { getDocs, getFeatures, getVariables } from '../platform/feature.decorator.js';
import { createDocument } from '../platform/openapi/openapi-document.js';
import { sortProperties } from '../platform/validation/schema-rules.js';
import { PRODUCT } from '../product.js';
import { isMain, runCommand } from './command.js';

/** Renders the document of a service with the default configuration, with sorted keys, so that diffs are small. */
export async function renderDocument(root: Type = AppModule): Promise<string> {
  const features = getFeatures(root);
  const config = loadConfig(PRODUCT, {}, getVariables(features));
  const app = await createApp(config, root, { logger: false });
  const document = createDocument(app, config, getDocs(features));
  return `${JSON.stringify(document, sortProperties, 2)}\n`;
}

if (isMain(import.meta)) {
  const program = new Command('openapi').description('Write the OpenAPI document to openapi.json');
  program.action(async () => writeFile('openapi.json', await renderDocument()));
  await runCommand(program, process.argv.slice(2));
}
