/** `npm run generate -- <command>`: generates a module, then updates `openapi.json`. */
import { spawnSync } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { basename, relative } from 'node:path';
import { Command, Option } from 'commander';
import { type ResourceOptions, FieldsError, OPERATION_NAMES, toDocument } from './read/fields.js';
import { generate, type ModuleOptions } from './generator.js';
import { addContractOptions, type ContractOptions, toModuleName } from './options.js';
import { readContractFile } from './overlay.js';
import { toOverlay } from './proposals.js';
import { ContractError } from './read/document.js';
import type { Json } from './read/json.js';
import { readProject } from './project.js';
import { formatReport } from './report.js';

const program = new Command('npm run generate --').description(
  'Generate a module: of a published OpenAPI document, or of the fields of a resource.',
);
addContractOptions(program.command('from'))
  .description('generate the module of a contract, or update it after the contract changed')
  .argument('<contract>', 'OpenAPI 3.0 to 3.2 or Swagger 2.0, such as pets.openapi.yaml')
  .option('--module <name>', 'name of the module (default: that of the file, up to the first dot)')
  .addOption(
    new Option(
      '--write-overlay <file>',
      'write an overlay with what to say about the contract, and nothing else',
    ).conflicts('dryRun'),
  )
  .option('--dry-run', 'list the files, and write nothing')
  .action((contract: string, { module, overlay, ...options }: FromOptions) =>
    run(async () => {
      const { root, problems } = await readContractFile(contract, overlay);
      for (const problem of problems.slice(0, 5)) console.log(`Ignored: ${problem}`);
      const name = toModuleName(contract, module);
      const source = [contract, overlay].flatMap((file) => (file ? basename(file) : []));
      return {
        root,
        name,
        source: source.join(' with '),
        file: relative('.', contract),
        ...options,
      };
    }),
  );
program
  .command('resource')
  .description('generate the module of one resource')
  .argument('<name>', 'plural name, which is also the path: pets, or store/orders')
  .requiredOption('--fields <fields>', 'fields as name:type, separated by spaces')
  .option(
    '--operations <operations>',
    `separated by commas: ${OPERATION_NAMES.join(', ')} (default: all but replace)`,
  )
  .option('--pages', 'return the list in pages, with the fields that end in :filter as filters')
  .option('--if-match', 'give the resource an ETag, and require If-Match to change it')
  .option('--uuid', 'give the resource UUIDs as ids, instead of integers')
  .option('--singular <name>', 'singular of the name, if it is irregular')
  .option('--dry-run', 'list the files, and write nothing')
  .addHelpText(
    'after',
    `
Types of fields:
  string(min..max)             text of min to max characters
  text                         text of up to 10,000 characters
  integer, integer(min..max)   integer
  number, number(min..max)     number
  decimal(precision,scale)     decimal number as text, without rounding
  boolean                      true or false
  enum(a,b)                    one of the values
  date, date-time              calendar date; date and time with an offset
  uuid, uri, email             as text
  ref(categories)              id of an existing resource; ref(tags)[] is a list of ids, without duplicates
  json                         any JSON object
  {street:text city:text?}     object with the fields in the braces
  text[], text[1..5]           array of any of the types; of up to 100 items without limits
  map(integer)                 object with any keys

After the type, in this order:
  ?            the field is optional
  =available   default of a field that is omitted
  :unique      no two rows have the same value
  :filter      a query parameter of the list selects rows by the field; needs --pages
  :read-only   only in responses, such as createdAt:date-time=now:read-only
  :write-only  only in requests

Examples:
  npm run generate -- resource pets --fields "name:string(1..100) categoryId:ref(categories)? chip:uuid?:unique"
  npm run generate -- resource store/orders --fields "quantity:integer(1..100)" --operations list,create

docs/adding-a-module.md describes the result.`,
  )
  .action(
    (name: string, { dryRun, ...options }: Omit<ResourceOptions, 'name'> & { dryRun?: true }) =>
      run(async () => {
        const project = await readProject(name.split('/').at(-1)!);
        const root = toDocument({ ...options, name }, project.tables);
        const source = `the fields "${options.fields.replaceAll(/\s+/g, ' ')}"`;
        return { root, name: name.split('/').at(-1)!, source, ...(dryRun && { dryRun }) };
      }),
  );
await program.parseAsync();

interface FromOptions extends ContractOptions {
  readonly module?: string;
  readonly writeOverlay?: string;
  readonly dryRun?: true;
}

interface Input extends ModuleOptions, Pick<FromOptions, 'writeOverlay' | 'dryRun'> {
  readonly root: Json;
}

function toList(lines: readonly string[]): string {
  return lines.map((line) => `- ${line.slice(0, 300)}`).join('\n');
}

/** Generates a module, and tells what was made and what is left to do. */
async function run(getInput: () => Promise<Input>): Promise<void> {
  try {
    const { root, dryRun, writeOverlay, ...options } = await getInput();
    const { module, changes, tasks, differences, results } = await generate(root, options);
    console.log(formatReport(module, results));
    if (differences.length > 0) console.log(`\nWhat clients will notice:\n${toList(differences)}`);
    if (writeOverlay !== undefined) {
      const { prefix: _prefix, ...others } = options;
      const plan = async (changed: Json) => (await generate(changed, others)).module;
      return await saveOverlay(await toOverlay(root, plan), writeOverlay);
    }
    const files = changes.describe();
    console.log(`\n${files.length === 0 ? 'Nothing to write.' : files.join('\n')}`);
    if (tasks.length > 0) console.log(`\nTo do:\n${toList(tasks)}`);
    if (dryRun === true || files.length === 0) return;
    await changes.apply();
    updateDocument();
  } catch (error) {
    if (!(error instanceof ContractError) && !(error instanceof FieldsError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}

/** Writes an overlay, unless the file exists: it may have what a team says. */
async function saveOverlay(text: string | undefined, path: string): Promise<void> {
  if (text === undefined) return console.log('\nNothing to propose.');
  await writeFile(path, text, { flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
    throw new ContractError([
      error.code === 'EEXIST' ? `${path} exists: choose another file.` : error.message,
    ]);
  });
  console.log(`\nCREATE ${path}: edit it, and run the command with --overlay ${path}`);
}

/** Updates openapi.json. After a contract changed, the service may have to be changed first: TypeScript names the places. */
function updateDocument(): void {
  const { status } = spawnSync('npm', ['run', '--silent', 'openapi'], { stdio: 'inherit' });
  if (status !== 0)
    console.log(
      '\nopenapi.json was not updated: correct what TypeScript reports, then run npm run openapi.',
    );
}
