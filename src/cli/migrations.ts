/** `npm run migration:run` and `migration:revert`: migrates the configured database explicitly. */
import { Command } from 'commander';
import { loadConfig } from '../platform/config/config.js';
import { runCommand } from './command.js';
import { withDataSource } from './with-data-source.js';

const program = new Command('migrations').description('Migrate the database schema');

program
  .command('run')
  .description('Apply all pending migrations')
  .action(async () => {
    await withDataSource(loadConfig().database, async (dataSource) => {
      const applied = await dataSource.migrate();
      for (const { name } of applied) process.stdout.write(`Applied migration ${name}\n`);
      if (applied.length === 0) process.stdout.write('No migrations are pending.\n');
    });
  });

program
  .command('revert')
  .description('Revert the last applied migration')
  .action(async () => {
    await withDataSource(loadConfig().database, async (dataSource) => {
      await dataSource.undoLastMigration();
      process.stdout.write('Reverted the last migration\n');
    });
  });

await runCommand(program);
