/** `npm run generate -- <command>`: generates a module, then updates `openapi.json`. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { Command } from 'commander';
import { generate } from './generator.js';
import { ContractError } from './model.js';
import { toKebabCase } from './names.js';
import { readDocument } from './read/document.js';
import { formatReport } from './report.js';
import { readResourceContract } from './resource-contract.js';

interface FromOptions {
  readonly module?: string;
  readonly dryRun?: true;
}

const program = new Command('npm run generate --').description(
  'Generate a module of an OpenAPI document.',
);
program
  .command('from')
  .description('generate the module of a contract, or update it after the contract changed')
  .argument('<contract>', 'OpenAPI 3.0 to 3.2, such as pets.openapi.yaml')
  .option('--module <name>', 'name of the module (default: that of the file, up to the first dot)')
  .option('--dry-run', 'list the files, and write nothing')
  .action((contract: string, options: FromOptions) => run(() => from(contract, options)));
program
  .command('resource')
  .description('write the contract of a resource with one text, to edit and generate from')
  .argument('<name>', 'plural name, which is also the path, such as suppliers')
  .action((name: string) => run(() => writeContract(name)));
await program.parseAsync();

/** Returns the name of a module: by default, that of the file up to the first dot. */
function toModuleName(contract: string, name?: string): string {
  return toKebabCase(name ?? basename(contract).split('.')[0]!);
}

async function run(action: () => Promise<void>): Promise<void> {
  try {
    await action();
  } catch (error) {
    if (!(error instanceof ContractError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}

/** Generates a module, and prints the report, the files and the remaining tasks. */
async function from(contract: string, { module: name, dryRun }: FromOptions): Promise<void> {
  const root = await readDocument(contract);
  const options = { name: toModuleName(contract, name), source: basename(contract) };
  const { module, changes, tasks } = await generate(root, options);
  console.log(formatReport(module));
  const files = changes.describe();
  console.log(`\n${files.length === 0 ? 'Nothing to write.' : files.join('\n')}`);
  if (tasks.length > 0) console.log(`\nTo do:\n${tasks.map((each) => `- ${each}`).join('\n')}`);
  if (dryRun === true || files.length === 0) return;
  await changes.apply();
  const { status } = spawnSync('npm', ['run', '--silent', 'openapi'], { stdio: 'inherit' });
  if (status !== 0)
    console.log(
      '\nopenapi.json was not updated: correct what TypeScript reports, then run npm run openapi.',
    );
}

async function writeContract(name: string): Promise<void> {
  const path = `${toModuleName(name)}.openapi.json`;
  if (existsSync(path)) throw new ContractError([`${path} exists: edit it, and generate from it.`]);
  const contract = await readResourceContract(toModuleName(name));
  await writeFile(path, `${JSON.stringify(contract, undefined, 2)}\n`);
  console.log(`CREATE ${path}: edit it, then run npm run generate -- from ${path}`);
}
