import { type INestApplication, Logger } from '@nestjs/common';
import type { Express } from 'express';
import type { Config } from '../../config/config.js';
import { DatabaseStartup } from '../../database/connection/database-startup.js';
import { getRoutes } from '../../http/server/unmatched-routes.js';
import { ApiKeysService } from './api-keys.service.js';

/**
 * Prints a new API key at the first start, and later the command that creates another. In production, where output is
 * stored, no key is printed: if there is none, the log has the command.
 */
export async function createInitialApiKey(
  app: INestApplication,
  { production, product }: Config,
): Promise<void> {
  const logger = new Logger(product.title);
  const database = app.get(DatabaseStartup);
  await database.ready;
  // The application was shut down while it waited for the database.
  if (!database.isReady) return;
  try {
    const keys = app.get(ApiKeysService);
    const count = await keys.count();
    if (production) {
      if (count === 0)
        logger.warn('No API keys exist. Create one with: node dist/cli/keys.js create first');
      return;
    }
    const url = await app.getUrl();
    let introduction = `API keys: ${count}. Create another with:  npm run keys -- create <name>`;
    if (count === 0) {
      const { key } = await keys.create('first');
      introduction = `API key (shown only once):  ${key}

    curl -H 'Authorization: Bearer ${key}' ${url}${findList(app)}`;
    }
    process.stdout.write(
      `\n  ${introduction}\n\n  API         ${url}/v1\n  Swagger UI  ${url}/docs\n\n`,
    );
  } catch (error) {
    // A failure must not end a service that is running.
    logger.warn('Failed to check whether API keys exist, or to create the first', error);
  }
}

/** Returns the path of a collection, for an example of a request. */
function findList(app: INestApplication): string {
  for (const [path, methods] of getRoutes(app.getHttpAdapter().getInstance() as Express))
    if (methods.has('GET') && /^\/v1\/[\w-]+$/.test(path)) return path;
  return '/v1';
}
