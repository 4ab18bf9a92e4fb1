/** `npm run migration:run` and `migration:revert`: migrates the configured database explicitly. */
import '../platform/application/check-node-version.js';
import { Command } from 'commander';
import { createDataSource } from '../platform/application/data-source.js';
import { loadConfig } from '../platform/config/config.js';
import { FEATURES } from '../features.js';
import { PRODUCT } from '../product.js';
import { isMain, runCommand } from './command.js';

export async function main(args: readonly string[]): Promise<void> {
  const program = new Command('migrations').description('Migrate the database schema');
  program.command('run').description('Apply all pending migrations').action(runMigrations);
  program
    .command('revert')
    .description('Revert the last applied migration')
    .action(revertMigration);
  await runCommand(program, args);
}

async function runMigrations(): Promise<void> {
  await createDataSource(loadConfig(PRODUCT), FEATURES).whileConnected(async (dataSource) => {
    const applied = await dataSource.migrate();
    for (const { name } of applied) process.stdout.write(`Applied migration ${name}\n`);
    if (applied.length === 0) process.stdout.write('No migrations are pending.\n');
  });
}

async function revertMigration(): Promise<void> {
  await createDataSource(loadConfig(PRODUCT), FEATURES).whileConnected(async (dataSource) => {
    const reverted = await dataSource.revertMigration();
    process.stdout.write(
      reverted === undefined
        ? 'No migrations are applied.\n'
        : `Reverted migration ${reverted.name}\n`,
    );
  });
}

if (isMain(import.meta)) await main(process.argv.slice(2));
