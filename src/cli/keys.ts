/** `npm run keys -- create | list | rotate | revoke`: manages the API keys of the configured database. */
import '../platform/application/check-node-version.js';
import { existsSync } from 'node:fs';
import { Logger } from '@nestjs/common';
import { Command, InvalidArgumentError, Option } from 'commander';
import { ApiKey, type Scope, SCOPES } from '../platform/auth/keys/api-key.entity.js';
import { ApiKeysService } from '../platform/auth/keys/api-keys.service.js';
import { createDataSource } from '../platform/application/data-source.js';
import { loadConfig } from '../platform/config/config.js';
import { MAX_ID } from '../platform/config/max-id.js';
import { FEATURES } from '../features.js';
import { PRODUCT } from '../product.js';
import { isMain, runCommand } from './command.js';

/** The units of a duration, in milliseconds. */
const UNITS = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000, y: 31_536_000_000 };

/** Control characters, line breaks, and those that are invisible or change the direction of others. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

export async function main(args: readonly string[]): Promise<void> {
  // Scripts read keys from standard output, where log lines would be in the way.
  Logger.overrideLogger(['warn']);
  const program = new Command('keys').description('Manage API keys');
  program
    .command('create')
    .description('Create an API key and print it to stdout (shown only once)')
    .argument('<name>', 'Name of the client', parseName)
    .option('--expires-in <duration>', 'Lifetime, such as 30m, 12h, 90d, 4w or 1y', parseDuration)
    .addOption(
      new Option('--scope <scope...>', 'What the key may do').choices(SCOPES).default([...SCOPES]),
    )
    .option('--requests-per-minute <n>', 'Limit; 0 for none', toInteger(0, 1_000_000))
    .action(createKey);
  program
    .command('list')
    .description('List API keys (metadata only)')
    .option('--name <name>', 'Only keys with this name')
    .option('--limit <n>', 'Only the newest keys', toInteger(1, 1_000_000))
    .option('--json', 'Print JSON')
    .action(listKeys);
  program
    .command('rotate')
    .description('Create a key that replaces another one, which expires after the overlap')
    .argument('<id>', 'Id of the key to replace', toInteger(1, MAX_ID))
    .requiredOption('--overlap <duration>', 'How long both keys are valid', parseDuration)
    .action(rotateKey);
  program
    .command('revoke')
    .description('Revoke an API key (effective within 2 seconds)')
    .argument('<id>', 'Id of the key, as shown by list', toInteger(1, MAX_ID))
    .action(revokeKey);
  await runCommand(program, args);
}

async function createKey(
  name: string,
  options: { expiresIn?: number; scope: readonly Scope[]; requestsPerMinute?: number },
): Promise<void> {
  const { expiresIn, scope, requestsPerMinute = null } = options;
  const scopes = SCOPES.filter((each) => scope.includes(each));
  const expiresAt = expiresIn === undefined ? null : new Date(Date.now() + expiresIn);
  await withKeys(async (keys) => {
    const { key, record } = await keys.create(name, { expiresAt, scopes, requestsPerMinute });
    printKey(key, record);
  }, true);
}

async function rotateKey(id: number, { overlap }: { overlap: number }): Promise<void> {
  await withKeys(async (keys) => {
    const rotated = await keys.rotate(id, overlap);
    if (rotated === undefined) throw new Error(`API key ${id} not found, or not valid any more.`);
    printKey(rotated.key, rotated.record);
    const { expiresAt } = rotated.replaced;
    process.stderr.write(`API key ${id} expires at ${formatTime(expiresAt)}.\n`);
  });
}

/** Prints a key to stdout, and its id to stderr, so that a script can read both. */
function printKey(key: string, { id, name }: ApiKey): void {
  process.stdout.write(`${key}\n`);
  process.stderr.write(`Created API key ${id} (${name}).\n`);
}

async function listKeys(options: { json?: true; name?: string; limit?: number }): Promise<void> {
  const { json = false, name, limit } = options;
  await withKeys(async (keys) => {
    const records = await keys.list(name, limit);
    if (json) process.stdout.write(`${JSON.stringify(records.map(describeKey), null, 2)}\n`);
    else if (records.length === 0) process.stdout.write('No API keys found.\n');
    else printTable(records.map(formatKey));
  });
}

async function revokeKey(id: number): Promise<void> {
  await withKeys(async (keys) => {
    if (!(await keys.revoke(id))) throw new Error(`API key ${id} not found or already revoked.`);
    process.stdout.write(`API key ${id} revoked.\n`);
  });
}

/** Returns the properties of a key that may be shown: all but its hash. */
function describeKey({ hash: _hash, scopes, ...record }: ApiKey): object {
  return { ...record, scopes: scopes.split(' ') };
}

/** Returns the cells of a key in the table of `keys list`. */
function formatKey(key: ApiKey): Record<string, string> {
  return {
    id: String(key.id),
    // Names of earlier releases may contain invisible characters.
    name: key.name.replaceAll(INVISIBLE, '\ufffd'),
    scopes: key.scopes,
    'requests/min': String(key.requestsPerMinute ?? ''),
    created: formatTime(key.createdAt),
    expires: formatTime(key.expiresAt),
    revoked: formatTime(key.revokedAt),
    'last used': formatTime(key.lastUsedAt),
  };
}

function printTable(rows: readonly Record<string, string>[]): void {
  const names = Object.keys(rows[0]!);
  const lines = [names, ...rows.map((row) => Object.values(row))];
  const widths = names.map((_, index) =>
    lines.reduce((width, cells) => Math.max(width, countCharacters(cells[index]!)), 0),
  );
  for (const cells of lines) {
    const padded = cells.map((cell, i) => cell + ' '.repeat(widths[i]! - countCharacters(cell)));
    process.stdout.write(`${padded.join('  ').trimEnd()}\n`);
  }
}

const countCharacters = (text: string): number => Array.from(text).length;

/** @param migrates whether to migrate an outdated schema, with `MIGRATIONS=auto` */
async function withKeys(
  action: (keys: ApiKeysService) => Promise<void>,
  migrates = false,
): Promise<void> {
  const config = loadConfig(PRODUCT);
  const { database, migrations } = config;
  const mayMigrate = migrates && migrations === 'auto';
  // better-sqlite3 would create the file.
  if (!mayMigrate && database.type === 'sqlite' && !existsSync(database.file))
    throw new Error(`The database ${database.file} does not exist.`);
  await createDataSource(config, FEATURES).whileConnected(async (dataSource) => {
    if (mayMigrate) await dataSource.migrate();
    else await dataSource.requireCurrentSchema();
    await action(new ApiKeysService(dataSource.getRepository(ApiKey), config));
  });
}

function parseName(name: string): string {
  if (name.trim() === '' || countCharacters(name) > 100)
    throw new InvalidArgumentError('must be 1 to 100 characters long, and not blank.');
  if (name.search(INVISIBLE) !== -1)
    throw new InvalidArgumentError('must not contain control or other invisible characters.');
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

const toInteger =
  (minimum: number, maximum: number) =>
  (text: string): number => {
    const value = /^\d{1,16}$/.test(text) ? Number(text) : NaN;
    if (!(value >= minimum && value <= maximum))
      throw new InvalidArgumentError(`must be an integer from ${minimum} to ${maximum}.`);
    return value;
  };

/** Formats a time in UTC, to the minute. */
function formatTime(date: Date | null): string {
  return date === null ? '' : `${date.toISOString().slice(0, 16)}Z`;
}

if (isMain(import.meta)) await main(process.argv.slice(2));
