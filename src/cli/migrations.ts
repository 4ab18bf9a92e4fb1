/** `npm run migration:run` and `migration:revert`: migrates the configured database explicitly. */
import { Command } from 'commander';
import { createDataSource } from '../data-source.js';
import { loadConfig } from '../platform/config/config.js';
import type { PetstoreDataSource } from '../platform/database/petstore-data-source.js';
import { runCommand } from './command.js';

const program = new Command('migrations').description('Migrate the database schema');

program
  .command('run')
  .description('Apply all pending migrations')
  .action(async () => {
    await withDatabase(async (dataSource) => {
      const applied = await dataSource.migrate();
      for (const { name } of applied) process.stdout.write(`Applied migration ${name}\n`);
      if (applied.length === 0) process.stdout.write('No migrations are pending.\n');
    });
  });

program
  .command('revert')
  .description('Revert the last applied migration')
  .action(async () => {
    await withDatabase(async (dataSource) => {
      await dataSource.undoLastMigration();
      process.stdout.write('Reverted the last migration\n');
    });
  });

await runCommand(program);

async function withDatabase(
  action: (dataSource: PetstoreDataSource) => Promise<void>,
): Promise<void> {
  const dataSource = createDataSource(loadConfig().database);
  await dataSource.initialize();
  try {
    await action(dataSource);
  } finally {
    await dataSource.destroy();
  }
}
