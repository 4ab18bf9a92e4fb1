/** `npm run keys -- create | list | revoke`: manages the API keys of the configured database. */
import { Logger } from '@nestjs/common';
import { Command, InvalidArgumentError } from 'commander';
import { ApiKey } from '../platform/auth/api-key.entity.js';
import { ApiKeysService } from '../platform/auth/api-keys.service.js';
import { ConfigError, loadConfig, loadEnvFile } from '../platform/config/config.js';
import { PetstoreDataSource } from '../platform/database/petstore-data-source.js';
import { databaseOptions } from '../platform/database/data-source-options.js';

const MILLISECONDS = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000, y: 31_536_000_000 };

// Standard output is for what a script reads.
Logger.overrideLogger(['fatal', 'error', 'warn']);

const program = new Command('keys').description('Manages the API keys.');

program
  .command('create')
  .description('creates a key and prints it, once, alone on standard output')
  .argument('<name>', 'who or what uses the key', parseName)
  .option('--expires-in <duration>', 'such as 30m, 12h, 90d, 4w or 1y', parseDuration)
  .action(async (name: string, { expiresIn }: { expiresIn?: number }) => {
    await withKeys(async (keys) => {
      const expiresAt = expiresIn === undefined ? null : new Date(Date.now() + expiresIn);
      const { key } = await keys.create(name, expiresAt);
      process.stdout.write(`${key}\n`);
    });
  });

program
  .command('list')
  .description('shows every key, without the keys themselves')
  .action(async () => {
    await withKeys(async (keys) => {
      const rows = (await keys.list()).map(
        ({ id, name, createdAt, expiresAt, revokedAt, lastUsedAt }) => [
          id,
          {
            name,
            created: minute(createdAt),
            expires: minute(expiresAt),
            revoked: minute(revokedAt),
            'last used': minute(lastUsedAt),
          },
        ],
      );
      if (rows.length === 0) process.stdout.write('There is no key.\n');
      else console.table(Object.fromEntries(rows));
    });
  });

program
  .command('revoke')
  .description('revokes a key: within 2 seconds it lets nobody in')
  .argument('<id>', 'the id that list shows', parseId)
  .action(async (id: number) => {
    await withKeys(async (keys) => {
      if (!(await keys.revoke(id))) throw new Error(`There is no key ${id} that could be revoked.`);
      process.stdout.write(`Key ${id} is revoked.\n`);
    });
  });

loadEnvFile();
await program.parseAsync().catch((error: unknown) => {
  process.stderr.write(
    `${error instanceof ConfigError ? error.message : `error: ${(error as Error).message}`}\n`,
  );
  process.exitCode = 1;
});

async function withKeys(action: (keys: ApiKeysService) => Promise<void>): Promise<void> {
  const dataSource = new PetstoreDataSource(databaseOptions(loadConfig().database));
  await dataSource.open();
  try {
    await action(new ApiKeysService(dataSource.getRepository(ApiKey)));
  } finally {
    await dataSource.destroy();
  }
}

function parseName(name: string): string {
  if (name.trim() === '' || name.length > 100)
    throw new InvalidArgumentError('It must have 1 to 100 characters.');
  return name;
}

function parseDuration(duration: string): number {
  const [, amount, unit] = /^([1-9]\d{0,5})([mhdwy])$/.exec(duration) ?? [];
  if (amount === undefined)
    throw new InvalidArgumentError('It must be a number and m, h, d, w or y, such as 90d.');
  const milliseconds = Number(amount) * MILLISECONDS[unit as keyof typeof MILLISECONDS];
  if (milliseconds > 100 * MILLISECONDS.y)
    throw new InvalidArgumentError('It must be at most 100 years.');
  return milliseconds;
}

function parseId(id: string): number {
  if (!/^[1-9]\d*$/.test(id) || !Number.isSafeInteger(Number(id)))
    throw new InvalidArgumentError('It must be a whole number.');
  return Number(id);
}

/** A point in time in UTC, to the minute. */
function minute(date: Date | null): string {
  return date?.toISOString().slice(0, 16).replace('T', ' ') ?? '';
}
