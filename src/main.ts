import { Logger } from '@nestjs/common';
import { createApp } from './app.js';
import { ApiKeysService } from './auth/api-keys.service.js';
import { type Config, ConfigError, loadConfig, loadEnvFile } from './config.js';
import { DatabaseConnection } from './database/connection.js';

loadEnvFile();
await run().catch((error: unknown) => {
  // Configuration problems are the operator's to read; anything else comes with its stack.
  process.stderr.write(
    `${error instanceof ConfigError ? error.message : String((error as Error).stack)}\n`,
  );
  process.exit(1);
});

async function run(): Promise<void> {
  const config = loadConfig();
  const app = await createApp(config);
  const logger = new Logger('Petstore');
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => {
      logger.log(`${signal}: stopping`);
      void app.close().then(
        () => process.exit(0),
        (error: unknown) => {
          logger.error('The stop failed', error);
          process.exit(1);
        },
      );
    });
  }
  await app.listen(config.port, config.host);
  const url = await app.getUrl();
  logger.log(`Listening on ${url}`);
  await app.get(DatabaseConnection).opened;
  const keys = app.get(ApiKeysService);
  if (await keys.isEmpty()) await offerFirstKey(config, keys, url);
}

/** Without a key nobody can do anything. Production logs are kept, so no key is printed there. */
async function offerFirstKey(
  { production }: Config,
  keys: ApiKeysService,
  url: string,
): Promise<void> {
  if (production) {
    new Logger('Petstore').warn(
      'There is no API key yet. Create one: node dist/src/cli/keys.js create <name>',
    );
    return;
  }
  const { key } = await keys.create('first');
  process.stdout.write(`
  Your API key, shown only this once:  ${key}

    curl -H 'Authorization: Bearer ${key}' ${url}/v1/categories

  API         ${url}/v1
  Swagger UI  ${url}/docs

`);
}
