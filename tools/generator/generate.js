/**
 * `npm run generate -- <command>`: runs the generator, then updates `openapi.json`. JavaScript, so that it
 * can compile the generator itself: `npm run build:tools` checks the types of the whole project, too.
 */
import { spawnSync } from 'node:child_process';
import { mkdir, readdir, stat, writeFile } from 'node:fs/promises';
import module from 'node:module';
import { dirname, join } from 'node:path';
import { Writable } from 'node:stream';
import { Command } from 'commander';

// Saves half a second from Node 22.
module.enableCompileCache?.();

const ROOT = join(import.meta.dirname, '..', '..');
/** The generator, and what it shares with the checks of the OpenAPI document. */
const SOURCES = ['tools/generator', 'tools/openapi'];

const program = new Command('npm run generate --').description(
  'Generate the code of a resource, or of a published OpenAPI document.',
);
program
  .command('resource')
  .usage('<name> --fields "<fields>" [options]')
  .description('generate a resource with migration and tests, and register it')
  .argument(
    '[name]',
    'plural name, which is also the path: pets, or store/orders in the folder store',
  )
  .option('--fields <fields>', 'fields as name:type, separated by spaces')
  .option(
    '--operations <operations>',
    'operations to generate, separated by commas: list, create, read, replace (PUT), update (PATCH), delete (default: all but replace)',
  )
  .option('--pages', 'return the list in pages, with the fields that end in :filter as filters')
  .option(
    '--if-match',
    'give the resource an ETag, which If-Match of PUT, PATCH and DELETE is compared with',
  )
  .option('--singular <name>', 'singular of the name, if it is irregular')
  .option('--dry-run', 'list the files, and write nothing')
  .addHelpText(
    'after',
    `
Types of fields:
  string(min..max)             text of min to max characters
  text                         text of up to 10,000 characters
  integer, integer(min..max)   integer
  number                       number
  decimal(precision,scale)     decimal number as text, without rounding
  boolean                      true or false
  enum(a,b)                    one of the values
  date                         calendar date
  date-time                    date and time with an offset
  uuid                         UUID
  uri                          URL with http or https
  ref(categories)              id of an existing resource
  {street:text city:text?}     object with the fields in the braces
  text[], text[1..5]           array of any of the types; of up to 100 items without limits
  map(integer), map(integer,5) object with any keys; of up to 100 entries without a limit

After the type, in this order:
  ?            the field is optional
  =available   default of a field that is omitted; of arrays =[], of maps ={}
  :unique      no two rows have the same value
  :filter      a query parameter of the list selects rows by the field; needs --pages
  :read-only   only in responses; with a ? or a default, such as createdAt:date-time=now:read-only
  :write-only  only in requests

Examples:
  npm run generate -- resource pets --fields "name:string(1..100) categoryId:ref(categories)? chip:uuid?:unique"
  npm run generate -- resource store/orders --fields "quantity:integer(1..100)" --operations list,create
  npm run generate -- resource users --fields "email:string(3..100):unique password:string(8..100):write-only"
  npm run generate -- resource carts --fields "items:{name:text quantity:integer(1..9)}[1..50]" --operations create,read,replace
  npm run generate -- resource geese --fields "name:text" --singular goose --dry-run

docs/adding-a-module.md describes the result.`,
  )
  .action((name, options) => run('resource', name, options));
program
  .command('from')
  .description('generate modules of published OpenAPI documents, or add what the modules lack')
  .argument('<contracts...>', 'OpenAPI 3.0 or 3.1 in JSON or YAML, such as pets.openapi.yaml')
  .option('--module <name>', 'name of the module (default: that of the file, up to the first dot)')
  .option('--dry-run', 'list the files, and write nothing')
  .addHelpText(
    'after',
    `
The schemas become DTOs. Operations that list, create, read, replace, update or delete a resource are
implemented with a migration and tests; the others become stubs that return 501, with the reason. What a
person wrote is never changed. docs/adding-a-module.md describes what is supported.`,
  )
  .action(async (contracts, options) => {
    for (const contract of contracts) {
      if (!(await runSchematic('from', contract, options))) return;
    }
    if (options.dryRun !== true) updateDocument();
  });
program
  .command('remove')
  .description('remove a generated resource that is not committed, and restore what it replaced')
  .argument('<name>', 'name of the resource, as it was generated')
  .option('--discard-changes', 'delete generated files even if they were changed since')
  .option('--dry-run', 'list the files, and change nothing')
  .action((name, options) => run('remove', name, options));
await program.parseAsync();

/** Runs a schematic, and updates openapi.json. */
async function run(schematic, name, options) {
  if ((await runSchematic(schematic, name, options)) && options.dryRun !== true) updateDocument();
}

/**
 * Runs a schematic. Angular's command line asks for a missing name or missing fields.
 *
 * @returns whether it was successful
 */
async function runSchematic(schematic, name, { dryRun = false, ...options }) {
  await compile();
  const { main } = await import('@angular-devkit/schematics-cli/bin/schematics.js');
  const args = Object.entries(options).map(([option, value]) =>
    value === true ? `--${toKebabCase(option)}` : `--${option}=${value}`,
  );
  process.exitCode = await main({
    args: [
      `./tools/generator/collection.json:${schematic}`,
      ...(name === undefined ? [] : [name]),
      ...args,
      // By default, a collection given as a path is debugged: it only does a dry run.
      '--no-debug',
      // Formatting would take almost half the time of a dry run.
      ...(dryRun ? ['--dry-run', ...(schematic === 'resource' ? ['--format=false'] : [])] : []),
    ],
    stdout: new Writable({
      write(chunk, _encoding, done) {
        // Without formatting, the sizes would be wrong.
        process.stdout.write(String(chunk).replaceAll(/ \(\d+ bytes\)/g, ''));
        done();
      },
    }),
  });
  return process.exitCode === 0;
}

function updateDocument() {
  // It prints the errors of the compiler.
  const { status } = spawnSync('npm', ['run', '--silent', 'openapi'], { stdio: 'inherit' });
  if (status !== 0) {
    process.exitCode = 1;
    return;
  }
  process.stdout.write('UPDATE openapi.json\nUPDATE examples/petstore.d.ts\n');
}

function toKebabCase(name) {
  return name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** Compiles the files of the generator that have changed since they were compiled. */
async function compile() {
  const names = await Promise.all(
    SOURCES.map(async (folder) =>
      (await readdir(join(ROOT, folder), { recursive: true }))
        .filter((name) => name.endsWith('.ts') && !/^(test|node_modules)\b/.test(name))
        .map((name) => join(folder, name)),
    ),
  );
  for (const name of names.flat()) {
    const source = join(ROOT, name);
    const output = join(ROOT, 'build', name.replace(/\.ts$/, '.js'));
    if ((await getModifiedTime(output)) >= (await getModifiedTime(source))) continue;
    const { transformFile } = await import('@swc/core');
    const { code } = await transformFile(source, {
      module: { type: 'nodenext' },
      jsc: { target: 'es2022', parser: { syntax: 'typescript' } },
    });
    await mkdir(dirname(output), { recursive: true });
    await writeFile(output, code);
  }
}

/** Returns when a file was modified, or 0 if it does not exist. */
async function getModifiedTime(path) {
  return (await stat(path).catch(() => ({ mtimeMs: 0 }))).mtimeMs;
}
