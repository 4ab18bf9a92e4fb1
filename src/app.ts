import { ConsoleLogger, type LoggerService, VersioningType } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule } from './app.module.js';
import { type Config, LOG_LEVELS } from './platform/config/config.js';
import { HttpAdapter } from './platform/http/server/http.adapter.js';
import { registerRequestLogger } from './platform/http/server/request-logger.js';
import { setupApiDocs } from './platform/openapi/openapi-document.js';

/** What a test replaces. */
export interface AppOptions {
  adapter?: HttpAdapter;
  logger?: LoggerService | false;
}

/**
 * Makes the whole application, without connecting to the database (`init()` does) and without
 * listening (`listen()` does). The service, the tests and the benchmark run this same application.
 */
export async function createApp(
  config: Config,
  { adapter = new HttpAdapter(config), logger = createLogger(config) }: AppOptions = {},
): Promise<NestExpressApplication> {
  const app = await NestFactory.create<NestExpressApplication>(AppModule.forRoot(config), adapter, {
    logger,
    // Bodies are read after the key is known: see JsonBodyGuard.
    bodyParser: false,
    // The caller is to see what went wrong; Nest would end the process.
    abortOnError: false,
  });
  app.enableVersioning({ type: VersioningType.URI, defaultVersion: '1' });
  if (config.corsOrigins.length > 0) {
    app.enableCors({
      origin: [...config.corsOrigins],
      methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
      allowedHeaders: ['Authorization', 'Content-Type', 'If-None-Match', 'X-Request-Id'],
      exposedHeaders: [
        'ETag',
        'Location',
        'X-Request-Id',
        'Deprecation',
        'Sunset',
        'Retry-After',
        'WWW-Authenticate',
      ],
      maxAge: 600,
    });
  }
  setupApiDocs(app, config);
  if (LOG_LEVELS.indexOf(config.logLevel) >= LOG_LEVELS.indexOf('debug'))
    registerRequestLogger(adapter);
  return app;
}

/** The parts of Nest that report every module and route at the start; that is for debugging. */
const FRAMEWORK_LOG_CONTEXTS = new Set<unknown>([
  'NestFactory',
  'InstanceLoader',
  'RoutesResolver',
  'RouterExplorer',
  'NestApplication',
]);

class Logger extends ConsoleLogger {
  override log(message: unknown, ...rest: unknown[]): void {
    if (FRAMEWORK_LOG_CONTEXTS.has(rest.at(-1))) this.debug(message, ...rest);
    else super.log(message, ...rest);
  }
}

/** JSON lines in production, readable text otherwise. */
export function createLogger({ production, logLevel }: Config): ConsoleLogger {
  const levels = LOG_LEVELS.slice(0, LOG_LEVELS.indexOf(logLevel) + 1);
  return new Logger({
    prefix: 'Petstore',
    json: production,
    flattenParams: true,
    // Drivers and parsers put what a client sent into their errors, and a client may send its key anywhere.
    redact: ['parameters', 'detail', 'body', 'input'],
    // Nest calls the level `log` that everybody else calls `info`.
    logLevels: levels.map((level) => (level === 'info' ? 'log' : level)),
  });
}
