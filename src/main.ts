import { Logger } from '@nestjs/common';
import { createApp } from './app.js';
import { createInitialApiKey } from './platform/auth/initial-api-key.js';
import { ConfigError, loadConfig, loadEnvFile } from './platform/config/config.js';

const logger = new Logger('Petstore');

// The state of the process is unknown after either: it exits, and a supervisor restarts it. What was
// acknowledged is durable.
process.on('uncaughtException', (error) => exitOnFatalError('Uncaught exception', error));
process.on('unhandledRejection', (reason) =>
  exitOnFatalError('Unhandled promise rejection', reason),
);
// A log that cannot be written, to a full disk or a closed pipe, must not affect requests.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

await bootstrap().catch((error: unknown) => {
  // Configuration errors are for the operator; anything else needs its stack.
  const text = error instanceof ConfigError ? error.message : String((error as Error).stack);
  process.stderr.write(`${text}\n`);
  process.exit(1);
});

async function bootstrap(): Promise<void> {
  loadEnvFile();
  const config = loadConfig();
  const app = await createApp(config);
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => {
      logger.log(`Received ${signal}, shutting down`);
      void app.close().then(
        () => {
          logger.log('Shutdown complete');
          process.exit(0);
        },
        (error: unknown) => {
          logger.error('Shutdown failed', error);
          process.exit(1);
        },
      );
    });
  }
  await app.listen(config.port, config.host);
  logger.log(`Listening on ${await app.getUrl()}`);
  await createInitialApiKey(app, config);
}

function exitOnFatalError(event: string, error: unknown): void {
  try {
    logger.fatal(`${event}, exiting`, error);
  } finally {
    process.exit(1);
  }
}
