import { type INestApplication, Logger, type Type } from '@nestjs/common';
import { createApp } from './create-app.js';
import { createInitialApiKey } from '../auth/keys/initial-api-key.js';
import {
  type Config,
  ConfigError,
  isProduction,
  loadConfig,
  loadEnvFile,
  redactConfig,
} from '../config/config.js';
import { COMMIT, getRelease, type Product } from '../config/product.js';
import { getFeatures, getVariables } from '../feature.decorator.js';
import { DatabaseStartup } from '../database/connection/database-startup.js';
import { StartupError, toListenError } from '../errors/startup-error.js';
import { createLogger } from '../logging/logger.js';
import { TERMINATION_SIGNALS } from './termination-signals.js';

/** The documented maximum duration of a shutdown, without its delay. After it, the next signal ends the process. */
const SHUTDOWN_TIMEOUT_MS = 10_000;

/** Runs a service until a signal ends the process, or prints its version or help. */
export async function runService(root: Type, product: Product): Promise<void> {
  const logger = new Logger(product.title);
  // After either event, the state of the process is unknown: it exits, and a supervisor restarts it. Acknowledged
  // changes are durable.
  process.on('uncaughtException', (error) =>
    exitOnFatalError(logger, 'Uncaught exception, exiting', error),
  );
  process.on('unhandledRejection', (reason) =>
    exitOnFatalError(logger, 'Unhandled promise rejection, exiting', reason),
  );
  // A log that cannot be written, to a full disk or a closed pipe, must not affect requests.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

  await bootstrap(root, product, logger).catch((error: unknown) => {
    // The messages of these classes are written for operators; any other error needs its stack.
    if (error instanceof ConfigError || error instanceof StartupError)
      exitOnFatalError(logger, error.message);
    else exitOnFatalError(logger, 'Startup failed', error);
  });
}

async function bootstrap(root: Type, product: Product, logger: Logger): Promise<void> {
  if (process.argv.length > 2) await printInformation(product);
  loadEnvFile();
  // For errors until the configuration is known.
  Logger.overrideLogger(createLogger({ product, production: isProduction(), logLevel: 'info' }));
  const variables = getVariables(getFeatures(root));
  const config = loadConfig(product, undefined, variables);
  const app = await createApp(config, root);
  shutDownOnSignal(app, config, logger);
  await app.init();
  await app.listen(config.port, config.host).catch((error: unknown) => {
    throw toListenError(error, `${config.host}:${config.port}`, 'PORT');
  });
  logger.log(`Listening on ${await app.getUrl()}`, {
    version: product.version,
    ...(COMMIT !== undefined && { commit: COMMIT }),
    node: process.version,
    schema: app.get(DatabaseStartup).schemaVersion,
    // Operators need it; in development it would be noise.
    ...(config.production && { config: redactConfig(config, variables) }),
  });
  await createInitialApiKey(app, config);
}

/** Prints the version or the help, and ends the process: the service has no arguments. */
async function printInformation(product: Product): Promise<void> {
  // Imported only here, because the import takes some milliseconds of the startup.
  const { Command } = await import('commander');
  new Command('node dist/main.js')
    .description(`Serves the API of ${product.title}. Environment variables configure it.`)
    .version(getRelease(product))
    .addHelpText('after', '\nnode dist/cli/check.js checks the configuration and the database.')
    .allowExcessArguments(false)
    .parse();
}

/** Shuts down on a signal. Further ones are ignored: supervisors signal the process group, and npm forwards signals. */
function shutDownOnSignal(app: INestApplication, { shutdownDelay }: Config, logger: Logger): void {
  let deadline: number | undefined;
  for (const signal of TERMINATION_SIGNALS) {
    process.on(signal, () => {
      if (deadline !== undefined) {
        if (performance.now() < deadline) return;
        exitOnFatalError(logger, `Received ${signal}, exiting before the shutdown is complete`);
      }
      deadline = performance.now() + shutdownDelay + SHUTDOWN_TIMEOUT_MS;
      logger.log(`Received ${signal}, shutting down`);
      void app.close().then(
        () => {
          logger.log('Shutdown complete');
          process.exit(0);
        },
        (error: unknown) => exitOnFatalError(logger, 'Shutdown failed', error),
      );
    });
  }
}

function exitOnFatalError(logger: Logger, message: string, error?: unknown): never {
  try {
    logger.fatal(message, ...(error === undefined ? [] : [error]));
  } finally {
    process.exit(1);
  }
}
