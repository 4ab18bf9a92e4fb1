/** `node dist/cli/check.js`: checks the configuration and the database, and changes neither. */
import '../platform/application/check-node-version.js';
import { existsSync } from 'node:fs';
import { Command } from 'commander';
import { createDataSource } from '../platform/application/data-source.js';
import { loadConfig } from '../platform/config/config.js';
import { getVariables } from '../platform/feature.decorator.js';
import { FEATURES } from '../features.js';
import { PRODUCT } from '../product.js';
import { isMain, runCommand } from './command.js';

export async function main(args: readonly string[]): Promise<void> {
  const program = new Command('check')
    .description('Check the configuration and the database without starting the service')
    .action(check);
  await runCommand(program, args);
}

async function check(): Promise<void> {
  const config = loadConfig(PRODUCT, undefined, getVariables(FEATURES));
  const { database } = config;
  // better-sqlite3 would create the file.
  if (database.type === 'sqlite' && !existsSync(database.file))
    throw new Error(`The database ${database.file} does not exist: the first start creates it.`);
  const dataSource = createDataSource(config, FEATURES);
  // The WAL mode would be written to the file, also to that of another application.
  if (database.type === 'sqlite') dataSource.setOptions({ enableWAL: false });
  await dataSource.whileConnected(async () => {
    await dataSource.requireSettings();
    await dataSource.requireCurrentSchema();
  });
  process.stdout.write('The configuration and the database are valid.\n');
}

if (isMain(import.meta)) await main(process.argv.slice(2));
