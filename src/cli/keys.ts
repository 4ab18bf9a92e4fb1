/** `npm run keys -- create | list | revoke`: manages the API keys of the configured database. */
import { Console } from 'node:console';
import { existsSync } from 'node:fs';
import { Logger } from '@nestjs/common';
import { Command, InvalidArgumentError } from 'commander';
import { ApiKey } from '../platform/auth/api-key.entity.js';
import { ApiKeysService } from '../platform/auth/api-keys.service.js';
import { loadConfig } from '../platform/config/config.js';
import { isMain, runCommand } from './command.js';
import { withDataSource } from './with-data-source.js';

/** The units of a duration, in milliseconds. */
const UNITS = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000, y: 31_536_000_000 };

/** Runs the command. */
export async function main(args: readonly string[]): Promise<void> {
  // Standard output is for scripts.
  Logger.overrideLogger(['fatal', 'error', 'warn']);
  const program = new Command('keys').description('Manage API keys');
  program
    .command('create')
    .description('Create an API key and print it to stdout (shown only once)')
    .argument('<name>', 'Name of the client', parseName)
    .option('--expires-in <duration>', 'Lifetime, such as 30m, 12h, 90d, 4w or 1y', parseDuration)
    .action(createKey);
  program.command('list').description('List API keys (metadata only)').action(listKeys);
  program
    .command('revoke')
    .description('Revoke an API key (effective within 2 seconds)')
    .argument('<id>', 'Id of the key, as shown by list', parseId)
    .action(revokeKey);
  await runCommand(program, args);
}

async function createKey(name: string, { expiresIn }: { expiresIn?: number }): Promise<void> {
  await withKeys('migrate', async (keys) => {
    const expiresAt = expiresIn === undefined ? null : new Date(Date.now() + expiresIn);
    const { key, record } = await keys.create(name, expiresAt);
    process.stdout.write(`${key}\n`);
    process.stderr.write(`Created API key ${record.id} (${name}).\n`);
  });
}

async function listKeys(): Promise<void> {
  await withKeys('require-current-schema', async (keys) => {
    const rows = (await keys.list()).map(
      ({ id, name, createdAt, expiresAt, revokedAt, lastUsedAt }) => [
        id,
        {
          name,
          created: formatMinute(createdAt),
          expires: formatMinute(expiresAt),
          revoked: formatMinute(revokedAt),
          'last used': formatMinute(lastUsedAt),
        },
      ],
    );
    if (rows.length === 0) process.stdout.write('No API keys found.\n');
    else new Console(process.stdout).table(Object.fromEntries(rows));
  });
}

async function revokeKey(id: number): Promise<void> {
  await withKeys('require-current-schema', async (keys) => {
    if (!(await keys.revoke(id))) throw new Error(`API key ${id} not found or already revoked.`);
    process.stdout.write(`API key ${id} revoked.\n`);
  });
}

/**
 * Runs an action on the keys of the configured database.
 *
 * @param schema whether to migrate an outdated schema, which only `create` does, and only with
 *   `MIGRATIONS=auto`
 */
async function withKeys(
  schema: 'migrate' | 'require-current-schema',
  action: (keys: ApiKeysService) => Promise<void>,
): Promise<void> {
  const { database, migrations } = loadConfig();
  const mayMigrate = schema === 'migrate' && migrations === 'auto';
  // better-sqlite3 would create the file.
  if (!mayMigrate && database.type === 'sqlite' && !existsSync(database.file))
    throw new Error(`The database ${database.file} does not exist.`);
  await withDataSource(database, async (dataSource) => {
    if (mayMigrate) await dataSource.migrate();
    else await dataSource.requireCurrentSchema();
    await action(new ApiKeysService(dataSource.getRepository(ApiKey)));
  });
}

function parseName(name: string): string {
  if (name.trim() === '' || name.length > 100)
    throw new InvalidArgumentError('must be 1 to 100 characters long.');
  return name;
}

/** Converts a duration such as `90d` to milliseconds. */
function parseDuration(duration: string): number {
  const [, amount, unit] = /^([1-9]\d{0,5})([mhdwy])$/.exec(duration) ?? [];
  if (amount === undefined)
    throw new InvalidArgumentError('must be a number and m, h, d, w or y, such as 90d.');
  const milliseconds = Number(amount) * UNITS[unit as keyof typeof UNITS];
  if (milliseconds > 100 * UNITS.y) throw new InvalidArgumentError('must be at most 100 years.');
  return milliseconds;
}

function parseId(id: string): number {
  if (!/^[1-9]\d*$/.test(id) || !Number.isSafeInteger(Number(id)))
    throw new InvalidArgumentError('must be an integer.');
  return Number(id);
}

/** Formats a time in UTC, to the minute. */
function formatMinute(date: Date | null): string {
  return date?.toISOString().slice(0, 16).replace('T', ' ') ?? '';
}

if (isMain(import.meta)) await main(process.argv.slice(2));
