import { type LoggerService, type Type, VersioningType } from '@nestjs/common';
import { ModulesContainer, NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { PlatformModule } from './platform.module.js';
import type { Config } from '../config/config.js';
import { getDocs, getFeatures } from '../feature.decorator.js';
import { corsOptions } from '../http/responses/cors-options.js';
import { HttpAdapter } from '../http/server/http.adapter.js';
import { logResponse } from '../http/server/request-logger.js';
import { createLogger } from '../logging/logger.js';
import { setupApiDocs } from '../openapi/api-docs.js';
import { prepareHandlers } from './prepare-handlers.js';

/** The parts that tests replace. */
export interface AppOptions {
  adapter?: HttpAdapter;
  logger?: LoggerService | false;
}

/**
 * Creates the whole application. `init()` connects to the database and `listen()` accepts connections.
 * The service, the tests, the benchmark and the OpenAPI writer all use it.
 *
 * @param root the module of the service, which imports its features
 */
export async function createApp(
  config: Config,
  root: Type,
  { adapter = new HttpAdapter(config), logger = createLogger(config) }: AppOptions = {},
): Promise<NestExpressApplication> {
  const app = await NestFactory.create<NestExpressApplication>(
    PlatformModule.forRoot(config, root),
    adapter,
    {
      logger,
      // BodyParserGuard parses bodies, after the key was checked.
      bodyParser: false,
      // Errors are thrown to the caller; by default Nest ends the process.
      abortOnError: false,
      // Two features that declare the same route are an error.
      routeConflictPolicy: { duplicate: 'error' },
      // `/pets/photos` is matched before `/pets/:petId`, in whatever order they are declared.
      routeResolutionStrategy: 'specificity',
    },
  );
  prepareHandlers(app.get(ModulesContainer));
  app.enableVersioning({ type: VersioningType.URI, defaultVersion: '1' });
  if (config.corsOrigins.length > 0) app.enableCors(corsOptions(config));
  setupApiDocs(app, config, getDocs(getFeatures(root)));
  if (['debug', 'verbose'].includes(config.logLevel)) adapter.http.onResponse(logResponse);
  return app;
}
